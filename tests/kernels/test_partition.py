"""Rows to their children and leaves, against one row after the other."""

from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from kernel_calls import MEMBERS, call, needs_compiler

from hornbeam.kernels.layout import NODE_DTYPE, TASK_ROWS
from hornbeam.kernels.partition import (
    add_leaf_values,
    mark_leaves,
    partition_rows,
    route_rows,
    sum_leaves,
)
from hornbeam.kernels.plan import settle_children

CODES = [np.uint8, np.uint16]
BINS = [6, 3, 9]


class Rows:
    """Rows of two nodes, 0 and 1, about to be split."""

    def __init__(self, rows, code_type=np.uint8, seed=0):
        rng = np.random.default_rng(seed)
        self.codes = np.array([rng.integers(0, n + 1, rows) for n in BINS], code_type)
        self.rows = np.full((2, rows), rows, np.uint32)
        self.nodes = np.zeros(6, NODE_DTYPE)
        self.middle = rows // 3
        self.nodes["begin"][:2] = 0, self.middle
        self.nodes["end"][:2] = self.middle, rows
        self.nodes["side"][:2] = 0, 1
        self.nodes["left"][:2] = 2, 4
        order = rng.permutation(rows)
        self.rows[0, : self.middle] = order[: self.middle]
        self.rows[1, self.middle :] = order[self.middle :]
        self.before = [set(self.of(node)) for node in range(2)]

    def of(self, node):
        """Return the rows of a node."""
        node = self.nodes[node]
        return self.rows[node["side"], node["begin"] : node["end"]].tolist()

    def split(self, node, feature, last_bin, missing_left):
        """Enter a split."""
        self.nodes[node]["feature"] = feature
        self.nodes[node]["bin"] = last_bin
        self.nodes[node]["missing"] = BINS[feature] if missing_left else -1

    def partition(self, cuts, members=1):
        """Split both nodes, each in tasks that end at its `cuts`."""
        tasks = []
        for node, inner in enumerate(cuts):
            ends = [self.nodes["begin"][node], *inner, self.nodes["end"][node]]
            first, last = len(tasks), len(tasks) + len(ends) - 1
            for begin, end in pairwise(ends):
                tasks.append([node, begin, end, first, last])
        tasks = np.array(tasks)
        counts = np.full(len(tasks), -9)
        call(
            partition_rows, tasks, self.nodes, self.codes, self.rows, counts,
            members=members,
        )  # fmt: skip
        settle_children(tasks, counts, self.nodes)

    def check(self, node):
        """Assert that each child has the rows that the plain twin sends there."""
        split = self.nodes[node]
        feature = split["feature"]
        missing_left = split["missing"] >= 0
        sides = {True: set(), False: set()}
        for row in self.before[node]:
            code = self.codes[feature, row]
            side = naive.goes_left(code, split["bin"], BINS[feature], missing_left)
            sides[side].add(row)
        for child, side in ((0, True), (1, False)):
            rows = self.of(split["left"] + child)
            assert len(rows) == len(set(rows))
            assert set(rows) == sides[side]


@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize("last_bin", [-1, 0, 4, 5])
@pytest.mark.parametrize(
    "cuts",
    [([], []), ([10], []), ([], [60, 70, 90]), ([7, 7], [50, 51])],
    ids=lambda cuts: f"{len(cuts[0]) + 1} and {len(cuts[1]) + 1} tasks",
)
def test_children_have_their_rows(cuts, last_bin, code_type, missing_left):
    rows = Rows(120, code_type)
    rows.split(0, 0, last_bin, missing_left)
    rows.split(1, 2, last_bin + 2, not missing_left)
    rows.partition(cuts)
    rows.check(0)
    rows.check(1)


def test_all_rows_may_go_one_way():
    for last_bin, missing_left in ((5, True), (-1, False)):
        for cuts in (([], []), ([10], [50, 80])):
            rows = Rows(120)
            for node in range(2):
                rows.split(node, 0, last_bin, missing_left)
            rows.partition(cuts)
            rows.check(0)
            rows.check(1)
            sizes = [len(rows.of(child)) for child in (2, 3, 4, 5)]
            assert sizes == ([40, 0, 80, 0] if missing_left else [0, 40, 0, 80])


