"""Calendar parts of times, computed from seconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.schema import DURATION, time_zone
from hornbeam.errors import DataError, ErrorCode

__all__ = ["ALWAYS", "PARTS", "part_of", "parts_of"]

Floats = NDArray[np.float64]

DAY = 86400.0
#: The parts of a time. The days since 1970 have the time of the day as their fraction,
#: and on Mondays the weekday is 0.
PARTS = ("year", "month", "day", "weekday", "hour", "days")
#: The parts of times and of durations that are features even if they do not vary.
ALWAYS = ("days", "seconds")
#: The first and the last second, in UTC, whose offset Python can tell.
_FIRST, _LAST = -62135510400.0, 253402128000.0
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)")


def parts_of(kind: str) -> tuple[str, ...]:
    """Return the parts of times of a feature type; of a duration its seconds."""
    return ("seconds",) if kind == DURATION else PARTS


def part_of(part: str, seconds: Floats, kind: str) -> Floats:
    """Return a part of each time, (rows,); NaN where it is missing.

    Parameters
    ----------
    part
        One of `parts_of(kind)`.
    seconds
        The times, as `hornbeam.data.containers.times.TimeColumn` returns them.
    kind
        Their feature type. Times with a time zone are brought to its clock.
    """
    if part == "seconds":
        return seconds
    zone = time_zone(kind)
    if zone is not None:
        seconds = seconds + _offsets(seconds, zone_of(zone))
    days = np.floor(seconds / DAY)
    if part == "days":
        return seconds / DAY
    if part == "hour":
        return np.floor((seconds - days * DAY) / 3600.0)
    if part == "weekday":
        return np.mod(days + 3.0, 7.0)  # 1970 began on a Thursday
    is_known = np.isfinite(days)
    dates = np.where(is_known, days, 0.0).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    if part == "day":
        found = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    elif part == "month":
        found = np.mod(months.astype(np.int64), 12) + 1
    else:
        found = np.floor_divide(months.astype(np.int64), 12) + 1970
    return np.where(is_known, found.astype(np.float64), np.nan)


@cache
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name, such as Europe/Rome, UTC or +01:00."""
    found = _OFFSET.fullmatch(name)
    if found is not None:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # and all that it imports

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise DataError(
            f"the time zone {name!r} is not known on this system; install the package "
            "tzdata, or convert the times to UTC",
            code=ErrorCode.UNKNOWN_TIME_ZONE,
        ) from error


def _offsets(seconds: Floats, zone: tzinfo) -> Floats:
    """Return by how many seconds the clock is ahead of UTC at these times.

    A day in UTC has at most one change, which bisection finds.
    """
    days = np.floor(seconds / DAY)
    known, place = np.unique(days[np.isfinite(days)], return_inverse=True)
    found = np.full(seconds.shape, np.nan)
    before, change, after = np.empty((3, known.size))
    for number, day in enumerate(known.tolist()):
        low, high = day * DAY, (day + 1.0) * DAY
        before[number], after[number] = _offset(low, zone), _offset(high, zone)
        while before[number] != after[number] and high - low > 1.0:
            middle = (low + high) // 2.0
            if _offset(middle, zone) == before[number]:
                low = middle
            else:
                high = middle
        change[number] = high
    is_known = np.isfinite(days)
    is_before = seconds[is_known] < change[place]
    found[is_known] = np.where(is_before, before[place], after[place])
    return found


def _offset(second: float, zone: tzinfo) -> float:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=min(max(second, _FIRST), _LAST)
    )
    offset = moment.astimezone(zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
