"""Exclusive feature bundling: few columns of codes for many features.

Features that are never filled in the same row share a column (Ke et al. 2017, here
without any conflict), so that a table of few filled cells may become a dense one of
few columns. The columns' histograms hold those of the features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.binning.dense import to_row_major
from hornbeam.binning.layout import DenseBins, HistogramLayout, SparseBins
from hornbeam.kernels.bundling import bundle_features, write_bundles

__all__ = ["bundle"]

#: Columns are worth it up to this many cells for each filled one: a cell in a
#: histogram takes 0.3 ns and two codes, a filled one up to 20 ns, its row and a code.
_CELLS_PER_FILLED = 8
#: The scan of a histogram is part of each node's cost, that of the filled cells not:
#: there must be this many filled cells for each of a histogram.
_FILLED_PER_BIN = 2
#: Bundles that a feature is tried in.
_MOST_TRIES = 256


def bundle(filled: SparseBins, n_rows: int, n_threads: int = 1) -> DenseBins | None:
    """Return the codes of all cells in columns of bundles; None if not worth it.

    That depends on nothing but the numbers of rows, cells and bins, and on which cells
    are filled.
    """
    bins = filled.n_bins
    n_cells = filled.rows.size
    if _FILLED_PER_BIN * bins.sum() > n_cells:
        return None
    most = min(_CELLS_PER_FILLED * n_cells // n_rows, bins.size)
    # Columns of bytes, or of two bytes if it takes them.
    for most_codes in (255, 65_535):
        found = _find_bundles(filled, n_rows, most, most_codes)
        if found is not None:
            column_of, low, loads = found
            return _write_codes(filled, n_rows, column_of, low, loads, n_threads)
    return None


def _find_bundles(filled: SparseBins, n_rows: int, most: int, most_codes: int) -> Any:
    """Return each feature's column and first code, and (columns, 2) cells and codes.

    None if there would be more columns than `most`. The fullest features come first,
    so that this is soon known where features overlap.
    """
    bins = filled.n_bins
    order = np.argsort(-np.diff(filled.starts), kind="stable")
    marks = np.zeros((most, -(-n_rows // 64)), np.uint64)
    loads = np.zeros((most, 2), np.int64)
    column_of, low = np.empty_like(bins), np.empty_like(bins)
    count = bundle_features(
        order,
        filled.starts,
        filled.rows,
        bins,
        n_rows,
        most_codes,
        _MOST_TRIES,
        marks,
        loads,
        column_of,
        low,
    )
    return None if count < 0 else (column_of, low, loads[:count])


def _write_codes(
    filled: SparseBins,
    n_rows: int,
    column_of: Any,
    low: Any,
    loads: Any,
    n_threads: int,
) -> DenseBins:
    has_missing = loads[:, 0] < n_rows
    cells = loads[:, 1] + has_missing
    dtype = np.uint8 if cells.max() <= 256 else np.uint16
    codes: Any = np.empty((len(loads), n_rows), dtype)
    codes[:] = np.where(has_missing, loads[:, 1], 0)[:, None]
    write_bundles(filled.starts, filled.rows, filled.bins, column_of, low, codes)
    layout = HistogramLayout(
        filled.n_bins,
        np.concatenate([[0], np.cumsum(cells)]),
        np.zeros(filled.n_bins.size, bool),
        column_of,
        low,
    )
    return DenseBins(codes, to_row_major(codes, n_threads), layout)
