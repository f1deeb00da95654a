"""Columns of a frame that are not features: labels, weights and their like by name."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode

__all__ = ["column_names", "take_apart"]


def column_names(data: Any) -> list[str] | None:
    """Return the names of a frame's columns; None for whatever is no frame."""
    if _is(data, "pandas", "DataFrame"):
        # The levels of a MultiIndex with blanks, as everywhere.
        return [" ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in data]
    if _is(data, "polars", "DataFrame"):
        return list(data.columns)
    if _is(data, "pyarrow", "Table", "RecordBatch"):
        return list(data.schema.names)
    return None


def take_apart(data: Any, wanted: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """Return a frame without some columns, and these columns by their part.

    Parameters
    ----------
    data
        A frame of pandas, polars or pyarrow; anything at all if nothing is wanted.
    wanted
        The name of a column for each part, such as ``{"label": "price"}``.
    """
    if not wanted:
        return data, {}
    names = column_names(data)
    if names is None:
        part, name = next(iter(wanted.items()))
        raise DataError(
            f"{part}={name!r} is the name of a column, and this "
            f"{type(data).__name__} has no columns with names; pass the values, or a "
            "frame",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )
    places = {part: _place(names, name, part) for part, name in wanted.items()}
    kept = [i for i in range(len(names)) if i not in set(places.values())]
    columns = {part: _column(data, place) for part, place in places.items()}
    return _select(data, kept), columns


def _place(names: Sequence[str], name: str, part: str) -> int:
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise DataError(
            f"there are several columns {name!r}; {part} needs just one",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )
    near = difflib.get_close_matches(name, names)
    there = f"did you mean {listed(near)}?" if near else f"there are {listed(names)}"
    raise DataError(
        f"there is no column {name!r} for {part}; {there}",
        code=ErrorCode.COLUMN_NOT_FOUND,
    )


def _column(data: Any, place: int) -> Any:
    if _is(data, "pandas", "DataFrame"):
        return data.iloc[:, place]
    if _is(data, "polars", "DataFrame"):
        return data.to_series(place)
    return data.column(place)


def _select(data: Any, places: Sequence[int]) -> Any:
    if _is(data, "pandas", "DataFrame"):
        return data.iloc[:, places]
    if _is(data, "polars", "DataFrame"):
        return data.select(data.columns[place] for place in places)
    return data.select(list(places))


def _is(data: Any, module: str, *classes: str) -> bool:
    """Return whether the object is of a library's class; it is not imported here."""
    loaded = sys.modules.get(module)
    return any(isinstance(data, getattr(loaded, name, ())) for name in classes)
