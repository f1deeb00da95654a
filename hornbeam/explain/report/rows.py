"""The rows that a report evaluates, in memory and in the model's columns."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.booster import Booster
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode
from hornbeam.features.dates import ALWAYS
from hornbeam.features.formulas import DatePart

__all__ = ["Floats", "Integers", "Rows", "generator", "read_rows", "taken"]

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

#: Maximum number of values held in memory: half a gigabyte.
_MOST_CELLS = 1 << 26


def generator(seed: int, *purpose: object) -> np.random.Generator:
    """Return a random generator for one purpose."""
    words = "/".join(map(str, purpose)).encode()
    return np.random.default_rng([seed, zlib.crc32(words)])


@dataclass(frozen=True, slots=True)
class Unseen:
    """Unseen categories of a feature, and the share of rows that have them."""

    feature: int
    categories: list[str]
    share: float


class Rows:
    """Rows of a matrix in memory, with the columns and category codes of the model.

    Parameters
    ----------
    name
        Name of the data set in the report.
    booster
        The model.
    matrix
        The rows.
    n_given
        Number of rows before sampling.
    unseen
        Categories that the model did not see in training; they are treated as missing.
    """

    def __init__(
        self,
        name: str,
        booster: Booster,
        matrix: DMatrix,
        n_given: int,
        unseen: list[Unseen],
    ) -> None:
        self.name = name
        self.booster = booster
        self.matrix = matrix
        self.n_given = n_given
        self.unseen = unseen
        self._columns: dict[int, Floats] = {}

    @property
    def n_rows(self) -> int:
        return self.matrix.n_rows

    @property
    def n_groups(self) -> int:
        """Number of query groups; 1 where there are none."""
        pointers = self.matrix.info.group_ptr
        return 1 if pointers is None else len(pointers) - 1

    @property
    def labels(self) -> Floats | None:
        """The labels, (rows,) or (rows, targets)."""
        return self.matrix.labels

    @cached_property
    def times(self) -> dict[int, int]:
        """Columns of times, which trees do not split on, and the feature that stands
        for each: its days since 1970, or of a duration its seconds."""
        model = self.booster.model
        first = model.num_feature - len(model.formulas)
        return {
            formula.time: first + place
            for place, formula in enumerate(model.formulas)
            if isinstance(formula, DatePart) and formula.part in ALWAYS
        }

    @cached_property
    def weights(self) -> Floats:
        """Sample weights, (rows,)."""
        weights = self.matrix.row_weights
        return np.ones(self.n_rows) if weights is None else weights

    @cached_property
    def predictions(self) -> Floats:
        """Predictions as metrics take them, (rows,) or (rows, outputs)."""
        return self.booster.predictions_to_measure(self.matrix)

    def column(self, feature: int) -> Floats:
        """Return the values of a feature, category codes if categorical; NaN where
        missing."""
        if feature not in self._columns:
            column = self.matrix.table.column(feature)
            self._columns[feature] = column.astype(np.float64)
        return self._columns[feature]

    def sample(self, most: int, seed: int, purpose: str) -> Rows:
        """Return a sample of at most so many rows, in their order."""
        numbers = _draw(self.matrix, most, seed, purpose)
        if numbers is None:
            return self
        matrix = taken(self.matrix, numbers)
        part = Rows(self.name, self.booster, matrix, self.n_given, self.unseen)
        part.predictions = self.predictions[numbers]
        return part

    def with_values(self, values: NDArray[np.floating]) -> DMatrix:
        """Return a matrix with the same labels and other feature values, (rows,
        columns)."""
        table = self.matrix.table
        changed = ArrayTable(
            values, names=table.names, types=table.types, categories=table.categories
        )
        matrix = DMatrix.of_table(changed, self.matrix.info.fields())
        matrix.derived = self.matrix.derived
        return matrix


def read_rows(name: str, booster: Booster, data: DMatrix, most: int, seed: int) -> Rows:
    """Return a sample of at most so many rows of a matrix.

    In a ranking whole groups are drawn. Raises a `DataError` if there are no rows, or
    the columns differ from the model's.
    """
    if not isinstance(data, DMatrix):
        raise DataError(
            f"the {name} data of a report must be a DMatrix, not "
            f"{type(data).__name__}; wrap it: DMatrix(data, label)",
            code=ErrorCode.NOT_A_DMATRIX,
        )
    if data.n_rows == 0:
        raise DataError(
            f"there are no rows in the {name} data; give some to report on",
            code=ErrorCode.EMPTY_DATA,
        )
    aligned = booster.aligned(data, "missing")
    most = min(most, max(1, _MOST_CELLS // data.n_features))
    numbers = _draw(data, most, seed, f"rows of {name}")
    if numbers is None:
        numbers = np.arange(data.n_rows)
    held = aligned
    if data.table.is_stream or len(numbers) < data.n_rows:
        held = taken(aligned, numbers)
    return Rows(name, booster, held, data.n_rows, _unseen(data, aligned, numbers, held))


def taken(matrix: DMatrix, numbers: Integers) -> DMatrix:
    """Return a subset of the rows of any matrix, with their meta info."""
    fields = matrix.info.take(numbers).fields()
    fields.pop("feature_weights", None)  # feature weights, not needed here
    part = DMatrix.of_table(matrix.table.take(numbers), fields)
    part.derived = matrix.derived
    return part


def _draw(matrix: DMatrix, most: int, seed: int, purpose: str) -> Integers | None:
    """Return the indices of sampled rows, ascending; None if all rows are used."""
    if matrix.n_rows <= most:
        return None
    draws = generator(seed, purpose)
    pointers = matrix.info.group_ptr
    if pointers is None:
        return np.sort(draws.choice(matrix.n_rows, most, replace=False))
    order = draws.permutation(len(pointers) - 1)
    sizes = np.diff(pointers)[order]
    fit = max(1, int(np.searchsorted(np.cumsum(sizes), most, side="right")))
    groups = np.sort(order[:fit])
    return np.concatenate([np.arange(*pointers[g : g + 2]) for g in groups])


def _unseen(
    given: DMatrix, aligned: DMatrix, numbers: Integers, held: DMatrix
) -> list[Unseen]:
    """Return the unseen categories."""
    found = []
    known = aligned.schema.categories
    places = {name: place for place, name in enumerate(given.feature_names or ())}
    for feature in range(aligned.n_features):
        levels = known.of(feature)
        place = feature
        if aligned.feature_names and places:
            place = places.get(aligned.feature_names[feature], feature)
        if levels is None or (own := given.schema.categories.of(place)) is None:
            continue
        seen = {*levels.tolist()}
        strange = [level for level in own.tolist() if level not in seen]
        if not strange:
            continue
        before = np.isnan(given.table.column(place)[numbers])
        after = np.isnan(held.table.column(feature))
        share = float(np.mean(after & ~before))
        if share > 0:
            found.append(Unseen(feature, [str(level) for level in strange], share))
    return found
