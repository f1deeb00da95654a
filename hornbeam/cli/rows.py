"""Sources of rows that a command names, and the columns that are not features."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import hornbeam
from hornbeam.errors import DataError, ErrorCode, ParameterError, require

if TYPE_CHECKING:
    from hornbeam.data.dmatrix import DMatrix
    from hornbeam.data.sources.batches import Source

__all__ = [
    "MetaColumns",
    "Quality",
    "Task",
    "check_columns",
    "check_labels",
    "matrix_of",
    "meta_columns",
    "open_source",
    "select",
    "without",
]

#: Names of columns, or values, by argument of a matrix, such as {"label": "price"}.
MetaColumns: TypeAlias = dict[str, Any]


class Task(StrEnum):
    """A kind of prediction."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Quality(StrEnum):
    """How much time to spend on finding parameters and rounds (`hornbeam.quality`)."""

    FAST = "fast"
    AUTO = "auto"
    BEST = "best"
    NONE = "none"


def open_source(data: str, database: Path | None) -> Source:
    """Return the source of a file, or of a query of the database."""
    if database is None:
        return hornbeam.read(data)
    duckdb = require("duckdb", "files", "--database")
    if not database.is_file():
        raise DataError(
            f"the database {database} does not exist",
            code=ErrorCode.FILE_NOT_FOUND,
            path=database,
        )
    try:
        connection = duckdb.connect(database, read_only=True)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"cannot open the database {database}: {reason}",
            code=ErrorCode.FILE_NOT_READABLE,
        ) from error
    return hornbeam.read(data, connection=connection)


def meta_columns(**options: str | None) -> MetaColumns:
    """Return the columns of labels, weights and so on, without those that are None."""
    columns = {field: name for field, name in options.items() if name is not None}
    fields: dict[str, str] = {}
    for field, name in columns.items():
        if fields.setdefault(name, field) != field:
            raise ParameterError(
                f"the column {name!r} cannot be both {fields[name]} and {field}; name "
                "another column for one of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    return columns


def without(source: Source, columns: MetaColumns, drop: Sequence[str]) -> Source:
    """Return the source without the columns to drop."""
    names = source.column_names
    if names is None:
        return select(source, drop or None, columns)
    check_columns(source, _names(columns), drop)
    return select(source, [name for name in names if name not in drop], columns)


def select(
    source: Source, features: Sequence[str] | None, columns: MetaColumns
) -> Source:
    """Return the source with these features and columns; with all if None."""
    added = _names(columns)
    check_columns(source, added, features or ())
    if features is None or not source.named:
        return source
    return hornbeam.read(
        source, columns=[*features, *(n for n in added if n not in features)]
    )


def _names(columns: Mapping[str, Any]) -> list[str]:
    return [name for name in columns.values() if isinstance(name, str)]


def check_columns(source: Source, *groups: Sequence[str]) -> None:
    """Raise an error if the source has no such columns."""
    names = source.column_names
    for name in (name for group in groups for name in group):
        if names is not None and name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DataError(
                f"{source.name} has no column {name!r}; it has {', '.join(names)}"
                f"{hint}",
                code=ErrorCode.COLUMN_NOT_FOUND,
            )


def matrix_of(source: Source, columns: MetaColumns) -> DMatrix:
    """Return the rows as a matrix in memory, or read in passes if they are many."""
    matrix = hornbeam.DMatrix(source, dates="expand", **columns)
    return check_labels(matrix, source)


def check_labels(matrix: DMatrix, source: Source) -> DMatrix:
    """Return the matrix, or raise an error if it has no labels."""
    bounds = matrix.get_float_info("label_lower_bound")
    if len(matrix.get_label()) == len(bounds) == 0:
        raise ParameterError(
            f"{source.name} has no labels; name their column with --target, or for "
            "survival:aft with --label-lower-bound",
            code=ErrorCode.MISSING_PARAMETER,
        )
    return matrix
