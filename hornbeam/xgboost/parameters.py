"""What XGBoost takes as parameters, and Hornbeam takes in other words or not at all."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.base import config_groups
from hornbeam.params import Parameters, parameter_table
from hornbeam.xgboost.booster_config import NAMES
from hornbeam.xgboost.config import get_config

__all__ = ["DECISIVE", "gathered", "told", "unused"]

Given = Mapping[str, Any]

_TABLE = {row.name: row for row in parameter_table()}
_OURS = {name: row.name for row in _TABLE.values() for name in (row.name, *row.aliases)}
#: XGBoost had it once, and passes it over with a warning.
del _OURS["sketch_eps"]

#: What decides which other parameters have a part in a model.
DECISIVE = frozenset(
    "booster objective num_class num_target eval_metric multi_strategy".split()
    + "tree_method updater updater_seq process_type".split()
    + [field for fields in config_groups().values() for field in fields]
)
#: What has no part in a configuration, and is used all the same.
_BEYOND = frozenset(["eval_metric", "num_output_group", *get_config()])
#: Shares that may be 0 there: no row, and one feature, are left.
_SHARES = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
_NEXT_TO_NONE = float(np.finfo(np.float64).tiny)
_DEVICES = ("cpu", "cuda", "gpu", "sycl")


def gathered(
    params: Given | Iterable[tuple[str, Any]] | str, value: Any = None
) -> list[tuple[str, Any]]:
    """Return parameters as pairs, those that are None left out."""
    if isinstance(params, str):
        pairs: Iterable[tuple[str, Any]] = [(params, value)]
    else:
        pairs = params.items() if isinstance(params, Mapping) else params
    return [
        (name, item.tolist() if isinstance(item, np.ndarray) else item)
        for name, item in pairs
        if item is not None
    ]


def told(given: Given, names: Collection[str] | None = None) -> dict[str, Any]:
    """Return what Hornbeam is told of parameters that have been set.

    Of two names of one parameter the last in the alphabet counts, as it does there.

    Parameters
    ----------
    given
        All that has been set.
    names
        XGBoost's parameters that have a part in the model; if None, only what decides
        on that is told.
    """
    values: dict[str, Any] = {}
    for name in sorted(given):
        if name not in _OURS:
            continue
        if names is None:
            has_part = name in DECISIVE
        else:
            has_part = name in names or name in _BEYOND or name not in NAMES
        if has_part:
            values[_OURS[name]] = given[name]
    values.pop("validate_parameters", None)
    _resolve_shape(values, given)
    if names is not None:
        _resolve_rest(values, given)
    for name, value in values.items():
        _check(name, value)
    return values


def _resolve_shape(values: dict[str, Any], given: Given) -> None:
    if int(given.get("num_class", 0)) > 1 and "objective" not in given:
        values["objective"] = "multi:softmax"
    if values.get("objective") == "count:poisson":
        values.setdefault("max_delta_step", given.get("max_delta_step", 0.7))
    if "updater" in values:
        # Trees of histograms are pruned while they grow, so that nothing is left to;
        # and one machine has no others to be in step with.
        updater = str(values["updater"]).replace("histmaker,prune", "histmaker")
        if updater.startswith("grow_"):
            updater = updater.removesuffix(",sync")
        values["updater"] = updater
        if updater.startswith("grow_"):
            values.pop("tree_method", None)


def _resolve_rest(values: dict[str, Any], given: Given) -> None:
    if "gpu_id" in given:
        raise ParameterError(
            "`gpu_id` has been removed since 3.1. Use `device` instead.",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )
    if values.get("objective") == "reg:linear":
        _warn("reg:linear is now deprecated in favor of reg:squarederror.")
    if values.get("tree_method") == "exact":
        values.pop("max_bin", None)
    if values.get("process_type", "default") == "default":
        values.pop("refresh_leaf", None)
    if "device" in values:
        values["device"] = _device(values["device"], given)
    for name in _SHARES:
        if str(values.get(name)) in ("0", "0.0"):
            values[name] = _NEXT_TO_NONE
    for name in ("verbosity", "nthread"):
        values.setdefault(name, given.get(name, get_config()[name]))


def _device(device: Any, given: Given) -> str:
    """Return the device there is, with a warning where another one was asked for."""
    kind = str(device).partition(":")[0]
    if kind not in _DEVICES:
        raise ParameterError(
            f"Invalid argument for `device`. Expected to be one of the following: "
            f"{', '.join(_DEVICES)}. Got: `{device}`.",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    if kind != "cpu":
        message = (
            "Device is changed from GPU to CPU as we couldn't find any available GPU "
            "on the system."
        )
        if str(given.get("fail_on_invalid_gpu_id", 0)).lower() in ("1", "true"):
            raise ParameterError(message, code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE)
        _warn(message)
    return "cpu"


def _check(name: str, value: Any) -> None:
    """Raise an error of a value that is none of the parameter's, in both's words."""
    try:
        Parameters.resolve({name: value})
    except ParameterError as error:
        raise ParameterError(
            f"{_in_their_words(name, value)}{error}", code=error.code, **error.details
        ) from None


def _in_their_words(name: str, value: Any) -> str:
    row = _TABLE[name]
    if name == "booster":
        return f"Unknown gbm type {value}\n"
    if name == "updater":
        return f"Unknown tree updater {value}\n"
    if row.range.startswith("'"):
        return f"Invalid Input: '{value}', valid values are: {row.range}\n"
    kind = row.type.partition(" ")[0]
    if kind in ("int", "float", "bool") and not _is_read_as(kind, value):
        what = f"expect {kind} but value='{value}'"
        return f"Invalid Parameter format for {name} {what}\n"
    if row.range.endswith(" or more"):
        least = row.range.partition(" ")[0]
        what = f"should be greater equal to {least}"
        return f"value {value} for Parameter {name} {what}\n"
    if not row.range:
        return ""
    return f"value {value} for Parameter {name} exceed bound, {row.range}\n"


def _is_read_as(kind: str, value: Any) -> bool:
    try:
        number = float(str(value))
    except ValueError:
        return False
    return kind != "int" or number == int(number)


def unused(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return what has been set and has no part in the configuration.

    Parameters
    ----------
    given
        The names of what has been set.
    known
        The names of XGBoost's that have.
    """
    own = _OURS.keys() - NAMES
    return sorted(set(given) - set(known) - own - _BEYOND)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
