"""What is read in batches: the contract of a source, and one batch of it."""

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

#: Rows of a batch where the source leaves the choice to the reader, and bytes at most,
#: for a batch of very many columns.
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
        What goes with the rows, by the names that ``DMatrix.set_info`` has for it.
    names, types
        Names and types of the columns in place of the container's own.
    origin
        The file that it comes from, where the source has several.
    """

    data: Any
    info: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] | None = None
    types: Sequence[str] | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a batch lies, for messages."""

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
        """Say where it was in whatever `DataError` comes out of the block."""
        try:
            yield
        except DataError as error:
            raise DataError(
                f"{self}: {error}", code=error.code, **error.details
            ) from error


class Source(ABC):
    """Rows that come in batches, and come again whenever they are asked for.

    Every reading must give the same rows in the same order; how many of them make up
    a batch may differ.
    """

    #: What messages call the source.
    name: str = "the data"
    #: What to do about readings that differ.
    mend: str = "the source must give the same rows in the same order each time"
    #: Whether `batches` can leave columns out, so that they cost nothing.
    projects: bool = False
    #: Whether the names of the columns are the data's own, not made up for reading.
    named: bool = True
    #: Whether a batch is memory that nobody else writes to, so that it may be kept.
    owns_batches: bool = False

    @property
    def column_names(self) -> list[str] | None:
        """Names of all columns, if they are known without reading the rows."""
        return None

    @property
    def field_columns(self) -> Mapping[str, str]:
        """Columns that are no features: for each part, such as "label", its column."""
        return {}

    @abstractmethod
    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        """Read once from the beginning.

        Only these columns, in this order, if they are given and the source projects.
        """


def batch_rows(n_columns: int) -> int:
    """Return how many rows of so many columns make a batch."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES // (8 * max(n_columns, 1))))


def or_empty(
    tables: Iterable[Any], empty: Callable[[], Any]
) -> Generator[Batch, None, None]:
    """Yield a batch for each table; one without rows if there are none.

    So what holds no rows still has its columns.
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
        It must be one of columns with names.
    columns
        Their names, in the order wanted.
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
        self.name, self.mend = source.name, source.mend
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
