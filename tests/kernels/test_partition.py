"""Partition of rows, against a reference that routes row by row."""

from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, needs_compiler

from hornbeam.kernels.bins import Bins
from hornbeam.kernels.layout import (
    FEATURE_DTYPE,
    NODE_DTYPE,
    SPLIT_DTYPE,
    TASK_ROWS,
)
from hornbeam.kernels.partition import (
    mark_leaves,
    partition_rows,
    route_rows,
    sum_leaves,
)
from hornbeam.kernels.plan import enter_splits, settle_children

CODES = [np.uint8, np.uint16]
BINS = [6, 3, 9, 4, 5, 70]
#: The last three features share a column, the last one is categorical.
COLUMN_OF = [0, 1, 2, 3, 3, 3]
LOW = [0, 0, 0, 1, 5, 10]
FEATURES = np.zeros(6, FEATURE_DTYPE)
FEATURES["column"], FEATURES["low"], FEATURES["bins"] = COLUMN_OF, LOW, BINS
CODES_OF_A_COLUMN = [7, 4, 10, 80]
#: The categories of the last feature that go right.
RIGHT = [0, 3, 63, 64, 69]


def goes_left(codes, row, feature, last_bin, missing_left):
    """Return whether a row goes left, from the bins of all columns."""
    code = int(codes[COLUMN_OF[feature], row]) - LOW[feature]
    bins = BINS[feature]
    code = code if 0 <= code < bins else bins
    if feature == 5 and code < bins:
        return code not in RIGHT
    return naive.goes_left(code, last_bin, bins, missing_left)


