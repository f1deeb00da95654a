"""The histogram backend against a reference implementation row by row."""

from __future__ import annotations

from fractions import Fraction

import naive
import numpy as np
import pytest

from hornbeam.backends import quantisation
from hornbeam.backends.factory import create_backend
from hornbeam.backends.interface import GrowthLimits, RowSample, SplitParams
from hornbeam.binning.bin_table import bin_table
from hornbeam.data.containers.dispatch import as_table
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.grower import grow_tree
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS

GROWTH = SplitParams(
    reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=1.0
)
BY_LEVEL = GrowthLimits(lossguide=False, max_depth=4, max_leaves=0, gamma=0.0)
BEST_FIRST = GrowthLimits(lossguide=True, max_depth=4, max_leaves=0, gamma=0.0)
RATE = 0.5
#: The root as the only leaf.
LONE_ROOT = np.zeros(1, np.intp), np.zeros(1, np.intp), 1


class Training:
    """Random rows and gradients in a backend, and all that a plain twin needs."""

    def __init__(
        self,
        rows=90,
        features=3,
        max_bin=8,
        missing=0.1,
        weights=None,
        seed=0,
        **options,
    ):
        rng = np.random.default_rng(seed)
        data = rng.normal(size=(rows, features))
        self.g = rng.normal(size=rows) + np.sin(3 * data[:, 0]) * (data[:, 1] > 0)
        self.h = rng.uniform(0.2, 1, rows)
        data[rng.random(data.shape) < missing] = np.nan
        self.binned = bin_table(as_table(data), max_bin)
        self.bins, self.codes = self.binned.cuts.n_bins, self.binned.by_feature
        self.backend = create_backend(
            "cpu",
            self.binned.as_bins(),
            np.zeros((1, rows)),
            weights,
            np.zeros((1, rows)),
            **{"threads": 1, **options},
        )

    def set_gradients(self):
        """Hand the gradients to the backend."""
        self.g, self.h = (
            values.astype(np.float32).astype(float) for values in (self.g, self.h)
        )
        self.backend.set_gradients(self.g[None], self.h[None])

    def grow(self, shape=BY_LEVEL, growth=GROWTH, sample=None, by_tree=1.0):
        """Return a tree, the features it may use, and its margins for all rows."""
        self.set_gradients()
        columns = ColumnSampler(len(self.bins), by_tree, 1.0, 1.0, 0, 0)
        tree = grow_tree(
            self.backend, 0, self.binned.cuts, growth, shape, columns, sample, RATE
        )
        return tree, columns.columns.tolist(), self.backend.margins()[0]

    def grow_naively(self, columns, rows, growth=GROWTH, depth=4):
        """Return the tree of the plain twin, by coarse steps."""
        bits = COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS
        steps, fixed = [], []
        for values, size in zip((self.g, self.h), bits, strict=True):
            most = 2**size - 1
            steps.append(2.0 ** (naive.exponent_above(np.abs(values).max()) - size))
            exact = [naive.fixed_point(value, steps[-1]) for value in values]
            fixed.append(np.clip(exact, -most, most))
        return naive.grow(
            self.codes, self.bins, self.binned.offsets, columns,
            np.stack(fixed, axis=1), rows, steps, growth.rules, depth,
        )  # fmt: skip

    def check(self, tree, exact, margins, growth=GROWTH, node=0):
        """Assert that `tree` is the naive one, and so are the margins of its rows."""
        if isinstance(exact, list):
            assert tree.left[node] < 0
            sums = [Fraction(0), Fraction(0)]
            for row in exact:
                sums[0] += Fraction(self.g[row])
                sums[1] += Fraction(self.h[row])
            rules = [Fraction(float(rule)) for rule in growth.rules[:3]]
            weight = float(naive.leaf_weight(*sums, *rules))
            assert tree.value[node] == pytest.approx(RATE * weight, rel=1e-6)
            assert tree.cover[node] == pytest.approx(float(sums[1]), rel=1e-6)
            assert (margins[exact] == float(tree.value[node])).all()
            return
        feature, last_bin = exact["feature"], exact["bin"]
        cuts = self.binned.cuts
        threshold = (
            cuts.minimums[feature] if last_bin < 0 else cuts.of(feature)[last_bin]
        )
        assert tree.feature[node] == feature
        assert tree.threshold[node] == threshold
        assert tree.default_left[node] == exact["missing_left"]
        self.check(tree, exact["left"], margins, growth, tree.left[node])
        self.check(tree, exact["right"], margins, growth, tree.right[node])


