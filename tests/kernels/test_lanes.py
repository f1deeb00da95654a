"""Loops over lanes have the bits of the scalar formulas."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import kernel
from hornbeam.kernels.lanes import exp_lane, sigmoid_lane

POINTS = np.concatenate(
    [[0.0, -0.0, -1e9, 1e9, -708.0, 709.0], np.random.default_rng(0).normal(0, 30, 50)]
)


@kernel
def exponentials(values, whole, rest):
    exp_lane(values, whole, rest)


@kernel
def sigmoids(margins, shares, whole, rest):
    sigmoid_lane(margins, shares, whole, rest)


def test_exponentials():
    values, scratch = POINTS.copy(), np.empty((2, POINTS.size + 3))
    exponentials(values, *scratch)
    np.testing.assert_array_equal(values, [maths.exp(x) for x in POINTS])


def test_sigmoids():
    shares, scratch = np.empty(POINTS.size), np.empty((2, POINTS.size + 3))
    sigmoids(POINTS, shares, *scratch)
    np.testing.assert_array_equal(shares, [maths.sigmoid(x) for x in POINTS])
