"""The columns of a tree in groups whose histograms fit in local memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.layout import HistogramLayout
from hornbeam.errors import DeviceError, ErrorCode
from hornbeam.memory import in_words

__all__ = ["ColumnGroups", "group_columns"]

Ints = NDArray[np.int32]


class ColumnGroups(NamedTuple):
    """Groups of columns, as kernels take them.

    Attributes
    ----------
    groups
        (groups, 4): the first word and the end of those of each group, the first of its
        local bins, and their number.
    words
        (words, 5): a word of a row, and the first local bin of each column in it; -1:
        the tree does not use the column.
    bin_of_cell
        (local bins of all groups,) uint32: the histogram bin of each.
    most_cells
        The largest number of local bins of a group.
    """

    groups: Ints
    words: Ints
    bin_of_cell: NDArray[np.uint32]
    most_cells: int


def group_columns(
    layout: HistogramLayout,
    columns: NDArray[np.intp],
    bins_per_word: int,
    cells: int,
) -> ColumnGroups:
    """Return groups of these columns, ascending, of at most `cells` local bins each.

    A word is in one group if its columns fit in one, otherwise each column of it has
    a group of its own.

    Raises a `DeviceError` if a single column has more bins.
    """
    offsets = layout.offsets
    sizes = np.diff(offsets)
    widest = int(sizes[columns].max(initial=0))
    if widest > cells:
        raise DeviceError(
            f"a feature has {widest:,} bins, and the local memory of the device fits "
            f"{cells:,} ({in_words(16 * cells)}); lower max_bin, or train with "
            "device='cpu'",
            code=ErrorCode.DEVICE_NOT_SUPPORTED,
        )
    by_word: dict[int, list[int]] = {}
    for column in columns.tolist():
        by_word.setdefault(column // bins_per_word, []).append(column)
    parts: list[tuple[int, list[int]]] = []
    for word, own in by_word.items():
        fits = sizes[own].sum() <= cells
        parts += [(word, own)] if fits else [(word, [column]) for column in own]

    total = int(sizes[columns].sum())
    # Groups of about equal size take about equal time.
    fair = -(-total // -(-total // cells)) if total > 0 else cells
    groups: list[list[int]] = []
    words = np.full((len(parts), 5), -1, np.int32)
    of_cells: list[NDArray[np.int64]] = []
    n_cells = 0
    for number, (word, own) in enumerate(parts):
        size = int(sizes[own].sum())
        last = groups[-1] if groups else None
        if last is None or last[3] >= fair or last[3] + size > cells:
            last = [number, number, n_cells, 0]
            groups.append(last)
        words[number, 0] = word
        for column in own:
            words[number, 1 + column % bins_per_word] = last[3]
            of_cells.append(np.arange(offsets[column], offsets[column + 1]))
            last[3] += int(sizes[column])
            n_cells += int(sizes[column])
        last[1] = number + 1
    return ColumnGroups(
        np.array(groups, np.int32).reshape(-1, 4),
        words,
        np.concatenate(of_cells).astype(np.uint32),
        max(group[3] for group in groups),
    )
