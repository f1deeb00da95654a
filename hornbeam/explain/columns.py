"""Feature values with the names of their categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import listed
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.explain.node_text import Float64s

__all__ = ["Column", "columns_of", "feature_number"]


@dataclass(frozen=True, slots=True)
class Column:
    """The values of one feature.

    Parameters
    ----------
    name
        Name of the feature.
    values
        (rows,): numbers, or category codes; NaN where missing.
    levels
        Category names of the codes 0, 1, 2, ...; None if the feature is not
        categorical.
    """

    name: str
    values: Float64s
    levels: list[str] | None = None

    def of_rows(self, rows: Any) -> Column:
        """Return the column of a subset of the rows."""
        return replace(self, values=self.values[rows])

    @property
    def known(self) -> Float64s:
        """The values that are finite and not missing."""
        return self.values[np.isfinite(self.values)]

    def grid(
        self, size: int, percentiles: tuple[float, float] = (0.0, 1.0)
    ) -> Float64s:
        """Return grid values in ascending order.

        For numbers these are quantiles evenly spaced between the percentiles; for
        categories the codes of the most frequent ones.
        """
        known = self.known
        if self.levels is None:
            shares = np.linspace(*percentiles, size)
            return np.unique(np.quantile(known, shares, method="nearest"))
        counts = np.bincount(known.astype(np.intp), minlength=len(self.levels))
        frequent = np.argsort(-counts, kind="stable")[:size]
        return np.sort(frequent[counts[frequent] > 0]).astype(np.float64)

    @property
    def deciles(self) -> Float64s:
        """The nine deciles of a numerical feature; empty for a categorical one."""
        if self.levels is not None:
            return np.empty(0)
        return np.quantile(self.known, np.linspace(0.1, 0.9, 9))


def columns_of(
    data: DMatrix, names: Sequence[str], features: Sequence[int] | None = None
) -> list[Column]:
    """Return the columns of features by index; of all features if None."""
    chosen = None if features is None else np.array(features, np.intp)
    table = data.rows(0, data.num_row(), chosen)
    schema = data.schema
    columns = []
    for place, feature in enumerate(range(len(names)) if chosen is None else chosen):
        values = table[:, place].astype(np.float64)
        levels = schema.categories.of(feature)
        known = None if levels is None else [str(level) for level in levels]
        if known is None and schema.types is not None and schema.types[feature] == "c":
            highest = values[np.isfinite(values)].max(initial=-1.0)
            known = [str(code) for code in range(1 + int(highest))]
        columns.append(Column(names[feature], values, known))
    return columns


def feature_number(asked: str | int, names: Sequence[str]) -> int:
    """Return the index of a feature that is given by name or index."""
    if isinstance(asked, str) and asked in names:
        return names.index(asked)
    if isinstance(asked, int | np.integer) and 0 <= asked < len(names):
        return int(asked)
    raise ParameterError(
        f"{asked!r} is not a feature of this model; it has {listed(names)}",
        code=ErrorCode.UNKNOWN_FEATURE,
    )
