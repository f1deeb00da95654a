"""Training callbacks, with the interface of XGBoost's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import forward_modules, names_from

if TYPE_CHECKING:
    from hornbeam.callbacks.base import CallbackContainer, EvalsLog, TrainingCallback
    from hornbeam.callbacks.checkpoint import TrainingCheckPoint
    from hornbeam.callbacks.early_stopping import EarlyStopping, TimeLimit
    from hornbeam.callbacks.learning_rate import LearningRateScheduler
    from hornbeam.callbacks.mlflow_logger import MLflowLogger
    from hornbeam.callbacks.monitor import EvaluationMonitor, ProgressBar
    from hornbeam.callbacks.optuna_pruning import OptunaPruning
    from hornbeam.callbacks.out_of_bag import OutOfBag

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
    "EarlyStopping": "hornbeam.callbacks.early_stopping",
    "EvalsLog": "hornbeam.callbacks.base",
    "EvaluationMonitor": "hornbeam.callbacks.monitor",
    "LearningRateScheduler": "hornbeam.callbacks.learning_rate",
    "MLflowLogger": "hornbeam.callbacks.mlflow_logger",
    "OptunaPruning": "hornbeam.callbacks.optuna_pruning",
    "OutOfBag": "hornbeam.callbacks.out_of_bag",
    "ProgressBar": "hornbeam.callbacks.monitor",
    "TimeLimit": "hornbeam.callbacks.early_stopping",
    "TrainingCallback": "hornbeam.callbacks.base",
    "TrainingCheckPoint": "hornbeam.callbacks.checkpoint",
}

#: Modules of version 0.1, which pickles of callbacks name.
_RENAMED = {
    "bagging": "out_of_bag",
    "checkpoints": "checkpoint",
    "schedule": "learning_rate",
    "showing": "monitor",
    "stopping": "early_stopping",
    "tracking": "mlflow_logger",
    "trials": "optuna_pruning",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
forward_modules(__name__, _RENAMED)
