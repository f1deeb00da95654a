"""The way to a backend, for those above who must not know which one it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend, DenseCodes, FilledCodes, PagedCodes
from hornbeam.kernels.team import take_team

__all__ = ["open_backend"]


def open_backend(
    device: str,
    codes: DenseCodes | FilledCodes | PagedCodes,
    labels: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scores: NDArray[np.float64],
    *,
    threads: int = 0,
    max_histograms: int | None = None,
) -> Backend:
    """Return the backend for `device` and for codes of this kind.

    Parameters
    ----------
    device
        ``"cpu"``.
    codes
        Of the rows.
    labels, weights
        (rows,) float64; weights may be None.
    scores
        (outputs, rows) float64: the margins to begin with; kept and changed.
    threads
        Threads that work; 0 or less means all processors.
    max_histograms
        The most histograms kept at once; None: what fits in one GiB.
    """
    assert device == "cpu", device
    team = take_team(threads)
    if isinstance(codes, FilledCodes):
        from hornbeam.backends.filled import FilledBackend

        return FilledBackend(codes, labels, weights, scores, team)
    assert isinstance(codes, DenseCodes)
    from hornbeam.backends.dense import DenseRows
    from hornbeam.backends.histograms import HistogramBackend

    rows = DenseRows(codes, labels, weights, scores, team)
    return HistogramBackend(rows, codes.layout, rows.n_rows, team, max_histograms)
