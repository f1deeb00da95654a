"""Speculative splits: fewer calls of the backend, and the same tree."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values

import hornbeam
from hornbeam.backends.factory import create_backend
from hornbeam.backends.interface import GrowthLimits, RowSample, SplitParams
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.grower import grow_tree

GROWTH = SplitParams(
    reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=1.0
)
ROWS, LABELS = few_values(800, 6, missing=0.1, seed=3)
AHEAD = [2, 7, 64]


def with_categories():
    """Return the rows with two more columns, of three and of thirty categories."""
    rng = np.random.default_rng(0)
    few = rng.choice(["a", "b", "c"], 800)
    many = rng.integers(0, 30, 800).astype(str)
    return pl.DataFrame(ROWS).with_columns(few=pl.Series(few), many=pl.Series(many))


TABLES = {"numbers": ROWS, "categories": with_categories()}
BINNED = {name: hornbeam.DMatrix(data).binned(64, 1) for name, data in TABLES.items()}


class Grown:
    """Two trees, the margins after them, and how often splits were looked for."""

    def __init__(self, table, lookahead, shape, rates=(1.0, 1.0, 1.0), share=1.0):
        binned = BINNED[table]
        backend = create_backend(
            "cpu", binned.as_bins(1), LABELS.astype(float)[None], None,
            np.zeros((1, 800)), threads=1, max_histograms=None,
        )  # fmt: skip
        backend.lookahead = lookahead
        backend.grow = lambda *_: None  # the grower asks for each split
        find_splits, self.sizes = backend.find_splits, []

        def counted(nodes, *others):
            self.sizes.append(nodes.size)
            return find_splits(nodes, *others)

        backend.find_splits = counted
        self.trees = []
        for number in range(2):
            gradients = backend.margins() - LABELS.astype(float)
            backend.set_gradients(gradients, np.ones_like(gradients))
            sample = RowSample(share, 5, number) if share < 1.0 else None
            columns = ColumnSampler(backend.n_features, *rates, seed=7, tree=number)
            tree = grow_tree(
                backend, 0, binned.cuts, GROWTH, shape, columns, sample, 0.5
            )
            self.trees.append(tree)
        self.margins = backend.margins()
        backend.close()

    @property
    def bytes(self):
        """All of both trees, and the margins of the rows."""
        arrays = [getattr(tree, name) for tree in self.trees for name in tree.__slots__]
        return [np.asarray(array).tobytes() for array in [*arrays, self.margins]]


def best_first(max_depth=0, max_leaves=0, gamma=0.0):
    return GrowthLimits(True, max_depth, max_leaves, gamma)


@pytest.mark.parametrize("lookahead", AHEAD)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "shape",
    [
        best_first(),
        best_first(max_leaves=2),
        best_first(max_leaves=40),
        best_first(max_depth=4),
        best_first(max_depth=5, max_leaves=17),
        best_first(gamma=6.0),
    ],
    ids=["no limit", "2 leaves", "40 leaves", "depth", "depth and leaves", "gamma"],
)
def test_the_tree_is_the_same(table, shape, lookahead):
    expected = Grown(table, 1, shape)
    assert expected.trees[0].n_leaves > 1
    assert Grown(table, lookahead, shape).bytes == expected.bytes


@examples(60)
@given(
    table=st.sampled_from(list(TABLES)),
    lookahead=st.sampled_from(AHEAD),
    max_depth=st.integers(0, 9),
    max_leaves=st.integers(0, 60),
    gamma=st.sampled_from([0.0, 0.5, 3.0, 30.0]),
    rates=st.tuples(*[st.sampled_from([1.0, 0.6])] * 3),
    share=st.sampled_from([1.0, 0.5]),
)
def test_the_tree_is_the_same_under_any_limits(
    table, lookahead, max_depth, max_leaves, gamma, rates, share
):
    shape = best_first(max_depth, max_leaves, gamma)
    expected = Grown(table, 1, shape, rates, share)
    assert Grown(table, lookahead, shape, rates, share).bytes == expected.bytes


def test_the_backend_is_called_less_often():
    asked = {
        lookahead: sum(size > 0 for size in Grown("numbers", lookahead, shape).sizes)
        for shape in [best_first(max_leaves=64)]
        for lookahead in (1, 4, 16)
    }
    assert asked[1] == 2 * 63  # the root, and the children of all splits but the last
    assert asked[4] < asked[1] / 2.5
    assert asked[16] < asked[1] / 6


def test_no_speculative_split_beyond_the_limits():
    for shape in (best_first(), best_first(max_depth=5)):
        alone, ahead = (Grown("numbers", most, shape) for most in (1, 16))
        # Whoever is worth a split gets it: nothing is looked for in vain.
        assert sum(ahead.sizes) == sum(alone.sizes)
    # Three splits: their children, if they are asked for together, are all there are.
    sizes = Grown("numbers", 64, best_first(max_leaves=4)).sizes
    assert sum(sizes) <= 2 * (1 + 2 + 4)


def test_no_speculative_splits_with_columns_drawn_by_node():
    """Such a draw depends on the node's number, which comes with its turn."""
    found = Grown("numbers", 16, best_first(max_leaves=30), rates=(1.0, 1.0, 0.5))
    assert set(found.sizes) == {1, 2}
