"""The formulas of derived features, and how a person writes and reads them.

    a - b    a * b    a / b             of two numerical columns a - mean(a | c)
    of a numerical and a categorical column mean(label | c)                     of a
    categorical column, or several: c, d mean(label = 2 | c)                 the share
    of a class hour(t)                             a part of a time: see
    `hornbeam.features.dates`

A formula without its means, as a text gives it, is fitted to training rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.schema import Schema, listed, time_kind
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.features.dates import part_of, parts_of
from hornbeam.features.level_means import MAX_CELLS, Columns, LevelMeans

__all__ = [
    "Arithmetic",
    "DatePart",
    "Deviation",
    "Formula",
    "TargetMean",
    "TrainingRows",
    "is_categorical",
    "names_of",
    "parse",
]

Floats = NDArray[np.float64]


class TrainingRows(NamedTuple):
    """The rows that formulas are fitted to.

    Attributes
    ----------
    columns
        Returns the values of a column.
    size_of
        Returns the number of levels of a categorical column (see `LevelMeans`).
    labels, weights
        (rows,) float64; the labels are None if there are none, or several of a row.
    seed
        Of the permutations.
    """

    columns: Columns
    size_of: Callable[[int], int]
    labels: Floats | None
    weights: Floats
    seed: int


class _Formula(Protocol):
    """What all kinds of formulas have."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numerical columns that it reads."""

    @property
    def categories(self) -> tuple[int, ...]:
        """The categorical columns that it reads."""

    def text(self, names: Sequence[str]) -> str:
        """Return it as a person reads it."""

    def values(self, columns: Columns) -> Floats:
        """Return the value of each row, (rows,)."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The difference, product or ratio of two numerical columns.

    Attributes
    ----------
    sign
        ``"-"``, ``"*"`` or ``"/"``.
    left, right
        The columns.
    """

    sign: str
    left: int
    right: int

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.left, self.right

    @property
    def categories(self) -> tuple[int, ...]:
        return ()

    def text(self, names: Sequence[str]) -> str:
        return f"{names[self.left]} {self.sign} {names[self.right]}"

    def values(self, columns: Columns) -> Floats:
        left, right = columns(self.left), columns(self.right)
        if self.sign == "-":
            return left - right
        return left * right if self.sign == "*" else left / right

    def fitted(self, rows: TrainingRows) -> tuple[Arithmetic, Floats]:
        """Return the formula, and its values for the training rows."""
        return self, self.values(rows.columns)


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far a numerical column is from its mean in the level of a categorical one."""

    number: int
    means: LevelMeans

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.number,)

    @property
    def categories(self) -> tuple[int, ...]:
        return self.means.categories

    def text(self, names: Sequence[str]) -> str:
        name = names[self.number]
        return f"{name} - mean({name} | {_joined(self.categories, names)})"

    def values(self, columns: Columns) -> Floats:
        return columns(self.number) - self.means.of(columns)

    def fitted(self, rows: TrainingRows) -> tuple[Deviation, Floats]:
        """Return the formula with its means, and its values for the training rows."""
        sizes = _sizes(self.means, rows)
        numbers = rows.columns(self.number)
        means = self.means.of_numbers(rows.columns, sizes, numbers, rows.weights)
        fitted = replace(self, means=means)
        return fitted, fitted.values(rows.columns)


@dataclass(frozen=True, slots=True)
class TargetMean:
    """The mean label in a level: an ordered target statistic.

    Attributes
    ----------
    means
        Those of prediction, of all training rows.
    label
        The class whose share is the mean; None: the labels are numbers.
    """

    means: LevelMeans
    label: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        return ()

    @property
    def categories(self) -> tuple[int, ...]:
        return self.means.categories

    def text(self, names: Sequence[str]) -> str:
        label = "label" if self.label is None else f"label = {self.label}"
        return f"mean({label} | {_joined(self.categories, names)})"

    def values(self, columns: Columns) -> Floats:
        return self.means.of(columns)

    def fitted(self, rows: TrainingRows) -> tuple[TargetMean, Floats]:
        """Return the formula with its means, and the ordered ones of training rows."""
        labels = rows.labels
        if labels is None:
            raise DataError(
                "the mean of a label needs one label for each row; set label=, or "
                "leave the formula out",
                code=ErrorCode.META_INFO_MISSING,
            )
        if self.label is not None:
            labels = (labels == self.label).astype(np.float64)
        sizes = _sizes(self.means, rows)
        means, ordered = self.means.of_targets(
            rows.columns, sizes, labels, rows.weights, rows.seed
        )
        return replace(self, means=means), ordered


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of a time, such as its hour; of a duration its seconds.

    Attributes
    ----------
    part
        See `hornbeam.features.dates`.
    time
        The column.
    kind
        The feature type of the column, with its time zone.
    """

    part: str
    time: int
    kind: str

    @property
    def numbers(self) -> tuple[int, ...]:
        return ()

    @property
    def categories(self) -> tuple[int, ...]:
        return ()

    def text(self, names: Sequence[str]) -> str:
        return f"{self.part}({names[self.time]})"

    def values(self, columns: Columns) -> Floats:
        return part_of(self.part, columns(self.time), self.kind)

    def fitted(self, rows: TrainingRows) -> tuple[DatePart, Floats]:
        """Return the formula, and its values for the training rows."""
        return self, self.values(rows.columns)