@needs_compiler
@pytest.mark.parametrize("members", MEMBERS)
def test_partition_by_a_team(members):
    rows = Rows(100_000)
    rows.split(0, 0, 2, True)
    rows.split(1, 1, 1, False)
    rows.partition((range(3000, 33_000, 3000), range(40_000, 100_000, 7000)), members)
    rows.check(0)
    rows.check(1)


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("missing_left", [False, True])
def test_leaves_are_marked(missing_left, members):
    """Node 0 is a leaf, node 1 is split but has kept its rows."""
    rows = Rows(90)
    middle = rows.middle
    rows.split(1, 0, 2, missing_left)
    rows.nodes["left"][1] = 4
    leaf_of_node = np.array([7, 99, 99, 99, 3, 5], np.uint32)
    tasks = [[0, 7, 0, 0, 20], [0, 7, 0, 20, middle]]
    tasks += [[1, -1, 1, middle, 60], [1, -1, 1, 60, 90]]
    leaf_of = np.full(90, 99, np.uint32)
    call(
        mark_leaves, np.array(tasks), rows.nodes, rows.codes, rows.rows, leaf_of_node,
        leaf_of, members=members,
    )  # fmt: skip
    assert (leaf_of[rows.of(0)] == 7).all()
    for row in rows.of(1):
        goes_left = naive.goes_left(rows.codes[0, row], 2, BINS[0], missing_left)
        assert leaf_of[row] == (3 if goes_left else 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("members", MEMBERS)
def test_leaves_are_summed_exactly(members, dtype):
    rng = np.random.default_rng(0)
    n_rows = 2 * TASK_ROWS + 50 if members > 1 else 150
    leaf_of = rng.integers(0, 4, n_rows).astype(np.uint32)
    g = rng.normal(size=n_rows).astype(dtype)
    h = rng.uniform(size=n_rows).astype(dtype)
    steps = 2.0**-40, 2.0**-41
    sums = np.zeros((members, 4, 2), np.int64)
    scales = [np.float64(1 / step) for step in steps]
    call(sum_leaves, leaf_of, g, h, *scales, sums, members=members)
    exact = np.zeros((4, 2), np.int64)
    for part, values in enumerate((g, h)):
        fixed = [naive.fixed_point(value, steps[part]) for value in values]
        np.add.at(exact[:, part], leaf_of, fixed)
    np.testing.assert_array_equal(sums.sum(axis=0), exact)


@pytest.mark.parametrize("members", MEMBERS)
def test_leaf_values_are_added(members):
    rng = np.random.default_rng(0)
    n_rows = 2 * TASK_ROWS + 50 if members > 1 else 150
    leaf_of = rng.integers(0, 4, n_rows).astype(np.uint32)
    values = rng.normal(size=4).astype(np.float32)
    scores = rng.normal(size=n_rows)
    exact = scores + values[leaf_of].astype(np.float64)
    call(add_leaf_values, leaf_of, values, scores, members=members)
    np.testing.assert_array_equal(scores, exact)


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("code_type", CODES)
def test_rows_are_routed_to_their_leaves(code_type, members):
    n_rows = TASK_ROWS + 500 if members > 1 else 120
    rows = Rows(n_rows, code_type)
    # Node 0 is split into 1 and 2, node 2 into 3 and 4, node 3 into 5 and 6.
    nodes = np.zeros(7, NODE_DTYPE)
    nodes["left"] = -1
    splits = {0: (0, 2, True, 1), 2: (2, 5, False, 3), 3: (1, -1, True, 5)}
    for node, (feature, last_bin, missing_left, left) in splits.items():
        nodes[node]["feature"], nodes[node]["bin"] = feature, last_bin
        nodes[node]["missing"] = BINS[feature] if missing_left else -1
        nodes[node]["left"] = left
    leaf_of_node = np.array([9, 0, 9, 9, 1, 2, 3], np.uint32)
    some = np.arange(1, n_rows, 2, dtype=np.uint32)
    leaf_of = np.full(n_rows, 99, np.uint32)
    call(route_rows, some, rows.codes, nodes, leaf_of_node, leaf_of, members=members)
    assert (leaf_of[::2] == 99).all()
    for row in some[:60].tolist() + some[-60:].tolist():
        node = 0
        while node in splits:
            feature, last_bin, missing_left, left = splits[node]
            code = rows.codes[feature, row]
            side = naive.goes_left(code, last_bin, BINS[feature], missing_left)
            node = left if side else left + 1
        assert leaf_of[row] == leaf_of_node[node]
