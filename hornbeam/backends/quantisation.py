"""Fixed-point scales of gradients and hessians, for sums that are exact integers.

A scale depends on the largest values of all rows and on the number of rows, never on
the parts (blocks, workers) that the rows are stored in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import frexp, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gradient_sampling import settle_sample
from hornbeam.backends.interface import RowSample, SplitParams
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    SUM_BITS,
)
from hornbeam.kernels.rounds import PACKED_RANGE, is_precise, unit

__all__ = [
    "QuantisationScales",
    "TreeScales",
    "bits_of",
    "choose_scales",
    "quantise_tree",
    "searched_columns",
]

Floats = NDArray[np.float64]

#: A fixed-point value must stay below this for rounding by float64 to be exact.
_MAX_BITS = 51


class QuantisationScales(NamedTuple):
    """Powers of two, (columns, 2) float64: the value of one unit of g and of h.

    Attributes
    ----------
    packed
        Of pairs in one int64, which histograms are summed from where that is precise
        enough.
    wide
        Of pairs in two int64, for the sums of leaves and for other histograms.
    """

    packed: Floats
    wide: Floats


class TreeScales(NamedTuple):
    """Scales of the gradient columns of one tree.

    Attributes
    ----------
    histogram
        (columns, 2): of the histograms that splits are searched in.
    leaf
        (leaf columns, 2): of the sums of leaves.
    row_unit
        The quantised hessian of every row in the last column if it is the same for all
        rows and the sums are packed, so that hessians count rows; otherwise 0.
    mean_hessian
        The mean hessian of the sampled rows, summed over the columns of histograms.
    """

    histogram: Floats
    leaf: Floats
    row_unit: int
    mean_hessian: float


def choose_scales(largest: Floats, n_rows: int) -> QuantisationScales:
    """Return the scales for these largest |g| and |h|, (columns, 2), of `n_rows` rows.

    Without NumPy, whose calls take longer than the few numbers of most trees.
    """
    exponents = []
    for g, h in largest.tolist():
        if not (isfinite(g) and isfinite(h)):
            raise DataError(
                "a gradient or hessian is not a finite float32 number: labels, "
                "weights or base margins are too large, or the learning rate makes "
                "training diverge; scale the labels or weights down, or lower "
                "learning_rate",
                code=ErrorCode.FLOAT_OVERFLOW,
            )
        exponents.append((frexp(g)[1], frexp(h)[1]))
    return _scales(tuple(exponents), n_rows)


@lru_cache(maxsize=64)
def _scales(exponents: tuple[tuple[int, int], ...], n_rows: int) -> QuantisationScales:
    """Return the scales for values below two to the power of these exponents.

    They are the same in most rounds of a training.
    """
    packed, wide = bits_of(n_rows)
    return QuantisationScales(_units(exponents, packed), _units(exponents, wide))


def _units(exponents: tuple[tuple[int, int], ...], bits: tuple[int, int]) -> Floats:
    return np.array([(unit(g, bits[0]), unit(h, bits[1])) for g, h in exponents])


def bits_of(n_rows: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the bits of the largest g and h in packed units, and in wide ones."""
    wide = min(_MAX_BITS, SUM_BITS - n_rows.bit_length())
    return (COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS), (wide, wide)


def _packed_is_enough(
    largest: list[float], least_hessian: float, magnitudes: list[int], n_rows: int
) -> bool:
    """Return whether the histograms of a column may be packed sums.

    `largest` are the largest |g| and |h|, `magnitudes` the sums of |g| and h in packed
    units. Hessians of a custom objective may be negative, for which the packed half has
    no sign.
    """
    if least_hessian < 0.0:
        return False
    gradient, hessian = magnitudes
    return is_precise(largest[0], gradient, n_rows, 0) and is_precise(
        largest[1], hessian, n_rows, 1
    )


def searched_columns(gradient_ranges: Floats, n_outputs: int) -> int:
    """Return the number of columns that a multi-output tree is searched by.

    These are the outputs, or others, whose ranges follow those of the outputs.
    """
    return len(gradient_ranges) - n_outputs or n_outputs


def quantise_tree(
    params: SplitParams,
    sample: RowSample | None,
    gradient_ranges: Floats,
    output: int | None,
    n_outputs: int,
    n_rows: int,
    count_size_classes: Callable[[float], NDArray[np.int64]],
    quantise: Callable[[RowSample | None, Floats, Floats], NDArray[np.int64]],
    widen: Callable[[list[int]], None],
) -> TreeScales:
    """Quantise the gradients of a tree, and return their scales.

    Parameters
    ----------
    params, sample
        Of the tree.
    gradient_ranges
        (columns, 3): largest |g|, largest |h| and least h of all rows, of the outputs,
        followed by those of the columns that multi-output trees are searched by if
        these are others.
    output
        Of the tree; None: all of them.
    n_outputs
        Number of outputs of the tree.
    n_rows
        Number of rows.
    count_size_classes
        Returns the number of rows in each size class for a weight of hessians.
    quantise
        Begins the tree with the final sample, the packed scales of the searched columns
        and the wide scales of all; returns the sums of |g| and h in packed units,
        (columns, 2).
    widen
        Switches these columns to wide sums.
    """
    n_columns, projected = 1, 1.0
    if output is None:
        n_columns = searched_columns(gradient_ranges, n_outputs)
        # A projected gradient can be larger than all outputs' gradients.
        projected = max(1.0, np.sqrt(n_outputs / n_columns))
    elif len(gradient_ranges) > 1:
        least = gradient_ranges[:, 2].min()
        gradient_ranges = gradient_ranges[output : output + 1].copy()
        gradient_ranges[0, 2] = least
    largest, n_counted = gradient_ranges[:, :2], n_rows
    if sample is not None and sample.by_gradient:
        sample, largest, n_counted = settle_sample(
            sample, params, count_size_classes, largest, n_rows
        )
        if projected != 1.0:
            largest = largest.copy()
            largest[-n_columns:, 0] *= projected
    packed, wide = choose_scales(largest, n_rows)
    least = gradient_ranges[:, 2]
    if n_columns < len(largest):
        packed, largest = packed[-n_columns:], largest[-n_columns:]
        least = least[-n_columns:]
    magnitudes = quantise(sample, packed, wide)
    # By the expected size of a sample. Where all hessians are the same, its actual size
    # does not matter: the mean is not beyond the hessians.
    n_drawn: float = n_counted
    if sample is not None and not sample.by_gradient:
        n_drawn = max(1.0, sample.rate * n_rows)
    is_packed, row_unit, mean = [], 0, 0.0
    for most, lowest, units, totals in zip(
        largest.tolist(),
        least.tolist(),
        packed.tolist(),
        magnitudes.tolist(),
        strict=True,
    ):
        is_packed.append(_packed_is_enough(most, lowest, totals, n_counted))
        hessians = totals[1]
        # No row has more than the largest hessian in packed units, so all rows have
        # this value exactly if their sum says so.
        unit = min(round(most[1] / units[1]), PACKED_RANGE[1] - 1)
        row_unit = unit if hessians == n_rows * unit else 0
        mean += min(max(hessians * units[1] / n_drawn, lowest), most[1])
    if all(is_packed):
        return TreeScales(packed, wide, row_unit, mean)
    widen([column for column, own in enumerate(is_packed) if not own])
    histogram = wide if n_columns == len(wide) else wide[-n_columns:]
    if any(is_packed):
        histogram = np.where(np.array(is_packed)[:, None], packed, histogram)
    return TreeScales(histogram, wide, row_unit if is_packed[-1] else 0, mean)
