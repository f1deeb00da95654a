"""The names of the module `xgboost.core`."""

from __future__ import annotations

from typing import Any

from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.categories import Categories
from hornbeam.xgboost.data import DataIter
from hornbeam.xgboost.deprecation import require_keyword_args
from hornbeam.xgboost.dmatrix import (
    DataSplitMode,
    DMatrix,
    ExtMemQuantileDMatrix,
    QuantileDMatrix,
)
from hornbeam.xgboost.error_messages import XGBoostError

__all__ = [
    "Booster",
    "Categories",
    "DMatrix",
    "DataIter",
    "DataSplitMode",
    "ExtMemQuantileDMatrix",
    "QuantileDMatrix",
    "XGBoostError",
    "build_info",
    "require_keyword_args",
]


def build_info() -> dict[str, Any]:
    """Return XGBoost's build flags.

    All flags of parts that are compiled into XGBoost's library are False.
    """
    return {
        "BUILTIN_PREFETCH_PRESENT": True,
        "DEBUG": False,
        "GCC_VERSION": [0, 0, 0],
        "MM_PREFETCH_PRESENT": True,
        "USE_CUDA": False,
        "USE_DLOPEN_NCCL": False,
        "USE_FEDERATED": False,
        "USE_NCCL": False,
        "USE_OPENMP": False,
        "USE_RMM": False,
        "libxgboost": __file__,
    }
