"""Training and prediction on a Dask cluster, with the names of xgboost.dask.

    from distributed import Client
    import hornbeam.dask

    client = Client("tcp://scheduler:8786")
    dtrain = hornbeam.dask.DaskDMatrix(client, X, y)
    result = hornbeam.dask.train(client, {"objective": "binary:logistic"}, dtrain)
    predictions = hornbeam.dask.predict(client, result, X_new)

The model equals that of `hornbeam.train` on the same rows, byte for byte, for any
number of workers, whichever of them die during training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

require("distributed", "dask", "hornbeam.dask")

if TYPE_CHECKING:
    from hornbeam.dask.estimators import (
        DaskHornbeamClassifier,
        DaskHornbeamRanker,
        DaskHornbeamRegressor,
    )
    from hornbeam.dask.matrix import DaskDMatrix, DaskQuantileDMatrix
    from hornbeam.dask.prediction import inplace_predict, predict
    from hornbeam.dask.training import train

__all__ = [
    "DaskDMatrix",
    "DaskHornbeamClassifier",
    "DaskHornbeamRanker",
    "DaskHornbeamRegressor",
    "DaskQuantileDMatrix",
    "inplace_predict",
    "predict",
    "train",
]

_HOMES = {
    "DaskDMatrix": "hornbeam.dask.matrix",
    "DaskHornbeamClassifier": "hornbeam.dask.estimators",
    "DaskHornbeamRanker": "hornbeam.dask.estimators",
    "DaskHornbeamRegressor": "hornbeam.dask.estimators",
    "DaskQuantileDMatrix": "hornbeam.dask.matrix",
    "inplace_predict": "hornbeam.dask.prediction",
    "predict": "hornbeam.dask.prediction",
    "train": "hornbeam.dask.training",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
