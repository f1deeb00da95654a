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

from hornbeam.data.floats import nearest
from hornbeam.kernels.binning import bin_column
from hornbeam.kernels.layout import SUM_BITS
from hornbeam.kernels.sort import sort_floats

__all__ = [
    "ColumnCuts",
    "Cuts",
    "Summary",
    "UnresolvedEntries",
    "are_float32",
    "cut_column",
    "cut_summary",
    "grid_ranks",
    "integer_weights",
    "sort_column",
]

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

    def code(self, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write the bin of each value; of a missing one, how many bins there are."""
        inner = self.upper[:-1]
        depth = int(inner.size).bit_length()
        cuts = np.full(1 << depth, np.inf, values.dtype)
        cuts[1 : inner.size + 1] = nearest(inner, values.dtype)
        position = np.empty(1024, np.uint32)
        bin_column(values, cuts, depth, self.upper.size, position, out)


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
    def dtype(self) -> npt.DTypeLike:
        """The type of cuts and minimums: float32 where that loses nothing."""
        values = np.concatenate([self.values, self.minimums])
        return np.float32 if are_float32(values) else np.float64

    @property
    def n_bins(self) -> Int64s:
        """How many bins each feature has, (features,) int64."""
        return np.diff(self.pointers)

    def of(self, feature: int) -> Float64s:
        """Return the cuts of one feature."""
        return self.values[self.pointers[feature] : self.pointers[feature + 1]]

    def thresholds(self, splits: npt.NDArray[Any]) -> Float64s:
        """Return what values that go left are below, for (splits,) `SPLIT_DTYPE`."""
        feature, last_bin = splits["feature"], splits["bin"]
        ends = self.values[self.pointers[feature] + np.maximum(last_bin, 0)]
        return np.where(last_bin < 0, self.minimums[feature], ends)

    def lower_ends(self, feature: int) -> Float64s:
        """Return the lower end of each bin of a feature, and NaN for missing."""
        return np.concatenate(
            [[self.minimums[feature]], self.of(feature)[:-1], [np.nan]]
        )


def are_float32(values: npt.NDArray[Any]) -> bool:
    """Return whether every value is exactly a float32, or NaN."""
    if values.dtype == np.float32:
        return True
    with np.errstate(over="ignore"):
        return np.array_equal(values, values.astype(np.float32), equal_nan=True)


def integer_weights(
    weights: Float64s | None, largest: float | None = None, n_rows: int | None = None
) -> Int64s | None:
    """Return weights in a fixed point whose sums are exact in any order.

    Parameters
    ----------
    weights
        (rows,), or None.
    largest, n_rows
        The largest weight, and how many there are, of all parts of the rows where
        these are one part.
    """
    if weights is None:
        return None
    # From the largest weight, as a sum of floats depends on their order.
    exponent = int(np.frexp(weights.max() if largest is None else largest)[1])
    bits = SUM_BITS - (weights.size if n_rows is None else n_rows).bit_length()
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
    ordered, carried, has_missing = sort_column(values, weights, scratch)
    cells = Summary(ordered, None if carried is None else np.cumsum(carried))
    return cut_summary(cells, max_bin, has_missing or absent > 0)


def sort_column(
    values: npt.NDArray[Any],
    weights: Int64s | None,
    scratch: npt.NDArray[np.uint8] | None = None,
) -> tuple[npt.NDArray[Any], Int64s | None, bool]:
    """Return what counts of a column, ascending, its weights, and if any is missing.

    A row without weight is as good as none, but may be the one that is missing.
    """
    ordered, carried = sort_floats(values, weights, scratch)
    known = int(np.searchsorted(ordered, np.nan))
    has_missing = known < ordered.size
    ordered = ordered[:known]
    if carried is None:
        return ordered, None, has_missing
    carried = carried[:known]
    return ordered[carried > 0], carried[carried > 0], has_missing


@dataclass(frozen=True, slots=True)
class Summary:
    """A column in ascending order, as far as its values have been told apart.

    Attributes
    ----------
    low
        (cells,) float32 or float64: the least value of each cell. Summary of one value
        may follow each other.
    ranks
        (cells,) int64: the weight of all cells up to each, itself included. None: a
        cell weighs one.
    high
        (cells,): the greatest value of each. None: every cell is one value.
    """

    low: npt.NDArray[Any]
    ranks: Int64s | None
    high: npt.NDArray[Any] | None = None


class UnresolvedEntries(Exception):  # noqa: N818 (a question, not an error)
    """Where the cuts lie depends on what is inside of these cells.

    Parameters
    ----------
    cells
        Their numbers, ascending.
    """

    def __init__(self, cells: npt.NDArray[np.intp]) -> None:
        super().__init__(cells)
        self.cells = cells


def cut_summary(cells: Summary, max_bin: int, has_missing: bool) -> ColumnCuts:
    """Return the cuts of one column, or raise `UnresolvedEntries` if cells hide them.

    This is what says where cuts lie, whatever way the cells were found: cells that
    are told apart no more than needed give the cuts of single values.
    """
    low = cells.low
    if low.size == 0:
        nothing = low.dtype.type(_MARGIN)
        return ColumnCuts(np.array([_above(nothing)]), _below(nothing), has_missing)
    high = low if cells.high is None else cells.high
    mixed = None if cells.high is None else cells.low != cells.high
    changes = low[1:] != low[:-1]
    distinct = 1 + np.count_nonzero(changes)
    if mixed is not None:
        distinct += np.count_nonzero(mixed)  # there are two values or more in each
    if distinct <= max_bin:
        if mixed is not None and mixed.any():
            raise UnresolvedEntries(np.flatnonzero(mixed))
        inner = low[1:][changes]
    else:
        bins = max_bin - 1 if has_missing else max_bin
        inner = _Grids(low, cells.ranks, mixed).finest(bins)
    # A negative zero equals zero but has other bits.
    upper = np.append(inner.astype(np.float64), _above(high[-1])) + 0.0
    return ColumnCuts(upper, _below(low[0]), has_missing)


class _Grids:
    """Grids of equal ranks over the cells of a column; a cut lies where a point does.

    Points in a cell of several values may be as many cuts, or one, or none.
    """

    def __init__(
        self,
        low: npt.NDArray[Any],
        ranks: Int64s | None,
        mixed: npt.NDArray[np.bool_] | None,
    ) -> None:
        self._low = low
        self._ranks = ranks
        self._mixed = mixed
        self._total = low.size if ranks is None else int(ranks[-1])

    def finest(self, bins: int) -> npt.NDArray[Any]:
        """Return the inner cuts of the finest grid that fits in `bins`.

        Where no value is heavier than a bin this is the grid of `bins` quantiles.
        Heavy values swallow points of the grid; then a finer one uses the bins they
        leave.
        """
        best = self._points(bins)
        if self._has_less(best, bins - 1, bins):
            fits, too_fine = bins, bins * _FINEST_GRID + 1
            while too_fine - fits > 1:
                grid = min(2 * fits, (fits + too_fine) // 2)
                points = self._points(grid)
                if self._has_less(points, bins, too_fine):
                    fits, best = grid, points
                else:
                    too_fine = grid
        at, new = best
        if self._mixed is not None and self._mixed[at].any():
            raise UnresolvedEntries(np.unique(at[self._mixed[at]]))
        return self._low[at[new]]

    def _points(self, grid: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the cell of each point, and which points are surely new cuts."""
        points = grid_ranks(self._total, grid, np.arange(1, grid))
        if self._ranks is None:
            at = np.minimum(points, self._low.size - 1)
        else:
            at = np.searchsorted(self._ranks, points, side="right")
            at = np.minimum(at, self._low.size - 1)  # where nothing has a weight
        cuts = self._low[at]
        new = np.empty(cuts.size, bool)
        new[:1] = cuts[:1] != self._low[0]
        np.not_equal(cuts[1:], cuts[:-1], out=new[1:])
        return at, new

    def _has_less(
        self,
        points: tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]],
        limit: int,
        finest: int,
    ) -> bool:
        """Return whether these points are less than `limit` cuts.

        If that cannot be told, all cells that may have two points of a grid up to the
        `finest` are in the way.
        """
        at, new = points
        least = int(np.count_nonzero(new))
        if self._mixed is None or least >= limit:
            return least < limit
        unsure = at[self._mixed[at] & ~new]
        if least + unsure.size < limit:
            return True
        assert self._ranks is not None
        weights = np.diff(self._ranks, prepend=0)
        heavy = self._mixed & (weights > self._total // finest)
        raise UnresolvedEntries(np.union1d(np.flatnonzero(heavy), unsure))


def grid_ranks(total: int, steps: int, numbers: Int64s) -> Int64s:
    """Return ``numbers * total // steps``, which may not fit in an int64 halfway."""
    return numbers * (total // steps) + numbers * (total % steps) // steps


def _above(highest: np.floating[Any]) -> float:
    """Return XGBoost's end of the last bin, a float32 wherever there is one above."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(highest)
        end = np.float32(np.float64(value) + (np.abs(np.float64(value)) + _MARGIN))
    if np.isfinite(end) and end > highest:
        return float(end)
    return min(2.0 * abs(float(highest)), float(np.finfo(np.float64).max))


def _below(lowest: np.floating[Any]) -> float:
    """Return XGBoost's value below all of a column's."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(lowest)
        end = (value - np.abs(value)) - _MARGIN
    if np.isfinite(end) and end < lowest:
        return float(end)
    return max(-2.0 * abs(float(lowest)), float(np.finfo(np.float64).min))
