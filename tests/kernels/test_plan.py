"""Task lists: each row of each node is in exactly one task."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_calls import needs_compiler

from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import (
    BLOCK_ROWS,
    FEATURE_DTYPE,
    JOIN_BINS,
    NODE_DTYPE,
    PACK,
    REPLACE,
    SPLIT_DTYPE,
    TASK_ROWS,
)
from hornbeam.kernels.plan import (
    assign_slots,
    enter_children,
    enter_splits,
    plan_histograms,
    plan_leaves,
    plan_partition,
    settle_children,
)

SLOTS = 9
# Sizes of the leaves of the tree below. As plain Python, plans have one thread.
#        0
#     1     2
#    3 4   5 6
SMALL = [40, 25, 30, 50]
LARGE = [400_000, 150_000, 3, 260_000]
SIZES = [SMALL, LARGE] if COMPILED else [SMALL]


def table(sizes):
    """Return the nodes of the tree above, with rows on alternate sides."""
    nodes = np.zeros(7, NODE_DTYPE)
    nodes["left"] = -1
    ends = np.concatenate([[0], np.cumsum(sizes)])
    ranges = [(0, 4), (0, 2), (2, 4), (0, 1), (1, 2), (2, 3), (3, 4)]
    for node, (first, last) in zip(nodes, ranges, strict=True):
        node["begin"], node["end"] = ends[first], ends[last]
    nodes["side"] = [0, 1, 1, 0, 0, 0, 0]
    for parent in range(3):
        nodes["left"][parent] = 2 * parent + 1
    return nodes


class HistogramPlan:
    """One call of the planner, and its results."""

    def __init__(
        self,
        batch,
        nodes,
        team_size=1,
        columns=5,
        block=2,
        add=False,
        waiting=False,
        **shape,
    ):
        self.batch, self.nodes = batch, nodes
        self.slots = [SLOTS - 1 - i for i in range(len(batch))]
        self.columns, self.block, self.add = columns, block, add
        self.cells = shape.get("cells", 1000)
        tasks = np.full((300, 7), -9)
        joins = np.full((300, 6), -9)
        lengths = np.zeros(2, np.int64)
        blocks = np.array([*range(0, columns, block), columns])
        self.n_threads = plan_histograms(
            np.array(batch), np.array(self.slots), nodes, team_size, waiting,
            blocks, self.cells,
            SLOTS, add, tasks, joins, lengths,
        )  # fmt: skip
        self.tasks = tasks[: lengths[0]].tolist()
        self.joins = joins[: lengths[1]].tolist()

    def parts_of(self, node):
        """Check the tasks of a node's slot and slabs, and return them."""
        slot = self.slots[self.batch.index(node)]
        own_joins = sorted(join for join in self.joins if join[0] == slot)
        slabs = {slab for join in own_joins for slab in range(join[1], join[2])}
        if own_joins:  # all bins, each once
            ends = [join[4] for join in own_joins]
            assert [join[3] for join in own_joins] == [0, *ends[:-1]]
            assert ends[-1] == self.cells
        tasks = [task for task in self.tasks if task[0] in {slot, *slabs}]
        assert {task[0] for task in tasks} == {slot, *slabs}
        assert all(slab >= SLOTS for slab in slabs)
        begin, end = self.nodes["begin"][node], self.nodes["end"][node]
        for column in range(self.columns):
            parts = sorted(t[2:4] for t in tasks if t[4] <= column < t[5])
            assert parts[0][0] == begin and parts[-1][1] == end
            ends, begins = [p[1] for p in parts[:-1]], [p[0] for p in parts[1:]]
            assert ends == begins
        # A slot or slab is written by one part of the rows only.
        assert len({(t[0], t[2]) for t in tasks}) == len({t[0] for t in tasks})
        assert all(t[1] == self.nodes["side"][node] for t in tasks)
        assert all(t[5] - t[4] <= self.block for t in tasks)
        assert all(t[6] == (self.add and t[0] == slot) for t in tasks)
        return tasks


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("team_size", [1, 2, 7])
def test_root(team_size, sizes, add):
    plan = HistogramPlan([0], table(sizes), team_size, add=add)
    tasks = plan.parts_of(0)
    assert len(tasks) == len(plan.tasks)
    assert plan.n_threads == (min(team_size, 15) if sizes is LARGE else 1)
    if plan.n_threads == 1:
        assert not plan.joins and len(tasks) == 3
    else:
        slabs = {task[0] for task in tasks} - {8}
        assert 1 <= len(slabs) <= 5 * team_size
        parts = {t[3] - t[2] for t in tasks}
        assert min(parts) >= BLOCK_ROWS // 2
        assert max(parts) - min(parts) <= len(slabs)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("team_size", [1, 3])
