"""Columns of codes, turned into rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.threads import in_threads
from hornbeam.kernels.binning import interleave

__all__ = ["turn_columns"]

_ROWS_OF_A_TASK = 1 << 16


def turn_columns(columns: npt.NDArray[Any], n_threads: int) -> npt.NDArray[Any]:
    """Return the codes (columns, rows) row after row, as (rows * columns,)."""
    n_rows = columns.shape[1]
    by_row = np.empty(columns.size, columns.dtype)
    in_threads(
        lambda begin: interleave(
            columns, begin, min(begin + _ROWS_OF_A_TASK, n_rows), by_row
        ),
        range(0, n_rows, _ROWS_OF_A_TASK),
        n_threads,
    )
    return by_row
