"""Aligns the columns and category codes of a table with those of a model, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from hornbeam.data.categories import same_levels
from hornbeam.data.floats import Locate
from hornbeam.data.schema import FEATURE_TYPES, Schema, listed, time_kind
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError

__all__ = ["UNSEEN", "RecodedTable", "Recoding", "align"]

UNSEEN = ("error", "missing")
# The types of columns of plain numbers.
_PLAIN = frozenset(FEATURE_TYPES.keys() - {"c"})
# The code of a category that the model does not have.
_NONE = np.float32(-1)


def align(
    table: Table, expected: Schema, unseen: str = "error", of: str = "training"
) -> Table:
    """Return the rows of `table` with the expected columns and category codes.

    Columns are matched by name, in any order; by position if one side has no names.
    Categories are matched by name, whatever their codes. Codes without names are those
    of the expected categories. One `DataError` lists all mismatches of columns. Errors
    of values are raised when their rows are read.

    Parameters
    ----------
    table
        The table. It is returned itself if it matches.
    expected
        The columns of the model, or of the matrix whose cuts are used.
    unseen
        How to treat a category that is not among the expected ones: ``"error"``, or
        ``"missing"`` to read it as a missing value.
    of
        Name of the expected data in error messages.
    """
    if unseen not in UNSEEN:
        raise ParameterError(
            f'unseen must be "error" or "missing", not {unseen!r}: what to do with a '
            f"category that {of} does not have",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    if table.schema == expected:
        return table
    named = bool(expected.names and table.names)
    if (
        (table.names == expected.names if named else True)
        and table.n_features == expected.n_features
        and not (_has_kinds(expected) or _has_kinds(table))
    ):
        return table
    places = _places(table, expected) if named else None
    if places is None and table.n_features != expected.n_features:
        code = (
            ErrorCode.FEATURE_SHAPE_MISMATCH
            if of == "training"
            else ErrorCode.FEATURE_COUNT_MISMATCH
        )
        raise DataError(
            f"there are {expected.n_features} columns in {of}"
            + (f" ({listed(expected.names)})" if expected.names else "")
            + f", but this data has {table.n_features}; pass the same columns in the "
            "same order",
            code=code,
            expected=expected.n_features,
            got=table.n_features,
        )
    _check_kinds(table, expected, places, of)
    chosen = table
    if places is not None and places != list(range(table.n_features)):
        chosen = table.select(places)
    aligned = _recoded(chosen, expected, unseen, of)
    aligned.checks_rows = table.checks_rows
    return aligned


def _has_kinds(side: Table | Schema) -> bool:
    """Return whether there are columns that are not plain numbers."""
    return not (side.categories.empty() and _PLAIN.issuperset(side.types or ()))


def _places(table: Table, expected: Schema) -> list[int]:
    """Return the index of each expected column; -1 if missing, for `_check_kinds`."""
    place = {name: i for i, name in enumerate(table.names or ())}
    return [place.get(name, -1) for name in expected.names or ()]


def _check_kinds(
    table: Table, expected: Schema, places: Sequence[int] | None, of: str
) -> None:
    """Raise a `DataError` if columns are missing, extra, or of another kind."""
    faults: dict[str, list[str]] = {}
    if places is not None:
        known = set(expected.names or ())
        extra = [name for name in table.names or () if name not in known]
        if extra:
            faults[f"not in {of}"] = extra
    for feature in range(expected.n_features):
        place = feature if places is None else places[feature]
        names = expected.names or table.names
        name = names[feature] if names else str(feature)
        fault = "missing" if place < 0 else _fault(table, place, expected, feature, of)
        if fault:
            faults.setdefault(fault, []).append(name)
    if faults:
        names_differ = next(iter(faults)) in ("missing", f"not in {of}")
        raise DataError(
            f"the columns are not those of {of}; "
            + "; ".join(f"{fault}: {listed(names)}" for fault, names in faults.items())
            + f"; pass the columns that {of} had, with the same kinds of values",
            code=ErrorCode.FEATURE_NAMES_MISMATCH
            if names_differ
            else ErrorCode.FEATURE_TYPES_MISMATCH,
        )


def _fault(
    table: Table, place: int, expected: Schema, feature: int, of: str
) -> str | None:
    """Return how the kind of a column differs from the expected one, or None."""
    wanted = expected.categories.of(feature)
    levels = table.categories.of(place)
    coded = wanted is not None or (
        expected.types is not None and expected.types[feature] == "c"
    )
    is_coded = levels is not None or (
        table.types is not None and table.types[place] == "c"
    )
    if place in table.typeless:
        return None
    here, there = time_kind(table.types, place), time_kind(expected.types, feature)
    if here != there:
        given = "categories" if is_coded else "numbers"
        trained = "categories" if coded else "numbers"
        return f"{here or given} where {of} had {there or trained}"
    if not coded:
        return f"categories where {of} had numbers" if is_coded else None
    if wanted is None:
        # Codes can be a numeric column, whose values are checked when they are read.
        return None if levels is None else f"names of categories where {of} had codes"
    if not is_coded:
        return f"numbers where {of} had categories"
    if levels is None or not len(levels) or not len(wanted):
        return None
    if (levels.dtype == object) != (wanted.dtype == object):
        text, number = f"strings as categories in {of}", "numbers here"
        if levels.dtype == object:
            text, number = f"numbers as categories in {of}", "strings here"
        return f"{text}, {number}"
    return None


def _recoded(table: Table, expected: Schema, unseen: str, of: str) -> Table:
    codes: dict[int, Recoding] = {}
    raw = False
    for feature in range(table.n_features):
        wanted = expected.categories.of(feature)
        given = table.categories.of(feature)
        if wanted is None:
            coded = expected.types is not None and expected.types[feature] == "c"
            raw |= coded and (table.types is None or table.types[feature] != "c")
        elif feature not in table.typeless and not same_levels(wanted, given):
            codes[feature] = _Codes(wanted, given, unseen, of)
    if not codes and not raw:
        return table
    return RecodedTable(table, expected, codes)


class Recoding(Protocol):
    """Maps the category codes of a column to other codes."""

    def listed(self) -> list[float]:
        """Return a list that identifies the mapping, for checksums."""

    def __call__(self, values: np.ndarray, locate: Locate) -> np.ndarray:
        """Return the mapped codes; `locate` names the row of a value in errors."""


class _Codes:
    """Maps the codes of one list of categories to those of another.

    Parameters
    ----------
    wanted
        The categories of the new codes.
    given
        The categories of the present codes; None: `wanted`.
    unseen, of
        As for `align`.
    """

    def __init__(
        self, wanted: np.ndarray, given: np.ndarray | None, unseen: str, of: str
    ) -> None:
        self._given = given
        self._of = of
        self._size = len(wanted if given is None else given)
        # Two more elements: for codes beyond the given categories, and for missing.
        self._codes = np.full(self._size + 2, _NONE)
        if given is None:
            self._codes[: self._size] = np.arange(self._size)
        else:
            code = {name: i for i, name in enumerate(wanted.tolist())}
            self._codes[: self._size] = [code.get(v, _NONE) for v in given.tolist()]
        if unseen == "missing":
            self._codes[self._codes == _NONE] = np.nan
        self._codes[-1] = np.nan

    def listed(self) -> list[float]:
        """Return the new code of each code; -1: error, NaN: missing."""
        codes: list[float] = self._codes.tolist()
        return codes

    def __call__(self, values: np.ndarray, locate: Locate) -> np.ndarray:
        absent = np.isnan(values)
        place = np.where(absent, self._size + 1, np.minimum(values, self._size))
        codes = self._codes[place.astype(np.intp)]
        none = codes == _NONE
        if none.any():
            row = int(none.argmax())
            code = int(values[row])
            if self._given is None:
                held, error_code = f"the code {code}", ErrorCode.UNSEEN_CATEGORY_CODE
                category = str(code)
            else:
                category = repr(self._given.tolist()[code])
                held, error_code = f"the category {category}", ErrorCode.UNSEEN_CATEGORY
            raise DataError(
                f"{locate((row,))} holds {held}, which {self._of} did not see; drop "
                'the row, put it with another category, or set unseen="missing" to '
                "read such as missing",
                code=error_code,
                category=category,
            )
        return codes


class RecodedTable(Table):
    """A table with mapped category codes.

    Parameters
    ----------
    table
        The rows, with columns in the expected order.
    expected
        Types and categories of the result.
    codes
        The mapping of each column whose codes change.
    first_row
        Number of the first row in error messages.
    """

    def __init__(
        self,
        table: Table,
        expected: Schema,
        codes: Mapping[int, Recoding],
        first_row: int = 0,
    ) -> None:
        super().__init__(
            table.n_rows,
            table.n_features,
            table.names,
            table.types if expected.types is None else expected.types,
            table.dtype,
            expected.categories,
        )
        self.is_stream, self.info = table.is_stream, table.info
        self._table = table
        self._codes = codes
        self.first_row = first_row

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        columns = self._table.columns(start, stop, scratch)
        for feature in range(start, stop):
            if feature in self._codes:
                locate = self.locator(0, feature)
                column = columns[feature - start]
                columns[feature - start] = self._codes[feature](column, locate)
        return columns

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        rows = self._table.rows(start, stop, features)
        if not self._codes:
            return rows
        rows = rows.copy()  # it can be memory of the container
        order = range(self.n_features) if features is None else features.tolist()
        for place, feature in enumerate(order):
            if feature in self._codes:
                locate = self.locator(start, feature)
                rows[:, place] = self._codes[feature](rows[:, place], locate)
        return rows

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        chosen = range(self.n_features) if features is None else features
        types = self.types
        expected = Schema(
            len(chosen),
            types=None if types is None else [types[feature] for feature in chosen],
            categories=self.categories.select(chosen),
        )
        codes = {
            place: self._codes[feature]
            for place, feature in enumerate(chosen)
            if feature in self._codes
        }
        row = self.first_row
        for batch in self._table.batches(features):
            yield RecodedTable(batch, expected, codes, row)
            row += batch.n_rows

    def content(self) -> str:
        codes = {feature: codes.listed() for feature, codes in self._codes.items()}
        return f"{self._table.content()} {codes}"

    def take(self, rows: np.ndarray) -> Table:
        expected = Schema(self.n_features, None, self.types, self.categories)
        return RecodedTable(self._table.take(rows), expected, self._codes)