def enter(nodes, lefts, node, feature, last_bin, missing_left):
    """Write a split to the table of nodes."""
    splits = np.zeros(1, SPLIT_DTYPE)
    splits["feature"], splits["bin"] = feature, last_bin
    splits["missing_left"], splits["is_categorical"] = missing_left, feature == 5
    rights = np.zeros((1, 2), np.uint64)
    for category in RIGHT:
        rights[0, category // 64] |= np.uint64(1 << category % 64)
    left = nodes["left"][[node]]
    children = nodes[left[0] : left[0] + 2].copy()
    enter_splits(np.array([node]), splits, rights, left, FEATURES, nodes, lefts)
    nodes[left[0] : left[0] + 2] = children


class Rows:
    """Rows of two nodes, 0 and 1, before their splits."""

    def __init__(self, rows, code_type=np.uint8, seed=0):
        rng = np.random.default_rng(seed)
        codes = [rng.integers(0, n, rows) for n in CODES_OF_A_COLUMN]
        self.codes = np.array(codes, code_type)
        self.rows = np.full((2, rows), rows, np.uint32)
        self.nodes = np.zeros(6, NODE_DTYPE)
        self.lefts = np.zeros((6, 2), np.uint64)
        self.splits = {}
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
        """Write a split."""
        enter(self.nodes, self.lefts, node, feature, last_bin, missing_left)
        self.splits[node] = feature, last_bin, missing_left

    def partition(self, cuts, n_threads=1):
        """Partition both nodes, each in tasks that end at its `cuts`."""
        tasks = []
        for node, inner in enumerate(cuts):
            ends = [self.nodes["begin"][node], *inner, self.nodes["end"][node]]
            first, last = len(tasks), len(tasks) + len(ends) - 1
            for begin, end in pairwise(ends):
                tasks.append([node, begin, end, first, last])
        tasks = np.array(tasks)
        counts = np.full(len(tasks), -9)
        call(
            partition_rows, tasks, self.nodes, self.lefts, Bins.of(self.codes),
            self.rows, counts, n_threads=n_threads,
        )  # fmt: skip
        settle_children(tasks, counts, self.nodes)

    def check(self, node):
        """Assert that each child has the rows of the reference."""
        sides = {True: set(), False: set()}
        for row in self.before[node]:
            sides[goes_left(self.codes, row, *self.splits[node])].add(row)
        for child, side in ((0, True), (1, False)):
            rows = self.of(self.nodes["left"][node] + child)
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


@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize("feature", [3, 4, 5])
@pytest.mark.parametrize("last_bin", [-1, 1, 3])
def test_bundled_features(last_bin, feature, code_type, missing_left):
    rows = Rows(200, code_type)
    rows.split(0, feature, last_bin, missing_left)
    rows.split(1, 5, last_bin, not missing_left)
    rows.partition(([20], []))
    rows.check(0)
    rows.check(1)


@pytest.mark.parametrize("feature", [0, 5])
@pytest.mark.parametrize("order", [1, -1])
def test_scattered_rows(order, feature):
    """Rows so far apart that their bins are prefetched."""
    rows = Rows(9000)
    for node in range(2):
        begin = rows.nodes["begin"][node]
        own = slice(begin, begin + 70)
        rows.nodes["end"][node] = own.stop
        rows.rows[node, own] = np.sort(rows.rows[node, own])[::order]
    rows.before = [set(rows.of(node)) for node in range(2)]
    rows.split(0, feature, 2, True)
    rows.split(1, feature, 3, False)
    rows.partition(([30], []))
    rows.check(0)
    rows.check(1)


def test_all_rows_go_to_one_side():
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
@pytest.mark.parametrize("n_threads", N_THREADS)
def test_partition_in_threads(n_threads):
    rows = Rows(100_000)
    rows.split(0, 0, 2, True)
    rows.split(1, 1, 1, False)
    rows.partition((range(3000, 33_000, 3000), range(40_000, 100_000, 7000)), n_threads)
    rows.check(0)
    rows.check(1)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("feature", [0, 4, 5])
@pytest.mark.parametrize("code_type", CODES)
def test_leaves_are_marked(code_type, feature, missing_left, n_threads):
    """Node 0 is a leaf; node 1 is split, and its rows are not partitioned."""
    rows = Rows(90, code_type)
    middle = rows.middle
    rows.split(1, feature, 2, missing_left)
    leaf_of_node = np.array([7, 99, 99, 99, 3, 5], np.uint32)
    tasks = [[0, 7, 0, 0, 20], [0, 7, 0, 20, middle]]
    tasks += [[1, -1, 1, middle, 60], [1, -1, 1, 60, 90]]
    leaf_of = np.full(90, 99, np.uint32)
    call(
        mark_leaves, np.array(tasks), rows.nodes, rows.lefts, Bins.of(rows.codes),
        rows.rows, leaf_of_node, leaf_of, n_threads=n_threads,
    )  # fmt: skip
    assert (leaf_of[rows.of(0)] == 7).all()
    for row in rows.of(1):
        side = goes_left(rows.codes, row, feature, 2, missing_left)
        assert leaf_of[row] == (3 if side else 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", N_THREADS)
def test_leaves_are_summed_exactly(n_threads, dtype):
    rng = np.random.default_rng(0)
    n_rows = 2 * TASK_ROWS + 50 if n_threads > 1 else 150
    leaf_of = rng.integers(0, 4, n_rows).astype(np.uint32)
    g = rng.normal(size=n_rows).astype(dtype)
    h = rng.uniform(size=n_rows).astype(dtype)
    steps = 2.0**-40, 2.0**-41
    sums = np.zeros((n_threads, 4, 2), np.int64)
    scales = [np.float64(1 / step) for step in steps]
    call(sum_leaves, leaf_of, g, h, *scales, sums, n_threads=n_threads)
    exact = np.zeros((4, 2), np.int64)
    for part, values in enumerate((g, h)):
        fixed = [naive.fixed_point(value, steps[part]) for value in values]
        np.add.at(exact[:, part], leaf_of, fixed)
    np.testing.assert_array_equal(sums.sum(axis=0), exact)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("code_type", CODES)
def test_rows_are_routed_to_their_leaves(code_type, n_threads):
    n_rows = TASK_ROWS + 500 if n_threads > 1 else 120
    rows = Rows(n_rows, code_type)
    # Node 0 is split into 1 and 2, node 2 into 3 and 4, and so on.
    nodes = np.zeros(9, NODE_DTYPE)
    lefts = np.zeros((9, 2), np.uint64)
    nodes["left"] = -1
    splits = {0: (0, 2, True, 1), 2: (5, 0, False, 3), 3: (4, -1, True, 5)}
    splits[4] = (2, 5, False, 7)
    for node, (*split, left) in splits.items():
        nodes[node]["left"] = left
        enter(nodes, lefts, node, *split)
    leaf_of_node = np.array([9, 0, 9, 9, 9, 1, 2, 3, 4], np.uint32)
    some = np.arange(1, n_rows, 2, dtype=np.uint32)
    leaf_of = np.full(n_rows, 99, np.uint32)
    call(
        route_rows, some, Bins.of(rows.codes), nodes, lefts, leaf_of_node, leaf_of,
        n_threads=n_threads,
    )  # fmt: skip
    assert (leaf_of[::2] == 99).all()
    for row in some[:60].tolist() + some[-60:].tolist():
        node = 0
        while node in splits:
            *split, left = splits[node]
            node = left if goes_left(rows.codes, row, *split) else left + 1
        assert leaf_of[row] == leaf_of_node[node]
