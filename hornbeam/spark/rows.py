"""The rows of a task: Arrow batches of the selected columns become matrices.

Tasks do not import pandas, which takes longer than all their other imports: so neither
`pyspark.ml`, which imports it, nor do they call `to_numpy` and `array` of pyarrow,
which do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hornbeam.data.containers.from_arrow import arrow_column
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "ARRAY",
    "COLUMNS",
    "PARTS",
    "VECTOR",
    "Features",
    "Rows",
    "arrow_array",
    "read_rows",
]

#: The kinds of features.
COLUMNS, ARRAY, VECTOR = "columns", "array", "vector"
#: The name of a column of features, with its number or its part behind it.
_FEATURE = "hornbeam_x"
#: The parts of a vector; dense ones have neither size nor indices.
PARTS = ("type", "size", "indices", "values")
#: The type of sparse vectors; dense ones have neither size nor indices.
_SPARSE = 0


@dataclass(frozen=True, slots=True)
class Features:
    """How tasks find the features in the columns that the driver has selected.

    Attributes
    ----------
    kind
        ``"columns"``, ``"array"`` or ``"vector"``.
    column
        The column of vectors or arrays; None: there are several columns.
    names, types
        Of the features; None: they have none.
    is_sparse
        Whether vectors become a sparse matrix, in which zeros are missing.
    """

    kind: str
    column: str | None
    names: tuple[str, ...] | None
    types: tuple[str, ...] | None = None
    is_sparse: bool = False

    @property
    def selected(self) -> list[str]:
        """The names of the columns that were selected."""
        parts: Sequence[Any] = PARTS if self.kind == VECTOR else PARTS[-1:]
        if self.kind == COLUMNS:
            parts = range(len(self.names or ()))
        return [f"{_FEATURE}_{part}" for part in parts]

    def uneven(self, what: str) -> DataError:
        """Return the error for rows with different numbers of features."""
        return DataError(
            f"in the features column {self.column!r} {what}; give each row the same "
            "number, and drop rows without features",
            code=ErrorCode.FEATURE_COUNT_MISMATCH,
            column=self.column,
        )


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
    found.clear()
    del table  # so that memory holds the rows once
    if features.kind == ARRAY:
        values, lengths = _lists(columns.pop())
        return Rows(values.reshape(-1, _width(features, lengths)), given)
    return Rows(_of_vectors(features, *columns), given)


def _of_vectors(
    features: Features,
    types: pa.ChunkedArray,
    sizes: pa.ChunkedArray,
    indices: pa.ChunkedArray,
    values: pa.ChunkedArray,
) -> Any:
    """Return the matrix of vectors, from their parts."""
    dense = _numbers(types) != _SPARSE
    stored, lengths = _lists(values)
    widths = np.where(dense, lengths, _numbers(sizes))
    width = _width(features, widths)
    if dense.all() and not features.is_sparse:
        return stored.reshape(-1, width)
    rows = np.repeat(np.arange(len(dense)), lengths)
    of_dense = np.repeat(dense, lengths)
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns[~of_dense] = _lists(indices)[0]
    if not features.is_sparse:
        matrix = np.zeros((len(dense), width), stored.dtype)
        matrix[rows, columns] = stored
        return matrix
    from scipy.sparse import csr_matrix

    kept = stored != 0.0
    entries = stored[kept], (rows[kept], columns[kept])
    return csr_matrix(entries, shape=(len(dense), width))


def _width(features: Features, widths: npt.NDArray[Any]) -> int:
    """Return the number of features, which all rows have."""
    odd = np.flatnonzero(widths != widths[0])
    if odd.size:
        raise features.uneven(
            f"a row has {widths[odd[0]]} numbers, and the row before it "
            f"{widths[odd[0] - 1]}"
        )
    return int(widths[0])


def _lists(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the values of all lists, one after another, and the length of each.

    Chunks that no one else refers to are released while they are copied.
    """
    chunks = column.chunks
    del column
    lengths = np.concatenate([_numbers(chunk.value_lengths()) for chunk in chunks])
    end = lengths.sum()
    values: npt.NDArray[Any] = np.empty(0)
    while chunks:
        part = _numbers(chunks.pop().flatten())
        if not values.size:
            values = np.empty(end, part.dtype)
        values[end - len(part) : end] = part
        end -= len(part)
    return values, lengths.astype(np.int64)


def arrow_array(values: npt.NDArray[Any]) -> pa.Array:
    """Return an Arrow array of numbers."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _numbers(data: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the values of a column of numbers; nulls are NaN, or 0 in integers."""
    column = arrow_column(data)
    assert column is not None
    values, nulls = column.read(0, len(data))
    if nulls is None:
        return values
    return np.where(nulls, np.nan if values.dtype.kind == "f" else 0, values)


def _field(what: str, name: str, column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the values of a field, (rows,) or (rows, outputs)."""
    if pa.types.is_list(column.type):
        values, lengths = _lists(column)
        if (lengths != lengths[0]).any():
            raise DataError(
                f"the arrays of the {what} have different lengths; give one number for "
                "each output",
                code=ErrorCode.META_INFO_SIZE_MISMATCH,
                column=name,
            )
        return values.reshape(len(lengths), -1)
    if column.null_count and not pa.types.is_floating(column.type):
        raise DataError(
            f"the {what} has {column.null_count} nulls; drop these rows, or fill them",
            code=ErrorCode.META_INFO_NOT_FINITE,
            column=name,
        )
    if pa.types.is_string(column.type):
        return np.asarray(column.to_numpy())
    return _numbers(column)
