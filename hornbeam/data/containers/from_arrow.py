"""Arrow tables and record batches, read from their buffers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.data.containers.frame import (
    AllMissing,
    CategoryColumn,
    Column,
    FrameTable,
    frame_table,
)
from hornbeam.data.containers.times import TimeColumn
from hornbeam.data.schema import DURATION, zoned
from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["arrow_column", "arrow_dataset_table", "arrow_of_stream", "arrow_table"]

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
TEXT = ("string", "large_string", "string_view")
# Types of the values of a dictionary: strings or numbers.
LEVELS = (*TEXT, *ARROW_TYPES)


def arrow_column(data: Any, label: str = "the column") -> Column | None:
    """Return the column of a pyarrow Array or ChunkedArray.

    None if it holds neither numbers nor categories. `label` is its name in errors.
    """
    words = str(data.type)
    dtype = ARROW_TYPES.get(words)
    if dtype is not None:
        return ArrowColumn(data, dtype)
    if words == "null":
        return AllMissing()
    if words in TEXT:
        return TextColumn(data, label)
    if (unit := _time_unit(data.type)) is not None:
        kind = zoned(getattr(data.type, "tz", None))
        if words.startswith(("duration", "time32", "time64")):
            kind = DURATION
        bits = data.type.bit_width
        integers = ArrowColumn(data.cast(f"int{bits}"), np.dtype(f"int{bits}"))
        return TimeColumn(integers.read, unit, kind, words)
    if words.startswith("dictionary") and str(data.type.value_type) in LEVELS:
        return DictionaryColumn(data, label)
    return None


def _time_unit(kind: Any) -> str | None:
    """Return the unit of a type of dates, times or durations; None for others."""
    words = str(kind)
    if words.startswith("date"):
        return "D" if words.startswith("date32") else "ms"
    found = re.match(r"(?:timestamp|duration|time32|time64)\[", words)
    return None if found is None else str(kind.unit)


def arrow_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a pyarrow Table or RecordBatch."""
    found = (
        (name, column.type, arrow_column(column, f"column {name!r}"))
        for name, column in zip(data.column_names, data.columns, strict=True)
    )
    return frame_table(found, data.num_rows, missing, names, types)


def arrow_dataset_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a Dataset or Scanner, read into memory."""
    return arrow_table(data.to_table(), missing, names, types)


def arrow_of_stream(data: Any) -> Any:
    """Return the pyarrow Table or RecordBatch of an object with Arrow's C interface.

    A stream that can be read only once is read here and kept in memory.
    """
    pa = require("pyarrow", "frames", f"reading a {type(data).__name__}")
    stream = hasattr(data, "__arrow_c_stream__")
    try:
        return pa.table(data) if stream else pa.record_batch(data)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise DataError(
            f"this {type(data).__name__} gives no table to Arrow ({error}); "
            "pass a frame of rows and columns",
            code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
        ) from error


class ArrowColumn(Column):
    """A column in Arrow's layout: values in one buffer, validity in another."""

    def __init__(self, data: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self._data = data

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        part = self._data.slice(start, stop - start)
        chunks = [chunk for chunk in _chunks(part) if len(chunk)]
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
        # Values of nulls are undefined; `_nulls` masks them.
        buffer = chunk.buffers()[1]
        if self.dtype.kind == "b":
            return _bits(buffer, chunk.offset, len(chunk))
        return np.frombuffer(
            buffer, self.dtype, len(chunk), chunk.offset * self.dtype.itemsize
        )


class TextColumn(CategoryColumn):
    """Strings; the categories are the distinct strings, sorted."""

    def __init__(self, data: Any, label: str) -> None:
        import pyarrow.compute as pc

        present = pc.unique(_without_views(data)).drop_null()
        # Sorted by code points, as Python and polars do.
        super().__init__(sorted(present.to_pylist()), label)
        self._data = data

    def codes(self, start: int, stop: int) -> np.ndarray:
        return _places(self._data.slice(start, stop - start), self.levels)


class DictionaryColumn(CategoryColumn):
    """A dictionary-encoded column.

    If all chunks have the same dictionary, the categories are its values in order,
    unused ones included. Otherwise they are the sorted values of all dictionaries.
    """

    def __init__(self, data: Any, label: str) -> None:
        dictionaries = [chunk.dictionary for chunk in _chunks(data)]
        self._is_one = all(dictionaries[0].equals(part) for part in dictionaries[1:])
        levels: Any = []
        if dictionaries:
            levels = _without_views(dictionaries[0]).to_numpy(zero_copy_only=False)
        if not self._is_one:
            together = {value for part in dictionaries for value in part.to_pylist()}
            levels = sorted(together, key=lambda value: (value is None, value))
        super().__init__(levels, label)
        self._data = data

    def codes(self, start: int, stop: int) -> np.ndarray:
        found = [np.empty(0, np.int32)]
        for chunk in _chunks(self._data.slice(start, stop - start)):
            codes = _null_as_minus_one(chunk.indices.cast("int32"))
            if not self._is_one:
                places = _places(chunk.dictionary, self.levels)
                codes = np.append(places, np.int32(-1))[codes]
            found.append(codes)
        return np.concatenate(found) if len(found) > 2 else found[-1]


def _chunks(data: Any) -> list[Any]:
    return data.chunks if hasattr(data, "chunks") else [data]


def _places(data: Any, levels: np.ndarray) -> np.ndarray:
    """Return the index of each value in `levels`; -1 for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = _without_views(data)
    value_set = pa.array(levels).cast(data.type)
    return _null_as_minus_one(pc.index_in(data, value_set=value_set))


def _null_as_minus_one(codes: Any) -> np.ndarray:
    return codes.fill_null(-1).to_numpy()


def _without_views(data: Any) -> Any:
    # Arrow has few functions for string views, and unique() reads null as "".
    return data.cast("large_string") if str(data.type) == "string_view" else data


def _nulls(chunk: Any) -> np.ndarray | None:
    if not chunk.null_count:
        return None
    return ~_bits(chunk.buffers()[0], chunk.offset, len(chunk))


def _bits(buffer: Any, offset: int, length: int) -> np.ndarray:
    """Return `length` bits of a buffer from bit `offset` on, as booleans."""
    first, last = offset // 8, (offset + length + 7) // 8
    octets = np.frombuffer(buffer, np.uint8, last - first, first)
    bits = np.unpackbits(octets, bitorder="little").view(np.bool_)
    return bits[offset % 8 : offset % 8 + length]
