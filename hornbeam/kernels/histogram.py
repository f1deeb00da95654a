"""Sums of gradients and hessians for each code of each column of a node.

A histogram is two rows of int64, gradients and hessians, over the cells of all
columns, one column after the other: a cell for each of its codes, the last one for
the missing if it has any. Integers make the sums exact in any order. Where rows are
counted it has a third row, their number.

Rows may hold the codes of several features in one column, as one number. Its sums are
then added up for each code of each of these features.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import BLOCK_ROWS, BYTE_CELLS
from hornbeam.kernels.sync import barrier, next_task, prefetch

__all__ = ["build_histograms", "take_from_parent"]

#: How many rows ahead codes and gradients are asked for (measured: 24 to 32 is best).
_AHEAD = 28
_LOW_HALF = 0xFFFFFFFF


def _start(codes, starts, j):
    """Return ``starts[j]``, the first packed cell of column j."""
    return starts[j]


@overload(_start)
def _overload_start(codes, starts, j):
    # Known when compiled it is a part of each address, which is a tenth faster.
    if codes.dtype == types.uint8:
        return lambda codes, starts, j: j * np.uint64(BYTE_CELLS)
    return lambda codes, starts, j: starts[j]


@inline
def _ask_for_row(codes, packed, row, width):
    """Prefetch a row's codes, both ends of it, and its gradients."""
    prefetch(codes, row * width)
    prefetch(codes, row * width + width - np.uint64(1))
    prefetch(packed, row)


@kernel
def _add_packed(codes, columns, all_columns, rows, begin, end, packed, starts, sums):
    """Add the packed pairs of ``rows[begin:end]`` to `sums`.

    Four rows at a time: while one add waits for its cell, the others go on. Unsigned
    indices spare the check for negative ones.
    """
    width = np.uint64(all_columns)
    count = np.uint64(columns.size)
    every = columns.size == all_columns
    whole = begin + (end - begin) // 4 * 4
    # Rows one after the other, as at the root, are fetched ahead by the processor.
    scattered = np.int64(rows[end - 1]) - np.int64(rows[begin]) != end - begin - 1
    for i in range(begin, whole, 4):
        if scattered:
            ahead = min(i + _AHEAD, whole - 4)
            _ask_for_row(codes, packed, np.uint64(rows[ahead]), width)
            _ask_for_row(codes, packed, np.uint64(rows[ahead + 1]), width)
            _ask_for_row(codes, packed, np.uint64(rows[ahead + 2]), width)
            _ask_for_row(codes, packed, np.uint64(rows[ahead + 3]), width)
        row_0 = np.uint64(rows[i])
        row_1 = np.uint64(rows[i + 1])
        row_2 = np.uint64(rows[i + 2])
        row_3 = np.uint64(rows[i + 3])
        value_0 = packed[row_0]
        value_1 = packed[row_1]
        value_2 = packed[row_2]
        value_3 = packed[row_3]
        start_0 = row_0 * width
        start_1 = row_1 * width
        start_2 = row_2 * width
        start_3 = row_3 * width
        if every:
            for f in range(count):
                cell = _start(codes, starts, f)
                sums[cell + np.uint64(codes[start_0 + f])] += value_0
                sums[cell + np.uint64(codes[start_1 + f])] += value_1
                sums[cell + np.uint64(codes[start_2 + f])] += value_2
                sums[cell + np.uint64(codes[start_3 + f])] += value_3
        else:
            for j in range(count):
                cell = _start(codes, starts, j)
                f = columns[j]
                sums[cell + np.uint64(codes[start_0 + f])] += value_0
                sums[cell + np.uint64(codes[start_1 + f])] += value_1
                sums[cell + np.uint64(codes[start_2 + f])] += value_2
                sums[cell + np.uint64(codes[start_3 + f])] += value_3
    for i in range(whole, end):
        row = np.uint64(rows[i])
        value = packed[row]
        for j in range(count):
            cell = _start(codes, starts, j)
            sums[cell + np.uint64(codes[row * width + columns[j]])] += value


@inline
def _flush(columns, table, spread, starts, sums, gradients, hessians):
    """Move the packed sums into the wide ones and leave zeros."""
    for j in range(columns.size):
        column = table[columns[j]]
        start = np.int64(starts[j])
        own = sums[start : start + column["codes"]]
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
                    cell = np.uint64(spread[i])
                    gradients[cell] += g
                    hessians[cell] += h
                    i += np.uint64(1)


@inline
def _clear(columns, table, spread, gradients, hessians):
    """Make zeros of all cells in which these columns are counted."""
    for j in range(columns.size):
        column = table[columns[j]]
        if column["width"] == 1:
            begin, end = column["cell"], column["cell"] + column["codes"]
            gradients[begin:end] = 0
            hessians[begin:end] = 0
        else:
            begin = column["spread"]
            for i in range(begin, begin + column["codes"] * column["width"]):
                gradients[np.int64(spread[i])] = 0
                hessians[np.int64(spread[i])] = 0


