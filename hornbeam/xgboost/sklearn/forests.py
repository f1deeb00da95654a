"""XGBoost's random forest estimators: one boosting round of many trees."""

from __future__ import annotations

from typing import Any, Self

from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.classifier import XGBClassifier
from hornbeam.xgboost.sklearn.model import XGBModel
from hornbeam.xgboost.sklearn.regressor import XGBRegressor

__all__ = ["XGBRFClassifier", "XGBRFModel", "XGBRFRegressor"]


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


class XGBRFRegressor(XGBRFModel, XGBRegressor):
    """A random forest for regression, with the parameters of `XGBRegressor`.

    `n_estimators` is the number of trees.
    """
