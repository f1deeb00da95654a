"""Means of values by the levels of categorical columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.sampling import draw_bits
from hornbeam.kernels.target_statistics import add_ordered_means

__all__ = ["MAX_CELLS", "Columns", "LevelMeans"]

Floats = NDArray[np.float64]
#: Returns a column by its number, (rows,) float64 with NaN for missing values; of a
#: categorical column its codes.
Columns = Callable[[int], Floats]

#: Most combinations of levels.
MAX_CELLS = 1 << 20
#: The permutations whose ordered means are averaged.
_PERMUTATIONS = 4
#: The weight of the prior in ordered means, in rows.
_STRENGTH = 1.0
# The purpose of the draws of permutations (see `kernels.maths.philox`).
_PURPOSE = 0x70000000


@dataclass(frozen=True, slots=True, eq=False)
class LevelMeans:
    """A mean for each level of a categorical column, or of a combination of columns.

    The levels of a column are its codes, then missing, and then all codes that were not
    seen in training.

    Attributes
    ----------
    categories
        The columns.
    sizes
        The number of levels of each; empty before the means are known.
    values
        (levels,) float64; of several columns the levels of the last change fastest.
    """

    categories: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    values: Floats = field(default_factory=partial(np.empty, 0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LevelMeans):
            return NotImplemented
        return (self.categories, self.sizes) == (
            other.categories,
            other.sizes,
        ) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.categories, self.sizes, self.values.tobytes()))

    def levels(self, columns: Columns, sizes: Sequence[int] = ()) -> NDArray[np.int64]:
        """Return the level of each row; `sizes` if they are not known yet."""
        levels: Any = 0
        for category, size in zip(self.categories, self.sizes or sizes, strict=True):
            codes = columns(category)
            is_known = (codes >= 0) & (codes < size - 2)
            known = np.where(is_known, codes, size - 1.0)
            known[np.isnan(codes)] = size - 2
            levels = levels * size + known.astype(np.int64)
        return np.asarray(levels, np.int64)

    def of(self, columns: Columns) -> Floats:
        """Return the mean of the level of each row, (rows,)."""
        return self.values[self.levels(columns)]

    def of_numbers(
        self, columns: Columns, sizes: Sequence[int], numbers: Floats, weights: Floats
    ) -> LevelMeans:
        """Return the means of a numerical column, where it is not missing.

        A level without values gets the mean of all.
        """
        levels, given = self.levels(columns, sizes), ~np.isnan(numbers)
        weights, numbers = weights[given], numbers[given]
        total = weights.sum()
        prior = float(weights @ numbers / total) if total > 0 else 0.0
        sums, counts = _sums(levels[given], numbers, weights, prod(sizes))
        means = np.divide(sums, counts, where=counts > 0, out=np.full_like(sums, prior))
        return LevelMeans(self.categories, tuple(sizes), means)

    def of_targets(
        self,
        columns: Columns,
        sizes: Sequence[int],
        targets: Floats,
        weights: Floats,
        seed: int,
    ) -> tuple[LevelMeans, Floats]:
        """Return the means of targets, and the ordered ones for the training rows.

        The mean of a level is (sum + prior) / (weight + 1), with the mean of all
        targets as the prior, and weights in units of their mean. The ordered mean of a
        row has the rows before it in a permutation only, so that it does not contain
        the row's own target; those of four permutations are averaged (Prokhorenkova et
        al. 2018, section 3.2).
        """
        levels = self.levels(columns, sizes)
        weights = weights / weights.mean()
        prior = float(weights @ targets / weights.sum())
        ordered = np.zeros(levels.size)
        bits = np.empty(levels.size, np.uint32)
        for number in range(_PERMUTATIONS):
            draw_bits(
                np.uint64(number), np.uint64(_PURPOSE), np.uint64(seed % 2**64), bits
            )
            order = np.argsort(bits, kind="stable")
            sums, counts = np.zeros((2, prod(sizes)))
            add_ordered_means(
                order, levels, targets, weights, prior, _STRENGTH, sums, counts, ordered
            )
        sums, counts = _sums(levels, targets, weights, prod(sizes))
        means = (sums + _STRENGTH * prior) / (counts + _STRENGTH)
        return (
            LevelMeans(self.categories, tuple(sizes), means),
            ordered / _PERMUTATIONS,
        )


def _sums(
    levels: NDArray[np.int64], values: Floats, weights: Floats, cells: int
) -> tuple[Floats, Floats]:
    """Return the weighted sum of each level and its weight, added row by row."""
    sums: Floats = np.bincount(levels, weights * values, cells).astype(np.float64)
    counts: Floats = np.bincount(levels, weights, cells).astype(np.float64)
    return sums, counts