def test_nodes_of_a_level(team_size, sizes):
    plan = HistogramPlan([4, 5, 3], table(sizes), team_size)
    assert sum(len(plan.parts_of(node)) for node in (3, 4, 5)) == len(plan.tasks)


def test_an_empty_node_is_still_cleared():
    plan = HistogramPlan([3, 4], table([0, 5, 5, 5]))
    assert {tuple(task[2:4]) for task in plan.parts_of(3)} == {(0, 0)}


@needs_compiler
@pytest.mark.parametrize("team_size", [2, 7])
def test_threads_that_wait_share_the_columns_of_small_nodes(team_size):
    sizes = [2_000, 500, 4_000, 100]
    woken = HistogramPlan([3, 5], table(sizes), team_size, columns=40, block=25)
    assert woken.n_threads == 1 and len(woken.tasks) == 4
    plan = HistogramPlan(
        [3, 5], table(sizes), team_size, columns=40, block=25, waiting=True
    )
    assert plan.n_threads == team_size and not plan.joins
    # One node more and two threads: both blocks of 12 columns or more are shared.
    pieces = [tuple(task[4:6]) for task in plan.parts_of(5)]
    if team_size == 2:
        assert pieces == [(0, 12), (12, 25), (25, 40)]
    else:
        assert len(pieces) == 6
    assert len(plan.parts_of(3)) >= 2
    assert len(plan.tasks) <= (2 + 9 * team_size) * 2
    assert min(task[5] - task[4] for task in plan.tasks) >= 6
    # Sixteen microseconds, for two threads.
    few = HistogramPlan([6], table([2_000, 500, 7_000, 100]), 2, waiting=True)
    assert few.n_threads == 1


@needs_compiler
@pytest.mark.parametrize("team_size", [2, 4, 16])
def test_many_threads_that_wait_share_the_rows_of_small_nodes(team_size):
    sizes = [12_000, 500, 3_000, 100]
    plan = HistogramPlan(
        [3, 5], table(sizes), team_size, columns=28, block=28, waiting=True, add=PACK
    )
    assert {task[6] for task in plan.tasks} == {PACK}
    rows = {(task[0], task[2], task[3]) for task in plan.tasks}
    if team_size == 2:  # for which the columns are enough
        assert len(rows) == 2 and not plan.joins
    else:
        assert len(rows) == 4
        assert {tuple(join[:3]) for join in plan.joins} == {(8, 9, 11)}
        assert {join[5] for join in plan.joins} == {1}
    # Sums of more than BLOCK_ROWS rows are not packed.
    sizes[0] = 2 * BLOCK_ROWS
    plan = HistogramPlan(
        [3, 5], table(sizes), 16, columns=28, block=28, waiting=True, add=PACK
    )
    assert {task[6] for task in plan.tasks if task[0] != 7} == {REPLACE}
    assert {task[6] for task in plan.tasks if task[0] == 7} == {PACK}
    assert {join[5] for join in plan.joins} == {2}


@needs_compiler
def test_joins_are_divided_into_tasks():
    plan = HistogramPlan([0], table(LARGE), 2, cells=2 * JOIN_BINS + 7)
    plan.parts_of(0)
    assert len(plan.joins) == 3


class Slots:
    """Slots assigned to a batch of nodes of the tree above."""

    def __init__(self, batch, slots, free, sizes=SMALL):
        family = np.full((3, 7), -1, np.int64)
        family[0, 1:] = (np.arange(1, 7) - 1) // 2
        family[1] = slots
        stack = np.full(SLOTS, -9)
        stack[: len(free)] = free
        height = np.array([len(free)])
        counted = np.full((3, len(batch)), -9)
        nodes = table(sizes)[batch]
        count = assign_slots(
            np.array(batch), nodes["end"] - nodes["begin"], *family[:2], stack, height,
            counted,
        )  # fmt: skip
        self.slots = family[1].tolist()
        self.free = stack[: height[0]].tolist()
        #: The node to build, and the slot to subtract it from.
        self.counted = dict(counted[[0, 2], :count].T.tolist())
        assert counted[1, :count].tolist() == family[1, counted[0, :count]].tolist()
        assert len(self.counted) == count


def test_the_root_has_no_parent():
    found = Slots([0], [-1] * 7, [4, 2, 8])
    assert found.slots[0] == 8 and found.free == [4, 2] and found.counted == {0: -1}


