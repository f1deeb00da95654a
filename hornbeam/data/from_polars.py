"""polars frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.data.frame import AllMissing, Column, FrameTable, frame_table

__all__ = ["polars_column", "polars_table"]

POLARS_TYPES = {
    **{
        f"{sign}{bits}": np.dtype(f"{sign}{bits}".lower())
        for sign in ("Int", "UInt")
        for bits in (8, 16, 32, 64)
    },
    "Float16": np.dtype(np.float16),
    "Float32": np.dtype(np.float32),
    "Float64": np.dtype(np.float64),
    "Boolean": np.dtype(np.bool_),
}


def polars_column(series: Any) -> Column | None:
    """Return a column over a Series; None if it does not hold numbers."""
    words = str(series.dtype)
    if words == "Null":
        return AllMissing()
    dtype = POLARS_TYPES.get(words)
    return None if dtype is None else PolarsColumn(series, dtype)


def polars_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a DataFrame."""
    found = (
        (series.name, series.dtype, polars_column(series))
        for series in data.get_columns()
    )
    return frame_table(found, data.height, missing, names, types)


class PolarsColumn(Column):
    """A column of numbers that may hold nulls."""

    def __init__(self, series: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self._series = series

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        part = self._series.slice(start, stop - start)
        if not part.null_count():
            return part.to_numpy(), None
        # Left alone, to_numpy() would round integers with nulls to float64.
        nulls = part.is_null().to_numpy()
        return part.fill_null(self.dtype.type(0).item()).to_numpy(), nulls
