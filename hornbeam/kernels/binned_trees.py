"""Sums of leaf values for many rows, by trees that compare bin indices.

Each value is binned once by the thresholds of the trees: a number of one byte. The
splits that most rows reach are then evaluated for all rows at once. Which rows go right
at a split is computed once for all trees that have the split, as a set of rows, and a
tree divides sets by a few instructions for hundreds of rows (see `row_sets`). From
there on, rows descend one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bits import count_bits, lowest_bit
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.margins import add_to_margins
from hornbeam.kernels.row_sets import (
    SET_ROWS,
    SET_WORDS,
    mark_above,
    move_rows,
    write_numbers,
)
from hornbeam.kernels.sync import next_task

__all__ = [
    "BIN_BITS",
    "COLUMNS_TOGETHER",
    "LEAF_BIN",
    "MOST_CUTS",
    "MOST_SLOTS",
    "SLOT_BITS",
    "TOP_DTYPE",
    "BinnedScratch",
    "Entries",
    "TopScratch",
    "add_binned_trees",
    "add_binned_trees_to_entries",
    "bin_rows",
    "choose_top_splits",
    "reach_nodes",
    "reach_slots",
]

#: The most thresholds of one feature; there is one more bin, and a bin is one byte.
MOST_CUTS = 255
#: A split is the number of its bin column, and in so many bits below it the greatest
#: bin that goes left. At a leaf that is `LEAF_BIN`, which no bin exceeds.
BIN_BITS = 8
LEAF_BIN = MOST_CUTS

#: Columns that are read together: the values of a row share cache lines.
COLUMNS_TOGETHER = 16

#: Rows that have gone through the same splits are in one of so many slots: the number
#: of a slot is one byte.
SLOT_BITS = 8
MOST_SLOTS = 1 << SLOT_BITS
#: Splits that less than this share of a tree's rows reach are chosen last.
_LEAST_SHARE = 1e-6
#: With so many more levels below the slots, rows that reach a leaf leave the loop.
_FEW_LEVELS = 4

_LEAF = np.uint8(LEAF_BIN)
_SLOT = np.uint64(MOST_SLOTS - 1)
_COLUMN = np.uint64((1 << (32 - BIN_BITS)) - 1)
_SHIFT = np.uint64(BIN_BITS)
_LEFT = np.uint64(32)
_ROWS = np.uint64(SET_ROWS)

#: A tree: the moves at its top splits, and its slots.
TOP_DTYPE = np.dtype(
    [
        ("first_move", np.int64),
        ("end_move", np.int64),
        ("first_slot", np.int64),
        ("end_slot", np.int64),
        ("levels", np.int64),  # below the slots
        # A move is a level of a symmetric tree, and a digit of the slot.
        ("is_symmetric", np.int64),
    ]
)


class Entries(NamedTuple):
    """The stored entries of sparse rows; other values are missing.

    Attributes
    ----------
    pointers
        (rows + 1,) int64: the first entry of each row.
    features
        (entries,) int32.
    values
        (entries,) of the type of the thresholds; NaN is missing.
    columns
        (runs, features, 2) int32: the columns of each feature in a run; -1: none.
    """

    pointers: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[Any]
    columns: NDArray[np.int32]


class TopScratch(NamedTuple):
    """Scratch arrays of `choose_top_splits`, by slot in the order of their creation.

    Attributes
    ----------
    held
        (MOST_SLOTS,) int64: the node in each slot.
    shares
        (MOST_SLOTS,) float64: the share of the rows.
    levels
        (MOST_SLOTS,) int64: the number of splits that the rows have gone through.
    numbers
        (MOST_SLOTS,) int64: the number of the slot.
    is_free
        (MOST_SLOTS,) bool: the numbers that no slot has.
    waiting
        (levels of the deepest tree + 1, 2) int64: nodes, and their levels.
    """

    held: NDArray[np.int64]
    shares: NDArray[np.float64]
    levels: NDArray[np.int64]
    numbers: NDArray[np.int64]
    is_free: NDArray[np.bool_]
    waiting: NDArray[np.int64]


class BinnedScratch(NamedTuple):
    """Scratch arrays of `add_binned_trees`, each with one part per thread.

    Attributes
    ----------
    values
        (threads, COLUMNS_TOGETHER, SET_ROWS) of the type of the data.
    bins
        (threads, most columns of a run * SET_ROWS) uint8.
    tests
        (threads, most tests of a run + 1, SET_WORDS) uint64.
    sets, digits
        (threads, MOST_SLOTS, SET_WORDS) and (threads, SLOT_BITS, SET_WORDS) uint64.
    slots
        (threads, SET_ROWS) uint8.
    places, rows
        (threads, SET_ROWS) uint32.
    nodes
        (threads, SET_ROWS) uint64.
    """

    values: NDArray[Any]
    bins: NDArray[np.uint8]
    tests: NDArray[np.uint64]
    sets: NDArray[np.uint64]
    digits: NDArray[np.uint64]
    slots: NDArray[np.uint8]
    places: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    nodes: NDArray[np.uint64]


@kernel
def _levels_below(nodes, node, waiting):
    """Return the number of splits on the longest path from a node to a leaf."""
    waiting[0, 0], waiting[0, 1] = node, 0
    count = 1
    levels = 0
    while count > 0:
        count -= 1
        node, level = waiting[count, 0], waiting[count, 1]
        left = np.int64(nodes[node] >> _LEFT)
        if left == node:
            levels = max(levels, level)
            continue
        for child in range(left, left + 2):
            waiting[count, 0], waiting[count, 1] = child, level + 1
            count += 1
    return levels


@inline
def _nearest_free(number, level, digits, is_free):
    """Return the free number with the fewest digits that differ from `number`."""
    for k in range(digits):
        near = number ^ (1 << ((level + k) % digits))
        if is_free[near]:
            return near
    nearest, least = 0, digits + 1
    for other in range(1 << digits):
        distance = count_bits(np.uint64(other ^ number))
        if is_free[other] and distance < least:
            nearest, least = other, distance
    return nearest


@inline
def _take_levels(root, digits, nodes, splits, own_slots):
    """Write the splits of the first levels of a symmetric tree, and its slots."""
    first = np.int64(root)
    for level in range(digits):
        splits[level] = first
        first = np.int64(nodes[first] >> _LEFT)
    for number in range(own_slots.size):
        node = np.int64(root)
        for level in range(digits):
            node = np.int64(nodes[node] >> _LEFT) + ((number >> level) & 1)
        own_slots[number] = node


@kernel
def choose_top_splits(
    roots,  # (trees, 5) int32, see `hornbeam.forest.layout.Layout`
    nodes,  # (nodes,) uint64: the left child in the upper half; a leaf is its own
    cover,  # (nodes,) float32: the weight of the rows in a node
    trees,  # (trees,) TOP_DTYPE, out
    splits,  # (moves,) int64, out: the split of each move; -1: all rows of a slot
    moves,  # (moves,) uint64, out: digit, source and target, SLOT_BITS each
    slots,  # (slots,) uint32, out: the node in each slot
    scratch,  # TopScratch
):
    """Choose the splits of each tree that are evaluated for all rows, and the slots.

    All rows start in slot 0. At each split, those that go left stay in their slot, and
    the others move to an empty one. A move changes one digit of the number of the slot;
    for each further digit that differs, the rows move from their slot to itself.

    In a symmetric tree the sets of the rows that go right at the levels are the digits.
    """
    held, shares, levels, numbers, is_free, waiting = scratch
    n_moves = 0
    n_slots = 0
    for t in range(roots.shape[0]):
        trees[t]["first_move"], trees[t]["first_slot"] = n_moves, n_slots
        end = roots[t + 1, 0] if t + 1 < roots.shape[0] else nodes.size
        n_leaves = (end - roots[t, 0] + 1) // 2
        digits = 0
        while digits < SLOT_BITS and (1 << digits) < n_leaves:
            digits += 1
        own_slots = slots[n_slots : n_slots + (1 << digits)]
        trees[t]["is_symmetric"] = roots[t, 4]
        if roots[t, 4]:
            _take_levels(roots[t, 0], digits, nodes, splits[n_moves:], own_slots)
            for level in range(digits):
                moves[n_moves + level] = 0
            n_moves += digits
            n_slots += own_slots.size
            trees[t]["end_move"], trees[t]["end_slot"] = n_moves, n_slots
            trees[t]["levels"] = roots[t, 1] - digits
            continue
        for number in range(own_slots.size):
            own_slots[number] = roots[t, 0]
            is_free[number] = number > 0
        held[0], shares[0], levels[0], numbers[0] = roots[t, 0], 1.0, 0, 0
        count = 1
        least_share = 1.0
        has_splits = True
        while has_splits and count < own_slots.size:
            has_splits = False
            for slot in range(count):
                node = held[slot]
                left = np.int64(nodes[node] >> _LEFT)
                if left == node or count == own_slots.size:
                    continue
                has_splits = True
                if shares[slot] < least_share:
                    continue
                source = numbers[slot]
                target = _nearest_free(source, levels[slot], digits, is_free)
                is_free[target] = False
                numbers[count] = target
                splits[n_moves] = node
                changed = np.uint64(source ^ target)
                while changed != 0:
                    move = (lowest_bit(changed) << SLOT_BITS) | source
                    moves[n_moves] = np.uint64((move << SLOT_BITS) | target)
                    n_moves += 1
                    splits[n_moves] = -1
                    source = target
                    changed &= changed - np.uint64(1)
                held[slot], held[count] = left, left + 1
                weight = np.float64(cover[left]) + np.float64(cover[left + 1])
                right = np.float64(cover[left + 1])
                shares[count] = shares[slot] * (right / weight if weight > 0.0 else 0.5)
                shares[slot] -= shares[count]
                levels[slot] += 1
                levels[count] = levels[slot]
                count += 1
            least_share = least_share / 2 if least_share > _LEAST_SHARE else 0.0
        most_levels = 0
        for slot in range(count):
            own_slots[numbers[slot]] = held[slot]
            below = _levels_below(nodes, held[slot], waiting)
            most_levels = max(most_levels, below)
        n_slots += own_slots.size
        trees[t]["end_move"], trees[t]["end_slot"] = n_moves, n_slots
        trees[t]["levels"] = most_levels


@kernel
def _bin_column(values, column, span, starts, cuts, position, bins):
    """Write the bin of each value: the number of cuts that are not above it.

    The range of the cuts is divided into equal intervals. The cuts below the interval
    of a value are known; those within it are searched.
    """
    cuts = cuts[column["first_cut"] :]
    low, scale, last = span[0], span[1], span[2]
    zero = last - last
    for i in range(values.size):
        interval = (values[i] - low) * scale
        interval = interval if interval < last else last
        interval = interval if interval > zero else zero
        position[i] = starts[np.uint32(np.int32(interval))]
    half = np.uint32(1 << column["steps"])
    for _ in range(column["steps"]):
        half = np.uint32(half >> np.uint32(1))
        for i in range(values.size):
            probe = np.uint32(position[i] + half)
            position[i] = probe if values[i] >= cuts[probe] else position[i]
    missing = column["missing_code"]
    for i in range(values.size):
        bins[i] = missing if values[i] != values[i] else position[i]


@kernel
def _bin_columns(data, run, binned, lanes, position, bins):
    """Write the columns of bin indices that a run of trees compares."""
    rows = data.shape[0]
    begin = 0
    for first in range(run["first_column"], run["end_column"], COLUMNS_TOGETHER):
        end = min(first + COLUMNS_TOGETHER, run["end_column"])
        columns = binned.columns[first:end]
        for i in range(rows):
            for k in range(columns.size):
                lanes[k, i] = data[i, columns[k]["feature"]]
        for k in range(columns.size):
            _bin_column(
                lanes[k, :rows],
                columns[k],
                binned.spans[first + k],
                binned.starts[binned.first_starts[first + k] :],
                binned.cuts,
                position,
                bins[begin : begin + rows],
            )
            begin += SET_ROWS


@inline
def _find_bin(value, column, span, starts, cuts):
    """Return the bin of one value, as `_bin_column` does."""
    if value != value:
        return column["missing_code"]
    low, scale, last = span[0], span[1], span[2]
    interval = (value - low) * scale
    interval = interval if interval < last else last
    interval = interval if interval > last - last else last - last
    position = np.int64(starts[np.uint32(np.int32(interval))])
    half = np.int64(1) << column["steps"]
    for _ in range(column["steps"]):
        half >>= 1
        if value >= cuts[column["first_cut"] + position + half]:
            position += half
    return position


@kernel
def _bin_entries(entries, first_row, rows, r, run, binned, bins):
    """Write the columns of bin indices of sparse rows that a run of trees compares."""
    begin = 0
    for number in range(run["first_column"], run["end_column"]):
        missing = np.uint8(binned.columns[number]["missing_code"])
        own = bins[begin : begin + SET_ROWS]
        for i in range(own.size):
            own[i] = missing
        begin += SET_ROWS
    of_feature = entries.columns[r]
    for i in range(rows):
        row = first_row + i
        for k in range(entries.pointers[row], entries.pointers[row + 1]):
            for place in range(2):
                own_column = of_feature[entries.features[k], place]
                if own_column >= 0:
                    number = run["first_column"] + own_column
                    found = _find_bin(
                        entries.values[k],
                        binned.columns[number],
                        binned.spans[number],
                        binned.starts[binned.first_starts[number] :],
                        binned.cuts,
                    )
                    bins[np.int64(own_column) * SET_ROWS + i] = found


@kernel
def _mark_tests(tests, bins, marked):
    """Write which rows go right at each of the splits `tests`, and a set of all."""
    for k in range(tests.size):
        first = np.uint64(tests[k] >> np.uint32(BIN_BITS)) * _ROWS
        mark_above(bins, first, np.uint8(tests[k]), marked, k)
    for word in range(SET_WORDS):
        marked[tests.size, word] = ~np.uint64(0)


@kernel
def _write_slots(digits, slots):
    """Write the slot of each row from its digits: long code, which kernels share."""
    write_numbers(digits, slots)


@kernel
def _follow_moves(moves, marked, sets, digits):
    """Write the digits of the rows' slots after the top splits of a tree."""
    for word in range(SET_WORDS):
        sets[0, word] = ~np.uint64(0)
        for digit in range(SLOT_BITS):
            digits[digit, word] = 0
    for k in range(moves.size):
        move = moves[k]
        target = move & _SLOT
        source = (move >> np.uint64(SLOT_BITS)) & _SLOT
        digit = (move >> np.uint64(2 * SLOT_BITS)) & _SLOT
        test = move >> np.uint64(3 * SLOT_BITS)
        move_rows(sets, source, target, marked, test, digits, digit)


