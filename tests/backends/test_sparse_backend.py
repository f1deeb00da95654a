"""The sparse backend grows the same trees as the histogram backend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from hornbeam.backends import sparse_tree_grower
from hornbeam.backends.factory import create_backend
from hornbeam.backends.interface import GrowthLimits, RowSample, SplitParams
from hornbeam.binning.bin_table import bin_table
from hornbeam.binning.sparse import SparseMatrix
from hornbeam.data.containers.dispatch import as_table
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.grower import grow_tree
from hornbeam.kernels.jit import COMPILED

GROWTH = SplitParams(
    reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=0.5
)
COUNTED = replace(GROWTH, min_samples_leaf=20 if COMPILED else 3, path_smooth=3.0)
BY_LEVEL = GrowthLimits(lossguide=False, max_depth=5, max_leaves=0, gamma=0.0)
BEST_FIRST = GrowthLimits(lossguide=True, max_depth=0, max_leaves=14, gamma=0.0)
N_ROWS, N_FEATURES = (1500, 60) if COMPILED else (120, 12)


def table(seed=0, rows=N_ROWS, features=N_FEATURES, share=0.05):
    """Return a table with few filled cells as an array, and gradients for it."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(rows, features))
    data[rng.random(data.shape) > share] = np.nan
    g = rng.normal(size=rows) + np.nansum(data[:, :5], axis=1)
    return data, g.astype(np.float32), rng.uniform(0.2, 1, rows).astype(np.float32)


def as_sparse(data):
    here = ~np.isnan(data)
    return sp.csr_array((data[here], here.nonzero()), shape=data.shape)


def grow(
    data, g, h, shape=BY_LEVEL, sample=None, weights=None, threads=1, rates=1.0,
    growth=GROWTH,
):  # fmt: skip
    """Return the bytes of two trees, and of the margins after them."""
    binned = bin_table(as_table(data), 16)
    backend = create_backend(
        "cpu", binned.as_bins(), np.zeros((1, len(g))), weights, np.zeros((1, len(g))),
        threads=threads, max_histograms=None,
    )  # fmt: skip
    found = []
    for number in range(2):
        backend.set_gradients(g[None], h[None])
        columns = ColumnSampler(binned.n_features, rates, rates, rates, 1, number)
        tree = grow_tree(backend, 0, binned.cuts, growth, shape, columns, sample, 0.5)
        assert tree.n_leaves > 4
        found += [getattr(tree, name).tobytes() for name in tree.__slots__[:8]]
        found.append(backend.margins().tobytes())
    backend.close()
    return isinstance(binned, SparseMatrix), found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shape": BEST_FIRST},
        {"sample": RowSample(0.6, 1, 2)},
        {"sample": RowSample(0.6, 1, 2), "shape": BEST_FIRST},
        {"sample": RowSample(0.6, 1, 2, by_gradient=True)},
        {"rates": 0.7},
        {"growth": COUNTED},
    ],
    ids=[
        "by level",
        "best first",
        "sampled",
        "sampled, best first",
        "by gradient",
        "columns",
        "rows counted",
    ],
)
@pytest.mark.parametrize("gather_one_in", [0, 10**9, 4], ids=["always", "never", "few"])
@pytest.mark.parametrize("histograms", [1, 15])
def test_trees_equal_those_of_dense_bins(
    options, gather_one_in, histograms, monkeypatch
):
    monkeypatch.setattr(sparse_tree_grower, "_GATHER_ONE_IN", gather_one_in)
    monkeypatch.setattr(sparse_tree_grower, "_SLOTS", histograms)
    data, g, h = table()
    thin, found = grow(as_sparse(data), g, h, **options)
    dense, expected = grow(data, g, h, **options)
    assert thin and not dense
    assert found == expected


def test_trees_with_wide_sums_equal_those_of_dense_bins():
    data, g, h = table()
    g[0] = 1e9
    for shape in (BY_LEVEL, BEST_FIRST):
        assert grow(as_sparse(data), g, h, shape)[1] == grow(data, g, h, shape)[1]
    weights = np.ones(N_ROWS)
    found = grow(as_sparse(data), g, h, weights=weights)[1]
    assert found == grow(data, g, h, weights=weights)[1]


def test_many_nodes_in_several_batches(monkeypatch):
    monkeypatch.setattr(sparse_tree_grower, "MOST_NODES", 3)
    data, g, h = table()
    options = {"rates": 0.8}
    assert grow(as_sparse(data), g, h, **options) == (
        True,
        grow(data, g, h, **options)[1],
    )


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
def test_trees_do_not_depend_on_threads(thread_counts):
    data, g, h = table(rows=60_000, features=100, share=0.03)
    sparse = as_sparse(data)
    for shape in (BY_LEVEL, BEST_FIRST):
        trees = [grow(sparse, g, h, shape, threads=n)[1] for n in thread_counts]
        assert all(found == trees[0] for found in trees)
