"""Names, types and categories of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "DURATION",
    "FEATURE_TYPES",
    "TIME",
    "Schema",
    "check_names",
    "check_names_differ",
    "check_types",
    "column_label",
    "listed",
    "time_kind",
    "time_zone",
    "times_of",
    "zoned",
]

FEATURE_TYPES = {
    "float": "a number",
    "int": "a whole number",
    "q": "a quantity",
    "i": "true or false",
    "c": "a category",
}
#: The types of times and durations in seconds. That of times with a zone is
#: ``"time[Europe/Rome]"``; XGBoost has none of them, so files call them "float".
TIME, DURATION = "time", "duration"
_ZONED = re.compile(r"time\[(.+)\]")
FORBIDDEN_IN_NAMES = "[]<"
LISTED = 10


@dataclass(frozen=True, slots=True)
class Schema:
    """Names, types and categories of the columns of a table or model, if known.

    A column of type ``"c"`` without names in `categories` holds codes without names.
    """

    n_features: int
    names: list[str] | None = None
    types: list[str] | None = None
    categories: Categories = NO_CATEGORIES


def zoned(zone: str | None) -> str:
    """Return the type of times in a time zone; None: without one."""
    return TIME if zone is None else f"{TIME}[{zone}]"


def time_zone(kind: str) -> str | None:
    """Return the time zone of a type of times; None if it has none."""
    found = _ZONED.fullmatch(kind)
    return found and found[1]


def time_kind(types: Sequence[str] | None, feature: int) -> str | None:
    """Return what kind of times a column holds, in words; None: it holds none."""
    kind = types[feature] if types else ""
    if kind == DURATION:
        return "durations"
    if kind == TIME:
        return "times without a time zone"
    return "times with a time zone" if time_zone(kind) else None


def times_of(schema: Schema) -> list[int]:
    """Return the columns of times and durations."""
    return [
        feature
        for feature in range(schema.n_features)
        if time_kind(schema.types, feature) is not None
    ]


def column_label(names: Sequence[str] | None, feature: int) -> str:
    """Return the name of a column in error messages: its name, else its number."""
    return f"column {names[feature]!r}" if names else f"column {feature}"


def listed(names: Iterable[str]) -> str:
    """Return up to ten names, quoted and separated by commas, and how many more."""
    quoted = [repr(name) for name in names]
    more = len(quoted) - LISTED
    if more > 0:
        return f"{', '.join(quoted[:LISTED])} and {more} more"
    return ", ".join(quoted)


def check_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Return the names as a list, or raise a `DataError` if they are not valid."""
    if names is None:
        return None
    names = _as_list(names, n_features, "feature_names")
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"feature_names must be strings, but {name!r} is "
                f"{type(name).__name__}; pass [str(name) for name in names]",
                code=ErrorCode.INVALID_FEATURE_NAME,
            )
        if any(mark in name for mark in FORBIDDEN_IN_NAMES):
            raise DataError(
                f"the feature name {name!r} holds one of the characters [ ] <, "
                "which XGBoost does not accept; rename the column",
                code=ErrorCode.INVALID_FEATURE_NAME,
            )
    check_names_differ(names)
    return names


def check_names_differ(names: Sequence[str]) -> None:
    """Raise a `DataError` if a name comes more than once."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise DataError(
            f"feature names must differ, but these come more than once: "
            f"{listed(duplicates)}; rename or drop the repeated columns",
            code=ErrorCode.DUPLICATE_FEATURE_NAMES,
            names=listed(duplicates),
        )


def check_types(types: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Return the types as a list, or raise a `DataError` if they are not valid."""
    if types is None:
        return None
    types = _as_list(types, n_features, "feature_types")
    for feature, kind in enumerate(types):
        if kind not in FEATURE_TYPES and time_kind(types, feature) is None:
            raise DataError(
                f"feature_types has {kind!r} for column {feature}; "
                f"a type is one of {listed(FEATURE_TYPES)}",
                code=ErrorCode.INVALID_FEATURE_TYPE,
            )
    return types


def _as_list(
    values: Sequence[str] | Categories, n_features: int, what: str
) -> list[str]:
    if isinstance(values, Categories):
        raise DataError(
            f"{what} cannot be set to categories afterwards; make the matrix with "
            f"{what}=",
            code=ErrorCode.META_INFO_SETTLED,
        )
    as_list = [values] if isinstance(values, str) else list(values)
    if len(as_list) != n_features:
        raise DataError(
            f"{what} has {len(as_list)} entries for {n_features} columns; "
            "give one for each column",
            code=ErrorCode.SCHEMA_LENGTH_MISMATCH,
            kind=what.removeprefix("feature_"),
            expected=n_features,
            got=len(as_list),
        )
    return as_list
