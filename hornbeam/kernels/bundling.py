"""Exclusive feature bundling (EFB): features without common rows share a column."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel

__all__ = ["bundle_features", "write_bundles"]


@inline
def _overlaps(rows, marks):
    """Return whether the bit of any of the rows is set."""
    for i in range(rows.size):
        row = np.uint64(rows[i])
        word = marks[row >> np.uint64(6)]
        if (word >> (row & np.uint64(63))) & np.uint64(1) != 0:
            return True
    return False


@kernel
def bundle_features(
    order,  # (features,) int64: the features, in the order of bundling
    starts,  # (features + 1,) int64: first entry of each feature
    rows,  # (entries,) uint32: the rows of the entries
    bins,  # (features,) int64
    n_rows,
    most_bins,  # bins of a column with more than one feature
    most_tries,  # bundles that are tried for a feature
    marks,  # (most bundles, rows / 64) uint64, zeros in, scratch: rows with entries
    loads,  # (most bundles, 2) int64, zeros in; out: entries, bins
    column_of,  # (features,) int64, out
    low,  # (features,) int64, out: the bundle's index of the first bin
):
    """Assign each feature to the first bundle that it fits in; return their number.

    A feature fits if no row has an entry of the feature and one of the bundle. Returns
    -1 if there would be more bundles than `marks` has rows.
    """
    count = np.int64(0)
    for j in range(order.size):
        feature = order[j]
        own = rows[starts[feature] : starts[feature + 1]]
        tries = np.int64(0)
        found = np.int64(-1)
        for bundle in range(count):
            if loads[bundle, 0] + own.size > n_rows:
                continue
            if loads[bundle, 1] + bins[feature] > most_bins:
                continue
            if not _overlaps(own, marks[bundle]):
                found = bundle
                break
            tries += 1
            if tries == most_tries:
                break
        if found < 0:
            if count == marks.shape[0]:
                return np.int64(-1)
            found = count
            count += 1
        column_of[feature] = found
        low[feature] = loads[found, 1]
        loads[found, 0] += own.size
        loads[found, 1] += bins[feature]
        own_marks = marks[found]
        for i in range(own.size):
            row = np.uint64(own[i])
            bit = np.uint64(1) << (row & np.uint64(63))
            own_marks[row >> np.uint64(6)] |= bit
    return count


@kernel
def write_bundles(
    starts,  # (features + 1,) int64: first entry of each feature
    rows,  # (entries,) uint32
    bins,  # (entries,) uint8 or uint16
    column_of,  # (features,) int64
    low,  # (features,) int64
    bundled,  # (columns, rows) uint8 or uint16, in and out
):
    """Write the bundled bins of the stored entries."""
    for feature in range(starts.size - 1):
        column = bundled[column_of[feature]]
        for i in range(starts[feature], starts[feature + 1]):
            column[np.uint64(rows[i])] = low[feature] + np.int64(bins[i])
