"""Splits of nodes of few rows are those of wide histograms, found with less work."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_calls import split_rules

from hornbeam.kernels.bins import Bins
from hornbeam.kernels.histogram import BinColumns
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import (
    BLOCK_ROWS,
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    COLUMN_DTYPE,
    FEATURE_DTYPE,
    SPLIT_DTYPE,
)
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.packed_split import (
    PackedSums,
    SplitBuffers,
    can_split,
    pack,
    search_packed_node,
    subtract_packed,
    subtract_rows,
    sum_few_rows,
)
from hornbeam.kernels.split import CandidateFeatures, search_node

BINS = [17, 3, 1, 64, 5, 200, 2]
#: lambda, alpha, max_delta_step, min_child_weight
RULES = {
    "plain": [1, 0, 0, 1],
    "no penalty": [0, 0, 0, 0],
    "large lambda": [1e6, 0, 0, 0],
    "alpha": [1, 20, 0, 1],
    "min_child_weight": [1, 0, 0, 30],
    "max_delta_step": [1, 0, 0.05, 1],
}
SCALES = {
    "small": np.array([2.0**-20, 2.0**-18]),
    "large": np.array([2.0**40, 2.0**31]),
    "tiny": np.array([2.0**-700, 2.0**-600]),
}
SIZES = [2, 3, 7, 40, 130, 700, *([BLOCK_ROWS] if COMPILED else [])]


class Node:
    """Rows of one node, and its histograms."""

    def __init__(self, rows, seed, *, missing=0.2, signal=True, categorical=()):
        rng = np.random.default_rng(seed)
        self.codes = [rng.integers(0, bins, rows) for bins in BINS]
        for column, bins in zip(self.codes, BINS, strict=True):
            column[rng.random(rows) < missing] = bins
        most_g, most_h = 1 << COARSE_GRADIENT_BITS, 1 << COARSE_HESSIAN_BITS
        g = rng.integers(-most_g + 1, most_g, rows)
        if signal:
            g = (g + (self.codes[3] - 32) * (most_g // 64)).clip(
                -most_g + 1, most_g - 1
            )
        h = rng.integers(0, most_h, rows)
        if seed % 3 == 0:
            g, h = np.sign(g), np.ones_like(h)  # many ties
        self.pairs = np.stack([g, h], axis=1)
        self.packed = (g << 32) + h
        self.offsets = np.concatenate([[0], np.cumsum(np.array(BINS) + 1)])
        self.features = np.zeros(len(BINS), FEATURE_DTYPE)
        self.features["column"] = np.arange(len(BINS))
        self.features["bins"], self.features["cell"] = BINS, self.offsets[:-1]
        self.features["is_categorical"][list(categorical)] = 1
        self.words = 4 if categorical else 0
        chosen = np.arange(len(BINS), dtype=np.uint64)
        codes = np.ascontiguousarray(np.array(self.codes, np.uint8).T).reshape(-1)
        cells = self.offsets[:-1].copy()
        self.columns = BinColumns(
            *Bins.of(codes),
            chosen,
            np.zeros(len(BINS), np.int64),
            cells,
            np.zeros(len(BINS), COLUMN_DTYPE),
            np.empty(0, np.uint32),
            *Bins.of(np.empty((0, 0), np.uint8)),
        )
        self.rows = np.arange(rows, dtype=np.uint32)
        bins = int(self.offsets[-1])
        self.buffers = SplitBuffers(
            np.full((8, 2 * max(BINS) + 1), np.nan),
            np.arange(2 * max(BINS) + 1),
            np.zeros(bins, np.int64),
            np.zeros(bins // 64 + 1, np.uint64),
        )

    def histogram(self, rows=slice(None)):
        """Return the wide histogram of these rows."""
        sums = np.zeros((2, int(self.offsets[-1])), np.int64)
        for offset, codes in zip(self.offsets, self.codes, strict=False):
            for part in range(2):
                np.add.at(sums[part], offset + codes[rows], self.pairs[rows, part])
        return sums

    def candidates(self, allowed):
        mask = np.empty((0, 0), np.uint8)
        if allowed is not None:
            mask = np.zeros((1, len(BINS)), np.uint8)
            mask[0, allowed] = 1
        return CandidateFeatures(self.columns.chosen, mask, len(BINS))

    def out(self):
        kind = np.uint64 if self.words else np.uint8
        return np.zeros((), SPLIT_DTYPE)[()], np.zeros(self.words, kind)

    def wide_split(
        self, rules, scales, allowed=None, limits=None, is_coarse=False, repeats=1
    ):
        """Return the split of rows that are there so many times."""
        splits, rights = np.zeros(1, SPLIT_DTYPE), self.out()[1]
        candidates, values = self.candidates(allowed), self.buffers.values
        search_node(
            repeats * self.histogram(), is_coarse, 0, candidates, self.features,
            self.offsets[:2], scales, rules, limits, values, splits[0], rights,
        )  # fmt: skip
        return splits[0], rights

    def packed_split(self, few, rules, scales, allowed=None, limits=None):
        splits, rights = np.zeros(1, SPLIT_DTYPE), self.out()[1]
        if few:
            total = sum_few_rows(self.columns, self.rows, self.packed, self.buffers)
            sums = self.buffers.sums
        else:
            sums = (self.histogram()[0] << 32) + self.histogram()[1]
            total = sums[: self.offsets[1]].sum()
        search_packed_node(
            PackedSums(sums, total, few), 0, self.candidates(allowed), self.features,
            scales, rules, limits, self.buffers, splits[0], rights,
        )  # fmt: skip
        assert not self.buffers.sums.any()
        assert not self.buffers.touched.any()
        return splits[0], rights


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("rows", SIZES)
def test_the_split_is_that_of_the_wide_histogram(rows, rules, scales):
    chosen = split_rules(*RULES[rules])
    for seed in range(12 if COMPILED and rows < 1000 else 2):
        node = Node(rows, seed, missing=seed % 2 * 0.3, signal=seed % 4 > 1)
        expected, _ = node.wide_split(chosen, SCALES[scales])
        for few in (False, True):
            found, _ = node.packed_split(few, chosen, SCALES[scales])
            assert found == expected


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("rows", SIZES)
def test_the_split_of_many_rows_is_that_of_exact_scores(rows, rules, scales):
    chosen, repeats = split_rules(*RULES[rules]), (1 << 32) // rows
    for seed in range(12 if COMPILED and rows < 1000 else 2):
        node = Node(rows, seed, missing=seed % 2 * 0.3, signal=seed % 4 > 1)
        expected, found = (
            node.wide_split(
                chosen, SCALES[scales], is_coarse=is_coarse, repeats=repeats
            )[0]
            for is_coarse in (False, True)
        )
        assert found == expected


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("rows", SIZES)
def test_the_split_under_constraints_is_that_of_the_wide_histogram(rows, few):
    directions = np.array([1, -1, 0, 1, 0, -1, 0][: len(BINS)], np.int8)
    rules = split_rules(1.0, 0.0, 0.0, 1.0, 4, 64, 3.0, 2.0)
    for bounds in ((-np.inf, np.inf), (-0.5, 0.25)):
        limits = NodeConstraints(
            np.array([bounds]),
            np.array([0.1]),
            directions,
            np.empty(0),
            np.empty((0, 0), np.uint64),
        )
        for seed in range(4 if COMPILED and rows < 1000 else 1):
            node = Node(rows, seed, missing=seed % 2 * 0.3, signal=seed % 4 > 1)
            scales = SCALES["small"]
            expected, _ = node.wide_split(rules, scales, limits=limits)
            found, _ = node.packed_split(few, rules, scales, limits=limits)
            assert found == expected


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("shrinkage", [[], [4, 64, 0, 0, 9, 5, 0.01, 0.1]], ids=str)
def test_categories_and_features_that_are_not_allowed(few, shrinkage):
    rules, scales = split_rules(*RULES["plain"][:4], *shrinkage), SCALES["small"]
    for allowed in ([0, 1, 3], [4, 5], [6]):
        node = Node(90, 5, categorical=(1, 5))
        expected, sets = node.wide_split(rules, scales, allowed)
        found, rights = node.packed_split(few, rules, scales, allowed)
        assert found == expected
        assert found["feature"] in [*allowed, -1]
        if expected["is_categorical"]:
            np.testing.assert_array_equal(rights, sets)


@pytest.mark.parametrize("was_packed", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("by_rows", [False, True])
def test_subtraction_leaves_the_sibling(was_packed, is_packed, by_rows):
    if was_packed and not is_packed:
        pytest.skip("a child has fewer rows than its parent")
    node = Node(120, 1)
    parent, child = node.histogram(), node.histogram(slice(50))
    rest = node.histogram(slice(50, None))
    if was_packed:
        parent[0] = (parent[0] << 32) + parent[1]
    if by_rows:
        subtract_rows(node.columns, node.rows[:50], node.packed, was_packed, parent)
        if is_packed and not was_packed:
            pack(parent)
    else:
        child[0] = (child[0] << 32) + child[1]
        bins = child.shape[1]
        for begin, end in ((0, 9), (9, bins)):
            subtract_packed(parent, child, was_packed, is_packed, begin, end)
    if is_packed:
        np.testing.assert_array_equal(parent[0], (rest[0] << 32) + rest[1])
    else:
        np.testing.assert_array_equal(parent, rest)


def test_a_node_with_too_small_a_hessian_cannot_be_split():
    scales = np.array([2.0**-10, 2.0**-10])
    for least, hessian in ((0.0, 2), (1.0, 2048), (0.5, 1024)):
        rules = split_rules(1, 0, 0, least)
        assert can_split(hessian, scales, rules)
        assert not can_split(hessian - 1, scales, rules)


def test_bins_of_two_bytes_are_summed_as_those_of_one():
    node = Node(60, 1)
    narrow = node.columns.narrow
    wide = node.columns._replace(narrow=narrow[:0], wide=narrow.astype(np.uint16))
    found = []
    for columns in (node.columns, wide):
        total = sum_few_rows(columns, node.rows, node.packed, node.buffers)
        histogram = node.histogram()
        subtract_rows(columns, node.rows[:20], node.packed, False, histogram)
        found.append((total, node.buffers.sums.copy(), histogram))
        node.buffers.sums[:], node.buffers.touched[:] = 0, 0
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
