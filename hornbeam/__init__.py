"""Hornbeam: gradient boosted trees, the same model on any number of threads.

Names are loaded when first used, so that ``import hornbeam`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam import cpu_count  # noqa: F401  It reads the limits as this is imported.
from hornbeam.errors import (
    ClusterError,
    DataError,
    DeviceError,
    ErrorCode,
    HornbeamError,
    MissingExtraError,
    ModelFileError,
    NotTrainedError,
    ParameterError,
)
from hornbeam.lazy import names_from, register_extension

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster, average, merge
    from hornbeam.callbacks import (
        EarlyStopping,
        EvaluationMonitor,
        LearningRateScheduler,
        MLflowLogger,
        OptunaPruning,
        OutOfBag,
        ProgressBar,
        TimeLimit,
        TrainingCallback,
        TrainingCheckPoint,
    )
    from hornbeam.cross_validation import cv
    from hornbeam.data.categories import Categories
    from hornbeam.data.dmatrix import DMatrix
    from hornbeam.data.quantile_dmatrix import ExtMemQuantileDMatrix, QuantileDMatrix
    from hornbeam.data.sources.data_iter import DataIter
    from hornbeam.data.sources.dispatch import read
    from hornbeam.features.matrix import derive
    from hornbeam.sklearn import (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        HornbeamClassifier,
        HornbeamRanker,
        HornbeamRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from hornbeam.training import train
    from hornbeam.warm_up import warmup

__version__ = "0.1.0"

__all__ = [
    "Booster",
    "Categories",
    "ClusterError",
    "DMatrix",
    "DataError",
    "DataIter",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "DeviceError",
    "EarlyStopping",
    "ErrorCode",
    "EvaluationMonitor",
    "ExtMemQuantileDMatrix",
    "HornbeamClassifier",
    "HornbeamError",
    "HornbeamRanker",
    "HornbeamRegressor",
    "LearningRateScheduler",
    "MLflowLogger",
    "MissingExtraError",
    "ModelFileError",
    "NotTrainedError",
    "OptunaPruning",
    "OutOfBag",
    "ParameterError",
    "ProgressBar",
    "QuantileDMatrix",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "TimeLimit",
    "TrainingCallback",
    "TrainingCheckPoint",
    "average",
    "cv",
    "derive",
    "merge",
    "read",
    "train",
    "warmup",
]

_HOMES = {
    "Booster": "hornbeam.boosting.booster",
    "Categories": "hornbeam.data.categories",
    "DMatrix": "hornbeam.data.dmatrix",
    "DataIter": "hornbeam.data.sources.data_iter",
    "EarlyStopping": "hornbeam.callbacks",
    "EvaluationMonitor": "hornbeam.callbacks",
    "ExtMemQuantileDMatrix": "hornbeam.data.quantile_dmatrix",
    "DecisionTreeClassifier": "hornbeam.sklearn",
    "DecisionTreeRegressor": "hornbeam.sklearn",
    "HornbeamClassifier": "hornbeam.sklearn",
    "HornbeamRanker": "hornbeam.sklearn",
    "HornbeamRegressor": "hornbeam.sklearn",
    "RandomForestClassifier": "hornbeam.sklearn",
    "RandomForestRegressor": "hornbeam.sklearn",
    "LearningRateScheduler": "hornbeam.callbacks",
    "MLflowLogger": "hornbeam.callbacks",
    "OptunaPruning": "hornbeam.callbacks",
    "OutOfBag": "hornbeam.callbacks",
    "ProgressBar": "hornbeam.callbacks",
    "QuantileDMatrix": "hornbeam.data.quantile_dmatrix",
    "TimeLimit": "hornbeam.callbacks",
    "TrainingCallback": "hornbeam.callbacks",
    "TrainingCheckPoint": "hornbeam.callbacks",
    "average": "hornbeam.boosting.booster",
    "cv": "hornbeam.cross_validation",
    "derive": "hornbeam.features.matrix",
    "merge": "hornbeam.boosting.booster",
    "read": "hornbeam.data.sources.dispatch",
    "train": "hornbeam.training",
    "warmup": "hornbeam.warm_up",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)

register_extension("report", "hornbeam.explain.report")
register_extension("booster_html", "hornbeam.explain.notebook")
register_extension("matrix_html", "hornbeam.explain.notebook")
register_extension("expanded", "hornbeam.features.matrix")
register_extension("expand_times", "hornbeam.features.matrix")
register_extension("GroupBooster", "hornbeam.distributed.group_training")
