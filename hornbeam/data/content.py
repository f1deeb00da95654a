"""A checksum of all cells, by which a table is known again."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Protocol

import numpy as np

from hornbeam.data.categories import Categories

__all__ = ["Content"]

#: Columns, or cells of rows, that are held at once.
_COLUMNS_AT_ONCE = 4
_CELLS = 1 << 20


class Cells(Protocol):
    """The cells of a table, as `Table` has them."""

    n_rows: int
    n_features: int
    has_rows: bool
    categories: Categories

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return some rows."""

    def columns(self, start: int, stop: int) -> list[np.ndarray]:
        """Return some columns."""


class Content:
    """Checksums of rows that come in batches, wherever those end.

    They are taken of whole rows or of columns, as the batches have them.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._columns: list[int] = []

    def add(self, table: Cells) -> None:
        """Take the next rows."""
        if table.has_rows:
            step = max(1, _CELLS // table.n_features)
            for start in range(0, table.n_rows, step):
                rows = table.rows(start, min(start + step, table.n_rows))
                self._rows = zlib.crc32(rows.data, self._rows)
            return
        width = table.n_features
        self._columns = self._columns or [0] * width
        for start in range(0, width, _COLUMNS_AT_ONCE):
            stop = min(start + _COLUMNS_AT_ONCE, width)
            for feature, column in enumerate(table.columns(start, stop), start):
                before = self._columns[feature]
                levels = table.categories.of(feature)
                if levels is not None:  # of which a batch may have its own
                    before = zlib.crc32(repr(levels.tolist()).encode(), before)
                self._columns[feature] = zlib.crc32(column.data, before)

    def digest(self) -> str:
        """Return the checksum of all that came."""
        sums = json.dumps([self._rows, self._columns])
        return hashlib.sha256(sums.encode()).hexdigest()
