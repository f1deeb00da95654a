"""Grows the trees of several rounds in one job, without Python between the kernels.

A round of little data takes as long in Python as in kernels, and on much data Python
runs between kernels that have replaced its code in the caches, while all threads but
one wait. Rounds that nobody looks at between them need none of that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GrownRounds, GrownTree
from hornbeam.backends.quantisation import bits_of
from hornbeam.kernels.gradients import NewGradients
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.leaves import NodeColumns
from hornbeam.kernels.rounds import KeptTrees, begin_tree, choose_units, keep_tree
from hornbeam.kernels.team import Call, Team
from hornbeam.kernels.tree import grow_tree
from hornbeam.kernels.tree_tables import LeafGradients

__all__ = [
    "OutputOfRound",
    "RoundBuffers",
    "RoundCalls",
    "grow_rounds",
    "most_rounds",
]

#: The most histogram updates of a level of all rounds of a job, about half a second: an
#: interrupt waits for the end of a job.
_MOST_CELLS = 1 << 28
#: The most rounds, and the most nodes that their trees may have.
_MOST_ROUNDS, _MOST_NODES = 256, 1 << 17


class OutputOfRound(NamedTuple):
    """What the tree of an output is grown from.

    Attributes
    ----------
    quantise
        The call that quantises its gradients.
    magnitudes
        (tasks, 2) int64: sums of |g| and h in packed units.
    quantised
        The gradients in packed units.
    leaf_gradients
        Those that leaves are summed of.
    leaf_of
        (rows,) uint32, out: the leaf of each row.
    """

    quantise: Call
    magnitudes: NDArray[np.int64]
    quantised: QuantisedGradients
    leaf_gradients: LeafGradients
    leaf_of: NDArray[np.uint32]


class RoundCalls(NamedTuple):
    """What a round consists of besides its trees.

    Attributes
    ----------
    gradients
        The calls that add leaf values to the margins, and compute gradients.
    new
        The gradients.
    outputs
        Of the trees.
    """

    gradients: list[Call]
    new: NewGradients
    outputs: list[OutputOfRound]


class RoundBuffers:
    """What the calls of a round write for those after them.

    Parameters
    ----------
    outputs
        The number of trees of a round.
    nodes
        The most nodes of a tree.

    Attributes
    ----------
    units
        (2, 2) float64: the units of packed and of wide gradients.
    largest
        (2,) float64: the largest |g| and |h|.
    leaf_values
        (outputs, nodes) float32: those that the margins lack.
    ended
        (1,) int64: whether a call has ended the rounds.
    """

    def __init__(self, outputs: int, nodes: int) -> None:
        self.units, self.largest = np.ones((2, 2)), np.zeros(2)
        self.leaf_values = np.zeros((outputs, nodes), np.float32)
        self.ended = np.zeros(1, np.int64)


def most_rounds(cells: int, nodes: int, wanted: int) -> int:
    """Return how many rounds a job may have.

    `cells` is the number of histogram updates of a level, `nodes` that of the nodes, of
    the trees of a round.
    """
    return min(wanted, _MOST_CELLS // max(cells, 1), _MOST_ROUNDS, _MOST_NODES // nodes)


def grow_rounds(
    team: Team,
    calls: RoundCalls,
    tree: Call,
    buffers: RoundBuffers,
    columns: list[NDArray[Any]],
    n_rows: int,
    n_rounds: int,
) -> GrownRounds:
    """Grow the trees of up to `n_rounds` rounds, each of all rows.

    Parameters
    ----------
    team
        The threads.
    calls
        Those before the tree.
    tree
        The call that has grown the last tree, without limits, whose nodes it has
        weighed.
    buffers
        Those that `calls` were made with.
    columns
        (columns, nodes) of each type: the columns of the tree; see `TreeArrays`.
    """
    _, threads, rows, _, _, pool, features, rules, _, tables, memory, leaves = tree
    units, ended, n_outputs = buffers.units, buffers.ended, len(calls.outputs)
    n_trees = n_rounds * n_outputs
    size = n_trees * tables.nodes.size
    sets = tables.sets.view(np.uint8)
    kept = KeptTrees(
        np.zeros(n_trees + 1, np.int64),
        np.zeros(1, np.int64),
        np.empty(size, SPLIT_DTYPE),
        np.empty((size, sets.shape[1]), np.uint8),
        *(np.empty((len(own), size), own.dtype) for own in columns),
    )
    bits = np.array(bits_of(n_rows))
    found = units, buffers.largest, ended
    state = tables.state
    root = n_rows, tables.nodes, tables.family, tables.used, pool.free, state, ended
    own_rules = rules._replace(scales=units[0])
    of_tree = None, pool, features, own_rules, None, tables, memory
    grown = state, tables.splits, sets, leaves.nodes, *columns
    round_ = [*calls.gradients]
    for number, output in enumerate(calls.outputs):
        own_leaves = leaves._replace(
            gradients=output.leaf_gradients, leaf_of=output.leaf_of, scales=units[1:]
        )
        values = buffers.leaf_values[number : number + 1]
        round_ += [
            (choose_units, 1, calls.new, number, bits, *found),
            output.quantise,
            (begin_tree, 1, output.magnitudes, buffers.largest, *root),
            (grow_tree, threads, rows, output.quantised, *of_tree, own_leaves),
            (keep_tree, 1, *grown, values, kept, ended),
        ]
    done = team.repeat(round_, n_rounds, ended)
    starts = kept.starts[: done * n_outputs + 1]
    total = int(starts[-1])
    left, parent, right, feature = kept.integers[:, :total].copy()
    default_left, split_type = kept.flags[:, :total].copy()
    gain, cover, value, weight = kept.floats[:, :total].copy()
    of_nodes = NodeColumns(
        right, feature, default_left, split_type, value, gain, cover, weight
    )
    own_sets = kept.set_bytes[:total].view(np.uint64)
    nodes = GrownTree(left, parent, kept.splits[:total], own_sets, of_nodes)
    return GrownRounds(nodes, starts)
