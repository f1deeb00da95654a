"""The derived features of a model, and tables that have them beside their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import Categories
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table
from hornbeam.features.formulas import DatePart, Formula, names_of
from hornbeam.features.level_means import Columns

__all__ = ["DerivedFeatures", "DerivedTable", "as_column"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DerivedFeatures:
    """Formulas whose values are further columns, after those of the data.

    Values are computed in float64 and rounded to float32; what is not finite, as a
    ratio by zero, is missing.

    Attributes
    ----------
    formulas
        One for each derived column.
    named
        Whether the columns of the data have names. If not, formulas call them f0, f1,
        and so on.
    """

    formulas: tuple[Formula, ...]
    named: bool

    def schema(self, raw: Schema) -> Schema:
        """Return the schema of the columns of the data and the derived ones."""
        names, more = names_of(raw), len(self.formulas)
        for text in [formula.text(names) for formula in self.formulas]:
            # The average of models has a formula with the means of each.
            copies = (f"{text} ({number})" for number in count(2))
            every = chain([text], copies)
            names = [*names, next(name for name in every if name not in names)]
        types = None if raw.types is None else [*raw.types, *["float"] * more]
        for time in self.times:
            # XGBoost has no type of times; the formulas keep it.
            types = _with_type(types, time, "float")
        categories = raw.categories
        if not categories.empty():
            levels = [*categories.names, *[None] * more]
            categories = Categories.of_checked(levels, names)
        return Schema(raw.n_features + more, names, types, categories)

    def raw_schema(self, schema: Schema) -> Schema:
        """Return the schema of the columns of the data alone."""
        count = schema.n_features - len(self.formulas)
        names = schema.names[:count] if self.named and schema.names else None
        types = None if schema.types is None else schema.types[:count]
        for time, kind in self.times.items():
            types = _with_type(types, time, kind)
        return Schema(count, names, types, schema.categories.select(range(count)))

    @property
    def times(self) -> dict[int, str]:
        """The feature types of the columns of times, whose parts are features."""
        return {f.time: f.kind for f in self.formulas if isinstance(f, DatePart)}

    def values(self, columns: Columns) -> Floats:
        """Return the derived columns, (formulas, rows)."""
        with np.errstate(all="ignore"):
            values = [as_column(formula.values(columns)) for formula in self.formulas]
        return np.stack(values)


def _with_type(types: list[str] | None, feature: int, kind: str) -> list[str] | None:
    return types and [*types[:feature], kind, *types[feature + 1 :]]


def as_column(values: NDArray[np.float64]) -> Floats:
    """Return values rounded to float32, missing if they are not finite."""
    with np.errstate(all="ignore"):
        column = values.astype(np.float32)
    column[~np.isfinite(column)] = np.nan
    return column


class DerivedTable(Table):
    """A table with derived columns after its own.

    Parameters
    ----------
    table
        The columns of the data, aligned to the model.
    features
        The formulas.
    single
        Whether numbers are rounded to float32 first, as the trees of the model read
        them; times are not.
    known
        (formulas, rows) float32: the values of the training rows, which ordered
        statistics have other formulas for. None: the values of the formulas.
    hidden
        Columns of the data that are read as missing, besides those of times.
    """

    def __init__(
        self,
        table: Table,
        features: DerivedFeatures,
        single: bool,
        known: Floats | None = None,
        hidden: Sequence[int] = (),
    ) -> None:
        schema = features.schema(table.schema)
        super().__init__(
            table.n_rows,
            schema.n_features,
            schema.names,
            schema.types,
            table.dtype,
            schema.categories,
        )
        self.is_stream, self.info = table.is_stream, table.info
        self.has_rows, self.first_row = table.has_rows, table.first_row
        self._table, self._features, self._single = table, features, single
        self._times = features.times
        self._known, self._hidden = known, [*{*hidden, *self._times}]

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        width = self._table.n_features
        columns = self._table.columns(min(start, width), min(stop, width), scratch)
        for feature in self._hidden:
            if start <= feature < stop:
                columns[feature - start] = np.full(self.n_rows, np.nan, self.dtype)
        if stop > width:
            derived = self._derived(self._operands())
            columns += list(derived[max(start - width, 0) : stop - width])
        return columns

    def _operands(self) -> Columns:
        """Return a function that reads a column as the formulas do."""

        @cache
        def column(feature: int) -> NDArray[np.float64]:
            return self._as_operand(self._table.column(feature), feature)

        return column

    def _as_operand(self, values: NDArray[Any], feature: int) -> NDArray[np.float64]:
        if self._single and feature not in self._times:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
        return values.astype(np.float64)

    def _derived(self, columns: Columns) -> Floats:
        if self._known is not None:
            return self._known
        return self._features.values(columns)

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        width = self._table.n_features
        given = self._table.rows(start, stop)
        if self._known is not None:
            derived = self._known[:, start:stop]
        else:
            derived = self._features.values(lambda f: self._as_operand(given[:, f], f))
        rows = np.empty((stop - start, self.n_features), self.dtype)
        rows[:, :width], rows[:, width:] = given, derived.T
        rows[:, self._hidden] = np.nan
        return rows if features is None else rows.take(features, axis=1)

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        if self._known is not None:
            yield from super().batches(features)
            return
        for batch in self._table.batches():
            derived = DerivedTable(
                batch, self._features, self._single, None, self._hidden
            )
            yield derived if features is None else derived.select(features)

    def take(self, rows: np.ndarray) -> Table:
        known = None if self._known is None else self._known[:, rows]
        taken = self._table.take(rows)
        return DerivedTable(taken, self._features, self._single, known, self._hidden)

    def content(self) -> str:
        return f"{self._table.content()} {self._features}"
