"""Going through columns in order: sums of weights up to each value, and codes."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import kernel

__all__ = ["code_cells", "sum_weights"]

_ROW = np.uint64(0xFFFFFFFF)
_RANK_SHIFT = np.uint64(32)


@kernel
def sum_weights(
    cells,  # (cells,) uint64: number of the value << 32 | row, ascending
    weights,  # (rows,) int64
    sums,  # (values,) int64, out
):
    """Write the sum of the weights of all cells up to each value, itself included."""
    total = np.int64(0)
    for i in range(cells.size):
        cell = cells[i]
        total += weights[cell & _ROW]
        sums[cell >> _RANK_SHIFT] = total


@kernel
def code_cells(
    cells,  # (cells,) uint64: number of the value << 32 | row, ascending
    ends,  # (bins,) int64: the number of the first value after each bin
    codes,  # (rows,) uint8 or uint16, out: only where there is a cell
):
    """Write the bin of each cell."""
    code = 0
    for i in range(cells.size):
        cell = cells[i]
        while np.int64(cell >> _RANK_SHIFT) >= ends[code]:
            code += 1
        codes[cell & _ROW] = code
