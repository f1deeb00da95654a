"""Functions of a lane of values, in several loops.

The steps of an exponential are one chain of forty products and sums, each of which
waits for the one before. In one loop the processor does not look far enough ahead to
work on many values at once; in three short loops it does. With logistic loss a row
takes 1.4 ns instead of 1.8.
"""

from __future__ import annotations

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline

__all__ = ["LANE_ROWS", "exp_lane", "sigmoid_lane"]

#: Rows of a lane: their arrays fit in the first caches.
LANE_ROWS = 1024


@inline
def exp_lane(values, whole, rest):
    """Replace values by their exponentials; `whole` and `rest` are scratch memory."""
    for i in range(values.size):
        whole[i], rest[i] = maths.exp_parts(values[i])
    for i in range(values.size):
        values[i] = maths.exp_series(rest[i])
    for i in range(values.size):
        values[i] = maths.exp_from_series(whole[i], rest[i], values[i])


@inline
def sigmoid_lane(margins, shares, whole, rest):
    """Write the sigmoid of margins to `shares`, of the same size."""
    for i in range(margins.size):
        shares[i] = -margins[i]
    exp_lane(shares, whole, rest)
    for i in range(margins.size):
        shares[i] = 1.0 / (1.0 + shares[i])
