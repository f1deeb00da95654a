"""XGBoost's parameters, translated to Hornbeam's names and values."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from hornbeam.backends.opencl.devices import find_device
from hornbeam.errors import ErrorCode, HornbeamError, ParameterError
from hornbeam.objectives.registry import config_groups
from hornbeam.params import Parameters, parameter_table
from hornbeam.xgboost.booster_config import NAMES
from hornbeam.xgboost.config import get_config

__all__ = ["SELECTING_PARAMS", "as_pairs", "hornbeam_params", "unused_params"]

Given = Mapping[str, Any]

_TABLE = {row.name: row for row in parameter_table()}
_HORNBEAM_NAMES = {
    name: row.name for row in _TABLE.values() for name in (row.name, *row.aliases)
}
#: XGBoost removed this parameter; it reports it as unused.
del _HORNBEAM_NAMES["sketch_eps"]

#: Parameters that select the components of a model, and so the other parameters.
SELECTING_PARAMS = frozenset(
    "booster objective num_class num_target eval_metric multi_strategy".split()
    + "tree_method updater updater_seq process_type".split()
    + [field for fields in config_groups().values() for field in fields]
)
#: Parameters that are used, but are not in the configuration.
_USED_ELSEWHERE = frozenset(["eval_metric", "num_output_group", *get_config()])
#: Sampling rates that may be 0 in XGBoost, which samples no row and one feature.
_SAMPLING_RATES = (
    "subsample",
    "colsample_bytree",
    "colsample_bylevel",
    "colsample_bynode",
)
#: Of the parameters that select components, those that a linear model does not use.
_TREES_ONLY = ("multi_strategy", "process_type", "tree_method")
_SMALLEST_RATE = float(np.finfo(np.float64).tiny)
_DEVICES = ("cpu", "cuda", "gpu", "sycl")


def as_pairs(
    params: Given | Iterable[tuple[str, Any]] | str, value: Any = None
) -> list[tuple[str, Any]]:
    """Return parameters as pairs of name and value, without those that are None."""
    if isinstance(params, str):
        pairs: Iterable[tuple[str, Any]] = [(params, value)]
    else:
        pairs = params.items() if isinstance(params, Mapping) else params
    return [
        (name, item.tolist() if isinstance(item, np.ndarray) else item)
        for name, item in pairs
        if item is not None
    ]


def hornbeam_params(
    given: Given, names: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the given parameters by Hornbeam's names.

    If a parameter is given by several names, the alphabetically last one counts, as in
    XGBoost.

    Parameters
    ----------
    given
        All parameters that were set, by XGBoost's names.
    names
        The names of the parameters that the model uses; None for those that select
        the model's components.
    """
    values: dict[str, Any] = {}
    for name in sorted(given):
        if name not in _HORNBEAM_NAMES:
            continue
        if names is None:
            is_used = name in SELECTING_PARAMS
        else:
            is_used = name in names or name in _USED_ELSEWHERE or name not in NAMES
        if is_used:
            values[_HORNBEAM_NAMES[name]] = given[name]
    values.pop("validate_parameters", None)
    _resolve_shape(values, given)
    if names is not None:
        _resolve_rest(values, given)
    for name, value in values.items():
        _check(name, value)
    return values


def _resolve_shape(values: dict[str, Any], given: Given) -> None:
    num_class = given.get("num_class", 0)
    several = _is_parsable("float", num_class) and float(num_class) > 1
    if several and "objective" not in given:
        values["objective"] = "multi:softmax"
    if values.get("objective") == "count:poisson":
        values.setdefault("max_delta_step", given.get("max_delta_step", 0.7))
    if values.get("booster") == "gblinear":
        for name in _TREES_ONLY:
            values.pop(name, None)
    if "updater" in values:
        values["updater"] = _updater(str(values["updater"]))
        if values["updater"].startswith("grow_"):
            values.pop("tree_method", None)


def _updater(names: str) -> str:
    """Return updaters without those that leave new trees as they are.

    Histogram trees are pruned while they grow, weights of new trees are fresh, and
    there are no other workers to synchronise with.
    """
    first, *others = names.split(",")
    if not first.startswith("grow_"):
        return names
    idle = ["refresh", "sync"] + ["prune"] * first.endswith("histmaker")
    return ",".join([first, *(name for name in others if name not in idle)])


