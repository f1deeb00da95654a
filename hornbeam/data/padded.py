"""A table with more columns than the one it reads, all of whose cells are missing."""

from __future__ import annotations

import numpy as np

from hornbeam.data.table import Table

__all__ = ["PaddedTable"]


class PaddedTable(Table):
    """The columns of a table without names, and missing ones up to `n_features`.

    A sparse matrix is as wide as its last filled column, and data read for prediction
    may lack the last ones of training.
    """

    def __init__(self, table: Table, n_features: int) -> None:
        self._table = table
        types = None
        if table.types is not None:
            types = [*table.types, *["float"] * (n_features - table.n_features)]
        self.is_stream, self.info = table.is_stream, table.info
        super().__init__(table.n_rows, n_features, None, types, table.dtype)

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        width = self._table.n_features
        known = self._table.columns(min(start, width), min(stop, width), scratch)
        empty = np.full(self.n_rows, np.nan, np.float32)
        return known + [empty] * (stop - start - len(known))

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        chosen = np.arange(self.n_features) if features is None else features
        rows = np.full((stop - start, len(chosen)), np.nan, self.dtype)
        known = np.flatnonzero(chosen < self._table.n_features)
        rows[:, known] = self._table.rows(start, stop, chosen[known])
        return rows

    def take(self, rows: np.ndarray) -> Table:
        return PaddedTable(self._table.take(rows), self.n_features)
