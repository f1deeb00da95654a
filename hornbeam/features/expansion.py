"""The parts of times as features: which of them vary, and tables that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.schema import Schema, listed, times_of
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.features.dates import ALWAYS, part_of, parts_of
from hornbeam.features.derived import DerivedFeatures, DerivedTable
from hornbeam.features.formulas import DatePart, names_of

__all__ = [
    "Spans",
    "columns_of",
    "merge_spans",
    "parts_that_vary",
    "spans_of",
    "with_parts",
]

Floats = NDArray[np.float64]
#: The least and the greatest value of each part of each column of times.
Spans: TypeAlias = Mapping[tuple[int, str], tuple[float, float]]


def spans_of(table: Table) -> Spans:
    """Return the spans of the parts of times of a table, by column and part."""
    times, types = times_of(table.schema), table.types or []
    parts = [(place, part) for place in times for part in parts_of(types[place])]
    spans = dict.fromkeys(parts, (np.inf, -np.inf))
    if not times:
        return spans
    for batch in table.batches(times):
        read = cache(partial(_column_of, batch))
        for (place, part), (low, high) in spans.items():
            values = part_of(part, read(times.index(place)), types[place])
            spans[place, part] = (
                float(np.fmin.reduce(values, initial=low)),
                float(np.fmax.reduce(values, initial=high)),
            )
    return spans


def merge_spans(one: Spans, other: Spans) -> Spans:
    """Return the spans of the rows of both."""
    merged = dict(one)
    for key, (low, high) in other.items():
        known = merged.get(key, (low, high))
        merged[key] = min(known[0], low), max(known[1], high)
    return merged


def parts_that_vary(schema: Schema, spans: Spans) -> DerivedFeatures | None:
    """Return the parts of times that are features; None if there are no times.

    These are the parts that vary, and always the days since 1970.
    """
    names, types = names_of(schema), schema.types or []
    formulas = tuple(
        DatePart(part, place, types[place])
        for place in times_of(schema)
        for part in parts_of(types[place])
        if part in ALWAYS or spans[place, part][0] < spans[place, part][1]
    )
    taken = [text for text in (f.text(names) for f in formulas) if text in names]
    if taken:
        raise DataError(
            f"the parts of dates have the names {listed(taken)}, which columns have "
            "already; rename these columns",
            code=ErrorCode.DUPLICATE_FEATURE_NAMES,
            names=listed(taken),
        )
    return DerivedFeatures(formulas, schema.names is not None) if formulas else None


def with_parts(table: Table, features: DerivedFeatures | None) -> Table:
    """Return a table with the parts of its times; itself if there are no features."""
    if features is None:
        return table
    known = None if table.is_stream else features.values(columns_of(table))
    return DerivedTable(table, features, False, known)


def columns_of(table: Table) -> Callable[[int], Floats]:
    """Return a function that reads columns as float64, each of them once."""
    return cache(partial(_column_of, table))


def _column_of(table: Table, feature: int) -> Floats:
    return table.column(feature).astype(np.float64)
