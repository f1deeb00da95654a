"""Callbacks: what may watch training, steer it and stop it, as in XGBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
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

_HOMES = {
    "CallbackContainer": "hornbeam.callbacks.base",
    "EarlyStopping": "hornbeam.callbacks.stopping",
    "EvalsLog": "hornbeam.callbacks.base",
    "EvaluationMonitor": "hornbeam.callbacks.showing",
    "LearningRateScheduler": "hornbeam.callbacks.schedule",
    "MLflowLogger": "hornbeam.callbacks.tracking",
    "OptunaPruning": "hornbeam.callbacks.trials",
    "OutOfBag": "hornbeam.callbacks.bagging",
    "ProgressBar": "hornbeam.callbacks.showing",
    "TimeLimit": "hornbeam.callbacks.stopping",
    "TrainingCallback": "hornbeam.callbacks.base",
    "TrainingCheckPoint": "hornbeam.callbacks.checkpoints",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
