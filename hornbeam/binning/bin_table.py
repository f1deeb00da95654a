"""Maps the values of a table to bins, with its own cuts or given ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import (
    ColumnCuts,
    Cuts,
    are_float32,
    integer_weights,
)
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.exact_quantiles import find_stream_cuts, sketch_column
from hornbeam.binning.sparse import SparseMatrix, bin_stored_entries, stays_sparse
from hornbeam.binning.table_passes import checked_batches
from hornbeam.binning.threads import in_threads, mapped_bytes, thread_count
from hornbeam.binning.value_counts import cut_column
from hornbeam.data.floats import Locate
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError

if TYPE_CHECKING:
    from hornbeam.binning.external import ExternalMatrix

__all__ = [
    "BinMapper",
    "Binned",
    "BinnedTable",
    "bin_batches",
    "bin_table",
    "bin_with_cuts",
    "categorical",
    "category_cuts",
    "copy_category_codes",
]

#: A binned table: the bins of all values, in memory or in external memory, or of the
#: stored entries of a sparse table.
Binned: TypeAlias = "DenseMatrix | SparseMatrix | ExternalMatrix"

Bins = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]

#: Columns read from a table at once: few, to keep copies small, but enough to use most
#: of each cache line of a row-major array.
_COLUMNS_AT_ONCE = 4


def bin_table(
    table: Table,
    max_bin: int,
    weights: npt.NDArray[np.float64] | None = None,
    n_threads: int = 1,
    sketch: str = "exact",
    *,
    dense: bool = False,
) -> Binned:
    """Return the bins of `table`, cut at its own (weighted) quantiles.

    A table in batches is read in several passes: mostly two for exact cuts, one for
    approximate cuts, and one more for the bins.

    Parameters
    ----------
    table
        The features.
    max_bin
        Maximum number of bins of a feature, 2 or more.
    weights
        (rows,) float64, or None.
    n_threads
        Number of threads, which share the columns; 0 or less: all processors. It does
        not change the result.
    sketch
        "exact", or "approximate" for cuts from a sketch, which take one pass over a
        table in batches (see `binning.sketch`). The result does not depend on how the
        rows are split into batches.
    dense
        Whether a sparse table gets bins for its missing values, too.
    """
    if sketch not in ("exact", "approximate"):
        raise ParameterError(
            f"sketch must be 'exact' or 'approximate', not {sketch!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    exact = sketch == "exact"
    fixed = integer_weights(weights)
    if table.is_stream:
        columns = find_stream_cuts(table, max_bin, fixed, n_threads, exact)
        return bin_batches(table, columns, max_bin, n_threads, own_cuts=True)
    is_categorical = categorical(table)
    cut_numbers = cut_column if exact else sketch_column

    def cut(feature: int, values: npt.NDArray[Any], scratch: Bytes) -> ColumnCuts:
        if is_categorical[feature]:
            has_missing = bool(np.isnan(values).any())
            return category_cuts(table, feature, values, has_missing)
        return cut_numbers(values, max_bin, fixed, scratch)

    indicators: dict[tuple[float, bool], ColumnCuts] = {}

    def cut_entries(
        feature: int, values: npt.NDArray[Any], rows: npt.NDArray[np.uint32]
    ) -> ColumnCuts:
        if not exact:  # a sketch depends on which rows are missing
            column = np.full(table.n_rows, np.nan, values.dtype)
            column[rows] = values
            return sketch_column(column, max_bin, fixed)
        absent = table.n_rows - len(rows)
        if fixed is not None:
            return cut_column(values, max_bin, fixed[rows], absent=absent)
        if len(rows) == 0 or (values != values[0]).any():
            return cut_column(values, max_bin, None, absent=absent)
        # Find the cuts of all indicators (columns of one value) once.
        kind = float(values[0]), absent > 0
        if kind not in indicators:
            indicators[kind] = cut_column(values[:1], max_bin, None, absent=absent)
        return indicators[kind]

    if stays_sparse(table) and not dense:
        return bin_stored_entries(table, cut_entries, max_bin)
    return _bin_columns(table, cut, max_bin, n_threads)


def bin_with_cuts(table: Table, cuts: Cuts, n_threads: int = 1) -> Binned:
    """Return the bins of `table` with given cuts, such as those of training data."""
    max_bin = int(cuts.n_bins.max())
    if table.is_stream:
        return bin_batches(table, cuts.columns(), max_bin, n_threads, own_cuts=False)

    def known(feature: int, values: npt.NDArray[Any], scratch: Bytes) -> ColumnCuts:
        has_missing = bool(np.isnan(values).any())
        minimum = float(cuts.minimums[feature])
        return ColumnCuts(cuts.of(feature), minimum, has_missing)

    if stays_sparse(table):
        return bin_stored_entries(table, known, max_bin)
    return _bin_columns(table, known, max_bin, n_threads)


def _bin_columns(
    table: Table,
    cut: Callable[[int, npt.NDArray[Any], Bytes], ColumnCuts],
    max_bin: int,
    n_threads: int,
) -> DenseMatrix:
    """Find the cuts of each column and map it to bins, reading it once."""
    is_categorical = categorical(table)
    is_small = max_bin <= 256
    shape = (table.n_features, table.n_rows)
    bins: Any = np.empty(shape, np.uint8 if is_small else np.uint16)
    columns: list[ColumnCuts | None] = [None] * table.n_features
    is_float32 = np.empty(table.n_features, bool)
    # A column of 256 bins and missing values does not fit in uint8.
    large: dict[int, npt.NDArray[np.uint16]] = {}

    n_threads = thread_count(n_threads, -(-table.n_features // _COLUMNS_AT_ONCE))
    column_bytes = table.n_rows * np.dtype(table.dtype).itemsize
    workspaces: SimpleQueue[Bytes] = SimpleQueue()
    for _ in range(n_threads):
        workspaces.put(mapped_bytes((_COLUMNS_AT_ONCE + 2) * column_bytes))

    def work(start: int) -> None:
        stop = min(start + _COLUMNS_AT_ONCE, table.n_features)
        workspace = workspaces.get()
        block, scratch = workspace[2 * column_bytes :], workspace[: 2 * column_bytes]
        try:
            for f, values in enumerate(table.columns(start, stop, block), start):
                column = cut(f, values, scratch)
                columns[f] = column
                is_float32[f] = are_float32(values)
                out = bins[f]
                if is_small and column.upper.size + column.has_missing > 256:
                    out = large[f] = np.empty(table.n_rows, np.uint16)
                if is_categorical[f]:
                    copy_category_codes(values, column, out, table.locator(0, f))
                else:
                    column.map_to_bins(values, out)
        finally:
            workspaces.put(workspace)

    in_threads(work, range(0, table.n_features, _COLUMNS_AT_ONCE), n_threads)
    if large:
        bins = bins.astype(np.uint16)
        for f, column_bins in large.items():
            bins[f] = column_bins
    done = [column for column in columns if column is not None]
    return DenseMatrix(
        Cuts.join(done),
        bins,
        np.array([column.has_missing for column in done]),
        bool(is_float32.all()),
        is_categorical,
    )


def bin_batches(
    table: Table,
    columns: list[ColumnCuts],
    max_bin: int,
    n_threads: int,
    *,
    own_cuts: bool,
) -> DenseMatrix:
    """Return the bins of a table in memory, written batch by batch in one pass.

    Parameters
    ----------
    table
        In batches, or in memory.
    columns
        The cuts of each column.
    max_bin
        Maximum number of bins of a numeric column.
    n_threads
        Number of threads, which share the columns; 0 or less: all processors.
    own_cuts
        Whether the cuts were found from these rows, possibly with others. The cuts of
        another table are rounded to the dtype of the rows.
    """
    mapper = BinMapper(table, columns, max_bin, own_cuts=own_cuts)
    bins: Any = np.empty((table.n_features, table.n_rows), mapper.dtype)
    for begin, batch in checked_batches(table):
        rows = slice(begin, begin + batch.n_rows)
        if not mapper.map_batch(batch, bins[:, rows], n_threads):
            bins = bins.astype(mapper.dtype)
            mapper.map_batch(batch, bins[:, rows], n_threads)
    return DenseMatrix(
        Cuts.join(columns),
        bins,
        mapper.has_missing,
        mapper.is_float32,
        mapper.is_categorical,
    )


class BinMapper:
    """Maps batches of a table to bins.

    Parameters
    ----------
    table
        The table of the batches.
    columns
        The cuts of each column.
    max_bin
        Maximum number of bins of a numeric column.
    own_cuts
        As for `bin_batches`.

    Attributes
    ----------
    has_missing
        (features,) bool: whether a missing value was found so far.
    is_float32
        Whether every value so far is exactly a float32.
    is_categorical
        (features,) bool.
    """

    def __init__(
        self,
        table: Table,
        columns: Sequence[ColumnCuts],
        max_bin: int,
        *,
        own_cuts: bool,
    ) -> None:
        self._columns = columns
        # A column can be float32 in some batches and float64 in others. Its own cuts
        # are then float64 and must not be rounded.
        self._needs_float64 = [
            own_cuts and not are_float32(column.upper[:-1]) for column in columns
        ]
        self._n_bins = np.array([column.upper.size for column in columns])
        self._is_small = max_bin <= 256
        self.is_categorical = categorical(table)
        self.has_missing = np.array([column.has_missing for column in columns])
        self._is_float32 = np.ones(len(columns), bool)

    @property
    def is_float32(self) -> bool:
        return bool(self._is_float32.all())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the bins so far: a missing value may need a larger one."""
        fits = self._is_small and (self._n_bins + self.has_missing <= 256).all()
        return np.dtype(np.uint8 if fits else np.uint16)

    def map_batch(self, batch: Table, out: Bins, n_threads: int) -> bool:
        """Write the bins (features, rows) of a batch; return whether they fit in `out`.

        If they do not, `dtype` is now a larger one; call again with an `out` of it.
        """

        def work(start: int) -> None:
            stop = min(start + _COLUMNS_AT_ONCE, batch.n_features)
            for f, values in enumerate(batch.columns(start, stop), start):
                self._map_column(f, values, out[f], batch.locator(0, f))

        tasks = range(0, batch.n_features, _COLUMNS_AT_ONCE)
        in_threads(work, tasks, n_threads)
        return self.dtype.itemsize <= out.itemsize

    def _map_column(
        self, f: int, values: npt.NDArray[Any], out: Bins, locate: Locate
    ) -> None:
        self.has_missing[f] |= bool(np.isnan(values).any())
        self._is_float32[f] &= are_float32(values)
        if out.itemsize == 1 and self._n_bins[f] + self.has_missing[f] > 256:
            return  # the first missing value of a column with 256 bins
        if self.is_categorical[f]:
            copy_category_codes(values, self._columns[f], out, locate)
        elif self._needs_float64[f]:
            self._columns[f].map_to_bins(values.astype(np.float64, copy=False), out)
        else:
            self._columns[f].map_to_bins(values, out)


