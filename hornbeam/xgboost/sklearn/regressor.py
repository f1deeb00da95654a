"""XGBoost's estimator for regression."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin

from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.model import XGBModel

__all__ = ["XGBRegressor"]


class XGBRegressor(RegressorMixin, XGBModel):
    """XGBoost's estimator for regression; the parameters are those of `XGBModel`.

    Targets may have several columns.
    """

    @deprecate_positional_args
    def __init__(self, *, objective: Any = "reg:squarederror", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