@pytest.mark.parametrize("sizes", SIZES)
def test_the_smaller_sibling_is_built_and_the_larger_takes_the_parents_slot(sizes):
    slots = [-1, 7, 3, -1, -1, -1, -1]
    found = Slots([3, 4, 5, 6], slots, [0, 1, 2, 4], sizes)
    assert found.counted == {4: 7, 5: 3}
    assert found.slots == [-1, -1, -1, 7, 4, 2, 3]
    assert found.free == [0, 1]


def test_of_equal_siblings_the_left_is_built():
    found = Slots([3, 4], [-1, 7, -1, -1, -1, -1, -1], [0], [10, 10, 1, 1])
    assert found.slots[3:5] == [0, 7] and found.counted == {3: 7}


def test_both_are_built_without_the_parents_histogram():
    found = Slots([3, 4, 5, 6], [-1, -1, 3, -1, -1, -1, -1], [0, 1, 2, 4])
    assert sorted(found.slots[3:]) == [1, 2, 3, 4]
    assert found.counted == {3: -1, 4: -1, 5: 3} and found.slots[6] == 3


def test_eviction_spares_the_histograms_of_parents():
    found = Slots([5, 6], [5, -1, 3, 6, 7, -1, -1], [1])
    assert found.slots[:5] == [-1] * 5 and found.slots[6] == 3
    assert sorted([*found.free, found.slots[5]]) == [1, 5, 6, 7]
    assert found.counted == {5: 3}


def test_children_begin_without_histograms():
    splits = np.zeros(2, SPLIT_DTYPE)
    splits["left_hessian"], splits["total_hessian"] = [5, 7], [9, 20]
    family = np.full((3, 7), 8, np.int64)
    enter_children(np.array([2, 1]), splits, np.array([5, 3]), family)
    assert family[:, 3:].T.tolist() == [[1, -1, 7], [1, -1, 13], [2, -1, 5], [2, -1, 4]]
    assert (family[:, :3] == 8).all()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("team_size", [1, 3])
def test_partition(team_size, sizes):
    nodes = table(sizes)
    nodes["left"][[1, 2]] = -1
    batch, left = np.array([1, 2]), np.array([3, 5])
    splits = np.zeros(2, SPLIT_DTYPE)
    splits["feature"] = 1, 0
    splits["bin"] = 4, -1
    splits["missing_left"] = 0, 1
    features = np.zeros(2, FEATURE_DTYPE)
    features["column"], features["low"], features["bins"] = [5, 6], [0, 9], [30, 31]
    no_sets = np.empty((7, 0), np.uint64)
    enter_splits(batch, splits, no_sets[:2], left, features, nodes, no_sets)
    assert nodes["left"][3:].tolist() == [-1] * 4
    assert nodes["end"][3:].tolist() == [-1] * 4
    tasks = np.full((40, 5), -9)
    n_tasks, n_threads = plan_partition(batch, nodes, team_size, False, tasks)
    assert n_threads == (team_size if sizes is LARGE else 1)
    # Bins 0 to 4 of the second feature go left; of the first all 30 go right.
    for node, exact in ((1, (6, 9, 5, 0, 3)), (2, (5, 0, 30, 1, 5))):
        fields = nodes[node][["column", "low", "count", "inside_right", "left"]]
        assert fields.item() == exact
        own = [task for task in tasks[:n_tasks].tolist() if task[0] == node]
        assert own[0][1] == nodes["begin"][node] and own[-1][2] == nodes["end"][node]
        assert [t[2] for t in own[:-1]] == [t[1] for t in own[1:]]
        first = tasks[:n_tasks].tolist().index(own[0])
        assert {(t[3], t[4]) for t in own} == {(first, first + len(own))}
        assert n_threads > 1 or len(own) == 1
        assert n_threads == 1 or all(t[2] - t[1] >= BLOCK_ROWS for t in own[:-1])


@needs_compiler
@pytest.mark.parametrize("team_size", [2, 7])
@pytest.mark.parametrize("sizes", [[9, 9, 1, 1], [12, 7, 1, 0], [5, 5, 5, 5]])
def test_only_a_node_of_more_than_its_share_has_several_tasks(sizes, team_size):
    """Their rows are moved twice; one and a half times the rows of a thread are."""
    nodes = table([100_000 * size for size in sizes])
    tasks = np.full((80, 5), -9)
    batch = np.array([3, 4, 5, 6])
    n_tasks, n_threads = plan_partition(batch, nodes, team_size, True, tasks)
    assert n_threads == team_size
    for node, size in zip(batch, sizes, strict=True):
        count = np.count_nonzero(tasks[:n_tasks, 0] == node)
        assert (count > 1) == (2 * team_size * size > 3 * sum(sizes))