@kernel
def _read_digits(moves, marked, digits):
    """Write the digits of slots after the first levels of a symmetric tree."""
    for digit in range(SLOT_BITS):
        for word in range(SET_WORDS):
            digits[digit, word] = 0
    for level in range(moves.size):
        test = moves[level] >> np.uint64(3 * SLOT_BITS)
        for word in range(SET_WORDS):
            digits[level, word] = marked[test, word]


@inline
def _step(bins, node, i):
    """Return the next position of row `i` from a node."""
    column = (node >> _SHIFT) & _COLUMN
    is_right = bins[column * _ROWS + i] > np.uint8(node)
    return np.uint32(node >> _LEFT) + np.uint32(is_right)


@kernel
def _descend(bins, nodes, levels, places):
    """Move rows down to leaves, all by one level after the other."""
    for _ in range(levels):
        for i in range(places.size):
            places[i] = _step(bins, nodes[np.uint64(places[i])], np.uint64(i))


@kernel
def _descend_uneven(bins, nodes, places, rows, held):
    """Move rows down to leaves, of which some are much deeper than others."""
    count = 0
    for i in range(places.size):
        node = nodes[np.uint64(places[i])]
        rows[count], held[count] = i, node
        count += np.uint8(node) != _LEAF
    while count > 0:
        remaining = 0
        for k in range(count):
            i = rows[k]
            place = _step(bins, held[k], np.uint64(i))
            node = nodes[np.uint64(place)]
            places[i] = place
            rows[remaining], held[remaining] = i, node
            remaining += np.uint8(node) != _LEAF
        count = remaining


