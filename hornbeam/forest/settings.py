"""The parameters of objectives that model files hold, as XGBoost groups them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["OBJECTIVES", "spelled"]

#: XGBoost's name of the group, and the parameters in it; none for a loss without any.
OBJECTIVES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "reg:squarederror": ("reg_loss_param", ("scale_pos_weight",)),
    "reg:logistic": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:logistic": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:logitraw": ("reg_loss_param", ("scale_pos_weight",)),
    "multi:softmax": ("softmax_multiclass_param", ("num_class",)),
    "multi:softprob": ("softmax_multiclass_param", ("num_class",)),
}


def spelled(value: Any) -> str:
    """Return a parameter as XGBoost writes it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return f"[{','.join(_shortest(number) for number in value)}]"
    return str(value)


def _shortest(number: float) -> str:
    """Return the fewest digits that tell a float32 from its neighbours, as 1E-1."""
    digits, _, exponent = np.format_float_scientific(
        np.float32(number), trim="-"
    ).partition("e")
    return f"{digits}E{int(exponent)}"