@pytest.mark.parametrize("missing_left", [0, 1])
@pytest.mark.parametrize(("low", "bins"), [(0, 3), (1, 70), (60, 64)])
def test_the_bins_of_a_categorical_split(low, bins, missing_left):
    codes = low + bins + 5
    rng = np.random.default_rng(bins)
    goes_right = rng.random(bins) < 0.5
    rights = np.zeros((1, 3), np.uint64)
    for category in np.flatnonzero(goes_right).tolist():
        rights[0, category // 64] |= np.uint64(1 << category % 64)
    splits = np.zeros(1, SPLIT_DTYPE)
    splits["is_categorical"], splits["missing_left"] = 1, missing_left
    features = np.array([(4, low, bins, 0, 1)], FEATURE_DTYPE)
    nodes = np.zeros(3, NODE_DTYPE)
    lefts = np.zeros((3, -(-codes // 64)), np.uint64)
    enter_splits(
        np.zeros(1, np.int64), splits, rights, np.ones(1, np.int64), features, nodes,
        lefts,
    )  # fmt: skip
    assert nodes[0][["column", "is_categorical", "left"]].item() == (4, 1, 1)
    assert not lefts[1:].any()
    for code in range(codes):
        is_left = bool(int(lefts[0, code // 64]) >> code % 64 & 1)
        is_category = low <= code < low + bins
        expected = not goes_right[code - low] if is_category else bool(missing_left)
        assert is_left == expected


def test_row_ranges_of_children():
    nodes = table(SMALL)
    # Node 1 was split by one task, node 2 by three.
    tasks = np.array(
        [
            [1, 0, 65, 0, 1],
            [2, 65, 85, 1, 4],
            [2, 85, 105, 1, 4],
            [2, 105, 145, 1, 4],
        ]
    )
    settle_children(tasks, np.array([40, 10, 0, 20]), nodes)
    assert nodes["begin"][3:].tolist() == [0, 40, 65, 95]
    assert nodes["end"][3:].tolist() == [40, 65, 95, 145]
    # One task leaves the rows on the other side, several copy them back.
    assert nodes["side"][3:].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("sizes", [SMALL, LARGE, [0, 5, 0, 1]])
def test_leaves(sizes, n_threads):
    nodes = table(sizes)
    leaves = np.array([3, 4, 5, 6])
    check_leaves(nodes, leaves, np.array([], np.int64), n_threads)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("sizes", [SMALL, LARGE, [0, 5, 0, 1]])
def test_leaves_whose_rows_are_at_the_parent(sizes, n_threads):
    nodes = table(sizes)
    nodes["end"][[5, 6]] = -1
    check_leaves(nodes, np.array([3, 4, 5, 6]), np.array([2]), n_threads)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("left_out", [1, 60, 100_000])
def test_rows_outside_of_the_sample(left_out, n_threads):
    nodes = table(SMALL)
    check_leaves(nodes, np.array([3, 4, 5, 6]), np.empty(0, int), n_threads, left_out)


def check_leaves(nodes, leaves, waiting, n_threads, left_out=0):
    """Assert that tasks cover all rows of all nodes once, and those in none."""
    own_nodes = [*leaves, *waiting]
    in_tree = nodes["end"][0]
    most = 1 + len(own_nodes) + (in_tree + left_out) // TASK_ROWS
    tasks = np.full((most, 5), -9)
    leaf_of_node = np.full(len(nodes), 99, np.uint32)
    leaf_of_node[leaves] = 10 + np.arange(len(leaves))
    n_tasks = plan_leaves(
        leaves, waiting, nodes, in_tree + left_out, 50, n_threads, leaf_of_node, tasks
    )
    assert n_tasks <= most
    others = [task for task in tasks[:n_tasks].tolist() if task[0] == 0]
    places = [in_tree, *(task[4] for task in others)]
    assert [task[3] for task in others] == places[:-1]
    assert places[-1] == in_tree + left_out
    assert all(task[1:3] == [50, 0] for task in others)
    for i, node in enumerate(own_nodes):
        own = [task for task in tasks[:n_tasks].tolist() if task[0] == node]
        begin, end = nodes["begin"][node], nodes["end"][node]
        if end < 0:
            assert own == []
            continue
        places = [begin, *(task[4] for task in own)]
        assert [task[3] for task in own] == places[:-1] and places[-1] == end
        assert all(task[1] == (10 + i if i < len(leaves) else -1) for task in own)
        assert all(task[2] == nodes["side"][node] for task in own)
