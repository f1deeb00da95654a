"""Quantile sketches and their error bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning.cuts import cut_summary, integer_weights
from hornbeam.binning.sketch import SketchOfChunks, sketch_sorted
from hornbeam.binning.value_counts import cut_column


def sketch_of(values, weights, points, chunk_rows):
    """Return the sketch of a column that is read in chunks."""
    chunks = SketchOfChunks(points)
    for start in range(0, values.size, chunk_rows):
        part = slice(start, start + chunk_rows)
        order = np.argsort(values[part], kind="stable")
        chunks.add(
            values[part][order], None if weights is None else weights[part][order]
        )
    return chunks.whole()


def worst_error(sketch, values, weights):
    """Return the largest error of the weight below, or up to, any value."""
    weights = np.ones(values.size, np.int64) if weights is None else weights
    order = np.argsort(values, kind="stable")
    passed = np.append(0, np.cumsum(weights[order]))
    told = np.append(0, np.cumsum(sketch.weights))
    probes = np.unique(np.concatenate([values, sketch.values]))
    return max(
        int(
            np.abs(
                passed[np.searchsorted(values[order], probes, side)]
                - told[np.searchsorted(sketch.values, probes, side)]
            ).max()
        )
        for side in ("left", "right")
    )


def check_bound(values, weights, points, chunk_rows):
    """Assert that errors are within the bound, and the bound within that of theory."""
    sketch = sketch_of(values, weights, points, chunk_rows)
    total = values.size if weights is None else int(weights.sum())
    assert sketch.weights.sum() == total
    assert sketch.values.size <= points and (np.diff(sketch.values) > 0).all()
    assert worst_error(sketch, values, weights) <= sketch.error
    chunks = -(-values.size // chunk_rows)
    levels = max(chunks - 1, 0).bit_length() + 1  # each chunk, and the merges
    assert sketch.error <= levels * total / (2 * points) + 4 * chunks
    distinct = np.unique(values if weights is None else values[weights > 0])
    if distinct.size <= points:
        assert sketch.error == 0
        np.testing.assert_array_equal(sketch.values, distinct)


columns = st.integers(1, 400).flatmap(
    lambda rows: st.tuples(
        st.integers(0, 2**32 - 1), st.just(rows), st.sampled_from([2, 20, 10**6])
    )
)


@examples(60)
@given(
    columns,
    st.sampled_from([4, 16, 100]),
    st.sampled_from([7, 50, 400]),
    st.sampled_from(["none", "small", "heavy", "wide"]),
)
def test_errors_of_ranks_are_within_the_bound(column, points, chunk_rows, weighting):
    seed, rows, distinct = column
    rng = np.random.default_rng(seed)
    values = rng.integers(0, distinct, rows) / 7
    weights = {
        "none": None,
        "small": rng.integers(0, 4, rows),
        "heavy": np.where(rng.random(rows) < 0.02, 10**6, 1),
        "wide": rng.integers(0, 2**50, rows),
    }[weighting]
    check_bound(values, weights, points, chunk_rows)


@examples(100)
@given(
    columns,
    st.sampled_from([4, 16, 100]),
    st.integers(1, 9),
    st.sampled_from([1, 8]),
    st.sampled_from([2, 7, 30]),
)
def test_weighted_sketches_merge_in_any_order(column, points, parts, skew, bins):
    """The merge of Chen and Guestrin (2016), appendix A.2, and its bound.

    Each row is in one part, the parts are of any size, and any two of them merge next.
    """
    seed, rows, distinct = column
    rng = np.random.default_rng(seed)
    values = rng.integers(0, distinct, rows) / 7
    hessians = rng.random(rows) ** skew
    weights = integer_weights(hessians)
    part_of = rng.integers(parts, size=rows)
    sketches = []
    for part in range(parts):
        own = np.flatnonzero(part_of == part)
        own = own[np.argsort(values[own], kind="stable")]
        steps = integer_weights(hessians[own], hessians.max(), rows)
        np.testing.assert_array_equal(steps, weights[own])
        sketches.append(sketch_sorted(values[own], steps, points))
    whole = sketch_sorted(np.sort(values), weights[np.argsort(values)], points)
    while len(sketches) > 1:
        first, second = (sketches.pop(rng.integers(len(sketches))) for _ in range(2))
        merged, turned = first.merge(second), second.merge(first)
        np.testing.assert_array_equal(merged.values, turned.values)
        np.testing.assert_array_equal(merged.weights, turned.weights)
        step = (first.weights.sum() + second.weights.sum()) // (2 * points) + 2
        assert merged.error <= first.error + second.error + step
        sketches.append(merged)
    (merged,) = sketches
    total = int(weights.sum())
    assert merged.weights.sum() == total
    assert worst_error(merged, values, weights) <= merged.error
    if np.unique(values[weights > 0]).size <= points:
        assert merged.error == whole.error == 0
        np.testing.assert_array_equal(merged.values, whole.values)
        np.testing.assert_array_equal(merged.weights, whole.weights)
    check_candidates(merged, values, weights, bins)


def check_candidates(sketch, values, weights, bins):
    """Assert |r(s_k) - r(s_k+1)| <= 1/bins, and what the sketch does not know.

    r(z) is the share of the weight of the values below z (Chen and Guestrin 2016,
    section 3.3); a single value may weigh more.
    """
    upper = cut_summary(sketch.summary(), bins, False).upper
    if sketch.values.size <= bins:
        return  # each has a bin of its own
    total = int(weights.sum())
    for low, high in itertools.pairwise([-np.inf, *upper]):
        between = weights[(values > low) & (values < high)].sum()
        assert between <= total / bins + 2 * sketch.error + 2


def test_typical_errors_are_much_smaller_than_the_bound():
    rng = np.random.default_rng(0)
    values = rng.normal(size=30_000)
    sketch = sketch_of(values, None, 64, 1000)
    assert worst_error(sketch, values, None) < sketch.error / 2
    # Errors do not drift in one direction.
    ranks = np.cumsum(sketch.weights) - sketch.weights / 2
    drift = np.searchsorted(np.sort(values), sketch.values) - ranks
    assert abs(drift.mean()) < values.size / 64 / 4


@pytest.mark.parametrize("weighted", [False, True])
def test_approximate_cuts_are_near_the_exact_ones(weighted):
    rng = np.random.default_rng(0)
    values = rng.normal(size=2000)
    weights = rng.integers(1, 9, 2000) if weighted else None
    sketch = sketch_of(values, weights, 256, 300)
    near = cut_summary(sketch.summary(), 16, False)
    exact = cut_column(values, 16, weights)
    assert (near.minimum, near.upper[-1]) == (exact.minimum, exact.upper[-1])
    assert near.upper.size == exact.upper.size
    shares = np.ones(2000) if weights is None else weights
    total = shares.sum()
    for mine, theirs in zip(near.upper, exact.upper, strict=True):
        between = (values >= min(mine, theirs)) & (values < max(mine, theirs))
        assert shares[between].sum() <= sketch.error + total / 256


def test_merging_with_an_empty_sketch():
    none = sketch_sorted(np.empty(0), None)
    some = sketch_sorted(np.array([1.0, 2.0, 2.0]), None)
    assert none.merge(some) is some and some.merge(none) is some
    assert none.merge(none).values.size == 0
    assert some.weights.tolist() == [1, 2] and some.error == 0


def test_values_of_weight_zero_are_left_out():
    values = np.array([-1.0, 0.0, 3.0, 9.0])
    sketch = sketch_sorted(values, np.array([0, 5, 2, 0]))
    assert sketch.values.tolist() == [0.0, 3.0] and sketch.weights.tolist() == [5, 2]
    assert (sketch.lowest, sketch.highest) == (0.0, 3.0)


def test_total_weights_near_the_int64_limit():
    values = np.arange(1000.0)
    check_bound(values, np.full(1000, 2**61 // 1000), 64, 100)
