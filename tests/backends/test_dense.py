"""Rows in memory: what parts of them answer adds up to what all of them answer."""

from __future__ import annotations

import numpy as np
import pytest
from parts import PartedRows

from hornbeam.backends.base import Growth, RowSample
from hornbeam.backends.dense import DenseRows
from hornbeam.backends.histograms import HistogramBackend
from hornbeam.binning.codes import bin_table
from hornbeam.data.containers.adapters import as_table
from hornbeam.growth.grower import Shape, grow_tree
from hornbeam.growth.sampling import ColumnSampler
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.team import take_team

GROWTH = Growth(reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=0.5)
BY_LEVEL = Shape(best_first=False, max_depth=5, max_leaves=0, gamma=0.0)
BEST_FIRST = Shape(best_first=True, max_depth=0, max_leaves=14, gamma=0.0)
N_ROWS = 3000 if COMPILED else 150
EVERY_ROW = np.arange(N_ROWS)
PARTS = {
    "halves": np.split(EVERY_ROW, [N_ROWS // 2 + 1]),
    "thirds": np.split(EVERY_ROW, [7, N_ROWS // 3]),
    "runs": [EVERY_ROW[part == EVERY_ROW // 5 % 3] for part in range(3)],
    "one is empty": [EVERY_ROW, EVERY_ROW[:0]],
}
KINDS = {
    "by level": {},
    "best first": {"shape": BEST_FIRST},
    "sampled": {"sample": RowSample(0.6, 1, 2)},
    "columns": {"rates": 0.6},
    "weighted": {"weighted": True},
    "fine": {"outlier": 1e9},
    "few histograms": {"max_histograms": 1},
    "negative": {"outlier": -1.0},
}


def make_rows(parts, sized, *arguments):
    return (
        DenseRows(*arguments)
        if parts is None
        else PartedRows(parts, *arguments, sized=sized)
    )


def grow(
    parts=None,
    shape=BY_LEVEL,
    sample=None,
    rates=1.0,
    weighted=False,
    outlier=None,
    max_histograms=None,
    sized=True,
    threads=1,
    seed=0,
):
    """Return the bytes of trees for two outputs, and of the scores after them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    g = rng.normal(size=(2, N_ROWS)) + np.nan_to_num(np.sin(3 * X[:, :2]).T)
    h = rng.uniform(0.2, 1, (2, N_ROWS))
    if outlier is not None:
        h[0, 5] = outlier
    weights = np.ones(N_ROWS) if weighted else None
    binned = bin_table(as_table(X), 16)
    codes = binned.as_codes()
    team = take_team(threads)
    arguments = codes, np.zeros(N_ROWS), weights, np.zeros((2, N_ROWS)), team
    rows = make_rows(parts, sized, *arguments)
    backend = HistogramBackend(rows, codes.layout, N_ROWS, team, max_histograms)
    backend.set_gradients(g, h)
    found = []
    for output in range(2):
        columns = ColumnSampler(4, rates, rates, 1.0, 1, output)
        tree = grow_tree(
            backend, output, binned.cuts, GROWTH, shape, columns, sample, 0.5
        )
        assert tree.n_leaves > 4
        found += [getattr(tree, name).tobytes() for name in tree.__slots__]
    found.append(backend.scores().tobytes())
    backend.close()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", PARTS)
def test_parts_add_up(parts, kind):
    expected = grow(**KINDS[kind])
    assert grow(PARTS[parts], **KINDS[kind]) == expected
    assert grow(PARTS[parts], sized=False, **KINDS[kind]) == expected


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_team_does_not_matter(threads):
    for options in KINDS.values():
        assert grow(PARTS["runs"], threads=threads, **options) == grow(**options)


def test_scores_are_copies():
    codes = bin_table(as_table(np.arange(6.0)[:, None]), 4).as_codes()
    rows = DenseRows(codes, np.zeros(6), None, np.zeros((1, 6)), take_team(1))
    rows.scores()[:] = 5
    assert not rows.scores().any()
    rows.set_scores(np.ones((1, 6)))
    assert rows.scores().all()
