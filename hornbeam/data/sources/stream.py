"""A table whose rows are read from a source batch by batch each time they are used."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hornbeam.data.align import align
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.containers.frame import column_names, pop_columns
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.floats import check_missing
from hornbeam.data.schema import listed
from hornbeam.data.sources.batches import Batch, Place, Source
from hornbeam.data.sources.first_pass import (
    FieldCollector,
    FirstPass,
    part_of,
    read_part,
    reorder_columns,
)
from hornbeam.data.table import LocatedTable, SelectedTable, Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["StreamTable"]


@dataclass(frozen=True, slots=True)
class _ReadBatch:
    """A batch that was read, with the columns of the source."""

    place: Place
    table: Table
    info: Mapping[str, Any]
    own_names: list[str] | None


@dataclass(frozen=True, slots=True)
class _BatchOptions:
    """Options to turn a batch into a table: the arguments of `StreamTable`."""

    missing: float
    names: Sequence[str] | None
    types: Sequence[str] | None
    enable_categorical: bool
    field_columns: Mapping[str, str]
    named: bool
    dates: str

    @classmethod
    def of(
        cls,
        source: Source,
        missing: float | None,
        names: Sequence[str] | None,
        types: Sequence[str] | None,
        enable_categorical: bool,
        field_columns: Mapping[str, str] | None,
        dates: str,
    ) -> _BatchOptions:
        field_columns = {**source.field_columns, **(field_columns or {})}
        for part, column in field_columns.items():
            if source.column_names is not None and column not in source.column_names:
                raise DataError(
                    f"{source.name} has no column {column!r} for {part}; it has "
                    f"{listed(source.column_names)}",
                    code=ErrorCode.COLUMN_NOT_FOUND,
                )
        return cls(
            check_missing(missing),
            names,
            types,
            enable_categorical,
            field_columns,
            source.named or names is not None,
            dates,
        )

    def only(self, features: Sequence[int]) -> _BatchOptions:
        """Return the options to read some columns, and labels but no other fields.

        Labels are read to check that the rows are the same as before.
        """
        return replace(
            self,
            names=None if self.names is None else [self.names[f] for f in features],
            types=None if self.types is None else [self.types[f] for f in features],
            field_columns={
                p: column for p, column in self.field_columns.items() if p == "label"
            },
        )

    def read(self, place: Place, batch: Batch) -> _ReadBatch:
        """Return the table and the fields of a batch."""
        data, columns = pop_columns(batch.data, self.field_columns)
        for part in columns:
            if part in batch.info:
                raise DataError(
                    f"{part} comes with the batch, and from the column "
                    f"{self.field_columns[part]!r}; leave one out",
                    code=ErrorCode.META_INFO_GIVEN_TWICE,
                )
        table = as_table(
            data,
            self.missing,
            batch.names if self.names is None else self.names,
            batch.types if self.types is None else self.types,
            self.enable_categorical,
            dates=self.dates,
        )
        if not self.named:
            table.names = None
        return _ReadBatch(place, table, {**batch.info, **columns}, column_names(data))


class StreamTable(Table):
    """The rows of a source.

    The constructor makes a first pass over the source, for the columns, the number of
    rows and their fields. Each use makes another pass. Exceptions of the source are not
    changed. Errors of a batch are raised as a `DataError` that names the batch.

    Parameters
    ----------
    source
        The source of the rows.
    missing, names, types, enable_categorical, dates
        As for `as_table`, for each batch.
    field_columns
        Name of the column of each field, such as ``"label"``. They are not features.
    content
        Whether the first pass takes a checksum of the rows, so that `content` needs no
        other pass.

    Attributes
    ----------
    info
        Labels and other fields of all rows, as arrays, by the names of
        ``DMatrix.set_info``.
    only
        The rows in memory, if the source has a single batch that may be kept.
    """

    is_stream: bool = True

    def __init__(
        self,
        source: Source,
        missing: float | None = None,
        names: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        enable_categorical: bool = True,
        field_columns: Mapping[str, str] | None = None,
        content: bool = False,
        dates: str = "error",
    ) -> None:
        self._source = source
        self._options = _BatchOptions.of(
            source, missing, names, types, enable_categorical, field_columns, dates
        )
        self._own_names: list[str] | None = None
        first_pass, parts = FirstPass(content), FieldCollector()
        only: Table | None = None
        with closing(self._read(None)) as batches:
            for batch in batches:
                first = batch.place.number == 0 and source.owns_batches
                only = batch.table if first else None
                with batch.place.named():
                    first_pass.add(batch.table)
                    parts.add(batch.info, batch.table.n_rows)
                self._own_names = batch.own_names
        schema = first_pass.schema
        if schema is None:
            raise DataError(
                f"{source.name} has no batches, and so no columns; pass at least one "
                "batch",
                code=ErrorCode.NO_BATCHES,
            )
        super().__init__(
            first_pass.n_rows,
            schema.n_features,
            schema.names,
            schema.types,
            first_pass.dtype,
            schema.categories,
        )
        self.info = parts.whole()
        self.only = only
        if only is not None:
            only.info = self.info
        # The columns of the batches; `names` can be changed later.
        self._expected = schema
        self._sample = first_pass.sample
        self._content = first_pass.content
        self._cursor: _Cursor | None = None

    def _read(
        self, features: Sequence[int] | None
    ) -> Generator[_ReadBatch, None, None]:
        """Yield the batches of one pass, with `features` or all columns.

        The columns are those of the source; in the first pass they are not known yet.
        """
        options, columns = self._options, None
        if self._source.projects and self._own_names is not None:
            chosen = range(self.n_features) if features is None else features
            # Read labels, too, to check that the rows are the same as before.
            options = options.only(chosen)
            columns = [
                *(self._own_names[f] for f in chosen),
                *options.field_columns.values(),
            ]
        row = 0
        with closing(self._source.batches(columns)) as batches:
            for number, batch in enumerate(batches):
                place = Place(number, row, self._source.name, batch.origin)
                with place.named():
                    read = options.read(place, batch)
                row += read.table.n_rows
                yield read

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        # A source may support only one pass at a time.
        self._close()
        return self._batches(features)

    def _batches(self, features: Sequence[int] | None) -> Generator[Table, None, None]:
        chosen = None if features is None else [int(feature) for feature in features]
        projected = chosen if self._source.projects else None
        expected = part_of(self._expected, projected)
        row = 0
        with closing(self._read(projected)) as batches:
            for batch in batches:
                # A container without rows may not know its types.
                if not batch.table.n_rows:
                    continue
                with batch.place.named():
                    table = align(reorder_columns(batch.table, expected), expected)
                    if chosen is not projected and chosen is not None:
                        table = table.select(chosen)
                    self._check_same(table, chosen, batch, row)
                row += table.n_rows
                schema = part_of(self.schema, chosen)
                if table.types != schema.types:
                    table.retype(schema.types)
                located = LocatedTable(table, batch.place.named, schema)
                located.has_rows = table.has_rows
                yield located
        if row != self.n_rows:
            raise DataError(
                f"{self._source.name} had {self.n_rows} rows in the first pass, and "
                f"{row} now; {self._source.advice}",
                code=ErrorCode.SOURCE_CHANGED,
            )

    def _check_same(
        self,
        table: Table,
        features: Sequence[int] | None,
        batch: _ReadBatch,
        first_row: int,
    ) -> None:
        """Raise a `DataError` if the rows differ from those of the first pass."""
        if first_row + table.n_rows > self.n_rows:
            raise DataError(
                f"there were {self.n_rows} rows in the first pass, and there are more "
                f"now; {self._source.advice}",
                code=ErrorCode.SOURCE_CHANGED,
            )
        different = self._sample.differs(table, first_row, features)
        labels = self.info.get("label")
        if different is None and labels is not None and "label" in batch.info:
            now = read_part("label", batch.info["label"])
            before = labels[first_row : first_row + table.n_rows]
            if now.shape != before.shape:
                different = first_row
            elif not np.array_equal(now, before, equal_nan=True):
                same = (now == before) | (np.isnan(now) & np.isnan(before))
                same = same if same.ndim == 1 else same.all(axis=1)
                different = first_row + int(same.argmin())
        if different is not None:
            raise DataError(
                f"row {different} differs from that of the first pass; "
                f"{self._source.advice}",
                code=ErrorCode.SOURCE_CHANGED,
            )

    # Methods of Table

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        return self.read_columns(range(start, stop))

    def read_columns(self, features: Sequence[int]) -> list[np.ndarray]:
        """Return some columns of all rows, in one pass over the source."""
        parts = [batch.columns(0, len(features)) for batch in self.batches(features)]
        if not parts:
            return [np.empty(0, self.dtype) for _ in features]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        key = None if features is None else features.tolist()
        cursor = self._cursor
        if cursor is None or not cursor.serves(start, key):
            self._close()
            cursor = self._cursor = _Cursor(self._batches(key), key)
        width = self.n_features if key is None else len(key)
        out = np.empty((stop - start, width), self.dtype)
        try:
            cursor.read(start, stop, out)
        except BaseException:
            self._close()
            raise
        if stop == self.n_rows:
            self._close()
        return out

    def _close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def take(self, rows: np.ndarray) -> Table:
        out = np.empty((len(rows), self.n_features), self.dtype, order="F")
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        first = 0
        for batch in self.batches():
            stop = first + batch.n_rows
            begin, end = np.searchsorted(ordered, (first, stop))
            if begin < end:
                part = batch.take(ordered[begin:end] - first)
                out[order[begin:end]] = part.rows(0, part.n_rows)
            first = stop
        return ArrayTable(
            out, names=self.names, types=self.types, categories=self.categories
        )

    def select(self, features: Sequence[int]) -> Table:
        return _SelectedStream(self, features)

    def content(self) -> str:
        return super().content() if self._content is None else self._content.digest()


class _SelectedStream(SelectedTable):
    """Some columns of a stream."""

    def __init__(self, table: StreamTable, features: Sequence[int]) -> None:
        super().__init__(table, features)
        self._stream = table

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        return self._stream.read_columns(self._features[start:stop].tolist())

    def select(self, features: Sequence[int]) -> Table:
        return _SelectedStream(
            self._stream, self._features[np.asarray(features, np.intp)].tolist()
        )


class _Cursor:
    """A pass over the source that is paused at some row."""

    def __init__(
        self, batches: Generator[Table, None, None], features: list[int] | None
    ) -> None:
        self._batches = batches
        self._features = features
        self._table: Table | None = None
        self._first = 0

    def serves(self, start: int, features: Sequence[int] | None) -> bool:
        """Return whether the pass reads these columns and has not passed the row."""
        return features == self._features and start >= self._first

    def read(self, start: int, stop: int, out: np.ndarray) -> None:
        """Write the rows `start` to `stop - 1` into `out`."""
        row = start
        while row < stop:
            table = self._table
            if table is None or row >= self._first + table.n_rows:
                self._first += 0 if table is None else table.n_rows
                self._table = next(self._batches)
                continue
            end = min(stop, self._first + table.n_rows)
            part = table.rows(row - self._first, end - self._first)
            out[row - start : end - start] = part
            row = end

    def close(self) -> None:
        """End the pass."""
        self._table = None
        self._batches.close()
