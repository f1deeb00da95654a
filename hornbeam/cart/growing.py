"""How whole trees are grown: the rules, the room, and one tree after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.cart.codes import Codes
from hornbeam.cart.targets import Targets
from hornbeam.kernels.cart import grow_tree, reach
from hornbeam.kernels.layout import BEST_DTYPE, CART_DTYPE

__all__ = ["Grown", "Rules", "Workspace", "grow"]

Int32s = NDArray[np.int32]

#: Deeper than any tree.
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Rules:
    """What a tree is held to.

    Attributes
    ----------
    max_features
        Features to choose from at a split, drawn anew for each.
    random_cuts
        Whether each of them is cut at a random place (Geurts et al. 2006).
    max_depth
        The most splits on a way; None: any number.
    max_leaf_nodes
        The most leaves, the best splits first; None: any number.
    min_samples_split
        Rows of a node that is split.
    min_samples_leaf
        Rows of a leaf.
    min_weight_leaf
        Weight of a leaf.
    min_gain
        How much a split makes the tree better, times the weight.
    seed
        Of all draws.
    """

    max_features: int
    random_cuts: bool = False
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_weight_leaf: float = 0.0
    min_gain: float = 0.0
    seed: int = 0


class Workspace:
    """The arrays that a tree is grown in, one tree after the other.

    They are as large as a tree may become. What of them no tree comes to takes no
    memory: the system gives it out page by page.

    Parameters
    ----------
    codes, targets
        What trees are grown on.
    rules
        What they are held to.
    n_rows
        The most rows of a bag.
    """

    def __init__(
        self, codes: Codes, targets: Targets, rules: Rules, n_rows: int
    ) -> None:
        features, levels = codes.n_features, codes.most_bins
        sums = targets.n_sums
        leaves = min(n_rows, rules.max_leaf_nodes or n_rows)
        nodes = 2 * leaves - 1
        self.rows = np.empty(n_rows, np.int32)
        self.keys = tuple(np.empty(n_rows, np.int32) for _ in range(3))
        self.seen = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows, np.int32)
        self.lists = (
            np.empty(levels, np.int32),
            np.empty(levels, np.int32),
            np.empty((2, levels)),
        )
        self.work = (
            np.empty(n_rows, np.int32),
            np.empty(n_rows, np.int32),
            np.empty(max(256, 2 * n_rows), np.int32),
            np.empty(sums),
            np.empty(sums),
            np.empty(n_rows * (sums + 1)),
        )
        self.tails = (
            np.empty(sums + 1),
            np.arange(features, dtype=np.int32),
            np.empty(features, np.int32),
        )
        # Of the nodes that are open: two for each split, or one for each level.
        self.constants = np.empty((leaves + 2, (features + 63) // 64), np.uint64)
        self.open_nodes = np.empty(leaves + 1, np.int64)
        self.best = np.empty(1, BEST_DTYPE)
        self.goes_right = np.zeros(levels, np.uint8)
        self.sums = np.empty((nodes, sums))
        # Mostly enough, and there is more where it is not.
        self.categories = np.empty(max(levels, n_rows), np.int32)
        self.nodes = np.empty(nodes, CART_DTYPE)


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree as it was grown.

    Attributes
    ----------
    nodes
        (nodes,) `CART_DTYPE`.
    categories
        Those that go right, node after node.
    thresholds
        (nodes,) float64: what goes left is below; else NaN.
    sums
        (nodes, sums) float64; see `Targets`.
    """

    nodes: NDArray[Any]
    categories: Int32s
    thresholds: NDArray[np.float64]
    sums: NDArray[np.float64]

    def leaves_of(
        self,
        codes: Codes,
        rows: Int32s,
        swapped: int = -1,
        others: Int32s | None = None,
    ) -> Int32s:
        """Return the leaf of each of these rows.

        Of the feature `swapped`, where there is one, they have the values of `others`.
        """
        leaves = np.empty(rows.size, np.int32)
        reach(
            codes.arguments(),
            rows,
            self.nodes,
            self.categories,
            swapped,
            rows if others is None else others,
            leaves,
        )
        return leaves


def grow(
    number: int,
    codes: Codes,
    targets: Targets,
    rules: Rules,
    rows: Int32s,
    times: Int32s | None,
    workspace: Workspace,
) -> Grown:
    """Return the tree of a bag.

    Parameters
    ----------
    number
        The tree's, by which it draws.
    codes, targets, rules
        What it is grown on, and held to.
    rows
        (own rows,): those of the bag, ascending.
    times
        (rows,): how often each row of the table is in the bag; None: once.
    workspace
        Room for as many rows, which nobody else uses.
    """
    w = workspace
    while (n_nodes := _grow(number, codes, targets, rules, rows, times, w)) < 0:
        w.categories = np.empty(2 * w.categories.size, np.int32)
    nodes = w.nodes[:n_nodes].copy()
    ends = nodes["first_category"] + nodes["n_categories"]
    n_categories = int(ends[nodes["n_categories"] > 0].max(initial=0))
    return Grown(
        nodes,
        w.categories[:n_categories].copy(),
        codes.settle(nodes),
        w.sums[:n_nodes].copy(),
    )


def _grow(
    number: int,
    codes: Codes,
    targets: Targets,
    rules: Rules,
    rows: Int32s,
    times: Int32s | None,
    w: Workspace,
) -> int:
    """Grow a tree in the workspace; return how many nodes it has, or -1: no room."""
    own_rows = w.rows[: rows.size]
    own_rows[:] = rows
    limits = [rules.min_samples_leaf, rules.min_weight_leaf]
    limits += [rules.min_samples_split, rules.min_gain]
    return grow_tree(
        np.uint64(number),
        np.uint64(rules.seed),
        own_rows,
        codes.arguments(),
        (
            targets.criterion,
            targets.n_classes,
            rules.max_features,
            rules.random_cuts,
        ),
        targets.of_bag(rows, times),
        np.array(limits, np.float64),
        _NO_LIMIT if rules.max_depth is None else rules.max_depth,
        rules.max_leaf_nodes or 0,
        w.keys,
        w.seen,
        w.lists,
        w.work,
        w.tails,
        w.constants,
        w.open_nodes,
        w.best,
        w.goes_right,
        w.sums,
        w.categories,
        w.nodes,
    )
