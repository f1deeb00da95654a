"""Gradient histograms of nodes.

A histogram is two rows of int64, gradients and hessians, over the bins of all columns,
one column after the other; the last bin of a column is that of missing values, if it
has any. Integers make the sums exact in any order. Where rows are counted, a third row
holds their numbers.

The sums of at most BLOCK_ROWS rows fit a packed histogram: one row of int64, the
gradient in the high half and the hessian in the low half. It takes the first row.

A stored column may pack the bin indices of several features into one number. Its sums
are then added to the bins of each of these features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bin_blocks import TURNED_COLUMNS, TURNED_ROWS, turn_bins
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import ADD, BLOCK_ROWS, BYTE_BINS, PACK
from hornbeam.kernels.sync import barrier, next_task_of_side, prefetch

__all__ = [
    "BinColumns",
    "HistogramBuffers",
    "HistogramSlots",
    "QuantisedGradients",
    "build_histograms",
    "by_feature_of",
    "take_from_parent",
]

#: How many rows ahead bins and gradients are prefetched.
_AHEAD = np.uint64(32)
_LINE_BYTES = 64
_ONE, _FOUR = np.uint64(1), np.uint64(4)
#: Rows whose bins are turned into columns, and are then added column by column: many
#: enough for four columns of sums to stay in the first-level cache meanwhile.
_BLOCK = 2048
#: Bytes between the ends of these columns, so that not all fall into the same lines of
#: a cache.
_GAP = 64
#: With fewer rows or columns it is faster to add row by row.
_FEWEST_ROWS, _FEWEST_COLUMNS = 512, 12
#: Rows between two prefetches of rows of the next block.
_STRETCH = np.uint64(64)
_LOW_HALF = 0xFFFFFFFF


class BinColumns(NamedTuple):
    """The bin indices of rows, and the columns that are summed.

    Attributes
    ----------
    narrow, wide
        (rows * columns,) uint8 and uint16: the bins row-major; one of both is empty.
    chosen
        (chosen,) uint64: the columns to sum, ascending.
    starts
        (chosen,) int64: the first packed bin of each in its task; those of bytes are
        BYTE_BINS apart.
    cells
        (chosen,) int64: the first histogram bin of each.
    table
        (columns,) COLUMN_DTYPE.
    histogram_bins
        (some,) uint32: the histogram bins of the values of packed columns.
    narrow_by_feature, wide_by_feature
        (columns, rows) uint8 and uint16: the bins column-major, where no column is
        packed; both empty: these are not in memory.
    """

    narrow: NDArray[np.uint8]
    wide: NDArray[np.uint16]
    chosen: NDArray[np.uint64]
    starts: NDArray[np.int64]
    cells: NDArray[np.int64]
    table: NDArray[Any]
    histogram_bins: NDArray[np.uint32]
    narrow_by_feature: NDArray[np.uint8]
    wide_by_feature: NDArray[np.uint16]


class QuantisedGradients(NamedTuple):
    """The gradients of rows in fixed point; one of the arrays is empty.

    Attributes
    ----------
    packed
        (rows,) int64: coarse gradient << 32 | coarse hessian.
    wide
        (2, rows) int64: fine gradients and hessians.
    """

    packed: NDArray[np.int64]
    wide: NDArray[np.int64]


class HistogramBuffers(NamedTuple):
    """Memory of the threads that add rows.

    Attributes
    ----------
    sums
        (threads, packed bins of a task) int64: zeros in and out.
    bins
        (threads, columns of a task or more, more than rows of a block) uint8: the bins
        of a block of rows, by column.
    gradients
        (threads, rows of a block) int64: their packed gradients.
    """

    sums: NDArray[np.int64]
    bins: NDArray[np.uint8]
    gradients: NDArray[np.int64]

    @classmethod
    def of(cls, threads: int, packed_bins: int, columns: int) -> HistogramBuffers:
        """Return buffers for tasks of so many packed bins and columns."""
        return cls(
            np.zeros((threads, packed_bins), np.int64),
            np.empty((threads, max(columns, TURNED_COLUMNS), _BLOCK + _GAP), np.uint8),
            np.empty((threads, _BLOCK), np.int64),
        )


class HistogramSlots(NamedTuple):
    """The histograms that are built.

    Attributes
    ----------
    histograms
        (slots, parts, bins) int64.
    slabs
        (slabs, 2, bins) int64: partial sums, numbered after the slots.
    first
        The part of a histogram that receives the gradients; the next one receives the
        hessians.
    """

    histograms: NDArray[np.int64]
    slabs: NDArray[np.int64]
    first: int


@inline
def by_feature_of(columns):
    """Return the bins of `BinColumns` column-major."""
    return Bins(columns.narrow_by_feature, columns.wide_by_feature)


@inline
def _start(starts, j):
    """Return the first packed bin of column j.

    Where `starts` is None, the first begins at 0, and others BYTE_BINS after the one
    before. This constant becomes part of each address, which is 10 % faster.
    """
    if starts is None:
        return j * np.uint64(BYTE_BINS)
    return np.uint64(starts[j])


@inline
def _prefetch_row(bins, columns, step, packed, row, width):
    """Prefetch a row's gradients, and its bins in every step-th column and the last."""
    last = np.uint64(columns.size - 1)
    j = np.uint64(0)
    while j < last:
        prefetch(bins, row * width + columns[j])
        j += step
    prefetch(bins, row * width + columns[last])
    prefetch(packed, row)