def leaf_of(codes, bins, tree, row):
    """Return the rows of the naive leaf that `row` reaches."""
    while isinstance(tree, dict):
        f = tree["feature"]
        side = naive.goes_left(
            codes[f][row], tree["bin"], bins[f], tree["missing_left"]
        )
        tree = tree["left" if side else "right"]
    return tree


def same(tree, other):
    """Return whether two trees have the same bytes."""
    return all(
        np.asarray(getattr(tree, name)).tobytes()
        == np.asarray(getattr(other, name)).tobytes()
        for name in tree.__slots__
    )


@pytest.mark.parametrize(
    "shape", [BY_LEVEL, BEST_FIRST], ids=["by level", "best first"]
)
@pytest.mark.parametrize("max_bin", [8, 300])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_tree_equals_the_reference(missing, max_bin, shape):
    training = Training(missing=missing, max_bin=max_bin)
    tree, columns, margins = training.grow(shape)
    assert tree.n_leaves > 6
    exact = training.grow_naively(columns, range(90))
    training.check(tree, exact, margins)


@pytest.mark.parametrize(
    "growth",
    [
        SplitParams(0.0, 0.0, 0.0, 0.0),
        SplitParams(2.0, 1.5, 0.0, 1.0),
        SplitParams(1.0, 0.0, 0.2, 1.0),
        SplitParams(1.0, 0.0, 0.0, 9.0),
    ],
    ids=["free", "alpha", "max_delta_step", "min_child_weight"],
)
def test_the_tree_equals_the_reference_with_other_parameters(growth):
    training = Training()
    tree, columns, margins = training.grow(growth=growth)
    exact = training.grow_naively(columns, range(90), growth)
    training.check(tree, exact, margins, growth)


def test_only_columns_of_the_tree_are_used():
    training = Training(features=6)
    tree, columns, margins = training.grow(by_tree=0.5)
    assert len(columns) == 3
    training.check(tree, training.grow_naively(columns, range(90)), margins)


@pytest.mark.parametrize("seed", [0, 5])
def test_rows_outside_the_sample_get_leaf_values(seed):
    training = Training(rows=120)
    tree, columns, margins = training.grow(sample=RowSample(0.6, seed, 3))
    taken = [row for row in range(120) if naive.draw(row, 3, 0, seed) < 0.6 * 2**32]
    assert 50 < len(taken) < 95
    exact = training.grow_naively(columns, taken)
    training.check(tree, exact, margins)
    for row in set(range(120)) - set(taken):
        (own,) = {
            margins[i] for i in leaf_of(training.codes, training.bins, exact, row)
        }
        assert margins[row] == own


def test_an_empty_sample_gives_a_leaf_of_zero():
    training = Training(rows=3)
    tree, _, margins = training.grow(sample=RowSample(1e-9, 0, 0))
    assert tree.n_nodes == 1 and tree.value[0] == 0.0
    assert not margins.any()


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("best_first", [False, True])
def test_subtracted_histograms_equal_built_ones(best_first, missing):
    shape = GrowthLimits(best_first, 9, 0, 0.0)
    rows = 1500 if COMPILED else 60
    trees = [
        Training(rows, missing=missing, max_histograms=most).grow(shape)[0]
        for most in (None, 100, 16, 1)  # the fewer, the more often all must go
    ]
    assert trees[0].n_leaves > (60 if COMPILED else 10)
    assert all(same(tree, trees[0]) for tree in trees)


