"""Interface of sources that are read in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "Batch",
    "ChosenColumns",
    "Place",
    "Source",
    "batch_rows",
    "or_empty",
]

#: Rows of a batch if the source leaves the choice to the reader, and maximum bytes of
#: one, for many columns.
BATCH_ROWS = 1 << 16
BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a source.

    Attributes
    ----------
    data
        The features: anything that `as_table` takes.
    info
        Fields of the rows, by the names of ``DMatrix.set_info``.
    names, types
        Names and types of the columns instead of those of the container.
    origin
        The file of the batch, if the source has several files.
    """

    data: Any
    info: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] | None = None
    types: Sequence[str] | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a batch in its source, for error messages."""

    number: int
    first_row: int
    source: str
    origin: str | None

    def __str__(self) -> str:
        within = f"in {self.origin}, " if self.origin else ""
        return (
            f"batch {self.number} of {self.source} ({within}from row {self.first_row} "
            "on)"
        )

    @contextmanager
    def named(self) -> Iterator[None]:
        """Add the place to a `DataError` that is raised in the block."""
        try:
            yield
        except DataError as error:
            raise DataError(
                f"{self}: {error}", code=error.code, **error.details
            ) from error


class Source(ABC):
    """A source of rows that can be read in batches any number of times.

    Every pass must yield the same rows in the same order. The number of rows of a batch
    can differ.
    """

    #: Name of the source in error messages.
    name: str = "the data"
    #: Advice in the error message if passes differ.
    advice: str = "the source must yield the same rows in the same order each time"
    #: Whether `batches` can leave out columns without reading them.
    projects: bool = False
    #: Whether the data has names of columns; otherwise they are generated.
    named: bool = True
    #: Whether batches may be kept, because no one else writes to their memory.
    owns_batches: bool = False

    @property
    def column_names(self) -> list[str] | None:
        """Names of all columns; None if they are only known after reading rows."""
        return None

    @property
    def field_columns(self) -> Mapping[str, str]:
        """Name of the column of each field, such as "label". They are not features."""
        return {}

    @abstractmethod
    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        """Make one pass from the first row.

        With `columns`, reads these columns in this order if the source `projects`.
        """


def batch_rows(n_columns: int) -> int:
    """Return the number of rows of a batch with `n_columns` columns."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES // (8 * max(n_columns, 1))))


def or_empty(
    tables: Iterable[Any], empty: Callable[[], Any]
) -> Generator[Batch, None, None]:
    """Yield a batch for each table; if there are none, one without rows.

    A source without rows then still has columns.
    """
    table = None
    for table in tables:
        yield Batch(table)
    if table is None:
        yield Batch(empty())


class ChosenColumns(Source):
    """Some columns of a source.

    Parameters
    ----------
    source
        A source with names of columns.
    columns
        Names of the columns, in the order to read them.
    """

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        names = source.column_names
        if names is None or not source.projects:
            raise DataError(
                f"{source.name} has no columns that could be chosen by name; leave "
                "columns out",
                code=ErrorCode.COLUMN_NOT_FOUND,
            )
        for column in columns:
            if column not in names:
                raise DataError(
                    f"{source.name} has no column {column!r}; it has {listed(names)}",
                    code=ErrorCode.COLUMN_NOT_FOUND,
                )
        self._source = source
        self._columns = list(columns)
        self.name, self.advice = source.name, source.advice
        self.projects, self.named = source.projects, source.named
        self.owns_batches = source.owns_batches

    @property
    def column_names(self) -> list[str]:
        return self._columns

    @property
    def field_columns(self) -> Mapping[str, str]:
        return self._source.field_columns

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        yield from self._source.batches(self._columns if columns is None else columns)
