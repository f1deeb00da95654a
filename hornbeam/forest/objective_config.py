"""The parameters of objectives in model files, in XGBoost's groups and formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "OBJECTIVE_PARAMS",
    "OBJECTIVE_STATES",
    "STRING_PARAMS",
    "format_param",
    "set_params",
]

_LAMBDARANK = (
    "lambdarank_param",
    (
        "lambdarank_bias_norm",
        "lambdarank_normalization",
        "lambdarank_num_pair_per_sample",
        "lambdarank_pair_method",
        "lambdarank_score_normalization",
        "lambdarank_unbiased",
        "ndcg_exp_gain",
    ),
)

#: XGBoost's name of the parameter group and the parameters in it, by objective.
OBJECTIVE_PARAMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "reg:squarederror": ("reg_loss_param", ("scale_pos_weight",)),
    "reg:logistic": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:logistic": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:logitraw": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:hinge": ("", ()),
    "binary:focal": ("focal_loss_param", ("scale_pos_weight", "focal_gamma")),
    "reg:squaredlogerror": ("", ()),
    "reg:pseudohubererror": ("pseudo_huber_param", ("huber_slope",)),
    # XGBoost has a second max_delta_step for trees; Hornbeam has only the trees'.
    "count:poisson": ("poisson_regression_param", ("max_delta_step",)),
    "reg:gamma": ("reg_loss_param", ("scale_pos_weight",)),
    "reg:absoluteerror": ("", ()),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "reg:expectileerror": ("expectile_loss_param", ("expectile_alpha",)),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "multi:softmax": ("softmax_multiclass_param", ("num_class",)),
    "multi:softprob": ("softmax_multiclass_param", ("num_class",)),
    "rank:map": _LAMBDARANK,
    "rank:ndcg": _LAMBDARANK,
    "rank:pairwise": _LAMBDARANK,
    "rank:xendcg": ("", ()),
    "survival:aft": (
        "aft_loss_param",
        ("aft_loss_distribution", "aft_loss_distribution_scale"),
    ),
    "survival:cox": ("", ()),
    "dist:normal": ("", ()),
    "dist:lognormal": ("", ()),
    "dist:negbinomial": ("", ()),
}

#: The arrays that the objectives of a group store as their state.
OBJECTIVE_STATES: Mapping[str, tuple[str, ...]] = {"lambdarank_param": ("ti+", "tj-")}

#: The parameters with string values, and the valid values; all others are numbers.
STRING_PARAMS: Mapping[str, tuple[str, ...]] = {
    "aft_loss_distribution": ("normal", "logistic", "extreme"),
    "lambdarank_pair_method": ("topk", "mean"),
}

# XGBoost writes this for a number of pairs that is not set.
_UNSET = str(2**32 - 1)


def format_param(value: Any) -> str:
    """Return the value of a parameter in XGBoost's format."""
    if value is None:
        return _UNSET
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return f"[{','.join(_format_float32(number) for number in value)}]"
    return str(value)


def set_params(params: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a file without those that are not set."""
    return {name: text for name, text in params.items() if text != _UNSET}


def _format_float32(number: float) -> str:
    """Return the shortest decimal that identifies a float32, as in 1E-1."""
    digits, _, exponent = np.format_float_scientific(
        np.float32(number), trim="-"
    ).partition("e")
    return f"{digits}E{int(exponent)}"
