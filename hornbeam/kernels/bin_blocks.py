"""Blocks of bins: those of a few rows, turned from rows into columns.

In a table by row the bins of a row are next to each other. Interleaving the bytes of
32 rows by vector instructions turns 16 of their columns at a cost of a few cycles a
row. LLVM does not find these instructions in loops: in compiled kernels `turn_bins` is
an intrinsic, see `intrinsics`.
"""

from __future__ import annotations

import numpy as np

__all__ = ["TURNED_COLUMNS", "TURNED_ROWS", "turn_bins"]

#: Rows and columns that are turned together.
TURNED_ROWS, TURNED_COLUMNS = 32, 16


def turn_bins(
    bins: np.ndarray,
    rows: np.ndarray,
    begin: int,
    width: int,
    column: int,
    by_column: np.ndarray,
    first: int,
) -> None:
    """Write the bins of TURNED_ROWS rows in TURNED_COLUMNS columns, column by column.

    Parameters
    ----------
    bins
        (rows * width,) uint8, by row.
    rows
        (some,) uint32; those from number `begin` on are turned.
    column
        The first column.
    by_column
        (columns, rows) uint8, out: column `first` and those after it are written, from
        row `begin` on.
    """
    begin, first = int(begin), int(first)
    own = rows[begin : begin + TURNED_ROWS].astype(np.int64) * int(width) + int(column)
    block = bins[own[:, None] + np.arange(TURNED_COLUMNS)]
    columns = slice(first, first + TURNED_COLUMNS)
    by_column[columns, begin : begin + TURNED_ROWS] = block.T