@inline
def _add_column(bins, sums, cell, f, starts, values):
    """Add the values of four rows, which begin at `starts`, in column f."""
    sums[cell + np.uint64(bins[starts[0] + f])] += values[0]
    sums[cell + np.uint64(bins[starts[1] + f])] += values[1]
    sums[cell + np.uint64(bins[starts[2] + f])] += values[2]
    sums[cell + np.uint64(bins[starts[3] + f])] += values[3]


@kernel
def _add_packed(bins, columns, all_columns, own_rows, packed, starts, sums):
    """Add the packed gradients of rows to `sums`; `bins` are of one of both types.

    Four rows at a time, so that the additions of one row overlap with the memory
    latency of the others. Unsigned indices avoid the check for negative ones.
    """
    width = np.uint64(all_columns)
    count = np.uint64(columns.size)
    first = columns[0]
    span = columns[count - np.uint64(1)] - first + np.uint64(1)
    size = np.uint64(own_rows.size)
    whole_rows = size // _FOUR * _FOUR
    whole_columns = count // _FOUR * _FOUR if span == count else np.uint64(0)

    # The processor itself prefetches what is consecutive, such as the root's rows.
    last_row = np.int64(own_rows[size - np.uint64(1)])
    consecutive = last_row - np.int64(own_rows[0]) == own_rows.size - 1
    to_prefetch = np.uint64(0) if consecutive and width <= span + span else size
    # About one column of each cache line.
    step = max(np.uint64(_LINE_BYTES // bins.itemsize) * count // span, np.uint64(1))
    for i in range(min(_AHEAD, to_prefetch)):
        _prefetch_row(bins, columns, step, packed, np.uint64(own_rows[i]), width)

    for i in range(np.uint64(0), whole_rows, _FOUR):
        for ahead in range(i + _AHEAD, min(i + _AHEAD + _FOUR, to_prefetch)):
            row = np.uint64(own_rows[ahead])
            _prefetch_row(bins, columns, step, packed, row, width)
        row_0 = np.uint64(own_rows[i])
        row_1 = np.uint64(own_rows[i + np.uint64(1)])
        row_2 = np.uint64(own_rows[i + np.uint64(2)])
        row_3 = np.uint64(own_rows[i + np.uint64(3)])
        values = packed[row_0], packed[row_1], packed[row_2], packed[row_3]
        bases = row_0 * width, row_1 * width, row_2 * width, row_3 * width
        for outer in range(np.uint64(0), whole_columns, _FOUR):
            for inner in range(_FOUR):  # which LLVM unrolls
                j = outer + inner
                cell = _start(starts, j)
                _add_column(bins, sums, cell, first + j, bases, values)
        for j in range(whole_columns, count):
            cell = _start(starts, j)
            _add_column(bins, sums, cell, columns[j], bases, values)
    for i in range(whole_rows, size):
        row = np.uint64(own_rows[i])
        value = packed[row]
        for j in range(count):
            cell = _start(starts, j)
            sums[cell + np.uint64(bins[row * width + columns[j]])] += value


@inline
def _are_consecutive(rows):
    """Return whether each row is the one after the row before it."""
    first = np.int64(rows[0])
    if np.int64(rows[-1]) - first != rows.size - 1:
        return False
    differs = np.uint32(0)
    for i in range(rows.size):
        differs |= rows[i] ^ np.uint32(first + i)
    return differs == 0


@inline
def _add_four_columns(bins, sums, values, begin, end):
    """Add the values of rows in four columns."""
    for i in range(begin, end):
        value = values[i]
        sums[0][np.uint64(bins[0][i])] += value
        sums[1][np.uint64(bins[1][i])] += value
        sums[2][np.uint64(bins[2][i])] += value
        sums[3][np.uint64(bins[3][i])] += value


@kernel
def _add_by_column(
    by_column,  # (some columns, rows) uint8 or uint16
    first,  # the column of the table that is its first
    begin,  # the first row of it that is added
    values,  # (added,) int64: the packed gradients of the rows
    chosen,
    starts,
    sums,
    columns,
    packed,
    ahead,  # (some,) uint32: rows that are added next, whose bins are bytes
):
    """Add the values of consecutive rows of bins by column to `sums`.

    Four columns at a time, whose sums stay in the first-level cache. Meanwhile the
    rows `ahead` are prefetched.
    """
    bins, end = columns.narrow, begin + values.size
    size = np.uint64(values.size)
    stretches = size // _STRETCH
    whole = chosen.size // 4 * 4
    width, line = np.uint64(columns.table.size), np.uint64(_LINE_BYTES)
    share = np.uint64(ahead.size) // max(stretches * np.uint64(whole // 4), _ONE) + _ONE
    n_ahead, done = np.uint64(ahead.size), np.uint64(0)
    for j in range(0, whole, 4):
        own_bins = (
            by_column[chosen[j] - first, begin:end],
            by_column[chosen[j + 1] - first, begin:end],
            by_column[chosen[j + 2] - first, begin:end],
            by_column[chosen[j + 3] - first, begin:end],
        )
        own_sums = (
            sums[starts[j] :],
            sums[starts[j + 1] :],
            sums[starts[j + 2] :],
            sums[starts[j + 3] :],
        )
        for stretch in range(stretches):
            next_done = min(done + share, n_ahead)
            for i in range(done, next_done):
                row = np.uint64(ahead[i])
                _prefetch_row(bins, chosen, line, packed, row, width)
            done = next_done
            start = stretch * _STRETCH
            _add_four_columns(own_bins, own_sums, values, start, start + _STRETCH)
        _add_four_columns(own_bins, own_sums, values, stretches * _STRETCH, size)
    for j in range(whole, chosen.size):
        single_bins = by_column[chosen[j] - first, begin:end]
        single_sums = sums[starts[j] :]
        for i in range(size):
            single_sums[np.uint64(single_bins[i])] += values[i]


@inline
def _first_turned(columns, chosen):
    """Return the first column that is turned, at the least 16 before the last."""
    return min(chosen[0], np.uint64(columns.table.size - TURNED_COLUMNS))


@kernel
def _turn_block(columns, chosen, rows, packed, is_prefetched, by_column, values):
    """Write the bins of a block of rows by column, and their packed gradients."""
    bins, first = columns.narrow, _first_turned(columns, chosen)
    n_turned = max(chosen.size, TURNED_COLUMNS)
    width, line = np.uint64(columns.table.size), np.uint64(_LINE_BYTES)
    done = rows.size if is_prefetched else 0
    for i in range(0, rows.size, TURNED_ROWS):
        ahead = min(i + 3 * TURNED_ROWS, rows.size)
        for k in range(done, ahead):
            _prefetch_row(bins, chosen, line, packed, np.uint64(rows[k]), width)
        done = max(done, ahead)
        # The last rows and columns overlap with those before them.
        begin = min(i, rows.size - TURNED_ROWS)
        for j in range(0, n_turned, TURNED_COLUMNS):
            own = min(j, n_turned - TURNED_COLUMNS)
            column = first + np.uint64(own)
            turn_bins(bins, rows, begin, width, column, by_column, own)
        for k in range(np.uint64(begin), np.uint64(begin + TURNED_ROWS)):
            values[k] = packed[np.uint64(rows[k])]


@kernel
def _add_turned(columns, chosen, rows, packed, starts, sums, by_column, values):
    """Add the packed gradients of rows to `sums`, in blocks turned into columns."""
    size = -(-rows.size // -(-rows.size // _BLOCK))
    for begin in range(0, rows.size, size):
        own = rows[begin : begin + size]
        ahead = rows[begin + own.size : begin + own.size + size]
        _turn_block(columns, chosen, own, packed, begin > 0, by_column, values)
        _add_by_column(
            by_column,
            _first_turned(columns, chosen),
            0,
            values[: own.size],
            chosen,
            starts,
            sums,
            columns,
            packed,
            ahead,
        )


@inline
def _can_turn(columns, chosen, rows):
    """Return whether it is faster to turn bins, which are bytes, into columns."""
    span = chosen[chosen.size - 1] - chosen[0] + np.uint64(1)
    return (
        columns.wide.size == 0
        and rows.size >= _FEWEST_ROWS
        and chosen.size >= _FEWEST_COLUMNS
        and columns.table.size >= TURNED_COLUMNS
        and span == np.uint64(chosen.size)
    )


@kernel
def _add_consecutive(by_column, columns, chosen, rows, packed, starts, sums):
    """Add the packed gradients of consecutive rows, whose bins are also by column."""
    begin = np.int64(rows[0])
    _add_by_column(
        by_column,
        np.uint64(0),
        begin,
        packed[begin : begin + rows.size],
        chosen,
        starts,
        sums,
        columns,
        packed,
        rows[:0],
    )


@kernel
def _add_rows(columns, chosen, rows, packed, starts, apart, sums, by_column, values):
    """Add the packed gradients of rows to `sums`, in the fastest way.

    `apart` is whether `starts` are BYTE_BINS apart where bins are bytes.
    """
    narrow, wide, width = columns.narrow, columns.wide, columns.table.size
    by_feature = by_feature_of(columns)
    is_there = by_feature.narrow.size + by_feature.wide.size > 0
    if is_there and columns.histogram_bins.size == 0 and _are_consecutive(rows):
        if wide.size > 0:
            _add_consecutive(
                by_feature.wide, columns, chosen, rows, packed, starts, sums
            )
        else:
            _add_consecutive(
                by_feature.narrow, columns, chosen, rows, packed, starts, sums
            )
    elif _can_turn(columns, chosen, rows):
        _add_turned(columns, chosen, rows, packed, starts, sums, by_column, values)
    elif wide.size > 0:
        _add_packed(wide, chosen, width, rows, packed, starts, sums)
    elif apart:
        own_sums = sums[starts[0] :]
        _add_packed(narrow, chosen, width, rows, packed, None, own_sums)
    else:
        _add_packed(narrow, chosen, width, rows, packed, starts, sums)


@inline
def _flush(columns, table, histogram_bins, starts, sums, gradients, hessians):
    """Add the packed sums to the wide ones and reset them to zero."""
    for j in range(columns.size):
        column = table[columns[j]]
        own = sums[starts[j] : starts[j] + column["n_bins"]]
        if column["width"] == 1:
            own_gradients = gradients[column["cell"] :]
            own_hessians = hessians[column["cell"] :]
            for b in range(own.size):
                own_gradients[b] += own[b] >> 32
                own_hessians[b] += own[b] & _LOW_HALF
                own[b] = 0
        else:
            i = np.uint64(column["spread"])
            for b in range(own.size):
                g = own[b] >> 32
                h = own[b] & _LOW_HALF
                own[b] = 0
                for _ in range(column["width"]):
                    cell = np.uint64(histogram_bins[i])
                    gradients[cell] += g
                    hessians[cell] += h
                    i += np.uint64(1)


@inline
def _clear(columns, table, histogram_bins, gradients, hessians):
    """Set all histogram bins of these columns to zero."""
    for j in range(columns.size):
        column = table[columns[j]]
        if column["width"] == 1:
            begin, end = column["cell"], column["cell"] + column["n_bins"]
            gradients[begin:end] = 0
            hessians[begin:end] = 0
        else:
            begin = column["spread"]
            for i in range(begin, begin + column["n_bins"] * column["width"]):
                gradients[np.int64(histogram_bins[i])] = 0
                hessians[np.int64(histogram_bins[i])] = 0


@kernel
def _add_wide(bins, columns, chosen, rows, pairs, gradients, hessians):
    table, histogram_bins = columns.table, columns.histogram_bins
    packed, wide = pairs.packed, pairs.wide
    width = np.uint64(table.size)
    for i in range(np.uint64(rows.size)):
        row = np.uint64(rows[i])
        ahead = min(i + _AHEAD, np.uint64(rows.size - 1))
        prefetch(bins, np.uint64(rows[ahead]) * width)
        if packed.size > 0:
            g = packed[row] >> 32
            h = packed[row] & _LOW_HALF
        else:
            g = wide[0, row]
            h = wide[1, row]
        for j in range(chosen.size):
            column = table[chosen[j]]
            value = np.uint64(bins[row * width + chosen[j]])
            if column["width"] == 1:
                cell = np.uint64(column["cell"]) + value
                gradients[cell] += g
                hessians[cell] += h
            else:
                cells = np.uint64(column["width"])
                first = np.uint64(column["spread"]) + value * cells
                for k in range(cells):
                    cell = np.uint64(histogram_bins[first + k])
                    gradients[cell] += g
                    hessians[cell] += h


@inline
def _add_directly(columns, chosen, rows, pairs, gradients, hessians):
    """Add the gradients of rows directly to the wide sums.

    This is less work for few rows, and the only way for fine gradients.
    """
    if columns.wide.size > 0:
        _add_wide(columns.wide, columns, chosen, rows, pairs, gradients, hessians)
    else:
        _add_wide(columns.narrow, columns, chosen, rows, pairs, gradients, hessians)


@kernel
def build_histograms(
    thread_id,
    n_threads,
    sync,
    tasks,  # (tasks, 7) int64: slot, side, rows, columns, REPLACE, ADD or PACK
    joins,  # (joins, 6) int64: slot, first slab and end, first bin and end, parts
    columns,  # BinColumns
    rows,  # (2, rows) uint32: the rows of each node are contiguous, in one of two sides
    pairs,  # QuantisedGradients
    buffers,  # HistogramBuffers
    slots,  # HistogramSlots, in and out
):
    """Add each task's rows to its slot; then add the slabs to the slots.

    A node of many rows has several tasks: the first one adds to the node's slot, each
    other one to a slab of its own, which a join adds to the slot.
    """
    histograms, slabs, first = slots
    table, histogram_bins = columns.table, columns.histogram_bins
    sums = buffers.sums[thread_id]
    by_column, values = buffers.bins[thread_id], buffers.gradients[thread_id]
    task = next_task_of_side(sync, 0, thread_id, tasks.shape[0])
    while task < tasks.shape[0]:
        slot, side, begin, end = (
            tasks[task, 0],
            tasks[task, 1],
            tasks[task, 2],
            tasks[task, 3],
        )
        chosen = columns.chosen[tasks[task, 4] : tasks[task, 5]]
        own_starts = columns.starts[tasks[task, 4] : tasks[task, 5]]
        own_rows = rows[side]
        place = slot - histograms.shape[0]
        gradients = slabs[place, 0] if place >= 0 else histograms[slot, first]
        hessians = slabs[place, 1] if place >= 0 else histograms[slot, first + 1]
        if tasks[task, 6] == PACK:
            own_cells = columns.cells[tasks[task, 4] : tasks[task, 5]]
            for j in range(chosen.size):
                stop = own_cells[j] + table[chosen[j]]["n_bins"]
                gradients[own_cells[j] : stop] = 0
            if end > begin:
                _add_rows(
                    columns,
                    chosen,
                    own_rows[begin:end],
                    pairs.packed,
                    own_cells,
                    False,
                    gradients,
                    by_column,
                    values,
                )
            task = next_task_of_side(sync, 0, thread_id, tasks.shape[0])
            continue
        if tasks[task, 6] != ADD:
            _clear(chosen, table, histogram_bins, gradients, hessians)
        last = chosen.size - 1
        cells = own_starts[last] - own_starts[0]
        cells += table[chosen[last]]["n_bins"]
        # A direct addition costs about four times an addition to packed bins.
        if pairs.packed.size == 0 or 4 * (end - begin) * chosen.size < cells:
            _add_directly(
                columns, chosen, own_rows[begin:end], pairs, gradients, hessians
            )
        else:
            for block in range(begin, end, BLOCK_ROWS):
                stop = min(block + BLOCK_ROWS, end)
                _add_rows(
                    columns,
                    chosen,
                    own_rows[block:stop],
                    pairs.packed,
                    own_starts,
                    True,
                    sums,
                    by_column,
                    values,
                )
                _flush(
                    chosen,
                    table,
                    histogram_bins,
                    own_starts,
                    sums,
                    gradients,
                    hessians,
                )
        task = next_task_of_side(sync, 0, thread_id, tasks.shape[0])
    barrier(sync, n_threads)
    task = next_task_of_side(sync, 1, thread_id, joins.shape[0])
    while task < joins.shape[0]:
        slot, low, high = joins[task, 0], joins[task, 1], joins[task, 2]
        begin, end = joins[task, 3], joins[task, 4]
        for part in range(joins[task, 5]):
            own = histograms[slot, first + part, begin:end]
            for slab in range(low, high):
                other = slabs[slab - histograms.shape[0], part, begin:end]
                for c in range(own.size):
                    own[c] += other[c]
        task = next_task_of_side(sync, 1, thread_id, joins.shape[0])


@kernel
def take_from_parent(
    histograms,  # (slots, parts, bins) int64, in and out
    parent,  # slots
    child,
    begin,  # bins
    end,
):
    """Subtract a node's histogram from its parent's, which leaves the sibling's."""
    for part in range(histograms.shape[1]):
        rest = histograms[parent, part, begin:end]
        own = histograms[child, part, begin:end]
        for c in range(own.size):
            rest[c] -= own[c]
