"""The names of the module `xgboost.libpath`: there is no compiled library to find."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["XGBoostLibraryNotFound", "find_lib_path"]


class XGBoostLibraryNotFound(Exception):  # noqa: N818
    """XGBoost's compiled library does not exist."""


def find_lib_path() -> NoReturn:
    """Raise an error: Hornbeam has no library of XGBoost's."""
    raise XGBoostLibraryNotFound(
        "Cannot find XGBoost Library in the candidate path: hornbeam.xgboost needs none"
    )
