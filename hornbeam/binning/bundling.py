"""Exclusive feature bundling: few dense columns of bins for many sparse features.

Features of which no two are stored in the same row share a column (Ke et al. 2017, with
no conflicts allowed), so that a sparse table can become a dense one of few columns. The
histogram of a column holds the histograms of its features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.binning.dense import to_row_major
from hornbeam.binning.layout import DenseBins, HistogramLayout, SparseBins
from hornbeam.kernels.bundling import bundle_features, write_bundles

__all__ = ["bundle"]

#: Most dense values per stored entry: adding a dense value to a histogram takes 0.3 ns
#: and two bins of memory, an entry up to 20 ns and the memory of its row and bin.
_DENSE_PER_ENTRY = 8
#: Least stored entries per histogram bin: each node scans a histogram of dense columns
#: whole, but only the entries of a sparse one.
_ENTRIES_PER_BIN = 2
#: Most bundles that a feature is tried in.
_MAX_TRIES = 256


def bundle(entries: SparseBins, n_rows: int, n_threads: int = 1) -> DenseBins | None:
    """Return dense columns of bundled features; None if they would be slower.

    The choice depends only on the number of rows, entries and bins, and on which
    entries are stored.
    """
    n_bins = entries.n_bins
    n_entries = entries.rows.size
    if _ENTRIES_PER_BIN * n_bins.sum() > n_entries:
        return None
    max_columns = min(_DENSE_PER_ENTRY * n_entries // n_rows, n_bins.size)
    # Try columns of uint8, then of uint16.
    for max_bins in (255, 65_535):
        found = _find_bundles(entries, n_rows, max_columns, max_bins)
        if found is not None:
            column_of, first_bin, loads = found
            return _write_columns(
                entries, n_rows, column_of, first_bin, loads, n_threads
            )
    return None


def _find_bundles(
    entries: SparseBins, n_rows: int, max_columns: int, max_bins: int
) -> Any:
    """Return each feature's column and first bin, and (columns, 2) entries and bins.

    None if there would be more than `max_columns`. Features with the most entries come
    first, so that features that overlap are found out early.
    """
    n_bins = entries.n_bins
    order = np.argsort(-np.diff(entries.starts), kind="stable")
    marks = np.zeros((max_columns, -(-n_rows // 64)), np.uint64)
    loads = np.zeros((max_columns, 2), np.int64)
    column_of, first_bin = np.empty_like(n_bins), np.empty_like(n_bins)
    count = bundle_features(
        order,
        entries.starts,
        entries.rows,
        n_bins,
        n_rows,
        max_bins,
        _MAX_TRIES,
        marks,
        loads,
        column_of,
        first_bin,
    )
    return None if count < 0 else (column_of, first_bin, loads[:count])


def _write_columns(
    entries: SparseBins,
    n_rows: int,
    column_of: Any,
    first_bin: Any,
    loads: Any,
    n_threads: int,
) -> DenseBins:
    has_missing = loads[:, 0] < n_rows
    n_bins = loads[:, 1] + has_missing
    dtype = np.uint8 if n_bins.max() <= 256 else np.uint16
    bins: Any = np.empty((len(loads), n_rows), dtype)
    bins[:] = np.where(has_missing, loads[:, 1], 0)[:, None]
    write_bundles(
        entries.starts, entries.rows, entries.bins, column_of, first_bin, bins
    )
    layout = HistogramLayout(
        entries.n_bins,
        np.concatenate([[0], np.cumsum(n_bins)]),
        np.zeros(entries.n_bins.size, bool),
        column_of,
        first_bin,
    )
    return DenseBins(bins, to_row_major(bins, n_threads), layout)
