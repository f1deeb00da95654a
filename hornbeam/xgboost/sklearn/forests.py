"""XGBoost's estimators of one round of many trees."""

from __future__ import annotations

from typing import Any, Self

from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.classifier import XGBClassifier
from hornbeam.xgboost.sklearn.model import XGBModel
from hornbeam.xgboost.sklearn.regressor import XGBRegressor

__all__ = ["OneRound", "XGBRFClassifier", "XGBRFRegressor"]


class OneRound(XGBModel):
    """What the forests share: `n_estimators` are the trees of their only round."""

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
        self._check_one_round()

    def get_xgb_params(self) -> dict[str, Any]:
        trees = super().get_num_boosting_rounds()
        return super().get_xgb_params() | {"num_parallel_tree": trees}

    def get_num_boosting_rounds(self) -> int:
        return 1

    def _fit(self, *args: Any) -> Self:
        self._check_one_round()
        return super()._fit(*args)

    def _check_one_round(self) -> None:
        if self.early_stopping_rounds is not None or self.callbacks is not None:
            raise NotImplementedError(
                "`early_stopping_rounds` and `callbacks` are not implemented for the "
                "random forests: they have one round"
            )


class XGBRFClassifier(OneRound, XGBClassifier):
    """A forest for classification; the parameters are those of `XGBClassifier`.

    `n_estimators` is the number of its trees.
    """


class XGBRFRegressor(OneRound, XGBRegressor):
    """A forest for regression; the parameters are those of `XGBRegressor`.

    `n_estimators` is the number of its trees.
    """
