"""XGBoost's estimator for classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import ClassifierMixin

from hornbeam.callbacks.base import EvalsLog
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.model import IterationRange, XGBModel

__all__ = ["XGBClassifier", "of_all_classes"]


class XGBClassifier(ClassifierMixin, XGBModel):
    """XGBoost's estimator for classification; the parameters are those of `XGBModel`.

    Labels are the whole numbers from 0 on; more than two of them are learned by
    multi:softprob. Several columns of 0 and 1 are labels that a row may have at once.

    Attributes
    ----------
    n_classes_
        How many labels `fit` has seen.
    """

    n_classes_: int

    @deprecate_positional_args
    def __init__(self, *, objective: Any = "binary:logistic", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels: 0, 1, 2 and so on."""
        return np.arange(self.n_classes_)

    def _task(self, y: Any) -> dict[str, Any]:
        found = np.unique(np.asarray(y.collect() if hasattr(y, "collect") else y))
        self.n_classes_ = len(found)
        if not np.array_equal(found, self.classes_):
            raise DataError(
                "Invalid classes inferred from unique values of `y`.  Expected: "
                f"{self.classes_}, got {found}; number the labels from 0 on, as "
                "sklearn.preprocessing.LabelEncoder does",
                code=ErrorCode.CLASSES_NOT_CONSECUTIVE,
            )
        named = self.objective
        if callable(named):
            named = "binary:logistic"
        if self.n_classes_ <= 2:
            return {"objective": named}
        if named != "multi:softmax":
            named = "multi:softprob"
        return {"objective": named, "num_class": self.n_classes_}

    def _trained(self, params: Mapping[str, Any], history: EvalsLog) -> None:
        super()._trained(params, history)
        if not callable(self.objective):
            self.objective = params["objective"]

    @deprecate_positional_args
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return the most probable label of each row.

        Of several columns of labels it is 0 or 1 in each. The arguments are those of
        `XGBModel.predict`.
        """
        found = super().predict(
            X,
            output_margin=output_margin,
            validate_features=validate_features,
            base_margin=base_margin,
            iteration_range=iteration_range,
        )
        if output_margin:
            return found
        if found.ndim > 1 and self.n_classes_ != 2:
            return found.argmax(axis=1)
        if found.ndim > 1:
            return (found > 0.5).astype(np.float64)
        if self.objective == "multi:softmax":
            return found.astype(np.int32)
        return (found > 0.5).astype(np.int64)

    def predict_proba(
        self,
        X: Any,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> npt.NDArray[Any]:
        """Return the probability of each label for each row.

        The arguments are those of `predict`.
        """
        by_class = self.objective == "multi:softmax"
        found = super().predict(
            X,
            output_margin=by_class,
            validate_features=validate_features,
            base_margin=base_margin,
            iteration_range=iteration_range,
        )
        if by_class:
            probabilities: npt.NDArray[Any] = softmax(found, axis=1)
            return probabilities
        return of_all_classes(found, np.array)

    def _take_model(self, learner: Mapping[str, Any]) -> None:
        super()._take_model(learner)
        self.n_classes_ = max(2, int(learner["learner_model_param"]["num_class"]))


def of_all_classes(found: Any, stack: Any) -> Any:
    """Return the probabilities of both classes where there is that of the second."""
    return found if found.ndim == 2 else stack((1.0 - found, found)).T
