"""Names of categories; the code of a category is its index: 0, 1, 2, ..."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["MAX_LEVELS", "NO_CATEGORIES", "Categories", "check_levels", "union"]

#: Bins are uint16, and one of them stands for missing values.
MAX_LEVELS = 65_535


class Categories:
    """The categories of each feature, in the order of their codes. Immutable.

    Two objects are equal if the same features have the same categories in the same
    order, whatever the names of the features.

    Parameters
    ----------
    names
        For each feature, the values of its categories: strings or numbers. None if it
        is not categorical, or its codes have no names.
    feature_names
        Names of the features in `to_arrow`; None: their numbers.

    Examples
    --------
    >>> import hornbeam
    >>> import pandas as pd
    >>> colours = pd.DataFrame({"colour": pd.Categorical(["red", "blue", "red"])})
    >>> data = hornbeam.DMatrix(colours, label=[0, 1, 0])
    >>> data.get_categories().names
    (array(['blue', 'red'], dtype=object),)
    >>> booster = hornbeam.train({}, data, 1)
    >>> booster.get_categories() == data.get_categories()
    True
    """

    __slots__ = ("feature_names", "names")

    def __init__(
        self,
        names: Iterable[Any] = (),
        feature_names: Sequence[str] | None = None,
    ) -> None:
        levels = tuple(names)
        if all(values is None for values in levels):
            levels = ()
        #: For each feature an object array of str, an array of int64, uint64 or
        #: float64, or None; empty if no feature has categories.
        self.names: tuple[np.ndarray | None, ...] = tuple(
            None
            if values is None
            else check_levels(
                values,
                f"column {feature_names[feature]!r}"
                if feature_names
                else f"column {feature}",
            )
            for feature, values in enumerate(levels)
        )
        self.feature_names = None if feature_names is None else tuple(feature_names)

    @classmethod
    def of_checked(
        cls,
        names: Iterable[np.ndarray | None],
        feature_names: Sequence[str] | None = None,
    ) -> Categories:
        """Return categories of arrays that `check_levels` has returned."""
        new = cls((), feature_names)
        levels = tuple(names)
        if any(values is not None for values in levels):
            new.names = levels
        return new

    def empty(self) -> bool:
        """Return whether no feature has categories with names."""
        return not self.names

    def of(self, feature: int) -> np.ndarray | None:
        """Return the categories of a feature; None if it has none with names."""
        return self.names[feature] if self.names else None

    def select(self, features: Iterable[int]) -> Categories:
        """Return the categories of these features, in this order."""
        if not self.names:
            return self
        features = list(features)
        names = self.feature_names
        return Categories.of_checked(
            [self.names[feature] for feature in features],
            None if names is None else [names[feature] for feature in features],
        )

    def to_arrow(self) -> list[tuple[str, Any]]:
        """Return the name of each feature and its categories as an Arrow array.

        The array is None if a feature has no categories.
        """
        pa = require("pyarrow", "frames", "Categories.to_arrow")
        called = self.feature_names or [str(i) for i in range(len(self.names))]
        return [
            (name, None if values is None else pa.array(values))
            for name, values in zip(called, self.names, strict=False)
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Categories):
            return NotImplemented
        return len(self.names) == len(other.names) and all(
            map(same_levels, self.names, other.names)
        )

    def __hash__(self) -> int:
        return hash(
            tuple(
                None if values is None else tuple(values.tolist())
                for values in self.names
            )
        )

    def __repr__(self) -> str:
        counts = {i: len(v) for i, v in enumerate(self.names) if v is not None}
        return f"Categories(levels of features: {counts})"


def same_levels(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    """Return whether two features have the same categories in the same order."""
    if first is None or second is None or first is second:
        return first is second
    return (first.dtype == object) == (second.dtype == object) and np.array_equal(
        first, second
    )


def check_levels(values: Any, label: str) -> np.ndarray:
    """Return the categories of a column as a read-only array.

    Raises a `DataError` if they are not all strings or all numbers, if one is null or
    occurs twice, or if there are more than `MAX_LEVELS`.
    """
    given = values if isinstance(values, np.ndarray) else _array(list(values))
    if len(given) > MAX_LEVELS:
        raise DataError(
            f"{label} has {len(given):,} categories; {MAX_LEVELS:,} is the most: merge "
            "rare ones, or encode it as numbers",
            code=ErrorCode.INVALID_CATEGORIES,
        )
    levels = _one_kind(given, label)
    if levels.dtype != object and np.isnan(levels).any():
        raise DataError(
            f"{label} has a null among its categories; leave it out there",
            code=ErrorCode.INVALID_CATEGORIES,
        )
    if len(set(levels.tolist())) < len(levels):
        ((twice, _),) = Counter(levels.tolist()).most_common(1)
        raise DataError(
            f"{label} has the category {twice!r} more than once; "
            "give each category once",
            code=ErrorCode.INVALID_CATEGORIES,
        )
    levels.flags.writeable = False
    return levels


def _array(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _one_kind(values: np.ndarray, label: str) -> np.ndarray:
    """Return a new array of str, int64, uint64 or float64."""
    if values.dtype == object:
        listed = values.tolist()
        if all(issubclass(kind, str) for kind in set(map(type, listed))):
            return values.copy()
        if any(value is None or value != value for value in listed):
            raise DataError(
                f"{label} has a null among its categories; leave it out there",
                code=ErrorCode.INVALID_CATEGORIES,
            )
        if all(isinstance(value, numbers.Real) for value in listed):
            values = np.array(listed)
    if values.dtype.kind in "UT":
        return values.astype(object)
    if values.dtype.kind in "bi":
        return values.astype(np.int64)
    if values.dtype.kind == "u":
        whole = np.int64 if not len(values) or values.max() < 1 << 63 else np.uint64
        return values.astype(whole)
    if values.dtype.kind == "f" and values.itemsize <= 8:
        return values.astype(np.float64) + 0.0  # no negative zero
    kinds = sorted({type(value).__name__ for value in values.tolist()})
    raise DataError(
        f"{label} has categories of type {' and '.join(kinds)}; "
        "categories are all strings or all numbers: rename them",
        code=ErrorCode.INVALID_CATEGORIES,
    )


def union(parts: Sequence[Categories], feature_names: Sequence[str]) -> Categories:
    """Return the categories of a table from those of its parts.

    If all parts have the same categories of a feature, these are kept in order.
    Otherwise all values are sorted. A feature with strings in one part and numbers in
    another raises a `DataError`.
    """
    width = max((len(part.names) for part in parts), default=0)
    names: list[np.ndarray | None] = []
    for feature in range(width):
        known = [v for part in parts if (v := part.of(feature)) is not None]
        if all(same_levels(known[0], other) for other in known[1:]):
            names.append(known[0] if known else None)
            continue
        if len({values.dtype == object for values in known}) > 1:
            raise DataError(
                f"column {feature_names[feature]!r} has strings as categories in one "
                "piece and numbers in another; make them all strings",
                code=ErrorCode.INVALID_CATEGORIES,
            )
        together = {value for values in known for value in values.tolist()}
        names.append(check_levels(sorted(together), f"{feature_names[feature]!r}"))
    return Categories.of_checked(names, feature_names)


NO_CATEGORIES = Categories()
