"""What XGBoost takes as parameters, and Hornbeam takes in other words or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hornbeam.errors import ParameterError
from hornbeam.params import parameter_table
from hornbeam.xgboost.configuration import NAMES

__all__ = ["gathered", "told", "unused"]

_OURS = {
    name: row.name for row in parameter_table() for name in (row.name, *row.aliases)
}


def gathered(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]] | str, value: Any = None
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


def told(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Hornbeam is told of parameters that have been set.

    Of two names of one parameter the last in the alphabet counts, as it does there.
    """
    values = {_OURS[name]: given[name] for name in sorted(given) if name in _OURS}
    values.pop("validate_parameters", None)
    if given.get("default_direction", "learn") != "learn":
        raise ParameterError(
            f"default_direction={given['default_direction']!r} is not in Hornbeam, "
            "where each split learns which way missing values go; leave it out"
        )
    return values


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
    beyond = {"eval_metric", "num_output_group"}
    return sorted(set(given) - set(known) - own - beyond)
