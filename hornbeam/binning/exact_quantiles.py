"""Finds the cuts of columns that do not fit in memory, in a few passes over the rows.

Exact cuts take a few passes. Each `RangePass` counts, for ranges of values, the rows,
their weights, and the smallest and largest value. A range whose smallest and largest
value are equal holds one distinct value. The ranges become the `Summary` that
`cut_summary` finds the cuts from. If a cut lies inside some ranges, the next pass
splits these. When they hold few enough rows, it keeps their values instead and is the
last one.

The first pass builds a sketch, from which follow ranges of about equal weight and the
approximate places of the cuts. The second pass counts these ranges and keeps the
values around the cuts, so that it mostly is the last one.

The rows can be anywhere, in any number of parts: `find_cuts` takes the function that
runs the passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import (
    KEPT_BYTES,
    CategoryPass,
    ColumnPass,
    RangePass,
    Ranges,
    SketchPass,
)
from hornbeam.binning.cuts import (
    ColumnCuts,
    UnresolvedEntries,
    cut_summary,
    sort_column,
)
from hornbeam.binning.sketch import CHUNK_ROWS, POINTS
from hornbeam.binning.table_passes import run_passes
from hornbeam.binning.value_counts import COUNTED_ROWS, CountPass, counted_cuts
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table

__all__ = [
    "MAX_BYTES",
    "CategoryCutFinder",
    "CountedCutFinder",
    "CutFinder",
    "ExactCutFinder",
    "SketchCutFinder",
    "cut_finders",
    "find_cuts",
    "find_stream_cuts",
    "sketch_column",
]

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

#: Least values per bin of a sketch: of one that gives the cuts, and of one that gives
#: the ranges of the next pass.
_CUT_POINTS_PER_BIN = 16
_RANGE_POINTS_PER_BIN = 32
#: Bytes of a value and its weight.
_VALUE_BYTES = 16

#: Default memory for chunks and kept values. Columns that do not fit are read in
#: further passes.
MAX_BYTES = 96 << 20
#: Bytes of the sketches and ranges of a column.
_COLUMN_BYTES = 1 << 20

R = TypeVar("R", bound=ColumnPass)


class CutFinder(ABC, Generic[R]):
    """Finds the cuts of one column from passes over its rows.

    Attributes
    ----------
    cuts
        The cuts; None if another pass is needed.
    """

    cuts: ColumnCuts | None = None

    @abstractmethod
    def new_pass(self) -> R:
        """Return the next pass, which has seen no rows."""

    @abstractmethod
    def end_pass(self, column_pass: R) -> None:
        """Find the cuts from a pass over all rows, or prepare the next pass."""


def cut_finders(
    schema: Schema,
    max_bin: int,
    n_rows: int,
    *,
    exact: bool,
    max_bytes: int,
    features: Sequence[int] | None = None,
    counts: bool = False,
) -> list[CutFinder[Any]]:
    """Return a cut finder for each column.

    Parameters
    ----------
    schema
        The columns.
    max_bin
        Maximum number of bins of a column.
    n_rows
        Number of rows of all parts.
    exact
        Whether to find exact quantiles; otherwise those of a sketch.
    max_bytes
        Memory for the values that all columns keep.
    features
        The columns; None: all.
    counts
        Whether to count long columns first, in more passes than sorting them takes.
    """
    chosen = range(schema.n_features) if features is None else features

    def finder_of(feature: int) -> CutFinder[Any]:
        if schema.types is not None and schema.types[feature] == "c":
            names = schema.categories.of(feature)
            return CategoryCutFinder(None if names is None else len(names))
        if exact:
            finder = ExactCutFinder(max_bin, n_rows, max_bytes // len(chosen))
            if counts and n_rows >= COUNTED_ROWS:
                return CountedCutFinder(max_bin, max_bytes // len(chosen), finder)
            return finder
        return SketchCutFinder(max_bin)

    return [finder_of(feature) for feature in chosen]


def find_cuts(
    finders: Sequence[CutFinder[Any]],
    run: Callable[[list[int], list[ColumnPass]], list[ColumnPass]],
) -> list[ColumnCuts]:
    """Return the cuts of all columns, after as many passes as they need.

    Parameters
    ----------
    finders
        A cut finder for each column.
    run
        Takes the indices of columns and a new pass for each. Runs the passes over all
        rows and returns them; if the rows are in several parts, returns the merged
        passes.
    """
    while unfinished := [i for i, finder in enumerate(finders) if finder.cuts is None]:
        passes = run(unfinished, [finders[i].new_pass() for i in unfinished])
        for i in reversed(unfinished):
            finders[i].end_pass(passes.pop())  # free each: they take most of the memory
    return [finder.cuts for finder in finders if finder.cuts is not None]


class CategoryCutFinder(CutFinder[CategoryPass]):
    """Cuts of a categorical column: one bin per category.

    Parameters
    ----------
    n_categories
        Number of categories; None: the largest code + 1, found in one pass.
    """

    def __init__(self, n_categories: int | None = None) -> None:
        if n_categories is not None:
            self.cuts = ColumnCuts.of_categories(n_categories, False)

    def new_pass(self) -> CategoryPass:
        return CategoryPass()

    def end_pass(self, column_pass: CategoryPass) -> None:
        self.cuts = ColumnCuts.of_categories(
            column_pass.n_categories, column_pass.has_missing
        )


class SketchCutFinder(CutFinder[SketchPass]):
    """Approximate cuts from a quantile sketch, in one pass.

    Parameters
    ----------
    max_bin
        Maximum number of bins.
    """

    def __init__(self, max_bin: int) -> None:
        self._max_bin = max_bin

    def new_pass(self) -> SketchPass:
        return SketchPass(max(POINTS, _CUT_POINTS_PER_BIN * self._max_bin))

    def end_pass(self, column_pass: SketchPass) -> None:
        summary = column_pass.whole().summary()
        self.cuts = cut_summary(summary, self._max_bin, column_pass.has_missing)


def sketch_column(
    values: npt.NDArray[np.floating],
    max_bin: int,
    weights: Int64s | None,
    scratch: Bytes | None = None,
) -> ColumnCuts:
    """Return the approximate cuts of a column in memory, from sketches of its chunks.

    They are the cuts that `SketchCutFinder` finds in a stream of the same rows.
    """
    finder = SketchCutFinder(max_bin)
    column_pass = finder.new_pass()
    for start in range(0, values.size, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        chunk_weights = None if weights is None else weights[rows]
        column_pass.add(*sort_column(values[rows], chunk_weights, scratch))
    finder.end_pass(column_pass)
    assert finder.cuts is not None
    return finder.cuts


class ExactCutFinder(CutFinder[SketchPass | RangePass]):
    """Exact cuts, in a few passes.

    Parameters
    ----------
    max_bin
        Maximum number of bins.
    n_rows
        Number of rows of each pass, in all parts.
    max_bytes
        Memory for kept values.
    """

    def __init__(self, max_bin: int, n_rows: int, max_bytes: int) -> None:
        self._max_bin = max_bin
        self._max_bytes = max_bytes
        # Ranges of earlier passes that need no further split.
        self._ranges = Ranges.empty(0)
        # The next pass; None for a first pass that builds a sketch.
        self._next: RangePass | None = None
        if n_rows * _VALUE_BYTES <= max_bytes:
            self._next = RangePass.of_all_values(max_bytes)

    def new_pass(self) -> SketchPass | RangePass:
        if self._next is None:
            return SketchPass(max(POINTS, _RANGE_POINTS_PER_BIN * self._max_bin))
        return self._next.restarted()

    def end_pass(self, column_pass: SketchPass | RangePass) -> None:
        if isinstance(column_pass, SketchPass):
            self._end_sketch(column_pass)
        else:
            self._end_ranges(column_pass)

    def _end_sketch(self, column_pass: SketchPass) -> None:
        sketch = column_pass.whole()
        cuts = cut_summary(sketch.summary(), self._max_bin, column_pass.has_missing)
        if sketch.error:
            inner = cuts.upper[:-1]
            self._next = RangePass.around_cuts(sketch, inner, self._max_bytes)
        else:
            self.cuts = cuts

    def _end_ranges(self, column_pass: RangePass) -> None:
        self._next = None
        before, self._ranges = self._ranges, Ranges.empty(0)
        ranges = before.union(column_pass.ranges())
        unresolved = self._try_to_cut(ranges, column_pass.has_missing)
        if unresolved is None:
            return
        if column_pass.kept_rows * KEPT_BYTES > self._max_bytes:
            # Too many kept values to hold during the next pass.
            ranges = before.union(column_pass.counted())
            unresolved = self._try_to_cut(ranges, column_pass.has_missing)
            assert unresolved is not None
        to_split, self._ranges = ranges.partition(unresolved, self._max_bytes)
        self._next = RangePass.splitting(to_split, self._max_bytes)

    def _try_to_cut(
        self, ranges: Ranges, has_missing: bool
    ) -> npt.NDArray[np.intp] | None:
        """Find the cuts and return None, or return the ranges that must be split."""
        try:
            self.cuts = cut_summary(ranges.summary(), self._max_bin, has_missing)
        except UnresolvedEntries as unresolved:
            return unresolved.entries
        return None


class CountedCutFinder(CutFinder[ColumnPass]):
    """Exact cuts of a long column, which is counted.

    Parameters
    ----------
    max_bin
        Maximum number of bins.
    max_bytes
        Memory for the values near quantiles.
    otherwise
        Finds the cuts that counts do not lead to.
    """

    def __init__(self, max_bin: int, max_bytes: int, otherwise: ExactCutFinder) -> None:
        self._steps = counted_cuts(max_bin, max_rows=max_bytes // _VALUE_BYTES)
        self._next: CountPass | None = next(self._steps)
        self._otherwise = otherwise

    def new_pass(self) -> ColumnPass:
        return self._otherwise.new_pass() if self._next is None else self._next

    def end_pass(self, column_pass: ColumnPass) -> None:
        if self._next is not None:
            try:
                self._next = self._steps.send(column_pass)
            except StopIteration as end:
                self._next, self.cuts = None, end.value
            return
        assert isinstance(column_pass, SketchPass | RangePass)
        self._otherwise.end_pass(column_pass)
        self.cuts = self._otherwise.cuts


def find_stream_cuts(
    table: Table,
    max_bin: int,
    weights: Int64s | None,
    n_threads: int,
    exact: bool,
    max_bytes: int | None = None,
) -> list[ColumnCuts]:
    """Return the cuts of all columns of a table that is read in batches.

    Raises whatever reading the table raises.

    Parameters
    ----------
    table
        The features. Exact cuts take several passes over it.
    max_bin
        Maximum number of bins of a column.
    weights
        (rows,) from `integer_weights`, or None.
    n_threads
        Number of threads, which share the columns; 0 or less: all processors.
    exact
        Whether to find the exact quantiles of all rows; otherwise those of a sketch.
    max_bytes
        Memory to use; None: `MAX_BYTES`. Less memory takes more passes.
    """
    max_bytes = MAX_BYTES if max_bytes is None else max_bytes
    chunk_bytes = min(CHUNK_ROWS, table.n_rows) * np.dtype(table.dtype).itemsize
    at_once = max(1, max_bytes // (chunk_bytes + _COLUMN_BYTES))
    cuts: list[ColumnCuts] = []
    for start in range(0, table.n_features, at_once):
        features = range(start, min(start + at_once, table.n_features))
        finders = cut_finders(
            table.schema,
            max_bin,
            table.n_rows,
            exact=exact,
            max_bytes=max_bytes,
            features=features,
        )

        def run(
            indices: list[int], passes: list[ColumnPass], features: range = features
        ) -> list[ColumnPass]:
            chosen = [features[i] for i in indices]
            run_passes(table, chosen, passes, weights, n_threads)
            return passes

        cuts += find_cuts(finders, run)
    return cuts
