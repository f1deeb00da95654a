"""Global configuration: the default verbosity and number of threads of boosters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hornbeam.errors import ErrorCode
from hornbeam.xgboost.error_messages import XGBoostError

__all__ = ["config_context", "get_config", "set_config"]

_config: dict[str, Any] = {
    "nthread": 0,
    "use_cuda_async_pool": False,
    "use_rmm": False,
    "verbosity": 1,
}


def set_config(**new_config: Any) -> None:
    """Set global parameters, the defaults of boosters that do not set them.

    Parameters
    ----------
    new_config
        ``verbosity``, from 0 (silent) to 3; ``nthread``, 0 for all cores. ``use_rmm``
        and ``use_cuda_async_pool`` are stored and have no effect, since there is no
        GPU. A value of None leaves a parameter unchanged.
    """
    given = {name: value for name, value in new_config.items() if value is not None}
    unknown = sorted(given.keys() - _config.keys())
    if unknown:
        raise XGBoostError(
            f"Unknown global parameters: {{ {', '.join(unknown)} }}; "
            f"the global parameters are {', '.join(_config)}",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )
    _config.update({name: _parse(name, value) for name, value in given.items()})


def get_config() -> dict[str, Any]:
    """Return the global parameters."""
    return dict(_config)


@contextmanager
def config_context(**new_config: Any) -> Iterator[None]:
    """Return a context manager that sets global parameters and restores them.

    The parameters belong to the process, so only one thread should change them.
    """
    before = get_config()
    set_config(**new_config)
    try:
        yield
    finally:
        set_config(**before)


def _parse(name: str, value: Any) -> Any:
    text = str(value).strip().lower()
    if isinstance(_config[name], bool):
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
