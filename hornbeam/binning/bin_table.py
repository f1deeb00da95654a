"""Maps the values of a table to bins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import (
    ColumnCuts,
    Cuts,
    are_float32,
    cut_column,
    integer_weights,
)
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.exact_quantiles import find_stream_cuts, sketch_column
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.sparse import SparseMatrix, bin_stored_entries, stays_sparse
from hornbeam.binning.table_passes import checked_batches
from hornbeam.binning.threads import in_threads, mapped_bytes, thread_count
from hornbeam.data.floats import Locate
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError

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

Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

#: Columns taken from a table at once: a few, so that little of it is held twice, but
#: enough to use most of each cache line of a row-major array.
_COLUMNS_AT_ONCE = 4


class BinMapper:
    """Writes the codes of batches of a table.

    Parameters
    ----------
    table
        What the batches are of.
    columns
        The cuts of its columns.
    max_bin
        The most bins of a column.
    own_cuts
        Whether the cuts are those of these rows, not of another table.

    Attributes
    ----------
    has_missing
        (features,) bool: whether a missing cell is known of.
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
        # Some batches of a column may be float32 where others, and so the cuts, are
        # float64. The cuts of another table are rounded to the type of the rows.
        self._are_wide = [
            own_cuts and not are_float32(column.upper[:-1]) for column in columns
        ]
        self._sizes = np.array([column.upper.size for column in columns])
        self._is_small = max_bin <= 256
        self.is_categorical = categorical(table)
        self.has_missing = np.array([column.has_missing for column in columns])
        self._are_float32 = np.ones(len(columns), bool)

    @property
    def is_float32(self) -> bool:
        return bool(self._are_float32.all())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the codes, as far as is known: a missing cell may need more."""
        narrow = self._is_small and (self._sizes + self.has_missing <= 256).all()
        return np.dtype(np.uint8 if narrow else np.uint16)

    def code(self, batch: Table, out: Codes, n_threads: int) -> bool:
        """Write the codes (features, rows) of a batch; return False if they do not fit.

        Then `dtype` has become a larger one, and the batch is to be written again.
        """

        def work(start: int) -> None:
            stop = min(start + _COLUMNS_AT_ONCE, batch.n_features)
            for f, values in enumerate(batch.columns(start, stop), start):
                self._code_column(f, values, out[f], batch.locator(0, f))

        tasks = range(0, batch.n_features, _COLUMNS_AT_ONCE)
        in_threads(work, tasks, n_threads)
        return self.dtype.itemsize <= out.itemsize

    def _code_column(
        self, f: int, values: npt.NDArray[Any], out: Codes, locate: Locate
    ) -> None:
        self.has_missing[f] |= bool(np.isnan(values).any())
        self._are_float32[f] &= are_float32(values)
        if out.itemsize == 1 and self._sizes[f] + self.has_missing[f] > 256:
            return  # the first missing cell of a column of 256 bins
        if self.is_categorical[f]:
            copy_category_codes(values, self._columns[f], out, locate)
        elif self._are_wide[f]:
            self._columns[f].code(values.astype(np.float64, copy=False), out)
        else:
            self._columns[f].code(values, out)


def categorical(table: Table) -> npt.NDArray[np.bool_]:
    """Return which columns hold categories, (features,) bool."""
    if table.types is None:
        return np.zeros(table.n_features, np.bool_)
    return np.array([kind == "c" for kind in table.types])


def copy_category_codes(
    values: npt.NDArray[Any], column: ColumnCuts, out: Codes, locate: Locate
) -> None:
    """Write the codes of categories, which are the values themselves."""
    levels = column.upper.size
    beyond = values >= levels
    if beyond.any():
        row = int(beyond.argmax())
        raise DataError(
            f"{locate((row,))} holds the category code {int(values[row])}, but the "
            f"data that made the bins had no code above {levels - 1}; give its "
            "categories names (a frame of strings or of a category type), or replace "
            "codes that training did not see by NaN",
            code=ErrorCode.UNSEEN_CATEGORY_CODE,
        )
    np.copyto(out, np.where(np.isnan(values), levels, values), casting="unsafe")


Bytes = npt.NDArray[np.uint8]


def bin_table(
    table: Table,
    max_bin: int,
    weights: npt.NDArray[np.float64] | None = None,
    n_threads: int = 1,
    sketch: str = "exact",
    *,
    dense: bool = False,
) -> Binned:
    """Return `table` in bins cut at its own (weighted) quantiles.

    A table in batches is read several times: for exact cuts mostly twice, for
    approximate ones once; and once more for the codes.

    Parameters
    ----------
    table
        The features.
    max_bin
        The most bins of a feature, 2 or more.
    weights
        (rows,) float64, or None.
    n_threads
        Threads that share the columns, 0 or less for all processors; they do not
        change the result.
    sketch
        "exact", or "approximate" for cuts from a sketch, which a table in batches is
        read once for (see `sketch`). Batches do not change either's result.
    dense
        Whether the cells that a sparse table misses have codes, too.
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

    def cut_filled(
        feature: int, values: npt.NDArray[Any], rows: npt.NDArray[np.uint32]
    ) -> ColumnCuts:
        if not exact:  # a sketch depends on which rows are empty
            column = np.full(table.n_rows, np.nan, values.dtype)
            column[rows] = values
            return sketch_column(column, max_bin, fixed)
        absent = table.n_rows - len(rows)
        if fixed is not None:
            return cut_column(values, max_bin, fixed[rows], absent=absent)
        if len(rows) == 0 or (values != values[0]).any():
            return cut_column(values, max_bin, None, absent=absent)
        # Of thousands of indicators, each has the cuts of the first.
        kind = float(values[0]), absent > 0
        if kind not in indicators:
            indicators[kind] = cut_column(values[:1], max_bin, None, absent=absent)
        return indicators[kind]

    if stays_sparse(table) and not dense:
        return bin_stored_entries(table, cut_filled, max_bin)
    return _bin(table, cut, max_bin, n_threads)


