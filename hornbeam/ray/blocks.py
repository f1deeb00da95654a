"""Datasets of Ray as ordered blocks of rows, row ranges of them, and matrices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, require

__all__ = [
    "Blocks",
    "Columns",
    "Piece",
    "check_dataset",
    "column_not_found",
    "in_order",
    "matrix_of",
    "table_of",
]

#: By the name of a field of `DMatrix`, such as "label": the name of its column, or of
#: several that make an array of two dimensions; None: there is none. Others are
#: features.
Columns = Mapping[str, str | Sequence[str] | None]
#: Rows of a block: the reference of its pyarrow table, the first row, and their number.
Piece = tuple[Any, int, int]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a dataset, in the order of its rows.

    Attributes
    ----------
    name
        Of the dataset, for messages.
    refs
        References of pyarrow tables.
    sizes
        Their numbers of rows.
    """

    name: str
    refs: list[Any]
    sizes: list[int]

    @classmethod
    def of(cls, dataset: Any, name: str) -> Blocks:
        """Compute a dataset; return its blocks.

        Raises a `DataError` if there are no rows, or if blocks have other columns.
        """
        check_dataset(dataset, name)
        with in_order(dataset):
            refs = dataset.materialize().to_arrow_refs()
        found = ray.get([_describe.remote(ref) for ref in refs])
        sizes = [size for size, _ in found]
        if sum(sizes) == 0:
            raise DataError(
                f"the dataset {name!r} has no rows; pass at least one",
                code=ErrorCode.EMPTY_DATA,
            )
        _check_columns(name, found)
        return cls(name, refs, sizes)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(self.sizes)

    def bounds(self, n_ranges: int, qid: Any = None) -> list[int]:
        """Return the first rows of row ranges of about equal sizes, and the row count.

        With `qid`, the column of query groups, ranges end where groups end.
        """
        given = np.linspace(0, self.n_rows, n_ranges + 1).astype(int).tolist()
        if qid is None:
            return given
        return [0, *(self._group_end(row, qid) for row in given[1:-1]), self.n_rows]

    def _group_end(self, row: int, qid: str) -> int:
        """Return the end of the query group that the row before `row` is in."""
        if row == 0:
            return 0
        ends = np.cumsum(self.sizes).tolist()
        first = bisect_right(ends, row - 1)
        group = None
        for number in range(first, len(self.refs)):
            start = ends[number] - self.sizes[number]
            begin = max(row - 1, start)
            ids = self._column(self.refs[number], qid)[begin - start :]
            if len(ids) == 0:
                continue
            group = ids[0] if group is None else group
            others: NDArray[np.intp] = np.flatnonzero(ids != group)
            if len(others):
                return begin + int(others[0])
        return self.n_rows

    def _column(self, ref: Any, name: str) -> Any:
        table = ray.get(ref)
        if name not in table.column_names:
            raise column_not_found(name, table.column_names, self.name)
        return table.column(name).to_numpy()

    def pieces(self, start: int, stop: int) -> list[Piece]:
        """Return a range of rows; if it is empty, no rows of the first block with some.

        So a worker without rows knows the columns.
        """
        found, first = [], 0
        for ref, size in zip(self.refs, self.sizes, strict=True):
            low, high = max(start - first, 0), min(stop - first, size)
            if low < high:
                found.append((ref, low, high - low))
            first += size
        if found:
            return found
        filled = next(number for number, size in enumerate(self.sizes) if size)
        return [(self.refs[filled], 0, 0)]


def check_dataset(dataset: Any, name: str) -> None:
    """Raise a `DataError` unless it is a dataset of Ray."""
    data = require("ray.data", "ray", "a Dataset of Ray")
    if not isinstance(dataset, data.Dataset):
        raise DataError(
            f"{name} must be a Dataset of Ray, not {type(dataset).__name__}; make one "
            "with ray.data.from_pandas, read_parquet or alike",
            code=ErrorCode.UNSUPPORTED_COLLECTION,
        )


@contextmanager
def in_order(dataset: Any) -> Iterator[None]:
    """Keep the order of rows while a dataset is computed."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


@ray.remote(num_cpus=0, name="hornbeam: describe a block")
def _describe(block: pa.Table) -> tuple[int, list[str]]:
    return block.num_rows, block.column_names


def _check_columns(name: str, found: Sequence[tuple[int, list[str]]]) -> None:
    filled = [(n, columns) for n, (size, columns) in enumerate(found) if size]
    first, expected = filled[0]
    for number, columns in filled[1:]:
        if set(columns) != set(expected):
            absent = sorted(set(expected) - set(columns))
            unknown = sorted(set(columns) - set(expected))
            raise DataError(
                f"the blocks of the dataset {name!r} have different columns: block "
                f"{number} lacks {absent} and has {unknown} in addition to those of "
                f"block {first}; select the same columns in all",
                code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
            )


def table_of(tables: Sequence[pa.Table], name: str) -> pa.Table:
    """Return the rows of all tables, in the order of columns of the first one.

    Raises a `DataError` if the types of a column differ too much.
    """
    order = tables[0].column_names
    try:
        return pa.concat_tables(
            [table.select(order) for table in tables], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"the blocks of the dataset {name!r} have columns of different types: "
            f"{error}; cast them to the same",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        ) from error


def matrix_of(table: pa.Table, columns: Columns, name: str, dates: str) -> DMatrix:
    """Return a matrix of the features, with the fields of `columns`."""
    values: dict[str, Any] = {}
    for field, column in columns.items():
        several = [column] if isinstance(column, str) else list(column or ())
        for one in several:
            if one not in table.column_names:
                raise column_not_found(one, table.column_names, name)
        values[field] = column
        if column is not None and not isinstance(column, str):
            arrays = [table.column(one).to_numpy() for one in several]
            values[field] = np.column_stack(arrays)
            table = table.drop_columns(several)
    return DMatrix(table, dates=dates, **values)


def column_not_found(column: str, present: Sequence[str], what: str) -> DataError:
    """Return the error for a column that a dataset lacks."""
    return DataError(
        f"the dataset {what!r} has no column {column!r}, only {', '.join(present)}",
        code=ErrorCode.COLUMN_NOT_FOUND,
        column=column,
    )
