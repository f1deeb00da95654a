"""Features of few codes, several of them in one column of the rows.

Two features of two codes are one of four: a row is counted once in the histogram of
both, and what belongs to a code of either is added up when the sums are moved. Summing
rows takes most of the time to grow a tree, and so tables with many flags are learned
from several times as fast. By feature, where rows are parted, the codes stay apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.layout import RowColumns
from hornbeam.kernels.layout import COLUMN_DTYPE

__all__ = ["join_columns"]

#: The most codes of a column of several features: with more, moving sums costs what
#: summing fewer columns saves.
_MOST_CODES = 64
_MOST_FEATURES = 8


def join_columns(
    by_feature: NDArray[Any], offsets: NDArray[np.int64]
) -> tuple[NDArray[Any], RowColumns | None]:
    """Return the columns that rows are to hold, (columns, rows), and what is in them.

    Parameters
    ----------
    by_feature
        (features, rows): the codes.
    offsets
        (features + 1,) int64: the first cell of each feature in a histogram.
    """
    codes = np.diff(offsets)
    groups = _group(codes)
    if len(groups) == codes.size or by_feature.dtype != np.uint8:
        return by_feature, None
    columns = np.empty((len(groups), by_feature.shape[1]), np.uint8)
    table = np.zeros(len(groups), COLUMN_DTYPE)
    holding = np.empty(codes.size, np.int64)
    spread = np.empty(0, np.uint32)
    for place, group in enumerate(groups):
        holding[group] = place
        sizes = codes[group]
        *steps, n_codes = np.cumprod([1, *sizes])
        table[place] = n_codes, len(group), offsets[group[0]], spread.size
        columns[place] = 0
        for feature, step in zip(group, steps, strict=True):
            columns[place] += by_feature[feature] * np.uint8(step)
        if len(group) > 1:
            each = np.arange(n_codes)[:, np.newaxis] // steps % sizes
            cells = (offsets[group] + each).astype(np.uint32)
            spread = np.concatenate([spread, cells.ravel()])
    return columns, RowColumns(table, spread, holding)


def _group(codes: NDArray[np.int64]) -> list[list[int]]:
    """Return which features share a column; the largest come first to a place."""
    groups: list[list[int]] = []
    filled: list[int] = []
    for feature in np.argsort(-codes, kind="stable").tolist():
        own = int(codes[feature])
        for place, others in enumerate(filled):
            fits = own * others <= _MOST_CODES
            if fits and len(groups[place]) < _MOST_FEATURES:
                groups[place].append(feature)
                filled[place] *= own
                break
        else:
            groups.append([feature])
            filled.append(own)
    return groups
