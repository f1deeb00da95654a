"""The columns of all partitions together, or what keeps them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hornbeam.dask.opening import Facts
from hornbeam.data.categories import Categories, union
from hornbeam.data.schema import Schema, listed
from hornbeam.data.sources.first_pass import kind_of
from hornbeam.errors import DataError, ErrorCode

__all__ = ["check_fields", "common_dtype", "common_schema"]


def common_schema(facts: Mapping[int, Facts]) -> Schema:
    """Return the columns of partitions, with all their categories.

    The columns come in the order of the first one. A `DataError` names the first
    partition that has others, or columns of another type, and says what differs.

    Parameters
    ----------
    facts
        Of each partition with rows, by its number.
    """
    (number, first), *others = facts.items()
    places = {number: list(range(first.schema.n_features))}
    for other, fact in others:
        places[other] = _places(other, fact.schema, number, first.schema)
    schemas = {i: fact.schema for i, fact in facts.items()}
    types = None
    if all(schema.types is not None for schema in schemas.values()):
        types = [_type(facts, places, f) for f in range(first.schema.n_features)]
    names = first.schema.names or [str(f) for f in range(first.schema.n_features)]
    categories = union(_categories(facts, places), names)
    return Schema(first.schema.n_features, first.schema.names, types, categories)


def _places(other: int, schema: Schema, number: int, first: Schema) -> list[int]:
    """Return the place of each column in another partition."""
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
    place = {name: i for i, name in enumerate(schema.names)}
    known = set(first.names)
    faults = []
    if absent := [name for name in first.names if name not in place]:
        faults.append(f"missing: {listed(absent)}")
    if extra := [name for name in schema.names if name not in known]:
        faults.append(f"new: {listed(extra)}")
    if faults:
        raise DataError(
            f"partition {other} has other columns than partition {number}; "
            f"{'; '.join(faults)}; give the same columns in each",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        )
    return [place[name] for name in first.names]


def _type(
    facts: Mapping[int, Facts], places: Mapping[int, list[int]], feature: int
) -> str:
    """Return the type of a column, by the partitions that have values of it."""
    known: tuple[int, str] | None = None
    types = set()
    for number, fact in facts.items():
        place = places[number][feature]
        assert fact.schema.types is not None
        if place in fact.valueless:
            continue
        kind = kind_of(fact.schema.types, place)
        if known is None:
            known = number, kind
        elif kind != known[1]:
            names = fact.schema.names
            label = repr(names[place]) if names else str(place)
            raise DataError(
                f"partition {number} holds {kind} in column {label}, and partition "
                f"{known[0]} holds {known[1]}; give it one type in all",
                code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
            )
        types.add(fact.schema.types[place])
    if not types:
        first = next(iter(facts))
        held = facts[first].schema.types
        assert held is not None
        return held[places[first][feature]]
    # Whole numbers in one partition and floats in another are floats.
    return types.pop() if len(types) == 1 else "float"


def _categories(
    facts: Mapping[int, Facts], places: Mapping[int, list[int]]
) -> list[Categories]:
    """Return the categories of each partition, those of strings or numbers alike."""
    kinds: dict[int, tuple[int, bool]] = {}
    parts = []
    for number, fact in facts.items():
        levels: list[Any] = []
        for feature, place in enumerate(places[number]):
            values = fact.schema.categories.of(place)
            if values is not None and not len(values) and place in fact.valueless:
                values = None  # nothing is known of them here
            levels.append(values)
            if values is None or not len(values):
                continue
            is_text = values.dtype == object
            other, was_text = kinds.setdefault(feature, (number, is_text))
            if is_text != was_text:
                texts, whole = (number, other) if is_text else (other, number)
                names = fact.schema.names
                label = repr(names[place]) if names else str(place)
                raise DataError(
                    f"column {label} has strings as categories in partition {texts} "
                    f"and numbers in partition {whole}; make them all strings",
                    code=ErrorCode.INVALID_CATEGORIES,
                )
        parts.append(Categories.of_checked(levels))
    return parts


def common_dtype(facts: Mapping[int, Facts]) -> np.dtype[Any]:
    """Return float32 if every partition fits into it whole, else float64."""
    return np.result_type(*(fact.dtype for fact in facts.values()))


def check_fields(facts: Mapping[int, Facts]) -> None:
    """Raise unless every partition brings the same fields, of the same width."""
    (number, first), *others = facts.items()
    for other, fact in others:
        for name in first.widths.keys() | fact.widths.keys():
            here, there = fact.widths.get(name), first.widths.get(name)
            if here != there:
                raise DataError(
                    f"partition {other} has {_width(name, here)}, and partition "
                    f"{number} has {_width(name, there)}; give each the same",
                    code=ErrorCode.PARTITION_SIZE_MISMATCH,
                )
    if first.largest_weight is not None and not any(
        fact.largest_weight for fact in facts.values()
    ):
        raise DataError(
            "every weight is zero; at least one row must count",
            code=ErrorCode.WEIGHTS_ALL_ZERO,
        )


def _width(name: str, width: tuple[int, ...] | None) -> str:
    if width is None:
        return f"no {name}"
    return f"{name} of {' x '.join(map(str, width)) or 1} for each row"