@inline
def reach_slots(thread_id, t, binned, scratch):
    """Write the slots of rows after the top splits of a tree to the scratch."""
    tree = binned.trees[t]
    moves = binned.moves[tree["first_move"] : tree["end_move"]]
    tests, digits = scratch.tests[thread_id], scratch.digits[thread_id]
    if tree["is_symmetric"]:
        _read_digits(moves, tests, digits)
    else:
        _follow_moves(moves, tests, scratch.sets[thread_id], digits)
    _write_slots(digits, scratch.slots[thread_id])


@inline
def reach_nodes(thread_id, t, count, binned, scratch):
    """Write the leaves of `count` rows, which are in slots, to the scratch's places."""
    tree = binned.trees[t]
    bins, slots = scratch.bins[thread_id], scratch.slots[thread_id]
    places = scratch.places[thread_id, :count]
    reached = binned.slots[tree["first_slot"] : tree["end_slot"]]
    for i in range(count):
        places[i] = reached[np.uint64(slots[i])]
    if tree["levels"] <= _FEW_LEVELS:
        _descend(bins, binned.nodes, tree["levels"], places)
    else:
        rows, held = scratch.rows[thread_id], scratch.nodes[thread_id]
        _descend_uneven(bins, binned.nodes, places, rows, held)


