"""Arrow tables and record batches, straight from their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.data.frame import AllMissing, Column, FrameTable, frame_table

__all__ = ["arrow_column", "arrow_table"]

ARROW_TYPES = {
    **{
        f"{sign}int{bits}": np.dtype(f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "halffloat": np.dtype(np.float16),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
}


def arrow_column(data: Any) -> Column | None:
    """Return a column over a pyarrow Array or ChunkedArray; None if no numbers."""
    words = str(data.type)
    if words == "null":
        return AllMissing()
    dtype = ARROW_TYPES.get(words)
    return None if dtype is None else ArrowColumn(data, dtype)


def arrow_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a pyarrow Table or RecordBatch."""
    found = (
        (name, str(column.type), arrow_column(column))
        for name, column in zip(data.column_names, data.columns, strict=True)
    )
    return frame_table(found, data.num_rows, missing, names, types)


class ArrowColumn(Column):
    """A column in Arrow's layout: values in one buffer, validity in another."""

    def __init__(self, data: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self._data = data

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        part = self._data.slice(start, stop - start)
        chunks = [chunk for chunk in getattr(part, "chunks", [part]) if len(chunk)]
        if len(chunks) == 1:
            return self._values(chunks[0]), _nulls(chunks[0])
        values = np.empty(stop - start, self.dtype)
        nulls = np.zeros(stop - start, np.bool_) if part.null_count else None
        row = 0
        for chunk in chunks:
            rows = slice(row, row + len(chunk))
            values[rows] = self._values(chunk)
            if nulls is not None and chunk.null_count:
                nulls[rows] = _nulls(chunk)
            row = rows.stop
        return values, nulls

    def _values(self, chunk: Any) -> np.ndarray:
        # What lies under a null is not looked at: `_nulls` covers it.
        buffer = chunk.buffers()[1]
        if self.dtype.kind == "b":
            return _bits(buffer, chunk.offset, len(chunk))
        return np.frombuffer(
            buffer, self.dtype, len(chunk), chunk.offset * self.dtype.itemsize
        )


def _nulls(chunk: Any) -> np.ndarray | None:
    if not chunk.null_count:
        return None
    return ~_bits(chunk.buffers()[0], chunk.offset, len(chunk))


def _bits(buffer: Any, offset: int, length: int) -> np.ndarray:
    """Return the bits offset..offset+length-1 of a buffer, one boolean each."""
    first, last = offset // 8, (offset + length + 7) // 8
    octets = np.frombuffer(buffer, np.uint8, last - first, first)
    bits = np.unpackbits(octets, bitorder="little").view(np.bool_)
    return bits[offset % 8 : offset % 8 + length]
