"""Where to cut a column into bins: exact weighted quantiles.

The cuts are a function of the multiset of (value, weight), not of the order of rows.
Where a column has no more distinct values than bins, each value has a bin of its own,
as in XGBoost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.kernels.layout import SUM_BITS
from hornbeam.kernels.sort import sort_floats

__all__ = ["ColumnCuts", "Cuts", "cut_column", "integer_weights"]

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: XGBoost's margin around the extremes of a column.
_MARGIN = np.float32(1e-5)
#: The grid of ranks is refined up to this many times max_bin, for columns where a few
#: values take up nearly all rows.
_FINEST_GRID = 64


@dataclass(frozen=True, slots=True)
class ColumnCuts:
    """The upper ends of one column's bins, the last above all its values."""

    upper: Float64s
    minimum: float
    has_missing: bool

    @classmethod
    def of_categories(cls, levels: int, has_missing: bool) -> ColumnCuts:
        """Return the cuts 1, 2, ... that give each category the bin of its code."""
        return cls(np.arange(1.0, max(levels, 1) + 1), 0.0, has_missing)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of all columns, one after the other.

    Attributes
    ----------
    pointers
        (features + 1,) int64: where each feature's cuts begin in `values`.
    values
        (cuts,) float64: the exclusive upper ends of the bins.
    minimums
        (features,) float64: a value below all of each feature's.
    """

    pointers: Int64s
    values: Float64s
    minimums: Float64s

    @classmethod
    def join(cls, columns: list[ColumnCuts]) -> Cuts:
        """Return the cuts of `columns` as one."""
        sizes = [column.upper.size for column in columns]
        return cls(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([column.upper for column in columns]),
            np.array([column.minimum for column in columns], np.float64),
        )

    @property
    def n_features(self) -> int:
        return self.minimums.size

    @property
    def bins(self) -> Int64s:
        """How many bins each feature has, (features,) int64."""
        return np.diff(self.pointers)

    def of(self, feature: int) -> Float64s:
        """Return the cuts of one feature."""
        return self.values[self.pointers[feature] : self.pointers[feature + 1]]


def integer_weights(weights: Float64s | None) -> Int64s | None:
    """Return weights in a fixed point whose sums are exact in any order."""
    if weights is None:
        return None
    # From the largest weight, as a sum of floats depends on their order.
    exponent = int(np.frexp(weights.max())[1])
    bits = SUM_BITS - weights.size.bit_length()
    return np.rint(np.ldexp(weights, bits - exponent)).astype(np.int64)


def cut_column(
    values: npt.NDArray[Any],
    max_bin: int,
    weights: Int64s | None,
    scratch: npt.NDArray[np.uint8] | None = None,
    absent: int = 0,
) -> ColumnCuts:
    """Return the cuts of one column.

    Parameters
    ----------
    values
        (rows,) float32 or float64, NaN where missing.
    max_bin
        The most bins. A column with missing values and more distinct ones than that
        gets one less, so that the missing have a code too.
    weights
        (rows,) from `integer_weights`, or None for equal ones.
    scratch
        Bytes for twice the values, or None.
    absent
        Further rows that miss the column and are not in `values`.
    """
    ordered, carried = sort_floats(values, weights, scratch)
    has_missing = absent > 0 or bool(np.isnan(ordered[-1:]).any())
    ranks = None
    if carried is not None:  # a row without weight is as good as none
        ordered, carried = ordered[carried > 0], carried[carried > 0]
        ranks = np.cumsum(carried)
    known = int(np.searchsorted(ordered, np.nan))
    ordered = ordered[:known]
    if known == 0:
        nothing = ordered.dtype.type(_MARGIN)
        return ColumnCuts(np.array([_above(nothing)]), _below(nothing), has_missing)
    changes = ordered[1:] != ordered[:-1]
    if np.count_nonzero(changes) < max_bin:
        inner = ordered[1:][changes]
    else:
        inner = _cut_at_ranks(
            ordered,
            None if ranks is None else ranks[:known],
            max_bin - 1 if has_missing else max_bin,
        )
    # A negative zero equals zero but has other bits.
    upper = np.append(inner.astype(np.float64), _above(ordered[-1])) + 0.0
    return ColumnCuts(upper, _below(ordered[0]), has_missing)


def _cut_at_ranks(
    ordered: npt.NDArray[Any], ranks: Int64s | None, bins: int
) -> npt.NDArray[Any]:
    """Return the inner cuts of the finest grid of equal ranks that fits in `bins`.

    Where no value is heavier than a bin this is the grid of `bins` quantiles. Heavy
    values swallow points of the grid; then a finer one uses the bins they leave.
    """
    total = ordered.size if ranks is None else int(ranks[-1])

    def cuts_of(grid: int) -> npt.NDArray[Any]:
        points = (
            np.arange(1, grid, dtype=np.int64) * (total // grid)
            + (np.arange(1, grid, dtype=np.int64) * (total % grid)) // grid
        )
        at = points if ranks is None else np.searchsorted(ranks, points, side="right")
        cuts = ordered[np.minimum(at, ordered.size - 1)]
        new = np.empty(cuts.size, bool)
        new[:1] = cuts[:1] != ordered[0]
        np.not_equal(cuts[1:], cuts[:-1], out=new[1:])
        return cuts[new]

    best = cuts_of(bins)
    if best.size == bins - 1:
        return best
    fits, too_fine = bins, bins * _FINEST_GRID + 1
    while too_fine - fits > 1:
        grid = min(2 * fits, (fits + too_fine) // 2)
        cuts = cuts_of(grid)
        if cuts.size < bins:
            fits, best = grid, cuts
        else:
            too_fine = grid
    return best


def _above(highest: np.floating[Any]) -> float:
    """Return XGBoost's end of the last bin, a float32 wherever there is one above."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(highest)
        end = np.float32(np.float64(value) + (np.abs(np.float64(value)) + _MARGIN))
    if np.isfinite(end) and end > highest:
        return float(end)
    return float(min(2.0 * abs(np.float64(highest)), np.finfo(np.float64).max))


def _below(lowest: np.floating[Any]) -> float:
    """Return XGBoost's value below all of a column's."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(lowest)
        end = (value - np.abs(value)) - _MARGIN
    if np.isfinite(end) and end < lowest:
        return float(end)
    return float(max(-2.0 * abs(np.float64(lowest)), np.finfo(np.float64).min))
