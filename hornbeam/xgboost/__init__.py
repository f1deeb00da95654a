"""A drop-in replacement for the Python package of XGBoost 3.2.

``from hornbeam import xgboost as xgb`` runs code written for XGBoost. The package maps
XGBoost's names, arguments, warnings and error messages to Hornbeam, which trains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.xgboost import collective, interpret
    from hornbeam.xgboost.booster import Booster
    from hornbeam.xgboost.config import config_context, get_config, set_config
    from hornbeam.xgboost.core import build_info
    from hornbeam.xgboost.data import DataIter
    from hornbeam.xgboost.dmatrix import (
        DMatrix,
        ExtMemQuantileDMatrix,
        QuantileDMatrix,
    )
    from hornbeam.xgboost.import_hook import stand_in
    from hornbeam.xgboost.plotting import plot_importance, plot_tree, to_graphviz
    from hornbeam.xgboost.sklearn import (
        XGBClassifier,
        XGBModel,
        XGBRanker,
        XGBRegressor,
        XGBRFClassifier,
        XGBRFRegressor,
    )
    from hornbeam.xgboost.tracker import RabitTracker
    from hornbeam.xgboost.training import cv, train

#: The version of XGBoost whose interface this is, for code that checks it.
__version__ = "3.2.0"

__all__ = [
    "Booster",
    "DMatrix",
    "DataIter",
    "ExtMemQuantileDMatrix",
    "QuantileDMatrix",
    "RabitTracker",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
    "build_info",
    "collective",
    "config_context",
    "cv",
    "get_config",
    "interpret",
    "plot_importance",
    "plot_tree",
    "set_config",
    "stand_in",
    "to_graphviz",
    "train",
]

_HOMES = {
    "Booster": "hornbeam.xgboost.booster",
    "DMatrix": "hornbeam.xgboost.dmatrix",
    "DataIter": "hornbeam.xgboost.data",
    "ExtMemQuantileDMatrix": "hornbeam.xgboost.dmatrix",
    "QuantileDMatrix": "hornbeam.xgboost.dmatrix",
    "RabitTracker": "hornbeam.xgboost.tracker",
    "XGBClassifier": "hornbeam.xgboost.sklearn",
    "XGBModel": "hornbeam.xgboost.sklearn",
    "XGBRFClassifier": "hornbeam.xgboost.sklearn",
    "XGBRFRegressor": "hornbeam.xgboost.sklearn",
    "XGBRanker": "hornbeam.xgboost.sklearn",
    "XGBRegressor": "hornbeam.xgboost.sklearn",
    "build_info": "hornbeam.xgboost.core",
    "config_context": "hornbeam.xgboost.config",
    "cv": "hornbeam.xgboost.training",
    "get_config": "hornbeam.xgboost.config",
    "plot_importance": "hornbeam.xgboost.plotting",
    "plot_tree": "hornbeam.xgboost.plotting",
    "set_config": "hornbeam.xgboost.config",
    "stand_in": "hornbeam.xgboost.import_hook",
    "to_graphviz": "hornbeam.xgboost.plotting",
    "train": "hornbeam.xgboost.training",
}
_MODULES = (
    "callback",
    "collective",
    "compat",
    "config",
    "core",
    "dask",
    "data",
    "interpret",
    "objective",
    "plotting",
    "sklearn",
    "tracker",
    "training",
)

__getattr__, __dir__ = names_from(__name__, _HOMES, _MODULES)
