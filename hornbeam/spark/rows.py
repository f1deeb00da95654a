"""The rows of a task: Arrow batches of the selected columns become matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hornbeam.errors import DataError, ErrorCode
from hornbeam.spark.columns import COLUMNS, Features, Lists

__all__ = ["Rows", "read_rows"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Features and fields of rows.

    Attributes
    ----------
    features
        (rows, features): an array, a sparse matrix, or an Arrow table.
    fields
        Labels, weights and so on by name.
    """

    features: Any
    fields: dict[str, npt.NDArray[Any]]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and features."""
        return self.features.shape[0], self.features.shape[1]

    def take(self, rows: npt.NDArray[Any]) -> Rows:
        """Return some rows: by a mask, or by their numbers."""
        fields = {name: values[rows] for name, values in self.fields.items()}
        if isinstance(self.features, pa.Table):
            given = self.features
            kept = given.filter(rows) if rows.dtype == bool else given.take(rows)
            return Rows(kept, fields)
        return Rows(self.features[rows], fields)


def read_rows(
    batches: Iterable[pa.RecordBatch], features: Features, fields: Mapping[str, str]
) -> Rows:
    """Return the rows of all batches, which may be none.

    `fields` are the names of columns of the data frame, by the names of fields.
    """
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        width = len(features.selected) if features.kind == COLUMNS else 0
        return Rows(np.empty((0, width)), {})
    table = pa.Table.from_batches(found)
    given = {
        name: _field(f"column {own!r} ({name})", own, table.column(name))
        for name, own in fields.items()
    }
    columns = [table.column(name) for name in features.selected]
    if features.kind == COLUMNS:
        return Rows(pa.table(columns, names=list(features.names or ())), given)
    lists = {
        name: _lists(column) if pa.types.is_list(column.type) else _numbers(column)
        for name, column in zip(features.selected, columns, strict=True)
    }
    return Rows(features.matrix(lists), given)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return numbers, with NaN for null; 0 for the sizes of dense vectors."""
    if pa.types.is_integer(column.type) and column.null_count:
        column = column.fill_null(0)
    return np.asarray(column.to_numpy())


def _lists(column: pa.ChunkedArray) -> Lists:
    chunks = column.chunks
    values = [np.asarray(c.flatten().to_numpy(zero_copy_only=False)) for c in chunks]
    lengths = [np.asarray(c.value_lengths().fill_null(0)) for c in chunks]
    return Lists(np.concatenate(values), np.concatenate(lengths).astype(np.int64))


def _field(what: str, name: str, column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the values of a field, (rows,) or (rows, outputs)."""
    if pa.types.is_list(column.type):
        lists = _lists(column)
        if (lists.lengths != lists.lengths[0]).any():
            raise DataError(
                f"the arrays of the {what} have different lengths; give one number for "
                "each output",
                code=ErrorCode.META_INFO_SIZE_MISMATCH,
                column=name,
            )
        return lists.values.reshape(len(lists.lengths), -1)
    if column.null_count and not pa.types.is_floating(column.type):
        raise DataError(
            f"the {what} has {column.null_count} nulls; drop these rows, or fill them",
            code=ErrorCode.META_INFO_NOT_FINITE,
            column=name,
        )
    return np.asarray(column.to_numpy())
