"""A table as bin numbers, the form that growth works on."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import ColumnCuts, Cuts, cut_column, integer_weights
from hornbeam.data.floats import Locate, nearest
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.errors import DataError
from hornbeam.kernels.binning import bin_column, interleave
from hornbeam.kernels.team import available_threads

__all__ = ["BinnedMatrix", "BinnedTable", "bin_table", "bin_with_cuts"]

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

#: Columns taken from a table at once: a few, so that little of it is held twice, but
#: enough to use most of each cache line of a row-major array.
_COLUMNS_AT_ONCE = 4
_ROWS_OF_A_TASK = 1 << 16


@dataclass(slots=True)
class BinnedMatrix:
    """Bin numbers of all cells. A missing cell has the number after the last bin.

    Attributes
    ----------
    cuts
        Where the bins end.
    by_feature
        (features, rows) uint8, or uint16 where a feature has more than 256 codes.
    has_missing
        (features,) bool: whether any cell of a feature is missing.
    is_float32
        Whether every value that was binned is exactly a float32.
    is_categorical
        (features,) bool: whether a feature's bins are categories. It then has a cut
        1, 2, ... above each of them and the minimum 0, so that bin and value are one.
    """

    cuts: Cuts
    by_feature: Codes
    has_missing: npt.NDArray[np.bool_]
    is_float32: bool
    is_categorical: npt.NDArray[np.bool_]
    _by_row: Codes | None = field(default=None, repr=False)

    @property
    def n_features(self) -> int:
        return self.by_feature.shape[0]

    @property
    def n_rows(self) -> int:
        return self.by_feature.shape[1]

    @property
    def dtype(self) -> npt.DTypeLike:
        """The type of decoded values: float32 where that loses nothing."""
        values = np.concatenate([self.cuts.values, self.cuts.minimums])
        with np.errstate(over="ignore"):
            exact = np.array_equal(values.astype(np.float32), values)
        return np.float32 if exact else np.float64

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First cell of each feature in a histogram, (features + 1,) int64."""
        cells = self.cuts.bins + self.has_missing
        return np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)

    def by_row(self, n_threads: int = 1) -> Codes:
        """Return the codes row after row, (rows * features,), made on first use."""
        if self._by_row is None:
            by_row = np.empty(self.by_feature.size, self.by_feature.dtype)
            _in_threads(
                lambda begin: interleave(
                    self.by_feature,
                    begin,
                    min(begin + _ROWS_OF_A_TASK, self.n_rows),
                    by_row,
                ),
                range(0, self.n_rows, _ROWS_OF_A_TASK),
                n_threads,
            )
            self._by_row = by_row
        return self._by_row

    def decode(
        self, start: int, stop: int, features: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` as one value of each cell's bin.

        That is the lower end of the bin, so that a decoded value lies on the same
        side of every cut as the value it stands for; NaN where missing. Only the
        columns `features`, in that order, if they are given.
        """
        order = range(self.n_features) if features is None else features.tolist()
        out = np.empty((stop - start, len(order)), self.dtype)
        for place, f in enumerate(order):
            out[:, place] = self._lower_ends(f)[self.by_feature[f, start:stop]]
        return out

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one column as `decode` does, in a type that holds the values."""
        return self._lower_ends(feature).astype(dtype)[self.by_feature[feature]]

    def _lower_ends(self, feature: int) -> npt.NDArray[np.float64]:
        """Return the lower end of each bin of a feature, and NaN for missing."""
        minimum, cuts = self.cuts.minimums[feature], self.cuts.of(feature)
        return np.concatenate([[minimum], cuts[:-1], [np.nan]])


class BinnedTable(Table):
    """The rows of a binned matrix, each cell as the value that stands for its bin.

    Parameters
    ----------
    binned
        The codes, which are held by reference.
    schema
        The names, types and categories of the columns.
    """

    def __init__(self, binned: BinnedMatrix, schema: Schema) -> None:
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
        codes = self._binned.by_feature[:, rows]
        taken = replace(self._binned, by_feature=codes, _by_row=None)
        return BinnedTable(taken, self.schema)


def bin_table(
    table: Table,
    max_bin: int,
    weights: npt.NDArray[np.float64] | None = None,
    n_threads: int = 1,
) -> BinnedMatrix:
    """Return `table` in bins cut at its own (weighted) quantiles.

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
    """
    fixed = integer_weights(weights)
    types = table.types or [""] * table.n_features

    def cut(feature: int, values: npt.NDArray[Any], scratch: Bytes) -> ColumnCuts:
        if types[feature] == "c":
            return _cut_between_categories(table, feature, values)
        return cut_column(values, max_bin, fixed, scratch)

    return _bin(table, cut, max_bin, n_threads)


def bin_with_cuts(table: Table, cuts: Cuts, n_threads: int = 1) -> BinnedMatrix:
    """Return `table` in the bins of another one, as a validation set needs it."""

    def known(feature: int, values: npt.NDArray[Any], scratch: Bytes) -> ColumnCuts:
        has_missing = bool(np.isnan(values).any())
        minimum = float(cuts.minimums[feature])
        return ColumnCuts(cuts.of(feature), minimum, has_missing)

    return _bin(table, known, int(cuts.bins.max()), n_threads)


def _cut_between_categories(
    table: Table, feature: int, values: npt.NDArray[Any]
) -> ColumnCuts:
    """Return a bin for each category: those with a name, else up to the last code."""
    has_missing = bool(np.isnan(values).any())
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
) -> BinnedMatrix:
    """Cut and code the columns, a few at a time, each read once."""
    is_categorical = _categorical(table)
    small = max_bin <= 256
    shape = (table.n_features, table.n_rows)
    codes: Any = np.empty(shape, np.uint8 if small else np.uint16)
    columns: list[ColumnCuts | None] = [None] * table.n_features
    are_float32 = np.empty(table.n_features, bool)
    # A column of 256 bins and missing cells does not fit in a byte.
    large: dict[int, npt.NDArray[np.uint16]] = {}

    n_threads = _thread_count(n_threads, -(-table.n_features // _COLUMNS_AT_ONCE))
    column_bytes = table.n_rows * np.dtype(table.dtype).itemsize
    workspaces: SimpleQueue[Bytes] = SimpleQueue()
    for _ in range(n_threads):
        workspaces.put(_mapped_bytes((_COLUMNS_AT_ONCE + 2) * column_bytes))

    def work(start: int) -> None:
        stop = min(start + _COLUMNS_AT_ONCE, table.n_features)
        workspace = workspaces.get()
        block, scratch = workspace[2 * column_bytes :], workspace[: 2 * column_bytes]
        try:
            for f, values in enumerate(table.columns(start, stop, block), start):
                column = cut(f, values, scratch)
                columns[f] = column
                are_float32[f] = _is_float32(values)
                out = codes[f]
                if small and column.upper.size + column.has_missing > 256:
                    out = large[f] = np.empty(table.n_rows, np.uint16)
                if is_categorical[f]:
                    _copy_codes(values, column, out, table.locator(0, f))
                else:
                    _code(values, column, out)
        finally:
            workspaces.put(workspace)

    _in_threads(work, range(0, table.n_features, _COLUMNS_AT_ONCE), n_threads)
    if large:
        codes = codes.astype(np.uint16)
        for f, column_codes in large.items():
            codes[f] = column_codes
    done = [column for column in columns if column is not None]
    return BinnedMatrix(
        Cuts.join(done),
        codes,
        np.array([column.has_missing for column in done]),
        bool(are_float32.all()),
        is_categorical,
    )


def _categorical(table: Table) -> npt.NDArray[np.bool_]:
    """Return which columns hold categories, (features,) bool."""
    if table.types is None:
        return np.zeros(table.n_features, np.bool_)
    return np.array([kind == "c" for kind in table.types])


def _is_float32(values: npt.NDArray[Any]) -> bool:
    if values.dtype == np.float32:
        return True
    with np.errstate(over="ignore"):
        return np.array_equal(values, values.astype(np.float32), equal_nan=True)


def _code(values: npt.NDArray[Any], column: ColumnCuts, out: Codes) -> None:
    inner = column.upper[:-1]
    depth = int(inner.size).bit_length()
    cuts = np.full(1 << depth, np.inf, values.dtype)
    cuts[1 : inner.size + 1] = nearest(inner, values.dtype)
    position = np.empty(1024, np.uint32)
    bin_column(values, cuts, depth, column.upper.size, position, out)


def _copy_codes(
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
            "codes that training did not see by NaN"
        )
    np.copyto(out, np.where(np.isnan(values), levels, values), casting="unsafe")


def _mapped_bytes(size: int) -> Bytes:
    """Return memory that the system gets back as soon as it is let go.

    What has come from malloc stays with the process and adds to its later peak.
    """
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)


def _thread_count(n_threads: int, n_tasks: int) -> int:
    """Return how many threads to use: no more than processors, or than tasks."""
    processors = available_threads()
    n_threads = min(n_threads, processors) if n_threads > 0 else processors
    return max(1, min(n_threads, n_tasks))


def _in_threads(
    work: Callable[[int], None], tasks: Sequence[int], n_threads: int
) -> None:
    """Do all tasks, each alone, with numpy and kernels releasing the GIL."""
    n_threads = _thread_count(n_threads, len(tasks))
    if n_threads == 1:
        for task in tasks:
            work(task)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, tasks):
            pass
