"""The gradient boosting estimator for classification."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.team import lease
from hornbeam.objectives.registry import find
from hornbeam.sklearn.base import IterationRange, ModelClassifier
from hornbeam.sklearn.boosting import BoostingEstimator

__all__ = ["HornbeamClassifier"]


class HornbeamClassifier(ModelClassifier, BoostingEstimator):
    """Gradient boosted trees for classification, with labels of any type.

    The default `objective` is binary:logistic for two classes and multi:softprob for
    more. The parameters are those of `HornbeamRegressor`.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.
    """

    def _objective_params(self) -> dict[str, Any]:
        name = self.objective
        if not isinstance(name, str):
            name = "binary:logistic" if self.n_classes_ <= 2 else "multi:softprob"
        objective = find(name)
        if objective is not None and objective.task == "classes":
            return {"objective": name, "num_class": max(2, self.n_classes_)}
        if objective is None or not objective.has_probabilities:
            raise ParameterError(
                f"objective {name!r} is not for classification; use binary:logistic or "
                "multi:softprob, or leave it out",
                code=ErrorCode.OBJECTIVE_ESTIMATOR_MISMATCH,
            )
        if self.n_classes_ > 2:
            raise ParameterError(
                f"objective {name!r} is for two classes, and y has {self.n_classes_}; "
                "use multi:softprob, or leave it out",
                code=ErrorCode.OBJECTIVE_ESTIMATOR_MISMATCH,
            )
        return {"objective": name}

    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X
            Features, with the columns of training.
        output_margin
            Whether to return the margins instead, (rows,) or (rows, classes).
        validate_features
            Whether to compare the columns with those of training.
        base_margin
            The initial margins, instead of the model's base score.
        iteration_range
            Rounds (begin, end) to use; the end is not included.
        """
        margins = self._predict(
            X, "margin", validate_features, base_margin, iteration_range
        )
        if output_margin:
            return margins
        indices = margins.argmax(axis=1) if margins.ndim == 2 else margins > 0
        return self.classes_.take(indices, mode="clip")

    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the probability of each class for each row.

        The arguments are those of `predict`.
        """
        booster = self.get_booster()
        model, objective = booster.model, booster.objective
        from_margins = (
            objective.has_probabilities and objective.prediction != "probability"
        )
        values = self._predict(
            X,
            "margin" if from_margins else "value",
            validate_features,
            base_margin,
            iteration_range,
        )
        if from_margins:
            with lease(self.n_jobs or 0) as team:
                values = objective.class_probabilities(
                    team, values.reshape(len(values), -1)
                )
        if model.num_class == 0:
            positive = values.reshape(len(values))
            values = np.empty((len(positive), 2), positive.dtype)
            values[:, 0], values[:, 1] = 1 - positive, positive
        return values if self.n_classes_ > 1 else np.ones((len(values), 1), np.float32)
