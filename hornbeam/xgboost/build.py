"""What this build can do, under the names of XGBoost's build flags."""

from __future__ import annotations

from typing import Any

__all__ = ["build_info"]


def build_info() -> dict[str, Any]:
    """Return which of XGBoost's optional parts there are; none of the compiled ones."""
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