Formula: TypeAlias = Arithmetic | Deviation | TargetMean | DatePart


def _joined(categories: tuple[int, ...], names: Sequence[str]) -> str:
    return ", ".join(names[category] for category in categories)


def _sizes(means: LevelMeans, rows: TrainingRows) -> list[int]:
    sizes = [rows.size_of(category) for category in means.categories]
    if prod(sizes) > MAX_CELLS:
        raise ParameterError(
            f"the categories have {prod(sizes):,} combinations, and {MAX_CELLS:,} is "
            "the most; take columns of fewer categories",
            code=ErrorCode.INVALID_FEATURE_FORMULA,
        )
    return sizes


# --- From text ------------------------------------------------------------------------

_MEAN = re.compile(r"mean\(label(?: = (\d+))? \| (.*)\)", re.DOTALL)
_PART = re.compile(r"([a-z]+)\((.*)\)", re.DOTALL)
_EXAMPLES = "'a - b', 'a * b', 'a / b', 'a - mean(a | c)' or 'mean(label | c)'"


def parse(text: Any, schema: Schema) -> Formula:
    """Return the formula that a text writes, without its means.

    Parameters
    ----------
    text
        As `Formula.text` returns it. Names may contain spaces and signs.
    schema
        The columns; without names they are called f0, f1, ... .

    Raises
    ------
    ParameterError
        If it is no formula, or names unknown columns or columns of the wrong kind.
    """
    names = names_of(schema)
    places = {name: place for place, name in enumerate(names)}
    formula = None
    if isinstance(text, str):
        formula = _date_part(text, places, schema) or _parsed(text, places)
    if formula is None:
        raise ParameterError(
            f"{text!r} is not a formula of the columns {listed(names)}; write "
            f"{_EXAMPLES}, with names of numerical columns for a and b, and of a "
            "categorical one for c",
            code=ErrorCode.INVALID_FEATURE_FORMULA,
        )
    for places_read, is_right, kind in (
        (formula.numbers, is_numerical, "numerical"),
        (formula.categories, is_categorical, "categorical"),
    ):
        for place in places_read:
            if not is_right(schema, place):
                raise ParameterError(
                    f"the formula {text!r} needs a {kind} column in the place of "
                    f"{names[place]!r}, which is not; write {_EXAMPLES}, with a "
                    "categorical column for c only",
                    code=ErrorCode.INVALID_FEATURE_FORMULA,
                )
    return formula


def names_of(schema: Schema) -> list[str]:
    """Return the names of columns: f0, f1, ... if they have none."""
    return schema.names or [f"f{place}" for place in range(schema.n_features)]


def is_categorical(schema: Schema, place: int) -> bool:
    """Return whether a column has categories."""
    if schema.categories.of(place) is not None:
        return True
    return schema.types is not None and schema.types[place] == "c"


def is_numerical(schema: Schema, place: int) -> bool:
    """Return whether a column has numbers."""
    return not (is_categorical(schema, place) or time_kind(schema.types, place))


def _date_part(text: str, places: dict[str, int], schema: Schema) -> DatePart | None:
    found = _PART.fullmatch(text)
    if found is None or found[2] not in places or schema.types is None:
        return None
    place = places[found[2]]
    kind = schema.types[place]
    if time_kind(schema.types, place) is None or found[1] not in parts_of(kind):
        return None
    return DatePart(found[1], place, kind)


def _parsed(text: str, places: dict[str, int]) -> Formula | None:
    found = _MEAN.fullmatch(text)
    if found is not None:
        categories = _listed(found[2], places)
        if categories is not None:
            label = None if found[1] is None else int(found[1])
            return TargetMean(LevelMeans(categories), label)
    for sign in "-*/":
        for match in re.finditer(re.escape(f" {sign} "), text):
            left, right = text[: match.start()], text[match.end() :]
            if left not in places:
                continue
            if right in places:
                return Arithmetic(sign, places[left], places[right])
            head = f"mean({left} | "
            if sign == "-" and right.startswith(head) and right.endswith(")"):
                categories = _listed(right[len(head) : -1], places)
                if categories is not None:
                    return Deviation(places[left], LevelMeans(categories))
    return None


def _listed(text: str, places: dict[str, int]) -> tuple[int, ...] | None:
    """Return the columns of a list of different names; None if it is none."""
    if text in places:
        return (places[text],)
    for match in re.finditer(", ", text):
        first, rest = text[: match.start()], text[match.end() :]
        if first in places and (others := _listed(rest, places)) is not None:
            return None if places[first] in others else (places[first], *others)
    return None
