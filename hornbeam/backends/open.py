"""The way to a backend, for those above who must not know which one it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend, DenseCodes, FilledCodes

__all__ = ["open_backend"]


def open_backend(
    device: str,
    codes: DenseCodes | FilledCodes,
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
        See `hornbeam.backends.cpu.CpuBackend` and `filled.FilledBackend`.
    """
    assert device == "cpu", device
    if isinstance(codes, FilledCodes):
        from hornbeam.backends.filled import FilledBackend

        return FilledBackend(codes, labels, weights, scores, **options)
    from hornbeam.backends.cpu import CpuBackend

    return CpuBackend(codes, labels, weights, scores, **options)
