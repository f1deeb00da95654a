"""Features that are never filled in the same row share a column of codes."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel

__all__ = ["bundle_features", "write_bundles"]


@inline
def _overlaps(rows, marks):
    """Return whether any of the rows is marked; each has a bit."""
    for i in range(rows.size):
        row = np.uint64(rows[i])
        word = marks[row >> np.uint64(6)]
        if (word >> (row & np.uint64(63))) & np.uint64(1) != 0:
            return True
    return False


@kernel
def bundle_features(
    order,  # (features,) int64: the features, in the order to take them in
    starts,  # (features + 1,) int64: first cell of each feature
    rows,  # (cells,) uint32: the rows of the cells
    bins,  # (features,) int64
    n_rows,
    most_codes,  # of a column with more than one feature
    most_tries,  # bundles that a feature is tried in
    marks,  # (most bundles, rows / 64) uint64, zeros in, scratch: filled rows
    loads,  # (most bundles, 2) int64, zeros in; out: filled cells, codes
    column_of,  # (features,) int64, out
    low,  # (features,) int64, out: the code of the first bin
):
    """Put each feature into the first bundle that it fits in; return how many.

    A feature fits if no row is filled in it and in the bundle. -1: there would be
    more than there is room for.
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
            if loads[bundle, 1] + bins[feature] > most_codes:
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
    starts,  # (features + 1,) int64: first cell of each feature
    rows,  # (cells,) uint32
    bins,  # (cells,) uint8 or uint16
    column_of,  # (features,) int64
    low,  # (features,) int64
    codes,  # (columns, rows) uint8 or uint16, in and out
):
    """Write the codes of the filled cells."""
    for feature in range(starts.size - 1):
        column = codes[column_of[feature]]
        for i in range(starts[feature], starts[feature + 1]):
            column[np.uint64(rows[i])] = low[feature] + np.int64(bins[i])