def bin_with_cuts(table: Table, cuts: Cuts, n_threads: int = 1) -> Binned:
    """Return `table` in the bins of another one, as a validation set needs it."""
    if table.is_stream:
        columns = [
            ColumnCuts(cuts.of(feature), float(cuts.minimums[feature]), False)
            for feature in range(table.n_features)
        ]
        max_bin = int(cuts.n_bins.max())
        return bin_batches(table, columns, max_bin, n_threads, own_cuts=False)

    def known(feature: int, values: npt.NDArray[Any], scratch: Bytes) -> ColumnCuts:
        has_missing = bool(np.isnan(values).any())
        minimum = float(cuts.minimums[feature])
        return ColumnCuts(cuts.of(feature), minimum, has_missing)

    max_bin = int(cuts.n_bins.max())
    if stays_sparse(table):
        return bin_stored_entries(table, known, max_bin)
    return _bin(table, known, max_bin, n_threads)


def category_cuts(
    table: Table, feature: int, values: npt.NDArray[Any], has_missing: bool
) -> ColumnCuts:
    """Return a bin for each category: those with a name, else up to the last code."""
    names = table.categories.of(feature)
    if names is not None:
        levels = len(names)
    else:
        levels = 0 if values.size == 0 else int(np.fmax.reduce(values, initial=-1)) + 1
    return ColumnCuts.of_categories(levels, has_missing)


def _bin(
    table: Table,
    cut: Callable[[int, npt.NDArray[Any], Bytes], ColumnCuts],
    max_bin: int,
    n_threads: int,
) -> DenseMatrix:
    """Cut and code the columns, a few at a time, each read once."""
    is_categorical = categorical(table)
    small = max_bin <= 256
    shape = (table.n_features, table.n_rows)
    codes: Any = np.empty(shape, np.uint8 if small else np.uint16)
    columns: list[ColumnCuts | None] = [None] * table.n_features
    all_float32 = np.empty(table.n_features, bool)
    # A column of 256 bins and missing cells does not fit in a byte.
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
                all_float32[f] = are_float32(values)
                out = codes[f]
                if small and column.upper.size + column.has_missing > 256:
                    out = large[f] = np.empty(table.n_rows, np.uint16)
                if is_categorical[f]:
                    copy_category_codes(values, column, out, table.locator(0, f))
                else:
                    column.code(values, out)
        finally:
            workspaces.put(workspace)

    in_threads(work, range(0, table.n_features, _COLUMNS_AT_ONCE), n_threads)
    if large:
        codes = codes.astype(np.uint16)
        for f, column_codes in large.items():
            codes[f] = column_codes
    done = [column for column in columns if column is not None]
    return DenseMatrix(
        Cuts.join(done),
        codes,
        np.array([column.has_missing for column in done]),
        bool(all_float32.all()),
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
    """Return the codes of a table, written batch by batch in one reading.

    Parameters
    ----------
    table
        In batches, or in memory.
    columns
        The cuts of each column.
    max_bin
        The most bins of a column, but for categories.
    n_threads
        Threads that share the columns, 0 or less for all processors.
    own_cuts
        Whether the cuts are those of these rows, alone or with others. The cuts of
        another table are rounded to the type of the rows.
    """
    coder = BinMapper(table, columns, max_bin, own_cuts=own_cuts)
    codes: Any = np.empty((table.n_features, table.n_rows), coder.dtype)
    for begin, batch in checked_batches(table):
        rows = slice(begin, begin + batch.n_rows)
        if not coder.code(batch, codes[:, rows], n_threads):
            codes = codes.astype(coder.dtype)
            coder.code(batch, codes[:, rows], n_threads)
    return DenseMatrix(
        Cuts.join(columns),
        codes,
        coder.has_missing,
        coder.is_float32,
        coder.is_categorical,
    )


#: What a table becomes: codes of all its cells, in memory or on disk, or of those that
#: are filled.
Binned = DenseMatrix | SparseMatrix | ExternalMatrix


class BinnedTable(Table):
    """The rows of a binned matrix, each cell as the value that stands for its bin.

    Parameters
    ----------
    binned
        The codes, which are held by reference.
    schema
        The names, types and categories of the columns.
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
