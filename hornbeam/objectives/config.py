"""The parameters of objectives in model files: their groups, and values as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["REG_LOSS", "ConfigGroup", "read_settings", "spelled"]


class ConfigGroup(NamedTuple):
    """The parameters that an objective has in model files.

    Attributes
    ----------
    name
        XGBoost's name of the group; "" for an objective without parameters.
    parameters
        The names of `Parameters` in the group.
    state
        Names of the arrays that training updates and model files hold next to the
        group.
    """

    name: str = ""
    parameters: tuple[str, ...] = ()
    state: tuple[str, ...] = ()


#: The group of the objectives that weigh rows with label 1.
REG_LOSS = ConfigGroup("reg_loss_param", ("scale_pos_weight",))

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
