"""Samples of rows by their gradients: those that tell most are drawn most often.

Minimum variance sampling (Ibragimov and Gusev 2019): a row of size
s = sqrt(g^2 + lambda h^2) is taken with probability p = min(1, s / threshold), and its
gradients are divided by p. The threshold makes the expected sample as large as it is to
be. It comes from counts of rows in classes of sizes, which add up over parts, so that
the sample does not depend on the parts.

In one-side sampling (GOSS, Ke et al. 2017) a share of the rows has p = 1, those of the
largest |g|, and all others have the same p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import RowSample, SplitParams
from hornbeam.backends.quantisation import (
    QuantisationScales,
    choose_scales,
    packed_is_enough,
)

__all__ = ["find_threshold", "find_top", "quantise_tree", "settle_sample"]

#: Without this a row of next to no gradient would be scaled up beyond all bounds.
_LEAST_WEIGHT = 2.0**-10
#: Classes of sizes are this far apart, and more.
_SLACK = 1.0 + 2.0**-7
#: The lowest size of each class, of which the infinite one is the last.
_SIZES = (np.arange((255 << 8) + 1, dtype=np.int32) << 15).view(np.float32)


def quantise_tree(
    output: int,
    growth: SplitParams,
    sample: RowSample | None,
    gradient_ranges: NDArray[np.float64],
    n_rows: int,
    weigh: Callable[[int, float], NDArray[np.int64]],
    quantise: Callable[[RowSample | None, QuantisationScales], NDArray[np.int64]],
) -> tuple[QuantisationScales, bool, int]:
    """Have gradients become integers; return their steps, and if coarse ones do.

    And what the hessian of every row is in coarse steps, or 0 if it is not the same
    for all.

    Parameters
    ----------
    output, growth, sample
        Of the tree.
    gradient_ranges
        (outputs, 3): largest |g|, largest |h| and least h of all rows.
    n_rows
        How many there are.
    weigh
        Returns the rows in each class of sizes for an output and a weight of hessians.
    quantise
        Makes the integers for a settled sample; returns the sums of |g| and h, (2,),
        in coarse steps.
    """
    sample, largest, n_counted = settle_sample(
        sample, growth, partial(weigh, output), gradient_ranges[output, :2], n_rows
    )
    steps = choose_scales(largest, n_rows)
    magnitudes = quantise(sample, steps)
    least = float(gradient_ranges[:, 2].min())
    is_coarse = packed_is_enough(largest, least, magnitudes, n_counted)
    return steps, is_coarse, steps.one_row(largest, int(magnitudes[1]), n_rows)


def settle_sample(
    sample: RowSample | None,
    growth: SplitParams,
    weigh: Callable[[float], NDArray[np.int64]],
    largest: NDArray[np.float64],
    n_rows: int,
) -> tuple[RowSample | None, NDArray[np.float64], int]:
    """Return the sample with its threshold, what is largest in it, and how many count.

    A sample that is not by gradients stays as it is, and so do the other two.

    Parameters
    ----------
    sample, growth
        Of the tree.
    weigh
        Returns the rows in each class of sizes for a weight of hessians.
    largest
        |g| and |h| of all rows, (2,) or (outputs, 2).
    n_rows
        How many there are.
    """
    if sample is None or not sample.by_gradient:
        return sample, largest, n_rows
    expected = max(1, int(sample.rate * n_rows))
    if sample.top_rate is not None:
        threshold, rest = find_top(weigh(0.0), sample.top_rate, sample.rate, n_rows)
        if rest > 0.0:
            scaled = largest / rest
            scaled[..., 0] = _SLACK * threshold / rest
            largest = np.maximum(largest, scaled)
        return replace(sample, threshold=threshold, rest=rest), largest, expected
    weight = max(growth.reg_lambda, _LEAST_WEIGHT)
    threshold = find_threshold(weigh(weight), sample.rate * n_rows)
    # What is scaled up has a size of about the threshold.
    size = _SLACK * threshold
    largest = np.maximum(largest, [size, size / np.sqrt(weight)])
    settled = replace(sample, hessian_weight=weight, threshold=threshold)
    return settled, largest, expected


def find_top(
    counts: NDArray[np.int64], top_rate: float, rate: float, n_rows: int
) -> tuple[float, float]:
    """Return from which size on all rows are taken, and which share of all others.

    `counts`, (SIZE_CLASSES,), are the rows of each class. Rows of one class stay
    together, so the largest may be some more than their share.
    """
    found = np.flatnonzero(counts[1 : _SIZES.size]) + 1
    above = counts[found][::-1].cumsum()[::-1]
    enough = np.flatnonzero(above >= top_rate * n_rows)
    last = int(enough[-1]) if enough.size > 0 else 0
    if found.size == 0:  # no row has a gradient
        return float(np.finfo(np.float32).max), min(rate, 1.0)
    others = n_rows - int(above[last])
    rest = min((rate - top_rate) * n_rows / others, 1.0) if others > 0 else 0.0
    return float(_SIZES[found[last]]), rest


def find_threshold(counts: NDArray[np.int64], wanted: float) -> float:
    """Return the threshold with which so many rows are expected in the sample.

    `counts`, (SIZE_CLASSES,), are the rows of each class.
    """
    found = np.flatnonzero(counts[: _SIZES.size])
    found = found[_SIZES[found] > 0]
    sizes, own = _SIZES[found].astype(np.float64), counts[found]
    # Of classes in ascending order: the rows from each on, and the sizes before it.
    above = own[::-1].cumsum()[::-1]
    below = np.concatenate([[0.0], (sizes * own).cumsum()])
    # With the threshold at the size of a class, so many rows are expected.
    expected = above + below[:-1] / sizes
    enough = np.flatnonzero(expected <= wanted)
    if enough.size == 0:  # all sizes are below the threshold, or there are none
        threshold = float(below[-1]) / wanted
    elif enough[0] == 0:  # so few rows have gradients at all
        threshold = 0.0
    else:
        first = enough[0]
        threshold = float(below[first]) / (wanted - float(above[first]))
    # Nothing is divided by zero or by infinity.
    bounds = np.finfo(np.float32)
    return min(max(threshold, float(bounds.tiny)), float(bounds.max))
