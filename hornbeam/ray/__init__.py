"""Training and prediction on Ray: on datasets of Ray Data, in Ray Train and Ray Tune.

    import ray
    import hornbeam.ray

    dataset = ray.data.read_parquet("rows/")
    params = {"objective": "binary:logistic"}
    booster = hornbeam.ray.train(params, dataset, 100, label="y", num_workers=4)
    predictions = hornbeam.ray.predict(booster, dataset)

The model equals that of `hornbeam.train` on the same rows, byte for byte, for any
number of workers, whichever of them die during training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

require("ray", "ray", "hornbeam.ray")

if TYPE_CHECKING:
    from hornbeam.ray.datasets import predict, to_dmatrix
    from hornbeam.ray.trainer import (
        HornbeamConfig,
        HornbeamTrainer,
        RayTrainReportCallback,
        RowRanges,
        TuneReportCheckpointCallback,
    )
    from hornbeam.ray.training import train

__all__ = [
    "HornbeamConfig",
    "HornbeamTrainer",
    "RayTrainReportCallback",
    "RowRanges",
    "TuneReportCheckpointCallback",
    "predict",
    "to_dmatrix",
    "train",
]

_HOMES = {
    "HornbeamConfig": "hornbeam.ray.trainer",
    "HornbeamTrainer": "hornbeam.ray.trainer",
    "RayTrainReportCallback": "hornbeam.ray.trainer",
    "RowRanges": "hornbeam.ray.trainer",
    "TuneReportCheckpointCallback": "hornbeam.ray.trainer",
    "predict": "hornbeam.ray.datasets",
    "to_dmatrix": "hornbeam.ray.datasets",
    "train": "hornbeam.ray.training",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
