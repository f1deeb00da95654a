"""pandas frames: NumPy columns, nullable ones, and those backed by Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.data.frame import Column, FrameTable, NumpyColumn, frame_table
from hornbeam.data.from_arrow import arrow_column

__all__ = ["pandas_column", "pandas_table"]


def pandas_column(series: Any) -> Column | None:
    """Return a column over a Series; None if it does not hold numbers."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return NumpyColumn(series.to_numpy())
    if hasattr(dtype, "pyarrow_dtype"):
        return arrow_column(series.array.__arrow_array__())
    # pandas has no public name for the nullable types together, but each knows the
    # type of its numbers.
    if isinstance(getattr(dtype, "numpy_dtype", None), np.dtype):
        return NullableColumn(series)
    return None


def pandas_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a DataFrame."""
    found = (
        (_name(name), series.dtype, pandas_column(series))
        for name, series in data.items()
    )
    return frame_table(found, len(data), missing, names, types)


def _name(name: Any) -> str:
    """Return a column's name as text; the levels of a MultiIndex with blanks."""
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


class NullableColumn(Column):
    """Int64, Float32, boolean and their like: numbers beside a mask."""

    def __init__(self, series: Any) -> None:
        super().__init__(series.dtype.numpy_dtype)
        self._series = series

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        part = self._series.iloc[start:stop]
        nulls = part.isna().to_numpy()
        if not nulls.any():
            return part.to_numpy(dtype=self.dtype), None
        filler = self.dtype.type(0)
        return part.to_numpy(dtype=self.dtype, na_value=filler), nulls
