"""Estimators with the interface of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

require("sklearn", "sklearn", "an estimator of Hornbeam")

if TYPE_CHECKING:
    from hornbeam.sklearn.classifier import HornbeamClassifier
    from hornbeam.sklearn.forests import RandomForestClassifier, RandomForestRegressor
    from hornbeam.sklearn.ranker import HornbeamRanker
    from hornbeam.sklearn.regressor import HornbeamRegressor
    from hornbeam.sklearn.trees import DecisionTreeClassifier, DecisionTreeRegressor

__all__ = [
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "HornbeamClassifier",
    "HornbeamRanker",
    "HornbeamRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
]

_HOMES = {
    "DecisionTreeClassifier": "hornbeam.sklearn.trees",
    "DecisionTreeRegressor": "hornbeam.sklearn.trees",
    "HornbeamClassifier": "hornbeam.sklearn.classifier",
    "HornbeamRanker": "hornbeam.sklearn.ranker",
    "HornbeamRegressor": "hornbeam.sklearn.regressor",
    "RandomForestClassifier": "hornbeam.sklearn.forests",
    "RandomForestRegressor": "hornbeam.sklearn.forests",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
