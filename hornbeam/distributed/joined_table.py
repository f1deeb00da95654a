"""The rows of several tables as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.table import Table

__all__ = ["JoinedTable"]


class JoinedTable(Table):
    """The concatenated rows of several partitions; its batches are the partitions.

    Parameters
    ----------
    parts
        Their tables, at least one, with the same columns and category codes.
    """

    is_stream = True

    def __init__(self, parts: Sequence[Table]) -> None:
        first = parts[0]
        super().__init__(
            sum(part.n_rows for part in parts),
            first.n_features,
            first.names,
            first.types,
            np.result_type(*(part.dtype for part in parts)),
            first.categories,
        )
        self._parts = list(parts)
        self.has_rows = all(part.has_rows for part in parts)
        self._begins = np.cumsum([0, *(part.n_rows for part in parts)])

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        for part in self._parts:
            yield from part.batches(features)

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        pieces = [part.columns(start, stop) for part in self._parts]
        return [np.concatenate(column) for column in zip(*pieces, strict=True)]

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        first = max(int(np.searchsorted(self._begins, start, side="right")) - 1, 0)
        pieces: list[np.ndarray] = []
        for number in range(first, len(self._parts)):
            begin = int(self._begins[number])
            if begin >= stop and pieces:
                break
            part = self._parts[number]
            begin, end = max(start - begin, 0), min(stop - begin, part.n_rows)
            pieces.append(part.rows(begin, max(begin, end), features))
        rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return rows.astype(self.dtype, copy=False)

    def select(self, features: Sequence[int]) -> Table:
        return JoinedTable([part.select(features) for part in self._parts])

    def take(self, rows: np.ndarray) -> Table:
        out = np.empty((len(rows), self.n_features), self.dtype)
        for part, begin in zip(self._parts, self._begins.tolist(), strict=False):
            mine = np.flatnonzero((rows >= begin) & (rows < begin + part.n_rows))
            if mine.size:
                taken = part.take(rows[mine] - begin)
                out[mine] = taken.rows(0, taken.n_rows)
        return ArrayTable(
            out, names=self.names, types=self.types, categories=self.categories
        )