def categorical(table: Table) -> npt.NDArray[np.bool_]:
    """Return which columns are categorical, (features,) bool."""
    if table.types is None:
        return np.zeros(table.n_features, np.bool_)
    return np.array([kind == "c" for kind in table.types])


def category_cuts(
    table: Table, feature: int, values: npt.NDArray[Any], has_missing: bool
) -> ColumnCuts:
    """Return cuts with one bin per category name, or per code up to the largest."""
    names = table.categories.of(feature)
    if names is not None:
        n_categories = len(names)
    elif values.size == 0:
        n_categories = 0
    else:
        n_categories = int(np.fmax.reduce(values, initial=-1)) + 1
    return ColumnCuts.of_categories(n_categories, has_missing)


def copy_category_codes(
    values: npt.NDArray[Any], column: ColumnCuts, out: Bins, locate: Locate
) -> None:
    """Write the bins of a categorical column, which are the codes of its categories."""
    n_categories = column.upper.size
    is_new = values >= n_categories
    if is_new.any():
        row = int(is_new.argmax())
        raise DataError(
            f"{locate((row,))} holds the category code {int(values[row])}, but the "
            f"bins were made from codes up to {n_categories - 1}; name the categories "
            "(pass a data frame with strings or a category dtype), or replace codes "
            "that training did not see with NaN",
            code=ErrorCode.UNSEEN_CATEGORY_CODE,
        )
    np.copyto(out, np.where(np.isnan(values), n_categories, values), casting="unsafe")


class BinnedTable(Table):
    """A binned matrix as a table: each value is the lower end of its bin.

    Parameters
    ----------
    binned
        The bins, held by reference.
    schema
        Names, types and categories of the columns.
    """

    def __init__(self, binned: Binned, schema: Schema) -> None:
        super().__init__(
            binned.n_rows,
            binned.n_features,
            schema.names,
            schema.types,
            np.dtype(binned.dtype),
            schema.categories,
        )
        self._binned = binned

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        return [self._binned.decode_column(f, self.dtype) for f in range(start, stop)]

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        return self._binned.decode(start, stop, features)

    def take(self, rows: np.ndarray) -> Table:
        return BinnedTable(self._binned.take(rows), self.schema)
