"""Cuts from merged passes over parts of the rows equal those of all rows."""

from __future__ import annotations

import pickle
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning import column_pass, exact_quantiles
from hornbeam.binning.bin_table import bin_table
from hornbeam.binning.column_pass import merge_passes
from hornbeam.binning.cuts import Cuts, integer_weights
from hornbeam.binning.exact_quantiles import cut_finders, find_cuts
from hornbeam.binning.sketch import SketchOfChunks
from hornbeam.binning.table_passes import run_passes
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table
from hornbeam.kernels.jit import COMPILED

NAMES = ["a", "b", "c", "d", "e", "f"]
TYPES = ["float", "float", "float", "c", "c"]


def many_kinds(rows, seed, dtype=np.float64):
    """Return columns of numbers, few values, one frequent value, and categories."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(rows) < rng.choice([0, 0.2])
    return np.column_stack(
        [
            np.where(gaps, np.nan, rng.normal(size=rows)),
            rng.integers(0, 4, rows),
            np.where(rng.random(rows) < 0.8, -0.0, np.exp(9 * rng.normal(size=rows))),
            np.where(gaps, np.nan, rng.integers(0, 9, rows)),
            rng.integers(0, 5, rows),
        ]
    ).astype(dtype)


def table_of(data):
    """Return a table whose last column has category names."""
    table = as_table(data, types=TYPES)
    table.categories = Categories([None, None, None, None, NAMES])
    return table


def cuts_of_parts(data, owner, order, max_bin, weights, max_bytes):
    """Return the cuts from one pass per part of the rows, merged in a given order."""
    parts = [np.flatnonzero(owner == part) for part in range(owner.max() + 1)]
    columns = cut_finders(
        table_of(data).schema, max_bin, len(data), exact=True, max_bytes=max_bytes
    )

    def read(places, passes):
        sent = pickle.dumps(passes)
        found = []
        for rows in parts:
            mine = pickle.loads(sent)
            part = None
            if weights is not None:
                part = integer_weights(weights[rows], weights.max(), len(data))
            run_passes(table_of(data[rows]), places, mine, part, 1)
            found.append(pickle.loads(pickle.dumps(mine)))
        return reduce(merge_passes, [found[part] for part in order])

    return Cuts.join(find_cuts(columns, read))


def check_same(one, other):
    """Assert that cuts are bitwise equal."""
    for part in ("values", "minimums", "pointers"):
        assert getattr(one, part).tobytes() == getattr(other, part).tobytes(), part


@examples(80 if COMPILED else 15)
@given(
    rows=st.integers(1, 400),
    n_parts=st.integers(1, 6),
    seed=st.integers(0, 1000),
    max_bin=st.sampled_from([2, 5, 16]),
    weighted=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    max_bytes=st.sampled_from([0, 3000, 20_000, 1 << 20]),
    chunk_rows=st.sampled_from([7, 64, 1 << 18]),
)
def test_cuts_do_not_depend_on_the_parts_of_the_rows(
    rows, n_parts, seed, max_bin, weighted, dtype, max_bytes, chunk_rows
):
    rng = np.random.default_rng(seed)
    data = many_kinds(rows, seed, dtype)
    weights = rng.choice([0, 0.3, 1, 7.5], rows) if weighted else None
    owner = rng.integers(0, n_parts, rows)  # some have no rows
    order = rng.permutation(owner.max() + 1)
    exact = bin_table(table_of(data), max_bin, weights).cuts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hornbeam.binning.table_passes.CHUNK_ROWS", chunk_rows)
        patch.setattr(exact_quantiles, "POINTS", 8)
        patch.setattr(exact_quantiles, "_RANGE_POINTS_PER_BIN", 1)
        patch.setattr(column_pass, "MAX_RANGES", 16)
        patch.setattr(column_pass, "_MAX_SPLIT", 4)
        check_same(
            cuts_of_parts(data, owner, order, max_bin, weights, max_bytes), exact
        )


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_of_parts_of_many_rows(weighted):
    data = many_kinds(100_000, 0)
    rng = np.random.default_rng(0)
    weights = rng.random(len(data)) if weighted else None
    exact = bin_table(table_of(data), 256, weights).cuts
    owner = rng.choice(5, len(data), p=[0.6, 0.3, 0.08, 0.01, 0.01])
    order = rng.permutation(5)
    check_same(cuts_of_parts(data, owner, order, 256, weights, 2 << 20), exact)


@pytest.mark.parametrize("chunks", [(1, 1), (3, 5), (8, 1), (0, 4), (6, 0)])
def test_merged_sketches_of_chunks_keep_their_error_bound(chunks):
    rng = np.random.default_rng(0)
    values = [np.sort(rng.normal(size=100)) for _ in range(sum(chunks))]
    one, other = SketchOfChunks(32), SketchOfChunks(32)
    for number, chunk in enumerate(values):
        (one if number < chunks[0] else other).add(chunk, None)
    one.merge(other)
    whole = one.whole()
    assert whole.weights.sum() == 100 * sum(chunks)
    every = np.sort(np.concatenate(values))
    ranks = np.cumsum(whole.weights)
    off = np.abs(np.searchsorted(every, whole.values, "right") - ranks)
    assert off.max() <= whole.error + 100 * sum(chunks) // 32 + 1


def test_integer_weights_of_parts_have_a_common_scale():
    weights = np.array([0.5, 3.0, 1e-3, 0.0, 2.0])
    whole = integer_weights(weights)
    parts = [integer_weights(part, 3.0, 5) for part in (weights[:2], weights[2:])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert integer_weights(weights[:0], 3.0, 5).size == 0
