"""The cells of a table that are filled: how many, and which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from hornbeam.errors import require

__all__ = ["as_csr", "count_filled", "row_blocks"]

# Cells read in one step where a whole table is walked through.
CELLS = 1 << 20


class Rows(Protocol):
    """What is read by rows: a table, or a matrix."""

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]

    def rows(self, start: int, stop: int) -> np.ndarray: ...


def row_blocks(table: Rows) -> Iterator[np.ndarray]:
    """Yield the rows in blocks, in C order, missing as NaN."""
    step = max(1, CELLS // table.n_features)
    for start in range(0, table.n_rows, step):
        yield table.rows(start, min(start + step, table.n_rows))


def count_filled(table: Rows) -> int:
    """Return the number of cells that are not missing."""
    return sum(int(np.count_nonzero(block == block)) for block in row_blocks(table))


def as_csr(table: Rows) -> Any:
    """Return the table as a SciPy CSR matrix without the missing cells."""
    sparse = require("scipy.sparse", "frames", "DMatrix.get_data")
    values, columns = [np.empty(0, table.dtype)], [np.empty(0, np.int32)]
    counts = [np.zeros(1, np.int64)]
    for block in row_blocks(table):
        here = block == block
        values.append(block[here])
        columns.append(here.nonzero()[1].astype(np.int32))
        counts.append(here.sum(axis=1))
    return sparse.csr_matrix(
        (
            np.concatenate(values),
            np.concatenate(columns),
            np.concatenate(counts).cumsum(),
        ),
        shape=(table.n_rows, table.n_features),
    )
