"""The kernels between those of a round, beside plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_calls import call

from hornbeam.backends.quantisation import bits_of
from hornbeam.kernels.gradients import NewGradients
from hornbeam.kernels.layout import NODE_DTYPE, SPLIT_DTYPE
from hornbeam.kernels.plan import free_slots
from hornbeam.kernels.rounds import (
    PACKED_RANGE,
    KeptTrees,
    begin_tree,
    choose_units,
    is_precise,
    keep_tree,
    unit,
)
from hornbeam.kernels.tree_tables import (
    BEYOND,
    COMPLETE,
    END,
    FULL,
    N_LEAVES,
    N_NODES,
    STATE_SIZE,
    STATUS,
)

FLOATS = st.floats(0, 2.0**127, width=32)


@given(exponent=st.integers(-200, 200), bits=st.integers(1, 51))
def test_a_unit_is_a_power_of_two(exponent, bits):
    assert unit(exponent, bits) * 2.0**bits == 2.0**exponent


def test_the_inverse_of_the_smallest_unit_is_finite():
    assert math.isfinite(1.0 / unit(-1000, 51))


@given(
    largest=FLOATS,
    total=st.integers(0, 1 << 40),
    n_rows=st.integers(1, 1 << 30),
    side=st.sampled_from([0, 1]),
)
def test_packed_sums_are_precise_by_the_mean_without_outliers(
    largest, total, n_rows, side
):
    mean = (total - 16 * PACKED_RANGE[side]) / n_rows
    assert is_precise(largest, total, n_rows, side) == (largest == 0 or mean >= 64)


@given(
    pairs=st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=3),
    dtype=st.sampled_from([np.float32, np.float64]),
    n_rows=st.integers(1, 1 << 30),
)
def test_units_are_those_of_the_largest_gradients(pairs, dtype, n_rows):
    new = NewGradients.of(*np.empty((2, 2, 1), dtype), len(pairs))
    own = max((part.largest for part in new), key=len)
    own.view(dtype)[:, 0] = 3e38
    own.view(dtype)[:, 1] = pairs
    units, largest, ended = np.zeros((2, 2)), np.zeros(2), np.zeros(1, np.int64)
    bits = np.array(bits_of(n_rows))
    call(choose_units, new, 1, bits, units, largest, ended)
    most = np.max(pairs, axis=0).astype(dtype)
    assert largest.tolist() == most.tolist() and ended[0] == 0
    exponents = np.frexp(most.astype(float))[1]
    np.testing.assert_array_equal(units, 2.0 ** (exponents - bits))
    assert not own[:, 1].any() and own[:, 0].all()


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
@pytest.mark.parametrize("place", [(0, 0), (1, 1)])
def test_gradients_that_are_not_finite_end_rounds(wrong, place):
    new = NewGradients.of(*np.empty((2, 1, 1), np.float32), 2)
    own = new.single.largest.view(np.float32)
    own[:] = 1.0
    own[place[0], 0, place[1]] = wrong
    ended = np.zeros(1, np.int64)
    bits = np.array(bits_of(5))
    call(choose_units, new, 0, bits, np.zeros((2, 2)), np.zeros(2), ended)
    assert ended[0] == 1


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("is_enough", [True, False])
def test_a_tree_begins_with_its_root(side, is_enough):
    n_rows = 100
    magnitudes = np.full((3, 2), 1 << 30)
    least = 64 * n_rows + 16 * PACKED_RANGE[side]
    magnitudes[:, side] = [least - 2, 1, 1 if is_enough else 0]
    nodes = np.ones(4, NODE_DTYPE)
    family, used = np.full((4, 4), 9), np.full((4, 1), 9, np.uint64)
    free = np.zeros(8, np.int64)
    free_slots(free, 7)
    whole = free.copy()
    free[4:] = [3, 1, 0, 2]
    state, ended = np.full(STATE_SIZE, 9), np.zeros(1, np.int64)
    state[N_NODES] = 3
    largest = np.ones(2)
    root = n_rows, nodes, family, used, free, state, ended
    call(begin_tree, magnitudes, largest, *root)
    assert ended[0] == 1 - is_enough
    assert [int(nodes[0][name]) for name in ("side", "begin", "end", "left")] == [
        *(0, 0, n_rows, -1)
    ]
    assert family[:, 0].tolist() == [-1, -1, 0, 0] and used[0, 0] == 0
    assert free.tolist() == whole.tolist() and whole[-1] == 7
    found = {name: state[name] for name in (N_NODES, N_LEAVES, END, STATUS)}
    assert found == {N_NODES: 1, N_LEAVES: 1, END: 1, STATUS: FULL}
    assert state.sum() == 3 + FULL


@pytest.mark.parametrize("fault", [None, "full", "beyond"])
def test_trees_are_kept_one_after_the_other(fault):
    rng = np.random.default_rng(0)
    kept = KeptTrees(
        np.zeros(3, np.int64),
        np.zeros(1, np.int64),
        np.zeros(10, SPLIT_DTYPE),
        np.zeros((10, 8), np.uint8),
        np.zeros((4, 10), np.int32),
        np.zeros((2, 10), np.uint8),
        np.zeros((4, 10), np.float32),
    )
    ended, expected = np.zeros(1, np.int64), []
    for n_nodes in (5, 3):
        state = np.zeros(STATE_SIZE, np.int64)
        state[N_NODES], state[N_LEAVES], state[STATUS] = (
            n_nodes,
            n_nodes // 2 + 1,
            COMPLETE,
        )
        if fault and n_nodes == 3:
            state[STATUS] = FULL if fault == "full" else COMPLETE
            state[BEYOND] = fault == "beyond"
        splits = np.zeros(5, SPLIT_DTYPE)
        splits["gain"] = rng.normal(size=5)
        sets = rng.integers(0, 256, (5, 8)).astype(np.uint8)
        leaves = np.array([1, 2, 4])
        integers = rng.integers(0, 99, (4, 5)).astype(np.int32)
        flags = rng.integers(0, 2, (2, 5)).astype(np.uint8)
        floats = rng.normal(size=(4, 5)).astype(np.float32)
        values = np.zeros((1, 5), np.float32)
        columns = integers, flags, floats
        call(keep_tree, state, splits, sets, leaves, *columns, values, kept, ended)
        if not ended[0]:
            own = splits["gain"], sets, *(column.T for column in columns)
            expected.append([part[:n_nodes] for part in own])
            n_leaves = n_nodes // 2 + 1
            assert (
                values[0, :n_leaves].tolist() == floats[2, leaves[:n_leaves]].tolist()
            )
    assert ended[0] == (fault is not None)
    assert kept.count[0] == len(expected)
    assert kept.starts[: len(expected) + 1].tolist() == ([0, 5] if fault else [0, 5, 8])
    found = kept.splits["gain"], kept.set_bytes, *(c.T for c in kept[4:])
    for own, parts in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(
            own[: kept.starts[len(expected)]], np.concatenate(parts)
        )
