"""Callbacks: what may watch training, steer it and stop it, as in XGBoost."""

from hornbeam.callbacks.bagging import OutOfBag
from hornbeam.callbacks.base import CallbackContainer, EvalsLog, TrainingCallback
from hornbeam.callbacks.checkpoints import TrainingCheckPoint
from hornbeam.callbacks.schedule import LearningRateScheduler
from hornbeam.callbacks.showing import EvaluationMonitor, ProgressBar
from hornbeam.callbacks.stopping import EarlyStopping, TimeLimit
from hornbeam.callbacks.tracking import MLflowLogger
from hornbeam.callbacks.trials import OptunaPruning

__all__ = [
    "CallbackContainer",
    "EarlyStopping",
    "EvalsLog",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "MLflowLogger",
    "OptunaPruning",
    "OutOfBag",
    "ProgressBar",
    "TimeLimit",
    "TrainingCallback",
    "TrainingCheckPoint",
]
