"""Kernels over stored entries, against dense histograms in exact fractions."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, split_rules

from hornbeam.kernels.bins import Bins
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.partition import look_up_leaves
from hornbeam.kernels.sparse import (
    NodeGradients,
    SparseEntries,
    SparseHistograms,
    SparseScratch,
    find_sparse_splits,
    gather_bins,
    list_rows,
    mark_rows,
    send_rows,
    sort_by_bin,
    transpose_entries,
)
from hornbeam.kernels.split import CandidateFeatures

CODES = [np.uint8, np.uint16]
STEPS = np.array([2.0**-10, 2.0**-12])
RULES = {
    "plain": [1, 0, 0, 1],
    "no lambda": [0, 0, 0, 0],
    "alpha": [1, 20, 0, 1],
    "min_child_weight": [1, 0, 0, 90],
    "all": [0.5, 11, 0.06, 40],
}


class Cells:
    """Bins of a few features, mostly missing, as sparse and dense; rows in nodes."""

    def __init__(
        self,
        rows=70,
        bins=(5, 1, 9, 3),
        filled=0.3,
        nodes=3,
        seed=0,
        code_type=np.uint8,
    ):
        rng = np.random.default_rng(seed)
        self.bins = np.array(bins)
        self.dense = [rng.integers(0, n, rows) for n in bins]
        for column, n in zip(self.dense, bins, strict=True):
            column[rng.random(rows) > filled] = n
        self.offsets = np.concatenate([[0], np.cumsum(self.bins + 1)])
        cells = [
            (f, code, row)
            for f, column in enumerate(self.dense)
            for row, code in enumerate(column)
            if code < bins[f]
        ]
        cells.sort()
        features, codes, own_rows = np.array(cells).reshape(-1, 3).T
        self.starts = np.searchsorted(features, np.arange(len(bins) + 1))
        self.codes = codes.astype(code_type)
        self.rows = own_rows.astype(np.uint32)
        self.node_of = rng.integers(0, nodes + 2, rows).astype(np.uint32)
        self.pairs = np.stack(
            [rng.integers(-90_000, 90_000, rows), rng.integers(1, 90_000, rows)], axis=1
        )
        self.batch = 1 + np.arange(nodes)  # without node 0 and the last
        self.place = np.full(nodes + 2, nodes, np.uint32)
        self.place[self.batch] = np.arange(nodes)
        self.taken = np.empty(0, np.uint8)

    def mark(self, wide=False, n_threads=1):
        """Return words, fine gradients and the sums of the nodes."""
        words = np.empty(self.node_of.size, np.int64)
        packed = (self.pairs[:, 0] << 32) + self.pairs[:, 1]
        pairs = np.ascontiguousarray(self.pairs.T) if wide else np.empty((2, 0), int)
        # Buffers may be longer than the batch.
        sums = np.full((n_threads, self.batch.size + 3, 3), 7, np.int64)
        call(
            mark_rows, self.node_of, self.place, self.batch.size, self.taken,
            packed[:0] if wide else packed, pairs, words, sums, n_threads=n_threads,
        )  # fmt: skip
        return words, pairs, sums.sum(axis=0)[: self.batch.size]

    def rows_of(self, node):
        """Return the rows of a node that are in the sample."""
        own = np.flatnonzero(self.node_of == node).tolist()
        return own if self.taken.size == 0 else [row for row in own if self.taken[row]]

    def histograms(self, nodes):
        """Return the histograms of the first nodes, which are to be built."""
        slots = np.full(self.batch.size + 1, -1)
        slots[:nodes] = np.arange(nodes)
        bounds = np.concatenate([[0], np.cumsum(self.bins)])
        return SparseHistograms(
            np.full((max(nodes, 1), 2, bounds[-1]), 7),
            bounds,
            SparseEntries(self.starts, self.rows, *Bins.of(self.codes)),
            slots[:-1],
            slots,
            np.full(self.batch.size, -1),
        )

    def find(
        self,
        rules,
        allowed=None,
        wide=False,
        n_threads=1,
        block=1,
        with_histograms=0,
    ):
        """Return the best splits of the batch."""
        words, pairs, sums = self.mark(wide, n_threads)
        most = int(np.diff(self.starts).max())
        splits = np.zeros((n_threads, self.batch.size + 2), SPLIT_DTYPE)
        call(
            find_sparse_splits,
            SparseEntries(self.starts, self.rows, *Bins.of(self.codes)),
            NodeGradients(words, pairs, sums),
            self.histograms(with_histograms),
            CandidateFeatures(
                np.arange(self.bins.size, dtype=np.uint64),
                np.empty((0, 0), np.uint8) if allowed is None else allowed,
                block,
            ),
            STEPS,
            split_rules(*rules),
            None,
            SparseScratch(
                np.empty((n_threads, 2, most), np.int64),
                np.empty((n_threads, 2, most if wide else 0), np.int64),
                np.empty((n_threads, self.batch.size + 4), np.int64),
                np.full((n_threads, 8, self.bins.max() + 1), np.nan),
            ),
            splits,
            n_threads=n_threads,
        )
        return splits[0, : self.batch.size]

    def check(self, split, node, rules, columns):
        """Assert that `split` is the one of the dense histogram."""
        every = range(self.bins.size)
        rows = self.rows_of(node)
        sums = naive.histogram(self.dense, self.offsets, every, rows, self.pairs)
        exact = naive.best_split(sums, self.offsets, self.bins, columns, STEPS, rules)
        if exact is None:
            assert split["feature"] == -1 and split["gain"] == 0.0
            return
        gain, feature, last_bin, missing_left, left = exact
        found = [split[name].item() for name in ("feature", "bin", "missing_left")]
        assert found == [feature, last_bin, missing_left]
        assert [split["left_gradient"], split["left_hessian"]] == left
        assert split["gain"] == pytest.approx(float(gain), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("case", RULES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("code_type", CODES)
def test_the_splits_of_the_dense_histograms(code_type, seed, case, wide):
    filled = [0.05, 0.3, 0.7, 1.0][seed]
    cells = Cells(filled=filled, seed=seed, code_type=code_type)
    splits = cells.find(RULES[case], wide=wide, with_histograms=seed % 3)
    for node, split in zip(cells.batch, splits, strict=True):
        cells.check(split, node, RULES[case], [0, 1, 2, 3])


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_of_equal_features_the_lowest_wins(n_threads):
    cells = Cells(bins=(4,) * 9, seed=3)
    n_cells = int(cells.starts[1])
    cells.dense = cells.dense[:1] * 9
    cells.starts = np.arange(10) * n_cells
    cells.rows = np.tile(cells.rows[:n_cells], 9)
    cells.codes = np.tile(cells.codes[:n_cells], 9)
    splits = cells.find(RULES["plain"], n_threads=n_threads)
    assert set(splits["feature"]) == {0}


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_features_that_are_not_allowed(n_threads):
    cells = Cells(seed=5)
    allowed = np.array([[1, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]], np.uint8)
    splits = cells.find(RULES["plain"], allowed, n_threads=n_threads)
    for node, split, mask in zip(cells.batch, splits, allowed, strict=True):
        columns = np.flatnonzero(mask).tolist()
        if columns:
            cells.check(split, node, RULES["plain"], columns)
        else:
            assert split["feature"] == -1


@pytest.mark.parametrize("wide", [False, True])
def test_rows_outside_of_the_sample_do_not_count(wide):
    cells = Cells(seed=6)
    cells.taken = np.random.default_rng(0).integers(0, 2, 70).astype(np.uint8)
    _, _, sums = cells.mark(wide)
    for node, own in zip(cells.batch, sums, strict=True):
        rows = cells.rows_of(node)
        assert own.tolist() == [*cells.pairs[rows].sum(axis=0), len(rows)]
    for node, split in zip(
        cells.batch, cells.find(RULES["plain"], wide=wide), strict=True
    ):
        cells.check(split, node, RULES["plain"], [0, 1, 2, 3])


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("missing_left", [0, 1])
@pytest.mark.parametrize("code_type", CODES)
def test_rows_are_sent_by_their_bins(code_type, missing_left, n_threads):
    cells = Cells(nodes=4, seed=7, code_type=code_type)
    splits = np.zeros(4, SPLIT_DTYPE)
    splits["feature"] = [0, 2, 2, 1]
    splits["bin"] = [2, -1, 4, 0]
    splits["missing_left"] = missing_left
    left = np.array([6, 8, 10, 12])
    after = np.arange(6, dtype=np.uint32)
    after[cells.batch] = left + 1 - missing_left
    node_of = cells.node_of.copy()
    call(
        send_rows,
        SparseEntries(cells.starts, cells.rows, *Bins.of(cells.codes)),
        splits,
        left,
        after,
        node_of,
        n_threads=n_threads,
    )
    for row, node in enumerate(cells.node_of):
        expected = node
        if node in cells.batch:
            split = splits[node - 1]
            f = split["feature"]
            goes_left = naive.goes_left(
                cells.dense[f][row], split["bin"], cells.bins[f], missing_left
            )
            expected = left[node - 1] + (0 if goes_left else 1)
        assert node_of[row] == expected


def turned(cells):
    """Return the entries in row-major order."""
    pointers = np.zeros(cells.node_of.size + 1, np.int64)
    features, codes = np.empty_like(cells.rows), np.empty_like(cells.codes)
    transpose_entries(cells.starts, cells.rows, cells.codes, pointers, features, codes)
    return pointers, features, codes


def test_entries_in_row_major_order():
    cells = Cells(seed=8)
    pointers, features, codes = turned(cells)
    for row in range(70):
        own = slice(pointers[row], pointers[row + 1])
        found = list(zip(features[own].tolist(), codes[own].tolist(), strict=True))
        expected = [
            (f, int(column[row]))
            for f, column in enumerate(cells.dense)
            if column[row] < cells.bins[f]
        ]
        assert found == expected


@pytest.mark.parametrize("code_type", CODES)
def test_entries_of_few_rows_by_feature_and_bin(code_type):
    cells = Cells(seed=9, code_type=code_type)
    words, _, sums = cells.mark()
    pointers, features, codes = turned(cells)
    listed = np.empty(int(sums[:, 2].sum()), np.uint32)
    count = list_rows(words, np.array([-1, -1, -1, 0]), pointers, listed)
    expected = np.flatnonzero(np.isin(cells.node_of, cells.batch))
    np.testing.assert_array_equal(listed, expected)
    here = np.isin(cells.rows, listed)
    assert count == here.sum()
    starts, rows = np.empty_like(cells.starts), np.empty(count, np.uint32)
    own_codes, scratch = np.empty((2, count), code_type)
    gather_bins(
        listed, pointers, features, Bins.of(codes), np.empty(9, np.int64),
        np.empty((2, count), np.uint32), Bins.of(scratch), starts, rows,
        Bins.of(own_codes),
    )  # fmt: skip
    np.testing.assert_array_equal(rows, cells.rows[here])
    np.testing.assert_array_equal(own_codes, cells.codes[here])
    before = np.concatenate([[0], np.cumsum(here)])
    np.testing.assert_array_equal(starts, before[cells.starts])


def test_entries_of_a_feature_by_bin():
    rng = np.random.default_rng(0)
    codes, rows = rng.integers(0, 7, 40).astype(np.uint8), np.arange(40, dtype="u4")
    out_codes, out_rows = np.empty_like(codes), np.empty_like(rows)
    sort_by_bin(codes, rows, np.empty(7, np.int64), out_codes, out_rows)
    order = np.argsort(codes, kind="stable")
    np.testing.assert_array_equal(out_codes, codes[order])
    np.testing.assert_array_equal(out_rows, rows[order])


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_the_leaf_of_each_row(n_threads):
    rng = np.random.default_rng(0)
    nodes, taken = rng.integers(0, 5, 300).astype(np.uint32), rng.integers(0, 2, 300)
    leaves, out = np.array([3, 1, 4, 1, 5], np.uint32), np.empty(300, np.uint32)
    every_row = np.empty(0, np.uint8)
    call(look_up_leaves, leaves, nodes, every_row, 9, out, n_threads=n_threads)
    np.testing.assert_array_equal(out, leaves[nodes])
    taken = taken.astype(np.uint8)
    call(look_up_leaves, leaves, nodes, taken, 9, out, n_threads=n_threads)
    np.testing.assert_array_equal(out, np.where(taken, leaves[nodes], 9))
