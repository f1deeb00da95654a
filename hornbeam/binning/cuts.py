"""Cuts between bins: exact weighted quantiles of a column.

The cuts depend on the multiset of (value, weight) only, not on the order of rows.
A column with at most max_bin distinct values has one bin per value, as in XGBoost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    "cut_summary",
    "cuts_between",
    "grid_ranks",
    "integer_weights",
    "most_bins",
    "sort_column",
]

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: XGBoost's margin around the extremes of a column.
_MARGIN = np.float32(1e-5)
#: Most bins of a column in uint8, that of missing values included.
_SMALL_BINS = 256
#: The grid of ranks is refined up to this many times max_bin, for columns where a few
#: values take up nearly all rows.
_FINEST_GRID = 64


@dataclass(frozen=True, slots=True)
class ColumnCuts:
    """Cuts of one column.

    Attributes
    ----------
    upper
        (bins,) float64: the exclusive upper end of each bin. The last one is above all
        values.
    minimum
        A value below all values.
    has_missing
        Whether any value is missing.
    """

    upper: Float64s
    minimum: float
    has_missing: bool

    @classmethod
    def of_categories(cls, levels: int, has_missing: bool) -> ColumnCuts:
        """Return the cuts 1, 2, ..., with which the bin of a category is its code."""
        return cls(np.arange(1.0, max(levels, 1) + 1), 0.0, has_missing)

    def map_to_bins(self, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write the bin of each value; the bin of a missing value is the last + 1."""
        inner = self.upper[:-1]
        depth = int(inner.size).bit_length()
        cuts = np.full(1 << depth, np.inf, values.dtype)
        cuts[1 : inner.size + 1] = nearest(inner, values.dtype)
        position = np.empty(1024, np.uint32)
        bin_column(values, cuts, depth, self.upper.size, position, out)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Cuts of all columns, concatenated.

    Attributes
    ----------
    pointers
        (features + 1,) int64: where the cuts of each feature begin in `values`.
    values
        (cuts,) float64: the exclusive upper end of each bin.
    minimums
        (features,) float64: a value below all values of each feature.
    """

    pointers: Int64s
    values: Float64s
    minimums: Float64s
    #: The minimum of each feature and then its cuts, the same rounded to float32, and
    #: where the cuts of each feature begin here.
    _thresholds: Float64s = field(init=False, repr=False, compare=False)
    _rounded: Float64s = field(init=False, repr=False, compare=False)
    _starts: Int64s = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        begins = self.pointers[:-1]
        thresholds = np.insert(self.values, begins, self.minimums)
        rounded = nearest(thresholds, np.float32).astype(np.float64)
        object.__setattr__(self, "_thresholds", thresholds)
        object.__setattr__(self, "_rounded", rounded)
        object.__setattr__(self, "_starts", begins + np.arange(begins.size) + 1)

    @classmethod
    def join(cls, columns: list[ColumnCuts]) -> Cuts:
        """Return the concatenated cuts of `columns`."""
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
        """The dtype of cuts and minimums: float32 if that is exact, else float64."""
        values = np.concatenate([self.values, self.minimums])
        return np.float32 if are_float32(values) else np.float64

    @property
    def n_bins(self) -> Int64s:
        """Number of bins of each feature, (features,) int64."""
        return np.diff(self.pointers)

    def of(self, feature: int) -> Float64s:
        """Return the cuts of one feature."""
        return self.values[self.pointers[feature] : self.pointers[feature + 1]]

    def columns(self) -> list[ColumnCuts]:
        """Return the cuts of each feature, to bin other rows by."""
        return [
            ColumnCuts(self.of(feature), float(minimum), False)
            for feature, minimum in enumerate(self.minimums)
        ]

    def thresholds(self, splits: npt.NDArray[Any], rounded: bool = False) -> Float64s:
        """Return the threshold of each split: smaller values go left.

        `splits` has shape (splits,) and dtype `SPLIT_DTYPE`. If the model rounds
        features to float32, it needs the values of cuts `rounded` alike.
        """
        last_bins = self._starts.take(splits["feature"]) + splits["bin"]
        return (self._rounded if rounded else self._thresholds).take(last_bins)

    def lower_ends(self, feature: int) -> Float64s:
        """Return the lower end of each bin of a feature, then NaN for missing."""
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
    """Return weights as fixed-point integers, whose sums are exact in any order.

    Parameters
    ----------
    weights
        (rows,), or None.
    largest, n_rows
        The largest weight and the number of weights over all parts of the rows, if
        `weights` are those of one part.
    """
    if weights is None:
        return None
    # The scale depends on the largest weight: a sum of floats depends on their order.
    exponent = int(np.frexp(weights.max() if largest is None else largest)[1])
    bits = SUM_BITS - (weights.size if n_rows is None else n_rows).bit_length()
    return np.rint(np.ldexp(weights, bits - exponent)).astype(np.int64)


def sort_column(
    values: npt.NDArray[Any],
    weights: Int64s | None,
    scratch: npt.NDArray[np.uint8] | None = None,
) -> tuple[npt.NDArray[Any], Int64s | None, bool]:
    """Return the sorted values, their weights, and whether any value is missing.

    Values that are missing or of weight 0 are left out. A missing value of weight 0
    counts as missing.
    """
    ordered, sorted_weights = sort_floats(values, weights, scratch)
    # A NaN of the same dtype: for another NumPy converts the whole column.
    n_present = int(np.searchsorted(ordered, ordered.dtype.type(np.nan)))
    has_missing = n_present < ordered.size
    ordered = ordered[:n_present]
    if sorted_weights is None:
        return ordered, None, has_missing
    sorted_weights = sorted_weights[:n_present]
    is_weighted = sorted_weights > 0
    return ordered[is_weighted], sorted_weights[is_weighted], has_missing


@dataclass(frozen=True, slots=True)
class Summary:
    """A column as ascending values, or ranges of values, with cumulative weights.

    Attributes
    ----------
    low
        (entries,) float32 or float64: the smallest value of each entry. Entries of one
        value may repeat it.
    ranks
        (entries,) int64: the cumulative weight up to and including each entry. None:
        each entry weighs 1.
    high
        (entries,): the largest value of each entry. None: every entry is one value.
    """

    low: npt.NDArray[Any]
    ranks: Int64s | None
    high: npt.NDArray[Any] | None = None


class UnresolvedEntries(Exception):  # noqa: N818 (not an error, but control flow)
    """Raised if cuts lie inside entries of several values, which must be split.

    Parameters
    ----------
    entries
        Their indices, ascending.
    """

    def __init__(self, entries: npt.NDArray[np.intp]) -> None:
        super().__init__(entries)
        self.entries = entries


def cut_summary(summary: Summary, max_bin: int, has_missing: bool) -> ColumnCuts:
    """Return the cuts of one column.

    A summary whose entries are split far enough gives the same cuts as one with an
    entry for each value. Raises `UnresolvedEntries` if entries must be split further.
    """
    low = summary.low
    if low.size == 0:
        margin = low.dtype.type(_MARGIN)
        return ColumnCuts(np.array([_above(margin)]), _below(margin), has_missing)
    high = low if summary.high is None else summary.high
    mixed = None if summary.high is None else summary.low != summary.high
    changes = low[1:] != low[:-1]
    distinct = 1 + np.count_nonzero(changes)
    if mixed is not None:
        distinct += np.count_nonzero(mixed)  # each holds two values or more
    if distinct <= max_bin:
        if mixed is not None and mixed.any():
            raise UnresolvedEntries(np.flatnonzero(mixed))
        inner = low[1:][changes]
    else:
        bins = most_bins(max_bin, has_missing)
        inner = _RankGrids(low, summary.ranks, mixed).finest(bins)
    return cuts_between(low[0], inner, high[-1], has_missing)


def most_bins(max_bin: int, has_missing: bool) -> int:
    """Return the most bins of a column, without that of missing values."""
    return max_bin - 1 if has_missing and max_bin == _SMALL_BINS else max_bin


def cuts_between(
    lowest: np.floating[Any],
    inner: npt.NDArray[Any],
    highest: np.floating[Any],
    has_missing: bool,
) -> ColumnCuts:
    """Return the cuts with these inner ones, of values between two extremes."""
    # Adding 0.0 turns -0.0 into 0.0.
    upper = np.append(inner.astype(np.float64), _above(highest)) + 0.0
    return ColumnCuts(upper, _below(lowest), has_missing)


class _RankGrids:
    """Grids of equally spaced ranks over the entries of a summary.

    A cut is placed at each grid point. Points in one entry of several values can give
    as many cuts, or one, or none.
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
        """Return the inner cuts of the finest grid that gives at most `bins` bins.

        If no value weighs more than a bin, this is the grid of `bins` quantiles.
        Several grid points on one heavy value give a single cut; a finer grid then uses
        the remaining bins.
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
        """Return the entry of each grid point, and which points surely add a cut."""
        points = grid_ranks(self._total, grid, np.arange(1, grid))
        if self._ranks is None:
            at = np.minimum(points, self._low.size - 1)
        else:
            at = np.searchsorted(self._ranks, points, side="right")
            at = np.minimum(at, self._low.size - 1)  # if all weights are 0
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
        """Return whether the points give less than `limit` cuts.

        If that is unknown, raises `UnresolvedEntries` with all entries in which two
        points of a grid up to `finest` can lie.
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
    """Return ``numbers * total // steps`` without overflow of int64."""
    return numbers * (total // steps) + numbers * (total % steps) // steps


def _above(highest: np.floating[Any]) -> float:
    """Return XGBoost's upper end of the last bin, a float32 if one is above."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(highest)
        end = np.float32(np.float64(value) + (np.abs(np.float64(value)) + _MARGIN))
    if np.isfinite(end) and end > highest:
        return float(end)
    return min(2.0 * abs(float(highest)), float(np.finfo(np.float64).max))


def _below(lowest: np.floating[Any]) -> float:
    """Return XGBoost's lower bound of a column's values."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(lowest)
        end = (value - np.abs(value)) - _MARGIN
    if np.isfinite(end) and end < lowest:
        return float(end)
    return max(-2.0 * abs(float(lowest)), float(np.finfo(np.float64).min))
