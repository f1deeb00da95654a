"""Estimators for Spark ML, with the parameters of xgboost.spark.

    from hornbeam.spark import HornbeamClassifier

    classifier = HornbeamClassifier(features_col="features", num_workers=8)
    model = classifier.fit(train)
    model.transform(test).select("prediction", "probability")

The model equals that of `hornbeam.train` on the same rows, byte for byte, for any
number of workers, whichever of them die during training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.errors import require
from hornbeam.lazy import names_from

require("pyspark", "spark", "hornbeam.spark")
require("pyarrow", "spark", "hornbeam.spark")

if TYPE_CHECKING:
    from hornbeam.spark.estimators import (
        HornbeamClassifier,
        HornbeamClassifierModel,
        HornbeamRanker,
        HornbeamRankerModel,
        HornbeamRegressor,
        HornbeamRegressorModel,
    )

__all__ = [
    "HornbeamClassifier",
    "HornbeamClassifierModel",
    "HornbeamRanker",
    "HornbeamRankerModel",
    "HornbeamRegressor",
    "HornbeamRegressorModel",
]

_HOMES = dict.fromkeys(__all__, "hornbeam.spark.estimators")

__getattr__, __dir__ = names_from(__name__, _HOMES)
