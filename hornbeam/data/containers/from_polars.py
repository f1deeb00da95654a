"""polars data frames."""

from __future__ import annotations

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

__all__ = ["lazy_polars_table", "polars_column", "polars_table"]

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
#: The unit of types that have just one.
TIMES = {"Date": "D", "Time": "ns", "Datetime": "us", "Duration": "us"}


def polars_column(series: Any) -> Column | None:
    """Return the column of a Series; None if it has neither numbers nor categories."""
    dtype = POLARS_TYPES.get(str(series.dtype))
    if dtype is not None:
        return PolarsColumn(series, dtype)
    label = f"column {series.name!r}"
    words = series.dtype.base_type().__name__
    if words == "Null":
        return AllMissing()
    if words == "String":
        return TextColumn(series, label)
    if words == "Enum":
        return EnumColumn(series, label)
    if words == "Categorical":
        return CategoricalColumn(series, label)
    if words in TIMES:
        dtype = np.dtype(np.int32 if words == "Date" else np.int64)
        integers = PolarsColumn(series.to_physical(), dtype)
        kind = zoned(getattr(series.dtype, "time_zone", None))
        if words in ("Duration", "Time"):
            kind = DURATION
        unit = getattr(series.dtype, "time_unit", TIMES[words])
        return TimeColumn(integers.read, unit, kind, str(series.dtype))
    return None


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


def lazy_polars_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Collect a LazyFrame and return its table."""
    return polars_table(data.collect(engine="streaming"), missing, names, types)


class PolarsColumn(Column):
    """A numeric column, which can have nulls."""

    def __init__(self, series: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self._series = series

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        part = self._series.slice(start, stop - start)
        if not part.null_count():
            return part.to_numpy(), None
        # to_numpy() alone would round integers with nulls to float64.
        nulls = part.is_null().to_numpy()
        return part.fill_null(self.dtype.type(0).item()).to_numpy(), nulls


class EnumColumn(CategoryColumn):
    """An Enum column; its categories in order, unused ones included."""

    def __init__(self, series: Any, label: str) -> None:
        super().__init__(series.dtype.categories.to_list(), label)
        self._series = series

    def codes(self, start: int, stop: int) -> np.ndarray:
        return _physical(self._series.slice(start, stop - start))


class TextColumn(CategoryColumn):
    """A String column; the categories are the distinct strings, sorted."""

    def __init__(self, series: Any, label: str) -> None:
        super().__init__(series.drop_nulls().unique().sort().to_list(), label)
        self._series = series

    def codes(self, start: int, stop: int) -> np.ndarray:
        import polars as pl

        part = self._series.slice(start, stop - start)
        return _physical(part.cast(pl.Enum(self.levels.tolist())))


class CategoricalColumn(CategoryColumn):
    """A Categorical column; the categories that occur, sorted.

    Its physical codes depend on which columns the process has read before.
    """

    def __init__(self, series: Any, label: str) -> None:
        present = series.drop_nulls().unique()
        names = present.cast(str).to_list()
        super().__init__(sorted(names), label)
        own = _physical(present)
        places = {name: code for code, name in enumerate(self.levels)}
        # Null (-1) indexes the last element.
        self._places = np.full(int(own.max(initial=0)) + 2, -1, np.int32)
        self._places[own] = [places[name] for name in names]
        self._series = series

    def codes(self, start: int, stop: int) -> np.ndarray:
        return self._places[_physical(self._series.slice(start, stop - start))]


def _physical(series: Any) -> np.ndarray:
    """Return the physical codes of categories; -1 for null."""
    import polars as pl

    return series.to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
