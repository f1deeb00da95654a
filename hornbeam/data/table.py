"""What the learner sees of any container: a table of numbers, read by blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from hornbeam.data.floats import Locate, check_finite
from hornbeam.data.schema import Schema, check_names, column_label
from hornbeam.errors import DataError

__all__ = ["Table"]


class Table(ABC):
    """A table of numbers by reference: nothing is read or copied before it is asked.

    Parameters
    ----------
    n_rows, n_features
        The shape.
    names
        Names of the columns, None if the container has none.
    types
        XGBoost's words for their types, None if the container has one for all.
    dtype
        float32 if every column fits into it whole, else float64.
    """

    def __init__(
        self,
        n_rows: int,
        n_features: int,
        names: Sequence[str] | None,
        types: list[str] | None,
        dtype: np.dtype[Any],
    ) -> None:
        if n_features == 0:
            raise DataError(
                f"the features have no columns (shape ({n_rows}, 0)); "
                "pass at least one column"
            )
        self.n_rows = n_rows
        self.n_features = n_features
        self.names = check_names(names, n_features)
        self.types = types
        self.dtype = dtype

    @property
    def schema(self) -> Schema:
        """The number, names and types of the columns."""
        return Schema(self.n_features, self.names, self.types)

    def columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Return the columns start..stop-1, each 1-d, contiguous, missing as NaN.

        float32 where the type of the column fits into it whole, else float64. An
        array may be the container's own memory: read it, never write to it. An
        infinite value is an error: no bin could hold it.

        `scratch` is memory that the columns may be written to, as bytes: enough for
        all of them in `dtype`.
        """
        columns = self._columns(start, stop, scratch)
        for feature, column in enumerate(columns, start):
            check_finite(column, self.label(feature))
        return columns

    @abstractmethod
    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Return what `columns` promises, infinite values and all."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return the rows start..stop-1 in C order and `dtype`, missing as NaN.

        The array may be the container's own memory: read it, never write to it.
        """

    @abstractmethod
    def take(self, rows: np.ndarray) -> Table:
        """Return a new table of these rows, in this order."""

    def label(self, feature: int) -> str:
        """Return how a message calls the column."""
        return column_label(self.names, feature)

    def locator(self, row: int, feature: int) -> Locate:
        """Return the words for a cell of the block that begins at (row, feature)."""

        def locate(index: tuple[int, ...]) -> str:
            column = feature + (index[1] if len(index) > 1 else 0)
            return f"row {row + index[0]} of {self.label(column)}"

        return locate
