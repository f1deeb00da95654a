"""Transformations of margins into predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_calls import N_THREADS, call, needs_compiler

from hornbeam.kernels.transform import (
    exp_rows,
    focal_rows,
    log1p_rows,
    sigmoid_rows,
    softmax_rows,
)

TYPES = [np.float32, np.float64]
PRECISION = {np.float32: 2e-7, np.float64: 1e-15}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [0, 1, 70])
def test_sigmoid(rows, dtype):
    margins = np.random.default_rng(0).normal(0, 20, (rows, 1)).astype(dtype)
    exact = [1 / (1 + math.exp(-margin)) for margin in margins[:, 0].tolist()]
    values = margins.copy()
    call(sigmoid_rows, values)
    np.testing.assert_allclose(values[:, 0], exact, rtol=PRECISION[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_exponential_and_logarithm(dtype):
    values = np.random.default_rng(0).normal(0, 5, (70, 2)).astype(dtype)
    exponentials = values.copy()
    call(exp_rows, exponentials)
    for found, margin in zip(exponentials.flat, values.flat, strict=True):
        assert found == pytest.approx(math.exp(margin), rel=PRECISION[dtype])
    back = exponentials - dtype(1)
    call(log1p_rows, back)
    np.testing.assert_allclose(
        back, values, rtol=1e-5, atol=1e-5 if dtype is np.float64 else 0.02
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_probabilities_of_focal_loss(dtype):
    margins = np.random.default_rng(0).normal(0, 3, (70, 2)).astype(dtype)
    values = margins.copy()
    call(focal_rows, values, 2.0)
    for found, margin in zip(values.flat, margins.flat, strict=True):
        p = 1 / (1 + math.exp(-float(margin)))
        pulls = [(1 - p) ** 2 * (1 - p - 2 * p * math.log(p)) for p in (p, 1 - p)]
        exact = pulls[1] / sum(pulls)
        assert found == pytest.approx(exact, rel=max(PRECISION[dtype], 1e-11))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shift", [0.0, -900.0, 900.0])
def test_softmax(shift, dtype):
    rng = np.random.default_rng(0)
    margins = (rng.normal(0, 5, (40, 3)) + shift).astype(dtype)
    values = margins.copy()
    call(softmax_rows, values)
    for row, out in zip(margins.tolist(), values, strict=True):
        powers = [math.exp(margin - max(row)) for margin in row]
        exact = [power / sum(powers) for power in powers]
        np.testing.assert_allclose(out, exact, rtol=4 * PRECISION[dtype])


@needs_compiler
@pytest.mark.parametrize("kernel", [sigmoid_rows, softmax_rows])
def test_team(kernel):
    margins = np.random.default_rng(0).normal(size=(9000, 3))
    alone = margins.copy()
    call(kernel, alone)
    for n_threads in N_THREADS[1:]:
        values = margins.copy()
        call(kernel, values, n_threads=n_threads)
        np.testing.assert_array_equal(values, alone)
