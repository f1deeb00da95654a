"""The parameters of objectives that model files hold, as XGBoost groups them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["OBJECTIVES", "STATES", "WORDS", "read_settings", "spelled"]

_OF_PAIRS = (
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

#: XGBoost's name of the group, and the parameters in it; none for a loss without any.
OBJECTIVES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "reg:squarederror": ("reg_loss_param", ("scale_pos_weight",)),
    "reg:logistic": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:logistic": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:logitraw": ("reg_loss_param", ("scale_pos_weight",)),
    "binary:hinge": ("", ()),
    "binary:focal": ("focal_loss_param", ("scale_pos_weight", "focal_gamma")),
    "reg:squaredlogerror": ("", ()),
    "reg:pseudohubererror": ("pseudo_huber_param", ("huber_slope",)),
    # XGBoost's Poisson loss has max_delta_step beside the trees; here the trees' it is.
    "count:poisson": ("poisson_regression_param", ("max_delta_step",)),
    "reg:gamma": ("reg_loss_param", ("scale_pos_weight",)),
    "reg:absoluteerror": ("", ()),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "reg:expectileerror": ("expectile_loss_param", ("expectile_alpha",)),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "multi:softmax": ("softmax_multiclass_param", ("num_class",)),
    "multi:softprob": ("softmax_multiclass_param", ("num_class",)),
    "rank:map": _OF_PAIRS,
    "rank:ndcg": _OF_PAIRS,
    "rank:pairwise": _OF_PAIRS,
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

#: The arrays that objectives of a group keep beside its parameters, if they keep any.
STATES: Mapping[str, tuple[str, ...]] = {"lambdarank_param": ("ti+", "tj-")}

#: The parameters that are words, and what they may be; all others are numbers.
WORDS: Mapping[str, tuple[str, ...]] = {
    "aft_loss_distribution": ("normal", "logistic", "extreme"),
    "lambdarank_pair_method": ("topk", "mean"),
}

# XGBoost's spelling of a number of pairs that is not set.
_NOT_SET = str(2**32 - 1)


def spelled(value: Any) -> str:
    """Return a parameter as XGBoost writes it."""
    if value is None:
        return _NOT_SET
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return f"[{','.join(_shortest(number) for number in value)}]"
    return str(value)


def read_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of the parameters in a file that are set."""
    return {name: text for name, text in settings.items() if text != _NOT_SET}


def _shortest(number: float) -> str:
    """Return the fewest digits that tell a float32 from its neighbours, as 1E-1."""
    digits, _, exponent = np.format_float_scientific(
        np.float32(number), trim="-"
    ).partition("e")
    return f"{digits}E{int(exponent)}"
