"""The partitions of one worker as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hornbeam.dask.opening import named
from hornbeam.data.align import align
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import kind_of
from hornbeam.data.table import LocatedTable, Table

__all__ = ["JoinedTable", "PartitionTable", "aligned"]


def aligned(table: Table, schema: Schema, unseen: str, of: str) -> Table:
    """Return a partition's table with the columns and codes of `schema`.

    A column without a value here may be of any type there.
    """
    for feature, place in enumerate(_places(table, schema)):
        if place is None or kind_of(table.types, place) == kind_of(
            schema.types, feature
        ):
            continue
        if not table.is_stream and np.isnan(table.column(place)).all():
            table.typeless |= {place}
    return align(table, schema, unseen, of)


def _places(table: Table, schema: Schema) -> list[int | None]:
    if not (table.names and schema.names):
        return [f if f < table.n_features else None for f in range(schema.n_features)]
    place = {name: i for i, name in enumerate(table.names)}
    return [place.get(name) for name in schema.names]


class PartitionTable(LocatedTable):
    """The rows of a partition; whatever is wrong with them is said with its number.

    Parameters
    ----------
    table
        The rows, their columns as all partitions have them.
    number
        Of the partition.
    """

    def __init__(self, table: Table, number: int) -> None:
        super().__init__(table, lambda: named(number))
        self.is_stream = table.is_stream
        self._number = number

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        if not self.is_stream:
            yield from super().batches(features)
            return
        with self._located():
            for batch in self._table.batches(features):
                yield PartitionTable(batch, self._number)

    def select(self, features: Sequence[int]) -> Table:
        return PartitionTable(self._table.select(features), self._number)

    def take(self, rows: np.ndarray) -> Table:
        return PartitionTable(super().take(rows), self._number)

    def label(self, feature: int) -> str:
        return f"{super().label(feature)} of partition {self._number}"


class JoinedTable(Table):
    """The rows of several partitions, one after the other; read as a stream of them.

    Parameters
    ----------
    parts
        Their tables, at least one, with the same columns and codes.
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
