"""XGBoost's estimators for classification and regression, and its random forests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin

from hornbeam.callbacks.base import EvalsLog
from hornbeam.errors import DataError, ErrorCode, short_traceback
from hornbeam.xgboost._typing import IterationRange
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.model import XGBModel

__all__ = [
    "XGBClassifier",
    "XGBRFClassifier",
    "XGBRFModel",
    "XGBRFRegressor",
    "XGBRegressor",
    "both_class_probabilities",
]


class XGBClassifier(ClassifierMixin, XGBModel):
    """XGBoost's estimator for classification; the parameters are those of `XGBModel`.

    Labels are consecutive integers from 0; the objective for more than two is
    multi:softprob. Several columns of 0 and 1 are multi-label targets.

    Attributes
    ----------
    n_classes_
        The number of distinct labels in the training data.
    """

    __module__ = "hornbeam.xgboost.sklearn"  # by which packages recognise it

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
        """The labels: 0, 1, ..., n_classes_ - 1."""
        return np.arange(self.n_classes_)

    def _objective_params(self, y: Any) -> dict[str, Any]:
        found = np.unique(np.asarray(y.collect() if hasattr(y, "collect") else y))
        self.n_classes_ = len(found)
        if not np.array_equal(found, self.classes_):
            raise DataError(
                "Invalid classes inferred from unique values of `y`.  Expected: "
                f"{self.classes_}, got {found}; encode the labels as 0, 1, 2 and so "
                "on, as sklearn.preprocessing.LabelEncoder does",
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

    def _set_training_results(
        self, params: Mapping[str, Any], history: EvalsLog
    ) -> None:
        super()._set_training_results(params, history)
        if not callable(self.objective):
            self.objective = params["objective"]

    @deprecate_positional_args
    @short_traceback
    def predict(
        self,
        X: Any,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: IterationRange | None = None,
    ) -> Any:
        """Return the most probable label of each row; multi-label: 0 or 1 per column.

        The arguments are those of `XGBModel.predict`.
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

    @short_traceback
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
        return both_class_probabilities(found, np.array)

    def _restore(self, learner: Mapping[str, Any]) -> None:
        super()._restore(learner)
        self.n_classes_ = max(2, int(learner["learner_model_param"]["num_class"]))


class XGBRegressor(RegressorMixin, XGBModel):
    """XGBoost's estimator for regression; the parameters are those of `XGBModel`.

    Targets may have several columns.
    """

    __module__ = "hornbeam.xgboost.sklearn"  # by which packages recognise it

    @deprecate_positional_args
    def __init__(self, *, objective: Any = "reg:squarederror", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class XGBRFModel(XGBModel):
    """Base class of random forests: one round with `n_estimators` parallel trees."""

    @deprecate_positional_args
    def __init__(
        self,
        *,
        learning_rate: float | None = 1.0,
        subsample: float | None = 0.8,
        colsample_bynode: float | None = 0.8,
        reg_lambda: float | None = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            subsample=subsample,
            colsample_bynode=colsample_bynode,
            reg_lambda=reg_lambda,
            **kwargs,
        )
        self._check_no_callbacks()

    def get_xgb_params(self) -> dict[str, Any]:
        trees = super().get_num_boosting_rounds()
        return super().get_xgb_params() | {"num_parallel_tree": trees}

    def get_num_boosting_rounds(self) -> int:
        return 1

    def _fit(self, *args: Any) -> Self:
        self._check_no_callbacks()
        return super()._fit(*args)

    def _check_no_callbacks(self) -> None:
        if self.early_stopping_rounds is not None or self.callbacks is not None:
            raise NotImplementedError(
                "`early_stopping_rounds` and `callbacks` are not implemented for the "
                "random forests: they have a single round"
            )


class XGBRFClassifier(XGBRFModel, XGBClassifier):
    """A random forest for classification, with the parameters of `XGBClassifier`.

    `n_estimators` is the number of trees.
    """

    __module__ = "hornbeam.xgboost.sklearn"  # by which packages recognise it


class XGBRFRegressor(XGBRFModel, XGBRegressor):
    """A random forest for regression, with the parameters of `XGBRegressor`.

    `n_estimators` is the number of trees.
    """

    __module__ = "hornbeam.xgboost.sklearn"  # by which packages recognise it


def both_class_probabilities(found: Any, stack: Any) -> Any:
    """Return class probabilities, also if `found` has only those of the second class.

    `stack` stacks the two arrays of a binary model.
    """
    return found if found.ndim == 2 else stack((1.0 - found, found)).T
