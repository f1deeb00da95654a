"""Global configuration: the default verbosity and number of threads of boosters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from hornbeam.errors import ErrorCode
from hornbeam.xgboost.error_messages import XGBoostError

__all__ = ["config_context", "get_config", "set_config"]

_DEFAULTS = MappingProxyType(
    {
        "nthread": 0,
        "use_cuda_async_pool": False,
        "use_rmm": False,
        "verbosity": 1,
    }
)
#: The parameters of this thread, or of this asynchronous task.
_config: ContextVar[MappingProxyType[str, Any]] = ContextVar(
    "hornbeam_xgboost_config", default=_DEFAULTS
)


def set_config(**new_config: Any) -> None:
    """Set global parameters, the defaults of boosters that do not set them.

    As in XGBoost, they are those of this thread: another one begins with the defaults.

    Parameters
    ----------
    new_config
        ``verbosity``, from 0 (silent) to 3; ``nthread``, 0 for all cores. ``use_rmm``
        and ``use_cuda_async_pool`` are stored and have no effect, since there is no
        GPU. A value of None leaves a parameter unchanged.
    """
    given = {name: value for name, value in new_config.items() if value is not None}
    unknown = sorted(given.keys() - _DEFAULTS.keys())
    if unknown:
        raise XGBoostError(
            f"Unknown global parameters: {{ {', '.join(unknown)} }}; "
            f"the global parameters are {', '.join(_DEFAULTS)}",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )
    parsed = {name: _parse(name, value) for name, value in given.items()}
    _config.set(MappingProxyType({**_config.get(), **parsed}))


def get_config() -> dict[str, Any]:
    """Return the global parameters."""
    return dict(_config.get())


@contextmanager
def config_context(**new_config: Any) -> Iterator[None]:
    """Return a context manager that sets global parameters and restores them."""
    before = get_config()
    set_config(**new_config)
    try:
        yield
    finally:
        set_config(**before)


def _parse(name: str, value: Any) -> Any:
    text = str(value).strip().lower()
    if isinstance(_DEFAULTS[name], bool):
        if text not in ("true", "false", "0", "1"):
            raise XGBoostError(
                f"Invalid Parameter format for {name} expect boolean but "
                f"value='{value}'",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            )
        return text in ("true", "1")
    try:
        number = int(text)
    except ValueError:
        raise XGBoostError(
            f"Invalid Parameter format for {name} expect int but value='{value}'",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        ) from None
    if name == "verbosity" and not 0 <= number <= 3:
        raise XGBoostError(
            f"value {number} for Parameter {name} exceed bound [0,3]",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return max(number, 0)
