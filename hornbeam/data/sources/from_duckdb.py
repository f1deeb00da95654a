"""Results of DuckDB queries, read batch by batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hornbeam.data.sources.batches import Batch, Source, batch_rows, or_empty
from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["QuerySource"]


class QuerySource(Source):
    """The result of a query, which is run again for each pass on a new cursor.

    Parameters
    ----------
    sql
        A single SELECT statement.
    connection
        DuckDB connection.
    """

    name = "the query"
    advice = (
        "add an ORDER BY to the query that leaves no ties, and nothing random, so that "
        "it gives the same rows in the same order each time"
    )
    projects = True
    owns_batches = True

    def __init__(self, sql: str, connection: Any) -> None:
        if not hasattr(connection, "cursor") or not hasattr(connection, "sql"):
            raise DataError(
                f"connection must be one of DuckDB, not {type(connection).__name__}; "
                "pass duckdb.connect(path)",
                code=ErrorCode.INVALID_QUERY,
            )
        require("pyarrow", "files", "reading a query")
        sql = sql.strip().rstrip(";")
        self._sql = sql
        self._connection = connection
        with self._failing():
            kinds = [each.type.name for each in connection.extract_statements(sql)]
            if kinds != ["SELECT"]:
                what = " and ".join(kinds) or "nothing"
                raise DataError(
                    f"the query must be one SELECT, but it is {what}: {sql!r}; run "
                    "other statements on the connection before",
                    code=ErrorCode.INVALID_QUERY,
                )
            with connection.cursor() as cursor:
                self._columns = list(cursor.sql(sql).columns)

    @property
    def column_names(self) -> list[str]:
        return self._columns

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        sql = self._sql
        rows = batch_rows(len(self._columns if columns is None else columns))
        if columns is not None:
            # Put the query on separate lines: it can end in a comment.
            sql = f"SELECT {', '.join(map(_quoted, columns))} FROM (\n{sql}\n)"
        with self._connection.cursor() as cursor:
            with self._failing():
                reader = cursor.sql(sql).to_arrow_reader(rows)
            yield from or_empty(self._fetched(reader), reader.schema.empty_table)

    def _fetched(self, reader: Any) -> Iterator[Any]:
        while True:
            with self._failing():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn an error of DuckDB into a `DataError`."""
        duckdb = require("duckdb", "files", "reading a query")
        try:
            yield
        except (duckdb.Error, OSError) as error:  # OSError: by Arrow, while fetching
            hint = ""
            if isinstance(error, duckdb.CatalogException):
                hint = (
                    " (it runs on a cursor of the connection, which does not see its "
                    "temporary tables and registered frames: make tables of them)"
                )
            raise DataError(
                f"the query failed: {_reason(error)}{hint}",
                code=ErrorCode.INVALID_QUERY,
            ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _reason(error: Exception) -> str:
    """Return DuckDB's message in one line, without the quoted query."""
    return " ".join(str(error).partition("\n\n")[0].split())
