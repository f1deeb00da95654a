"""Estimators for Spark ML, with the names of xgboost.spark.

They are those of `hornbeam.spark`, train with `hornbeam.xgboost.train`, and have the
parameters of XGBoost's estimators.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from hornbeam.errors import require

require("pyspark", "spark", "hornbeam.xgboost.spark")
require("pyarrow", "spark", "hornbeam.xgboost.spark")
require("sklearn", "sklearn", "hornbeam.xgboost.spark")

from hornbeam.distributed.parameter_checks import (  # noqa: E402
    check_cluster_training,
)
from hornbeam.params import Parameters  # noqa: E402
from hornbeam.spark.estimators import (  # noqa: E402
    Classifier,
    ClassifierModel,
    Ranker,
    SparkEstimator,
    SparkModel,
)
from hornbeam.spark.params import SparkParams, declare, of_learner  # noqa: E402
from hornbeam.xgboost.collective import Config  # noqa: E402
from hornbeam.xgboost.sklearn.parameters import XGBParameters  # noqa: E402

__all__ = [
    "SparkXGBClassifier",
    "SparkXGBClassifierModel",
    "SparkXGBRanker",
    "SparkXGBRankerModel",
    "SparkXGBRegressor",
    "SparkXGBRegressorModel",
]

#: Arguments of XGBoost's estimators that are no parameters of its learner.
_NO_PARAMETERS = {
    *("self", "kwargs", "n_jobs", "enable_categorical"),
    *("n_estimators", "missing", "feature_types", "feature_weights"),
    *("early_stopping_rounds", "callbacks"),
}
_PARAMETERS = tuple(
    name
    for name in inspect.signature(XGBParameters.__init__).parameters
    if name not in _NO_PARAMETERS
)


@declare(of_learner(_PARAMETERS, "XGBoost's estimators"))
class _XGBParams(SparkParams):
    """What estimators and models have in common."""

    learner_params = _PARAMETERS
    library = "hornbeam.xgboost"
    always_evaluates = True

    def learner(self) -> dict[str, Any]:
        found = super().learner()
        found.pop("importance_type", None)  # of estimators only
        return found

    def set_coll_cfg(self, value: Config) -> Self:
        """Set the settings of connections."""
        self.set(self.getParam("coll_cfg"), value)
        return self

    def set_device(self, value: str) -> Self:
        """Set where trees are grown: ``"cpu"``; others are an error of `fit`."""
        self.set(self.getParam("device"), value)
        return self

    def _check_learner_params(self) -> None:
        """Raise a `ParameterError` if a cluster cannot train with the parameters.

        As in XGBoost, unknown parameters are a warning of the workers.
        """
        given = self.learner()
        known = {name: given.get(name) for name in ("tree_method", "device")}
        check_cluster_training(
            Parameters.resolve({k: v for k, v in known.items() if v is not None})
        )


class SparkXGBRegressorModel(_XGBParams, SparkModel):
    """The model of `SparkXGBRegressor`."""


class SparkXGBRegressor(_XGBParams, SparkEstimator):
    """Gradient boosted trees for regression; see `hornbeam.spark.HornbeamRegressor`."""

    model_class = SparkXGBRegressorModel


class SparkXGBClassifierModel(_XGBParams, ClassifierModel):
    """The model of `SparkXGBClassifier`."""


class SparkXGBClassifier(_XGBParams, Classifier):
    """Gradient boosted trees for classes; see `hornbeam.spark.HornbeamClassifier`."""

    model_class = SparkXGBClassifierModel


class SparkXGBRankerModel(_XGBParams, SparkModel):
    """The model of `SparkXGBRanker`."""


class SparkXGBRanker(_XGBParams, Ranker):
    """LambdaMART for query groups; see `hornbeam.spark.HornbeamRanker`."""

    model_class = SparkXGBRankerModel
