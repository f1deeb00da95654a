"""The rows and columns of a worker: pieces of blocks, and which columns are labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "FieldColumns",
    "Piece",
    "column_not_found",
    "matrix_of",
    "pieces_of",
    "table_of",
]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a block.

    Attributes
    ----------
    block
        The reference of a pyarrow table.
    start, stop
        The range of its rows.
    """

    block: Any
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """The names of columns with labels, weights and so on; the others are features.

    Attributes
    ----------
    label, weight, base_margin, qid, label_lower_bound, label_upper_bound, row_key
        As for `DMatrix`; several columns make an array of two dimensions.
    """

    label: str | Sequence[str] | None = None
    weight: str | None = None
    base_margin: str | Sequence[str] | None = None
    qid: str | None = None
    label_lower_bound: str | None = None
    label_upper_bound: str | None = None
    row_key: str | None = None

    def given(self) -> dict[str, str | list[str]]:
        """Return the names that are given."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            field: value if isinstance(value, str) else list(value)
            for field, value in found.items()
            if value is not None
        }


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


def pieces_of(pieces: Sequence[Piece], blocks: Sequence[pa.Table]) -> list[pa.Table]:
    """Return the rows of pieces, whose blocks are given."""
    return [
        block.slice(piece.start, piece.stop - piece.start)
        for piece, block in zip(pieces, blocks, strict=True)
    ]


def matrix_of(table: pa.Table, columns: FieldColumns, name: str, dates: str) -> DMatrix:
    """Return a matrix of the features, with the fields that `columns` name."""
    values: dict[str, Any] = {}
    for field, column in columns.given().items():
        for one in [column] if isinstance(column, str) else column:
            if one not in table.column_names:
                raise column_not_found(one, table.column_names, name)
        values[field] = column
    for field, column in values.items():
        if not isinstance(column, str):
            arrays = [table.column(one).to_numpy() for one in column]
            values[field] = np.column_stack(arrays)
            table = table.drop_columns(column)
    return DMatrix(table, dates=dates, **values)


def column_not_found(column: str, present: Sequence[str], what: str) -> DataError:
    """Return the error for a column that a dataset lacks."""
    return DataError(
        f"the dataset {what!r} has no column {column!r}, only {', '.join(present)}",
        code=ErrorCode.COLUMN_NOT_FOUND,
        column=column,
    )
