"""Training and prediction on a Dask cluster, with the names of xgboost.dask.

A layer over `hornbeam.dask`: the model equals that of one machine, byte for byte, for
any number of workers, whichever of them die during training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

require("distributed", "dask", "hornbeam.xgboost.dask")

if TYPE_CHECKING:
    from hornbeam.xgboost.dask.client import CommunicatorContext
    from hornbeam.xgboost.dask.estimators import (
        DaskScikitLearnBase,
        DaskXGBClassifier,
        DaskXGBRegressor,
        DaskXGBRFClassifier,
        DaskXGBRFRegressor,
    )
    from hornbeam.xgboost.dask.matrices import DaskDMatrix, DaskQuantileDMatrix
    from hornbeam.xgboost.dask.prediction import inplace_predict, predict
    from hornbeam.xgboost.dask.ranker import DaskXGBRanker
    from hornbeam.xgboost.dask.training import TrainReturnT, train

__all__ = [
    "CommunicatorContext",
    "DaskDMatrix",
    "DaskQuantileDMatrix",
    "DaskScikitLearnBase",
    "DaskXGBClassifier",
    "DaskXGBRFClassifier",
    "DaskXGBRFRegressor",
    "DaskXGBRanker",
    "DaskXGBRegressor",
    "TrainReturnT",
    "inplace_predict",
    "predict",
    "train",
]

_HOMES = {
    "Booster": "hornbeam.xgboost.booster",  # not in __all__, as in xgboost.dask
    "CommunicatorContext": "hornbeam.xgboost.dask.client",
    "DaskDMatrix": "hornbeam.xgboost.dask.matrices",
    "DaskQuantileDMatrix": "hornbeam.xgboost.dask.matrices",
    "DaskScikitLearnBase": "hornbeam.xgboost.dask.estimators",
    "DaskXGBClassifier": "hornbeam.xgboost.dask.estimators",
    "DaskXGBRFClassifier": "hornbeam.xgboost.dask.estimators",
    "DaskXGBRFRegressor": "hornbeam.xgboost.dask.estimators",
    "DaskXGBRanker": "hornbeam.xgboost.dask.ranker",
    "DaskXGBRegressor": "hornbeam.xgboost.dask.estimators",
    "TrainReturnT": "hornbeam.xgboost.dask.training",
    "inplace_predict": "hornbeam.xgboost.dask.prediction",
    "predict": "hornbeam.xgboost.dask.prediction",
    "train": "hornbeam.xgboost.dask.training",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