@kernel
def _add_tree(thread_id, t, begin, count, output, binned, values, scratch, margins):
    """Add the leaf values of a tree to the margins of `count` rows from `begin` on."""
    tree = binned.trees[t]
    reach_slots(thread_id, t, binned, scratch)
    if tree["levels"] == 0:
        leaf_values = binned.slot_values[tree["first_slot"] : tree["end_slot"]]
        slots = scratch.slots[thread_id]
        add_to_margins(leaf_values, slots, begin, count, output, margins)
        return
    reach_nodes(thread_id, t, count, binned, scratch)
    places = scratch.places[thread_id, :count]
    add_to_margins(values, places, begin, count, output, margins)


@inline
def _mark_run(thread_id, r, binned, scratch):
    """Mark which rows go right at the top splits of a run of trees."""
    tests = binned.tests[binned.test_starts[r] : binned.test_starts[r + 1]]
    _mark_tests(tests, scratch.bins[thread_id], scratch.tests[thread_id])


@inline
def bin_rows(thread_id, r, block, binned, scratch):
    """Write the bins of rows for a run of trees, and mark its top splits."""
    lanes, position = scratch.values[thread_id], scratch.places[thread_id]
    bins = scratch.bins[thread_id]
    _bin_columns(block, binned.runs[r], binned, lanes, position, bins)
    _mark_run(thread_id, r, binned, scratch)


