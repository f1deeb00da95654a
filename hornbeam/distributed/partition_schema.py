"""Columns and fields of each partition, checked and merged to those of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.data.align import align
from hornbeam.data.categories import Categories, union
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.schema import Schema, listed, time_zone, times_of
from hornbeam.data.sources.first_pass import kind_of, places_by_name
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.features.dates import parts_of
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.expansion import Spans, merge_spans, parts_that_vary, spans_of

__all__ = [
    "PartitionInfo",
    "align_partition",
    "check_fields",
    "describe",
    "merge_dtypes",
    "merge_parts",
    "merge_schemas",
]


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """Description of a partition with rows, which its worker sends to others.

    Attributes
    ----------
    n_rows
        Number of rows.
    schema
        The columns of this partition.
    dtype
        float32 if all its values are exactly float32, else float64.
    valueless
        Columns without a value here, which may have any type in other partitions.
    widths
        The shape of one row's values of each field, by field name.
    qid_range
        The first and the last qid; None without qid.
    weights_by_group
        Whether there is one weight for each query group instead of for each row.
    largest_weight
        None without weights.
    spans
        Those of the parts of times.
    """

    n_rows: int
    schema: Schema
    dtype: np.dtype[Any]
    valueless: frozenset[int]
    widths: dict[str, tuple[int, ...]]
    qid_range: tuple[int, int] | None
    weights_by_group: bool
    largest_weight: float | None
    spans: Spans


#: By the number of the partition; without those that have no rows.
Infos = Mapping[int, PartitionInfo]


def describe(
    table: Table, info: MetaInfo, widths: dict[str, tuple[int, ...]], qid: Any = None
) -> PartitionInfo:
    """Return the description of a partition with rows.

    Parameters
    ----------
    table, info
        Its features and its fields.
    widths
        The shape of one row's values of each field that was given.
    qid
        The query ids, if these were given.
    """
    weights = info["weight"]
    return PartitionInfo(
        table.n_rows,
        table.schema,
        np.dtype(table.dtype),
        _valueless(table),
        widths,
        None if qid is None else (int(qid[0]), int(qid[-1])),
        weights is not None and len(weights) != table.n_rows,
        None if weights is None else float(weights.max()),
        spans_of(table),
    )


def _valueless(table: Table) -> frozenset[int]:
    if table.is_stream:  # found by the first pass over the stream
        return table.typeless
    return table.typeless | table.without_values(range(table.n_features))


# Merging


def merge_schemas(infos: Infos) -> Schema:
    """Return the columns of all partitions, with the categories of all of them.

    Columns are in the order of the first partition. Raises a `DataError` that names the
    first partition whose columns or types differ, and how they differ.
    """
    (number, first), *others = infos.items()
    places = {number: list(range(first.schema.n_features))}
    for other, info in others:
        places[other] = _columns_in(other, info.schema, number, first.schema)
    types = None
    if all(info.schema.types is not None for info in infos.values()):
        types = [_merge_type(infos, places, f) for f in range(first.schema.n_features)]
    names = first.schema.names or [str(f) for f in range(first.schema.n_features)]
    categories = union(_categories(infos, places), names)
    return Schema(first.schema.n_features, first.schema.names, types, categories)


def merge_parts(infos: Infos, schema: Schema) -> DerivedFeatures | None:
    """Return the parts of times that vary in all partitions together.

    `schema` has their columns. Returns None if there are no times.
    """
    spans: Spans = {
        (place, part): (np.inf, -np.inf)
        for place in times_of(schema)
        for part in parts_of((schema.types or [])[place])
    }
    for number, info in infos.items():
        places = _columns_in(number, info.schema, number, schema)
        own = {
            (feature, part): span
            for feature, place in enumerate(places)
            for (column, part), span in info.spans.items()
            if column == place
        }
        spans = merge_spans(spans, own)
    return parts_that_vary(schema, spans)


def _columns_in(other: int, schema: Schema, number: int, first: Schema) -> list[int]:
    """Return the index in partition `other` of each column of the first partition."""
    if (schema.names is None) != (first.names is None):
        without = number if first.names is None else other
        raise DataError(
            f"of the partitions {number} and {other} only one has names of columns, "
            f"not partition {without}; give each as the same kind of table",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        )
    if schema.names is None or first.names is None:
        if schema.n_features != first.n_features:
            raise DataError(
                f"partition {other} has {schema.n_features} columns, and partition "
                f"{number} has {first.n_features}; give the same columns in each",
                code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
            )
        return list(range(first.n_features))
    return places_by_name(
        schema.names,
        first.names,
        lambda faults: DataError(
            f"partition {other} has other columns than partition {number}; {faults}; "
            "give the same columns in each",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        ),
    )


def _merge_type(infos: Infos, places: Mapping[int, list[int]], feature: int) -> str:
    """Return the type of a column, from the partitions with values in it."""
    known: tuple[int, str] | None = None
    types = set()
    for number, info in infos.items():
        place = places[number][feature]
        assert info.schema.types is not None
        if place in info.valueless:
            continue
        kind = kind_of(info.schema.types, place)
        if known is None:
            known = number, kind
        elif kind != known[1]:
            raise DataError(
                f"partition {number} has {kind} in column {_label(info, place)}, and "
                f"partition {known[0]} has {known[1]}; use one type in all",
                code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
            )
        types.add(info.schema.types[place])
    if not types:
        first = next(iter(infos))
        declared = infos[first].schema.types
        assert declared is not None
        return declared[places[first][feature]]
    if len(types) > 1 and any(time_zone(kind) for kind in types):
        raise DataError(
            f"the partitions have times of several zones in column "
            f"{_label(info, place)}: {listed(sorted(types))}; convert them to one zone",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        )
    # Integers in one partition and floats in another are floats.
    return types.pop() if len(types) == 1 else "float"


def _categories(infos: Infos, places: Mapping[int, list[int]]) -> list[Categories]:
    """Return the categories of each partition.

    Raises a `DataError` if a column has strings in one partition and numbers in
    another.
    """
    kinds: dict[int, tuple[int, bool]] = {}
    parts = []
    for number, info in infos.items():
        levels: list[Any] = []
        for feature, place in enumerate(places[number]):
            values = info.schema.categories.of(place)
            if values is not None and not len(values) and place in info.valueless:
                values = None  # unknown in this partition
            levels.append(values)
            if values is None or not len(values):
                continue
            is_text = values.dtype == object
            other, was_text = kinds.setdefault(feature, (number, is_text))
            if is_text != was_text:
                texts, numeric = (number, other) if is_text else (other, number)
                raise DataError(
                    f"column {_label(info, place)} has strings as categories in "
                    f"partition {texts} and numbers in partition {numeric}; make them "
                    "all strings",
                    code=ErrorCode.INVALID_CATEGORIES,
                )
        parts.append(Categories.of_checked(levels))
    return parts


def _label(info: PartitionInfo, place: int) -> str:
    names = info.schema.names
    return repr(names[place]) if names else str(place)


def merge_dtypes(infos: Infos) -> np.dtype[Any]:
    """Return float32 if the values of every partition are float32, else float64."""
    return np.result_type(*(info.dtype for info in infos.values()))


def check_fields(infos: Infos) -> None:
    """Raise unless all partitions have the same fields, with the same widths."""
    (number, first), *others = infos.items()
    for other, info in others:
        for name in first.widths.keys() | info.widths.keys():
            here, there = info.widths.get(name), first.widths.get(name)
            if here != there:
                raise DataError(
                    f"partition {other} has {_width(name, here)}, and partition "
                    f"{number} has {_width(name, there)}; give each the same",
                    code=ErrorCode.PARTITION_SIZE_MISMATCH,
                )
    if first.largest_weight is not None and not any(
        info.largest_weight for info in infos.values()
    ):
        raise DataError(
            "every weight is zero; at least one row must have a positive weight",
            code=ErrorCode.WEIGHTS_ALL_ZERO,
        )


def _width(name: str, width: tuple[int, ...] | None) -> str:
    if width is None:
        return f"no {name}"
    return f"{name} of {' x '.join(map(str, width)) or 1} for each row"


# Alignment


def align_partition(table: Table, schema: Schema, unseen: str, of: str) -> Table:
    """Return a partition's table with the columns and category codes of `schema`.

    A column without values in the partition takes the type that it has in `schema`.

    Parameters
    ----------
    table
        The partition.
    schema, unseen, of
        As for `align`.
    """
    for feature, place in enumerate(_places_in(table, schema)):
        if place is None or kind_of(table.types, place) == kind_of(
            schema.types, feature
        ):
            continue
        if not table.is_stream and np.isnan(table.column(place)).all():
            table.typeless |= {place}
    return align(table, schema, unseen, of)


def _places_in(table: Table, schema: Schema) -> list[int | None]:
    """Return the index in `table` of each column of `schema`, None if it is absent."""
    if not (table.names and schema.names):
        return [f if f < table.n_features else None for f in range(schema.n_features)]
    place = {name: i for i, name in enumerate(table.names)}
    return [place.get(name) for name in schema.names]