def test_several_trees():
    training = Training()
    growths = [training.grow()[0] for _ in range(3)]
    assert same(growths[0], growths[1]) and same(growths[0], growths[2])
    expected = 3 * growths[0].value.astype(float)
    assert set(training.backend.margins()[0]) <= set(expected)


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
@pytest.mark.parametrize("kind", ["coarse", "fine", "weighted", "sampled"])
def test_trees_do_not_depend_on_threads(kind, thread_counts):
    found = []
    for threads in thread_counts:
        weights = np.ones(90_000) if kind == "weighted" else None
        training = Training(90_000, 5, 64, weights=weights, threads=threads)
        if kind == "fine":
            training.g[0] = 1e9
        sample = RowSample(0.7, 1, 2) if kind == "sampled" else None
        tree, _, margins = training.grow(sample=sample)
        found.append((tree, margins))
        training.backend.close()
    for tree, margins in found[1:]:
        assert same(tree, found[0][0])
        assert margins.tobytes() == found[0][1].tobytes()


def total_and_step(training):
    """Return the root's sum of gradients as the search sees it, and its step."""
    training.set_gradients()
    columns = np.arange(len(training.bins), dtype=np.uint64)
    training.backend.begin_tree(0, GROWTH, columns, None)
    (split,), _ = training.backend.find_splits(np.zeros(1, np.intp), None)
    (exact,) = training.backend.sum_leaves(*LONE_ROOT)
    steps = int(split["total_gradient"])
    step = 2.0 ** round(np.log2(exact[0] / steps))
    return steps * step, step


def test_negative_hessians_are_summed_exactly():
    training = Training(2500 if COMPILED else 300, 2)
    training.h[::3] *= -0.5
    training.set_gradients()
    columns = np.arange(2, dtype=np.uint64)
    training.backend.begin_tree(0, GROWTH, columns, None)
    (split,), _ = training.backend.find_splits(np.zeros(1, np.intp), None)
    (exact,) = training.backend.sum_leaves(*LONE_ROOT)
    assert exact[1] == pytest.approx(training.h.sum(), rel=1e-12)
    for part, values in (("gradient", training.g), ("hessian", training.h)):
        step = values.sum() / float(split[f"total_{part}"])
        assert np.log2(step) == pytest.approx(round(np.log2(step)), abs=1e-9)


COARSE = 2.0**-COARSE_GRADIENT_BITS


def small_gradients(steps, rows=500):
    """Return rows whose gradients are nearly all `steps` and a half coarse steps.

    A little less than half a step is lost in each of them: the worst that can be.
    """
    training = Training(rows, 2)
    training.g[:] = (steps + 0.499) * COARSE
    training.g[0] = 0.999  # makes the coarse step what it is
    training.h[:] = 1.0
    return training


@pytest.mark.parametrize("steps", [0, 8, 63])
def test_small_gradients_use_wide_sums(steps):
    training = small_gradients(steps)
    total, step = total_and_step(training)
    assert step < COARSE * 2**-20
    assert total == pytest.approx(training.g.sum(), rel=1e-12)


many_rows = pytest.mark.skipif(not COMPILED, reason="long for plain Python")


@pytest.mark.parametrize(
    ("steps", "rows"), [(5000, 500), pytest.param(128, 50_000, marks=many_rows)]
)
def test_larger_gradients_use_packed_sums_precise_to_1_in_128(steps, rows):
    training = small_gradients(steps, rows)
    total, step = total_and_step(training)
    assert step == COARSE
    assert abs(total - training.g.sum()) <= training.g.sum() / 128


def test_packed_sums_of_small_gradients_would_be_wrong(monkeypatch):
    monkeypatch.setattr(quantisation, "is_precise", lambda *_: True)
    training = small_gradients(8)
    total, step = total_and_step(training)
    assert step == COARSE
    rest = training.g[1:].sum()
    assert abs(total - training.g.sum()) > rest / 20


def leaves_of_the_rest(outliers, size):
    """Return how many leaves the rows without outliers fall into."""
    training = Training(400, 2, missing=0.0)
    training.g[:outliers] = size
    _, _, margins = training.grow(GrowthLimits(False, 6, 0, 0.0))
    return np.unique(margins[outliers:]).size


@pytest.mark.parametrize("size", [1e6, 1e9])
@pytest.mark.parametrize("outliers", [1, 9])
def test_outliers_do_not_hide_the_other_rows(outliers, size, monkeypatch):
    found = leaves_of_the_rest(outliers, size)
    monkeypatch.setattr(quantisation, "is_precise", lambda *_: True)
    assert found > 2 * leaves_of_the_rest(outliers, size)
