"""What connects the kernels of a round, so that rounds follow without Python.

A round is a list of kernels: gradients, their units, their quantisation, the tree (see
`backends.round_grower`). The kernels of this module are those between them; thread 0
works in them alone. Each may set ``ended[0]``, which ends the rounds: Python then does
the round that has begun from its start, with tables of another size or wide sums.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS
from hornbeam.kernels.plan import free_slots
from hornbeam.kernels.tree_growth import enter_root
from hornbeam.kernels.tree_tables import BEYOND, COMPLETE, N_LEAVES, N_NODES, STATUS

__all__ = [
    "PACKED_RANGE",
    "KeptTrees",
    "begin_tree",
    "choose_units",
    "is_precise",
    "keep_tree",
    "unit",
]

#: The range of |g| and h in packed units.
PACKED_RANGE = 1 << COARSE_GRADIENT_BITS, 1 << COARSE_HESSIAN_BITS
#: If the mean |g| or h is below this many units of the packed scale, rounding errors
#: are no longer negligible, and histograms use wide sums. A test shows both sides of
#: the limit.
_MIN_MEAN_UNITS = 64
#: This many rows are left out of these means as if they had the largest possible value:
#: a few outliers must not hide that all other values are small.
_OUTLIERS = 16
#: The inverse of a scale has to be finite.
_MIN_EXPONENT = -900


class KeptTrees(NamedTuple):
    """The trees of several rounds, one after the other.

    Attributes
    ----------
    starts
        (trees + 1,) int64: the first node of each tree.
    count
        (1,) int64: the number of trees.
    splits, set_bytes
        (nodes,) SPLIT_DTYPE and (nodes, bytes) uint8: see `TreeTables`.
    integers, flags, floats
        (4, nodes) int32, (2, nodes) uint8 and (4, nodes) float32: see `TreeArrays`.
    """

    starts: NDArray[np.int64]
    count: NDArray[np.int64]
    splits: NDArray[np.void]
    set_bytes: NDArray[np.uint8]
    integers: NDArray[np.int32]
    flags: NDArray[np.uint8]
    floats: NDArray[np.float32]


@kernel
def unit(exponent: int, bits: int) -> float:
    """Return the power of two of which ``2**exponent`` is ``2**bits``."""
    return math.ldexp(1.0, int(max(exponent - bits, _MIN_EXPONENT)))


@kernel
def is_precise(largest: float, total: int, n_rows: int, side: int) -> bool:
    """Return whether sums of g (side 0) or h (side 1) may be packed.

    `largest` is the largest magnitude, `total` the sum of all in packed units.
    """
    least = _MIN_MEAN_UNITS * n_rows + _OUTLIERS * PACKED_RANGE[side]
    return largest == 0.0 or total >= least


@inline
def _take_largest(bits, floats, output, side):
    """Return the largest of all threads, and set it to 0; `floats` view the bits.

    The bits of non-negative floats are ordered as the floats are, NaN is the largest.
    """
    most = bits[0, output, side]
    for number in range(1, bits.shape[0]):
        most = max(most, bits[number, output, side])
        bits[number, output, side] = 0
    bits[0, output, side] = most
    largest = np.float64(floats[0, output, side])
    bits[0, output, side] = 0
    return largest


@kernel
def choose_units(
    thread_id,
    n_threads,
    sync,
    new,  # NewGradients
    output,  # whose largest gradients are set to 0 again
    bits,  # (2, 2) int64: of the largest g and h in packed units, and in wide ones
    units,  # (2, 2) float64, out: the value of one unit
    largest,  # (2,) float64, out: the largest |g| and |h|
    ended,  # (1,) int64, out
):
    """Choose the units that gradients are quantised in, of the gradients of a round."""
    if thread_id > 0:
        return
    for side in range(2):
        if new.double.largest.size == 0:
            single = new.single.largest
            most = _take_largest(single, single.view(np.float32), output, side)
        else:
            double = new.double.largest
            most = _take_largest(double, double.view(np.float64), output, side)
        if not math.isfinite(most):
            ended[0] = 1
        largest[side] = most
        exponent = math.frexp(most)[1]
        for kind in range(2):
            units[kind, side] = unit(exponent, bits[kind, side])


@kernel
def begin_tree(
    thread_id,
    n_threads,
    sync,
    magnitudes,  # (tasks, 2) int64: sums of |g| and h in packed units
    largest,  # (2,) float64: the largest |g| and |h|
    n_rows,
    nodes,  # (nodes,) NODE_DTYPE
    family,  # (4, nodes) int64
    used,  # (nodes, words) uint64
    free,  # (slots + 1,) int64: the stack of free slots
    state,  # (STATE_SIZE,) int64, of the last tree, in and out
    ended,  # (1,) int64, out
):
    """Begin a tree of all rows, unless packed sums are not precise enough for it."""
    if thread_id > 0:
        return
    for side in range(2):
        total = np.int64(0)
        for task in range(magnitudes.shape[0]):
            total += magnitudes[task, side]
        if not is_precise(largest[side], total, n_rows, side):
            ended[0] = 1
    root = nodes[0]
    root["side"] = 0
    root["begin"] = 0
    root["end"] = n_rows
    root["left"] = -1
    free_slots(free, state[N_NODES])
    enter_root(family, used, state)


@kernel
def keep_tree(
    thread_id,
    n_threads,
    sync,
    state,  # (STATE_SIZE,) int64
    splits,  # (nodes,) SPLIT_DTYPE
    set_bytes,  # (nodes, bytes) uint8
    leaves,  # (nodes,) int64: the nodes of the leaves
    integers,  # (4, nodes) int32
    flags,  # (2, nodes) uint8
    floats,  # (4, nodes) float32
    leaf_values,  # (1, leaves) float32, out: what the margins lack
    kept,  # KeptTrees, in and out
    ended,  # (1,) int64, out
):
    """Add a tree to those that are kept, unless it is not complete."""
    if thread_id > 0:
        return
    if state[STATUS] != COMPLETE or state[BEYOND] != 0:
        ended[0] = 1
        return
    number, count = kept.count[0], state[N_NODES]
    begin = kept.starts[number]
    for node in range(count):
        kept.splits[begin + node] = splits[node]
        for place in range(set_bytes.shape[1]):
            kept.set_bytes[begin + node, place] = set_bytes[node, place]
        for row in range(integers.shape[0]):
            kept.integers[row, begin + node] = integers[row, node]
            kept.floats[row, begin + node] = floats[row, node]
        for row in range(flags.shape[0]):
            kept.flags[row, begin + node] = flags[row, node]
    for leaf in range(state[N_LEAVES]):
        leaf_values[0, leaf] = floats[2, leaves[leaf]]
    kept.starts[number + 1] = begin + count
    kept.count[0] = number + 1