@inline
def _add_pairs(
    codes,
    columns,
    table,
    spread,
    rows,
    begin,
    end,
    packed,
    wide,
    gradients,
    hessians,
):
    """Add the pairs of ``rows[begin:end]`` straight to the wide sums.

    That is less to do for few rows, and the way of fine pairs, which do not pack.
    """
    width = np.uint64(table.size)
    for i in range(begin, end):
        row = np.uint64(rows[i])
        prefetch(codes, np.uint64(rows[min(i + _AHEAD, end - 1)]) * width)
        if packed.size > 0:
            g = packed[row] >> 32
            h = packed[row] & _LOW_HALF
        else:
            g = wide[0, row]
            h = wide[1, row]
        for j in range(columns.size):
            column = table[columns[j]]
            code = np.uint64(codes[row * width + columns[j]])
            if column["width"] == 1:
                cell = np.uint64(column["cell"]) + code
                gradients[cell] += g
                hessians[cell] += h
            else:
                cells = np.uint64(column["width"])
                first = np.uint64(column["spread"]) + code * cells
                for k in range(cells):
                    cell = np.uint64(spread[first + k])
                    gradients[cell] += g
                    hessians[cell] += h


@kernel
def build_histograms(
    thread_id,
    n_threads,
    sync,
    tasks,  # (tasks, 7) int64: slot, side, rows, columns, whether to add to the slot
    joins,  # (joins, 5) int64: slot, first and last slab, cells
    codes,  # (rows * columns,) uint8 or uint16, row-major
    columns,  # (chosen,) uint64: the columns to count, ascending
    table,  # (columns,) COLUMN_DTYPE
    spread,  # (some,) uint32: cells of the codes of columns that have several features
    rows,  # (2, rows) uint32: the rows of each node lie together, on one of two sides
    packed,  # (rows,) int64: coarse pairs; empty where the wide ones are used
    wide,  # (2, rows) int64: fine pairs; (2, 0) where the packed ones are used
    scratch,  # (members, cells of a task) int64, zeros in and out
    starts,  # (chosen,) uint64: where a task has each column in it; BYTE_CELLS a byte
    first,  # which part of a histogram the first of each pair is summed in
    histograms,  # (slots, parts, cells) int64: where nodes are summed
    slabs,  # (slabs, 2, cells) int64: the slots after these
):
    """Sum each task's rows into its slot; then add slabs up.

    A node of many rows is shared out: the first task sums into the node's own slot,
    the others into slabs of their own, which a join adds to the node.
    """
    task = next_task(sync, 0)
    while task < tasks.shape[0]:
        slot, side, begin, end = (
            tasks[task, 0],
            tasks[task, 1],
            tasks[task, 2],
            tasks[task, 3],
        )
        chosen = columns[tasks[task, 4] : tasks[task, 5]]
        own_starts = starts[tasks[task, 4] : tasks[task, 5]]
        own_rows = rows[side]
        place = slot - histograms.shape[0]
        gradients = slabs[place, 0] if place >= 0 else histograms[slot, first]
        hessians = slabs[place, 1] if place >= 0 else histograms[slot, first + 1]
        if not tasks[task, 6]:
            _clear(chosen, table, spread, gradients, hessians)
        last = chosen.size - 1
        cells = np.int64(own_starts[last]) + table[chosen[last]]["codes"]
        if packed.size == 0 or (end - begin) * chosen.size < cells:
            _add_pairs(
                codes,
                chosen,
                table,
                spread,
                own_rows,
                begin,
                end,
                packed,
                wide,
                gradients,
                hessians,
            )
        else:
            sums = scratch[thread_id]
            for block in range(begin, end, BLOCK_ROWS):
                stop = min(block + BLOCK_ROWS, end)
                _add_packed(
                    codes,
                    chosen,
                    table.size,
                    own_rows,
                    block,
                    stop,
                    packed,
                    own_starts,
                    sums,
                )
                _flush(chosen, table, spread, own_starts, sums, gradients, hessians)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    task = next_task(sync, 1)
    while task < joins.shape[0]:
        slot, low, high = joins[task, 0], joins[task, 1], joins[task, 2]
        begin, end = joins[task, 3], joins[task, 4]
        for part in range(2):
            own = histograms[slot, first + part, begin:end]
            for slab in range(low, high):
                other = slabs[slab - histograms.shape[0], part, begin:end]
                for c in range(own.size):
                    own[c] += other[c]
        task = next_task(sync, 1)


@kernel
def take_from_parent(
    histograms,  # (slots, parts, cells) int64, in and out
    parent,  # its slot
    child,
    begin,  # cells
    end,
):
    """Take a histogram from that of the node's parent: the sibling's is left."""
    for part in range(histograms.shape[1]):
        rest = histograms[parent, part, begin:end]
        own = histograms[child, part, begin:end]
        for c in range(own.size):
            rest[c] -= own[c]
