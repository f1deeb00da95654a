"""Counter-based draws: each depends on its own number, not on who draws it when."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.sync import next_task

__all__ = ["draw_bits", "draw_exponentials", "draw_rows"]


@kernel
def draw_rows(
    member,
    members,
    sync,
    number,  # of the first row among all rows
    threshold,  # a row is taken if its 32 bits are below this
    stream,  # uint64: the tree
    purpose,  # uint64
    key,  # uint64: the seed
    taken,  # (rows,) uint8, out
):
    """Write for each row whether it is in the sample."""
    rows = taken.size
    each = TASK_ROWS // 4
    begin, end = number // 4, (number + rows + 3) // 4
    task = next_task(sync, 0)
    while begin + task * each < end:
        first = begin + task * each
        for quarter in range(first, min(first + each, end)):
            draw = maths.philox(np.uint64(quarter), stream, purpose, key)
            for lane in range(4):
                row = 4 * quarter + lane - number
                if 0 <= row < rows:
                    taken[row] = draw[lane] < threshold
        task = next_task(sync, 0)


@kernel
def draw_bits(
    stream,  # uint64: the tree
    purpose,  # uint64
    key,  # uint64: the seed
    bits,  # (items,) uint32, out
):
    """Write 32 random bits for each item."""
    for i in range(bits.size):
        draw = maths.philox(np.uint64(i // 4), stream, purpose, key)
        bits[i] = draw[i % 4]


@kernel
def draw_exponentials(
    stream,  # uint64: the tree
    purpose,  # uint64
    key,  # uint64: the seed
    waits,  # (items,) float64, out
):
    """Write an exponential draw of mean 1 for each item: the least wait comes first.

    It is -ln(u) for a u in (0, 1) made of the bits of `draw_bits`, and the lower the
    bits, the shorter the wait.
    """
    for i in range(waits.size):
        draw = maths.philox(np.uint64(i // 4), stream, purpose, key)
        bits = np.float64(np.uint32(draw[i % 4]))
        waits[i] = -maths.log((4294967295.5 - bits) / 4294967296.0)
