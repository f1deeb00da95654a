"""Coordinate descent and linear margins, against reference implementations."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call

from hornbeam.kernels.linear import (
    TASK_BINS,
    LinearColumns,
    LinearRules,
    add_products,
    descend,
    size_steps,
)

RULES = np.array([0.5, 3.0, 2.0])


def filled(rows, dtype=np.float32):
    """Return the stored entries of columns and of a column of ones."""
    rows = np.column_stack([rows, np.ones(len(rows))])
    places = [np.flatnonzero(~np.isnan(column) & (column != 0)) for column in rows.T]
    cells = [column[own] for column, own in zip(rows.T, places, strict=True)]
    starts = np.cumsum([0, *map(len, places)]).astype(np.int64)
    of_cell = np.concatenate(places).astype(np.uint32)
    return starts, of_cell, np.concatenate(cells).astype(dtype)


def problem(n_rows, dtype=np.float32, seed=0):
    """Return rows and gradients, small dyadic numbers whose sums are exact."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-8, 9, (n_rows, 4)).astype(dtype) / 8
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[:, 3] = np.nan
    gradients = rng.integers(-16, 17, n_rows) / 16
    hessians = rng.integers(-2, 9, n_rows) / 8
    return rows, gradients, hessians


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinate_descent(n_threads, dtype):
    rows, gradients, hessians = problem(60 if len(N_THREADS) == 1 else 9000, dtype)
    columns = filled(rows, dtype)
    assert len(N_THREADS) == 1 or np.diff(columns[0]).max() > 2 * TASK_BINS
    order = np.array([4, 2, 0, 3, 1, 0], np.int64)
    weights = np.array([0.25, -0.5, 0, 0, 1], np.float32)
    expected = naive.descend(rows, order, RULES, gradients, hessians, weights)
    own, moved = gradients.copy(), weights.copy()
    parts = np.empty((-(-len(rows) // TASK_BINS), 2))
    call(
        descend,
        order,
        LinearColumns(*columns),
        LinearRules(*RULES.tolist()),
        hessians,
        parts,
        own,
        moved,
        n_threads=n_threads,
    )
    np.testing.assert_allclose(moved, expected[0], rtol=1e-6)
    np.testing.assert_allclose(own, expected[1], rtol=1e-5, atol=1e-6)
    assert moved[3] == 0  # a column without entries


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_step_sizes(n_threads):
    rows, gradients, hessians = problem(50)
    weights = np.array([0.25, -0.5, 0, 0, 1], np.float32)
    sizes = np.empty(4)
    call(
        size_steps,
        LinearColumns(*filled(rows)),
        LinearRules(*RULES.tolist()),
        gradients,
        hessians,
        weights,
        sizes,
        n_threads=n_threads,
    )
    for column in range(4):
        rules = np.array([1.0, *RULES[1:]])
        order = np.array([column])
        moved, _ = naive.descend(rows, order, rules, gradients, hessians, weights)
        step = abs(float(moved[column]) - float(weights[column]))
        assert sizes[column] == pytest.approx(step, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_added_to_margins(n_threads, dtype):
    rows, _, _ = problem(40 if len(N_THREADS) == 1 else 3000, dtype)
    weights = np.array([[1, 2], [-0.5, 0], [0.25, 8], [9, 9], [3, -3]], np.float32)
    margins = np.full((len(rows), 2), 0.5)
    call(add_products, rows, weights, margins, n_threads=n_threads)
    there = np.nan_to_num(rows.astype(np.float64))
    np.testing.assert_array_equal(margins, 0.5 + weights[-1] + there @ weights[:-1])