@kernel
def _add_run(thread_id, r, begin, count, roots, binned, values, scratch, margins):
    """Add the leaf values of a run of trees to the margins of the rows of a set."""
    for t in range(binned.runs[r]["begin"], binned.runs[r]["end"]):
        output = roots[t, 2]
        _add_tree(thread_id, t, begin, count, output, binned, values, scratch, margins)


@kernel
def add_binned_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 5) int32, see `hornbeam.forest.layout.Layout`
    binned,  # `hornbeam.forest.layout.BinnedLayout`
    values,  # (nodes,) float32
    scratch,  # BinnedScratch
    margins,  # TypedMargins, in and out
):
    """Add the leaf values of all trees to the margins of rows, in the trees' order.

    The result is that of `hornbeam.kernels.predict.add_trees`.
    """
    rows = data.shape[0]
    task = next_task(sync, 0)
    while task * SET_ROWS < rows:
        begin = task * SET_ROWS
        block = data[begin : begin + SET_ROWS]
        count = block.shape[0]
        for r in range(binned.runs.size):
            bin_rows(thread_id, r, block, binned, scratch)
            _add_run(
                thread_id, r, begin, count, roots, binned, values, scratch, margins
            )
        task = next_task(sync, 0)


@kernel
def add_binned_trees_to_entries(
    thread_id,
    n_threads,
    sync,
    entries,  # Entries
    roots,  # (trees, 5) int32, see `hornbeam.forest.layout.Layout`
    binned,  # `hornbeam.forest.layout.BinnedLayout`
    values,  # (nodes,) float32
    scratch,  # BinnedScratch
    margins,  # TypedMargins, in and out
):
    """Do the same as `add_binned_trees` for sparse rows."""
    n_rows = entries.pointers.size - 1
    task = next_task(sync, 0)
    while task * SET_ROWS < n_rows:
        begin = task * SET_ROWS
        rows = min(SET_ROWS, n_rows - begin)
        for r in range(binned.runs.size):
            run, bins = binned.runs[r], scratch.bins[thread_id]
            _bin_entries(entries, begin, rows, r, run, binned, bins)
            _mark_run(thread_id, r, binned, scratch)
            _add_run(thread_id, r, begin, rows, roots, binned, values, scratch, margins)
        task = next_task(sync, 0)
