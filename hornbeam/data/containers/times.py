"""Columns of dates, times and durations, which are read as seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.containers.frame import Column
from hornbeam.data.floats import is_masked
from hornbeam.data.schema import DURATION, zoned

__all__ = ["TimeColumn", "numpy_times", "time_array"]

Floats = NDArray[np.float64]
#: The seconds of a unit, and how many of a unit are in a second.
_SECONDS = {"D": 86400, "h": 3600, "m": 60, "s": 1}
_IN_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


class TimeColumn(Column):
    """A column of times, as seconds since 1970, or of durations in seconds.

    Times with a time zone are seconds since 1970 in UTC; those without one are seconds
    between the clock's time and that of 1970.

    Parameters
    ----------
    ticks
        Returns integers of the rows from `start` to `stop - 1`, and which are null.
    unit
        The unit of the integers: D, s, ms, us or ns.
    kind
        The feature type, such as ``"time"`` (see `hornbeam.data.schema`).
    words
        The type as the container calls it.
    """

    def __init__(
        self,
        ticks: Callable[[int, int], tuple[NDArray[Any], NDArray[Any] | None]],
        unit: str,
        kind: str,
        words: str,
    ) -> None:
        super().__init__(np.dtype(np.float64), kind)
        self.words = words
        self._ticks, self._unit = ticks, unit

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        ticks, nulls = self._ticks(start, stop)
        return _seconds(ticks, self._unit), nulls


def numpy_times(
    values: NDArray[Any], words: str, zone: str | None = None
) -> TimeColumn:
    """Return the column of an array of datetime64 or timedelta64, (rows,)."""
    kind = DURATION if values.dtype.kind == "m" else zoned(zone)
    unit, _ = np.datetime_data(values.dtype)
    if unit not in _SECONDS and unit not in _IN_A_SECOND:
        unit = "D" if unit in ("Y", "M", "W") else "ns"
    dtype = np.dtype(f"{values.dtype.kind}8[{unit}]")

    def ticks(start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any]]:
        part = np.ascontiguousarray(values[start:stop].astype(dtype, copy=False))
        return part.view(np.int64), np.isnat(part)

    return TimeColumn(ticks, unit, kind, words)


def time_array(values: NDArray[Any]) -> tuple[Floats, str]:
    """Return an array of datetime64 or timedelta64 as seconds, and its feature type.

    What is missing is NaN.
    """
    if is_masked(values):
        values = np.where(np.ma.getmaskarray(values), np.array("NaT"), values.data)
    column = numpy_times(values.reshape(-1), str(values.dtype))
    seconds, nulls = column.read(0, values.size)
    seconds[nulls] = np.nan
    return seconds.reshape(values.shape), column.kind


def _seconds(ticks: NDArray[Any], unit: str) -> Floats:
    if unit in _SECONDS:
        return ticks.astype(np.float64) * _SECONDS[unit]
    return ticks.astype(np.float64) / _IN_A_SECOND[unit]