def _resolve_rest(values: dict[str, Any], given: Given) -> None:
    if "gpu_id" in given:
        raise ParameterError(
            "`gpu_id` has been removed since 3.1. Use `device` instead.",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )
    if values.get("objective") == "reg:linear":
        _warn("reg:linear is now deprecated in favor of reg:squarederror.")
    if _is_exact(values):
        values.pop("max_bin", None)
        if float(values.get("colsample_bynode", 1)) != 1:
            raise ParameterError(
                "column sample by node is not yet supported by the exact tree method",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
    if values.get("updater") == "grow_colmaker":
        values.pop("gamma", None)  # it is what the updater prune compares with
    if values.get("process_type", "default") == "default":
        values.pop("refresh_leaf", None)
    if "device" in values:
        values["device"] = _device(values["device"], given)
    for name in _SAMPLING_RATES:
        if str(values.get(name)) in ("0", "0.0"):
            values[name] = _SMALLEST_RATE
    values.setdefault("margin_type", "float32")
    for name in ("verbosity", "nthread"):
        values.setdefault(name, given.get(name, get_config()[name]))


def _is_exact(values: Given) -> bool:
    updater = str(values.get("updater", ""))
    return values.get("tree_method") == "exact" or updater.startswith("grow_colmaker")


def _device(device: Any, given: Given) -> str:
    """Return the device, or ``"cpu"`` with a warning if there is no such device."""
    kind = str(device).partition(":")[0]
    if kind not in _DEVICES:
        raise ParameterError(
            f"Invalid argument for `device`. Expected to be one of the following: "
            f"{', '.join(_DEVICES)}. Got: `{device}`.",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    if kind == "cpu":
        return kind
    if not _is_found(str(device)):
        message = (
            "Device is changed from GPU to CPU as we couldn't find any available GPU "
            "on the system."
        )
        if str(given.get("fail_on_invalid_gpu_id", 0)).lower() in ("1", "true"):
            raise ParameterError(message, code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE)
        _warn(message)
        return "cpu"
    return str(device)


def _is_found(device: str) -> bool:
    """Return whether trees can be grown on this device."""
    try:
        Parameters.resolve({"device": device})
        find_device(device)
    except HornbeamError:
        return False
    return True


def _check(name: str, value: Any) -> None:
    """Raise a `ParameterError` for an invalid value, with XGBoost's message first."""
    try:
        Parameters.resolve({name: value})
    except ParameterError as error:
        raise ParameterError(
            f"{_xgboost_message(name, value)}{error}", code=error.code, **error.details
        ) from None


def _xgboost_message(name: str, value: Any) -> str:
    row = _TABLE[name]
    if name == "booster":
        return f"Unknown gbm type {value}\n"
    if name == "updater":
        return f"Unknown tree updater {value}\n"
    if row.range.startswith("'"):
        return f"Invalid Input: '{value}', valid values are: {row.range}\n"
    kind = row.type.partition(" ")[0]
    if kind in ("int", "float", "bool") and not _is_parsable(kind, value):
        return (
            f"Invalid Parameter format for {name} expect {kind} but value='{value}'\n"
        )
    if row.range.endswith(" or more"):
        minimum = row.range.partition(" ")[0]
        return (
            f"value {value} for Parameter {name} should be greater equal to {minimum}\n"
        )
    if not row.range:
        return ""
    return f"value {value} for Parameter {name} exceed bound, {row.range}\n"


def _is_parsable(kind: str, value: Any) -> bool:
    try:
        number = float(str(value))
    except ValueError:
        return False
    return kind != "int" or number.is_integer()


def unused_params(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names of parameters that were set and are not used, sorted.

    Parameters
    ----------
    given
        The names of the parameters that were set.
    known
        The names of the parameters in the configuration.
    """
    hornbeam_only = _HORNBEAM_NAMES.keys() - NAMES
    return sorted(set(given) - set(known) - hornbeam_only - _USED_ELSEWHERE)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
