"""Grows trees on rows of any class, and on several parts whose sums are added."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from hornbeam.backends.dense import DenseRows
from hornbeam.backends.hist import HistogramBackend
from hornbeam.backends.interface import GrowthLimits, RowSample, SplitParams
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import DenseBins
from hornbeam.data.dmatrix import DMatrix
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.grower import grow_tree
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.team import take_team

GROWTH = SplitParams(
    reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=0.5
)
COUNTED = replace(GROWTH, min_samples_leaf=9, path_smooth=3.0)
BY_LEVEL = GrowthLimits(lossguide=False, max_depth=5, max_leaves=0, gamma=0.0)
BEST_FIRST = GrowthLimits(lossguide=True, max_depth=0, max_leaves=14, gamma=0.0)
N_ROWS = 3000 if COMPILED else 150
PENALISED = replace(
    GROWTH,
    reg_alpha=N_ROWS / 1500,
    max_delta_step=0.4,
    min_child_weight=N_ROWS / 150,
)
KINDS = {
    "by level": {},
    "best first": {"shape": BEST_FIRST},
    "sampled": {"sample": RowSample(0.6, 1, 2)},
    "by gradient": {"sample": RowSample(0.3, 1, 2, by_gradient=True)},
    "columns": {"rates": 0.6},
    "weighted": {"weighted": True},
    "fine": {"outlier": 1e9},
    "fine by gradient": {
        "outlier": 1e9,
        "sample": RowSample(0.3, 1, 2, by_gradient=True),
    },
    "few histograms": {"max_histograms": 1},
    "negative": {"outlier": -1.0},
    "rows counted": {"growth": COUNTED},
    "rows counted, best first": {"growth": COUNTED, "shape": BEST_FIRST},
    "rows counted, fine": {"growth": COUNTED, "outlier": 1e9},
    "one-side": {"sample": RowSample(0.3, 1, 2, True, 0.2)},
    "numerical": {"categorical": False, "growth": PENALISED},
    "numerical, best first": {"categorical": False, "shape": BEST_FIRST, "rates": 0.6},
    "numerical, few histograms": {"categorical": False, "max_histograms": 1},
    "numerical, fine": {"categorical": False, "outlier": 1e9},
}


def split_codes(codes, rows):
    """Return the codes of these rows."""
    by_row = codes.by_row.reshape(codes.by_feature.shape[1], -1)
    by_feature = np.ascontiguousarray(codes.by_feature[:, rows])
    by_row = np.ascontiguousarray(by_row[rows]).ravel()
    return DenseBins(by_feature, by_row, codes.layout, codes.row_columns)


def spans_of(rows):
    """Return the runs of neighbours among `rows`: first place, and number of it."""
    firsts = np.flatnonzero(np.diff(rows, prepend=-9) != 1)
    return np.stack([firsts, rows[firsts]], axis=1)


class PartedRows(Rows):
    """Rows of several parts, each a list of row numbers.

    `sized` says whether parts return the sizes of nodes, as rows on disk do not.
    """

    def __init__(self, parts, codes, labels, weights, margins, team, sized=True):
        self.n_outputs, self.n_rows = margins.shape
        self.layout, self.n_features = codes.layout, codes.layout.n_bins.size
        self._sized = sized
        self._numbers = [np.asarray(part, np.int64) for part in parts]
        self._parts = [
            DenseRows(
                split_codes(codes, rows),
                labels[:, rows],
                None if weights is None else weights[rows],
                np.ascontiguousarray(margins[:, rows]),
                team,
                RowNumbers(rows.size, spans_of(rows)),
            )
            for rows in self._numbers
        ]

    def compute_gradients(self, objective):
        for part in self._parts:
            part.compute_gradients(objective)

    def set_gradients(self, gradients, hessians):
        for part, rows in zip(self._parts, self._numbers, strict=True):
            part.set_gradients(gradients[:, rows], hessians[:, rows])

    def gradient_ranges(self):
        found = np.stack([part.gradient_ranges() for part in self._parts])
        most, least = found.max(axis=0), found.min(axis=0)
        return np.concatenate([most[:, :2], least[:, 2:]], axis=1)

    def count_size_classes(self, *args):
        return sum(part.count_size_classes(*args) for part in self._parts)

    def begin_tree(self, *args):
        return sum(part.begin_tree(*args) for part in self._parts)

    def widen(self, columns=(0,)):
        for part in self._parts:
            part.widen(columns)

    def sizes(self, nodes):
        return sum(part.sizes(nodes) for part in self._parts) if self._sized else None

    def build_histograms(self, nodes, slots, histograms):
        columns, _, *shape = histograms.shape
        total = np.zeros((columns, len(nodes), *shape), np.int64)
        own = np.zeros_like(total)
        for part in self._parts:
            part.build_histograms(nodes, np.arange(len(nodes)), own)
            total += own
        histograms[:, slots] = total

    def apply_splits(self, *args):
        for part in self._parts:
            part.apply_splits(*args)

    def sum_leaves(self, *args):
        return sum(part.sum_leaves(*args) for part in self._parts)

    def add_leaf_values(self, values):
        for part in self._parts:
            part.add_leaf_values(values)

    def margins(self):
        margins = np.empty((self.n_outputs, self.n_rows))
        for part, rows in zip(self._parts, self._numbers, strict=True):
            margins[:, rows] = part.margins()
        return margins

    def set_margins(self, margins):
        for part, rows in zip(self._parts, self._numbers, strict=True):
            part.set_margins(margins[:, rows])

    def close(self):
        for part in self._parts:
            part.close()


def grow(
    make_rows=DenseRows,
    shape=BY_LEVEL,
    sample=None,
    rates=1.0,
    weighted=False,
    outlier=None,
    max_histograms=None,
    growth=GROWTH,
    threads=1,
    most_bins=16,
    seed=0,
    categorical=True,
):
    """Return the bytes of trees for two outputs, and of the margins after them.

    The first two of five features have a part of the gradients each, the last one may
    be categorical. `make_rows` gets codes, labels, weights, margins and a team.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    g = rng.normal(size=(2, N_ROWS)) + np.nan_to_num(np.sin(3 * X[:, :2]).T)
    X[:, 4] = rng.integers(9, size=N_ROWS)
    g += X[:, 4] % 3 == 1
    h = rng.uniform(0.2, 1, (2, N_ROWS))
    if outlier is not None:
        h[0, 5] = outlier
    weights = np.ones(N_ROWS) if weighted else None
    kinds = ["q", "q", "q", "q", "c" if categorical else "q"]
    binned = DMatrix(X, feature_types=kinds).binned(most_bins)
    codes = binned.as_bins()
    team = take_team(threads)
    arguments = codes, np.zeros((1, N_ROWS)), weights, np.zeros((2, N_ROWS)), team
    rows = make_rows(*arguments)
    backend = HistogramBackend(rows, team, max_histograms)
    backend.set_gradients(g, h)
    found = []
    for output in range(2):
        columns = ColumnSampler(5, rates, rates, 1.0, 1, output)
        tree = grow_tree(
            backend, output, binned.cuts, growth, shape, columns, sample, 0.5
        )
        assert tree.n_leaves > 4
        arrays = (getattr(tree, name) for name in tree.__slots__)
        found += [array.tobytes() for array in arrays if array is not None]
    found.append(backend.margins().tobytes())
    backend.close()
    return found


@cache
def grow_in_memory(kind):
    """Return what `grow` returns for rows in memory, which others are compared with."""
    return grow(**KINDS[kind])
