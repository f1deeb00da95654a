"""A checksum of all cells, by which a table is known again."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hornbeam.data.table import Table

__all__ = ["Content"]

#: Columns of a table that are held at once.
_COLUMNS_AT_ONCE = 4


class Content:
    """Checksums of columns that come in batches, wherever those end."""

    def __init__(self) -> None:
        self._sums: list[int] = []

    def add(self, table: Table) -> None:
        """Take the next rows. An infinite value is a `DataError` already here."""
        width = table.n_features
        self._sums = self._sums or [0] * width
        for start in range(0, width, _COLUMNS_AT_ONCE):
            stop = min(start + _COLUMNS_AT_ONCE, width)
            for feature, column in enumerate(table.columns(start, stop), start):
                before = self._sums[feature]
                levels = table.categories.of(feature)
                if levels is not None:  # of which a batch may have its own
                    before = zlib.crc32(repr(levels.tolist()).encode(), before)
                self._sums[feature] = zlib.crc32(column.data, before)

    def digest(self) -> str:
        """Return the checksum of all that came."""
        return hashlib.sha256(json.dumps(self._sums).encode()).hexdigest()
