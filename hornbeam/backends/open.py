"""The way to a backend, for those above who must not know which one it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend, DenseCodes

__all__ = ["open_backend"]


def open_backend(
    device: str,
    codes: DenseCodes,
    labels: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scores: NDArray[np.float64],
    **options: Any,
) -> Backend:
    """Return the backend for `device` and for codes of this kind.

    Parameters
    ----------
    device
        ``"cpu"``.
    codes, labels, weights, scores, options
        See `hornbeam.backends.cpu.CpuBackend`.
    """
    from hornbeam.backends.cpu import CpuBackend

    assert device == "cpu", device
    return CpuBackend(codes, labels, weights, scores, **options)
