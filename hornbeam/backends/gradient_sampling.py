"""Row samples by gradient: rows with large gradients are drawn most often.

Minimum variance sampling (MVS; Ibragimov and Gusev 2019): a row of size
s = sqrt(g^2 + lambda h^2) is drawn with probability p = min(1, s / threshold), and its
gradients are divided by p. The threshold is chosen so that the expected sample size is
the wanted one. It is computed from the number of rows in each size class; these counts
add up over blocks and workers, so the sample does not depend on how rows are split.

Gradient-based one-side sampling (GOSS; Ke et al. 2017): the share of rows with the
largest |g| has p = 1, and all other rows have the same p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import RowSample, SplitParams

__all__ = ["find_threshold", "find_top", "settle_sample"]

#: Lower bound of the hessians' weight; without it a row with a gradient near zero would
#: be divided by a probability near zero.
_MIN_WEIGHT = 2.0**-10
#: Upper bound of the ratio between the sizes of one size class.
_SLACK = 1.0 + 2.0**-7
#: The lowest size of each class; the last one is infinity.
_SIZES = (np.arange((255 << 8) + 1, dtype=np.int32) << 15).view(np.float32)


def settle_sample(
    sample: RowSample,
    params: SplitParams,
    count_size_classes: Callable[[float], NDArray[np.int64]],
    largest: NDArray[np.float64],
    n_rows: int,
) -> tuple[RowSample, NDArray[np.float64], int]:
    """Return the sample with its threshold, the largest values and the sample size.

    Parameters
    ----------
    sample, params
        Of the tree; the sample is one by gradient.
    count_size_classes
        Returns the number of rows in each size class for a weight of hessians.
    largest
        Largest |g| and |h| of all rows, (columns, 2).
    n_rows
        Number of rows.
    """
    expected = max(1, int(sample.rate * n_rows))
    if sample.top_rate is not None:
        threshold, rest = find_top(
            count_size_classes(0.0), sample.top_rate, sample.rate, n_rows
        )
        if rest > 0.0:
            scaled = largest / rest
            scaled[..., 0] = _SLACK * threshold / rest
            largest = np.maximum(largest, scaled)
        return replace(sample, threshold=threshold, rest=rest), largest, expected
    weight = max(params.reg_lambda, _MIN_WEIGHT)
    threshold = find_threshold(count_size_classes(weight), sample.rate * n_rows)
    # A row that is scaled up gets a size of about the threshold.
    size = _SLACK * threshold
    largest = np.maximum(largest, [size, size / np.sqrt(weight)])
    settled = replace(sample, hessian_weight=weight, threshold=threshold)
    return settled, largest, expected


def find_top(
    counts: NDArray[np.int64], top_rate: float, rate: float, n_rows: int
) -> tuple[float, float]:
    """Return the size from which all rows are drawn, and the rate of all others.

    `counts`, (SIZE_CLASSES,), is the number of rows in each size class. All rows of a
    class are treated alike, so slightly more than `top_rate` may be drawn.
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
    """Return the threshold with which the expected sample size is `wanted`.

    `counts`, (SIZE_CLASSES,), is the number of rows in each size class.
    """
    found = np.flatnonzero(counts[: _SIZES.size])
    found = found[_SIZES[found] > 0]
    sizes, own = _SIZES[found].astype(np.float64), counts[found]
    # By ascending class: number of rows from it on, and sum of the sizes before it.
    above = own[::-1].cumsum()[::-1]
    below = np.concatenate([[0.0], (sizes * own).cumsum()])
    # The expected sample size if the threshold is the size of the class.
    expected = above + below[:-1] / sizes
    enough = np.flatnonzero(expected <= wanted)
    if enough.size == 0:  # all sizes are below the threshold, or all are zero
        threshold = float(below[-1]) / wanted
    elif enough[0] == 0:  # fewer rows than wanted have nonzero gradients
        threshold = 0.0
    else:
        first = enough[0]
        threshold = float(below[first]) / (wanted - float(above[first]))
    # The threshold must be neither zero nor infinite, because sizes are divided by it.
    bounds = np.finfo(np.float32)
    return min(max(threshold, float(bounds.tiny)), float(bounds.max))
