"""Estimators for scikit-learn: the learner behind `fit` and `predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

require("sklearn", "sklearn", "an estimator of Hornbeam")

if TYPE_CHECKING:
    from hornbeam.sklearn.classifier import HornbeamClassifier
    from hornbeam.sklearn.ranker import HornbeamRanker
    from hornbeam.sklearn.regressor import HornbeamRegressor

__all__ = ["HornbeamClassifier", "HornbeamRanker", "HornbeamRegressor"]

_HOMES = {
    "HornbeamClassifier": "hornbeam.sklearn.classifier",
    "HornbeamRanker": "hornbeam.sklearn.ranker",
    "HornbeamRegressor": "hornbeam.sklearn.regressor",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
