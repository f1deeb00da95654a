"""Builds one CART tree: stopping rules, working memory, and the tree as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.kernels.cart import CartNodes, CartScratch, grow_tree, reach
from hornbeam.kernels.cart_cut_search import CartRules, CutScratch, NodeTargets
from hornbeam.kernels.cart_split import NodeScratch, TreeDraws
from hornbeam.kernels.layout import BEST_DTYPE, CART_DTYPE

__all__ = ["CartTree", "GrowthParams", "Workspace", "build_tree"]

Int32s = NDArray[np.int32]

#: A depth that no tree reaches.
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class GrowthParams:
    """Stopping rules and random choices of a tree, under scikit-learn's names.

    Attributes
    ----------
    max_features
        Number of features drawn at random as candidates of each split.
    random_cuts
        Whether the threshold of each candidate is drawn at random (extra-trees,
        Geurts et al. 2006) instead of searched.
    max_depth
        Maximum depth; None: no limit.
    max_leaf_nodes
        Maximum number of leaves; the tree then grows best-first. None: no limit.
    min_samples_split
        Minimum number of rows of a node that is split.
    min_samples_leaf
        Minimum number of rows of a leaf.
    min_weight_leaf
        Minimum sum of weights of a leaf.
    min_gain
        Minimum decrease of impurity by a split, times the weight of the node.
    seed
        Seed of all random draws.
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
    """The arrays that the kernel works in, reused from one tree to the next.

    They have the size of the largest possible tree. The operating system allocates
    memory only for the pages that a tree writes to.

    Parameters
    ----------
    features, targets
        The training data.
    params
        The stopping rules.
    n_rows
        The maximum number of distinct rows of a sample.
    """

    def __init__(
        self,
        features: BinnedFeatures,
        targets: Targets,
        params: GrowthParams,
        n_rows: int,
    ) -> None:
        n_features, bins = features.n_features, features.max_bins
        sums = targets.n_sums
        leaves = min(n_rows, params.max_leaf_nodes or n_rows)
        nodes = 2 * leaves - 1
        self.rows = np.empty(n_rows, np.int32)
        cut = CutScratch(
            order=np.empty(n_rows, np.int32),
            spare=np.empty(n_rows, np.int32),
            counts=np.empty(max(256, 2 * n_rows), np.int32),
            left=np.empty(sums),
            right=np.empty(sums),
            key_sums=np.empty(n_rows * (sums + 1)),
        )
        node = NodeScratch(
            keys=np.empty(n_rows, np.int32),
            bins=np.empty(n_rows, np.int32),
            places=np.empty(n_rows, np.int32),
            seen=NodeTargets(
                np.empty(n_rows), np.empty(n_rows), np.empty(n_rows, np.int32)
            ),
            present=np.empty(bins, np.int32),
            ranks=np.empty(bins, np.int32),
            means=np.empty((2, bins)),
            missing=np.empty(sums + 1),
            features=np.arange(n_features, dtype=np.int32),
            swaps=np.empty(n_features, np.int32),
            cut=cut,
        )
        self.scratch = CartScratch(
            node,
            # One entry for each open node: two per split, or one per level.
            constants=np.empty((leaves + 2, (n_features + 63) // 64), np.uint64),
            open_nodes=np.empty(leaves + 1, np.int64),
            best=np.empty(1, BEST_DTYPE),
            goes_right=np.zeros(bins, np.uint8),
        )
        self.sums = np.empty((nodes, sums))
        # Usually large enough; `build_tree` doubles it where it is not.
        self.categories = np.empty(max(bins, n_rows), np.int32)
        self.nodes = np.empty(nodes, CART_DTYPE)


@dataclass(frozen=True, slots=True)
class CartTree:
    """A grown tree, before it becomes a `Tree` of a model.

    Attributes
    ----------
    nodes
        (nodes,) `CART_DTYPE`.
    categories
        (categories,) int32: those that go right, node after node.
    thresholds
        (nodes,) float64: rows with smaller values go left; NaN at leaves and at
        categorical splits.
    sums
        (nodes, sums) float64; see `Targets`.
    """

    nodes: NDArray[Any]
    categories: Int32s
    thresholds: NDArray[np.float64]
    sums: NDArray[np.float64]

    def apply(
        self,
        features: BinnedFeatures,
        rows: Int32s,
        permuted: int = -1,
        permuted_rows: Int32s | None = None,
    ) -> Int32s:
        """Return the leaf of each row, (rows,) int32.

        Parameters
        ----------
        features
            The binned features.
        rows
            Row numbers, int32.
        permuted
            A feature whose values are read from `permuted_rows` instead; -1: none.
        permuted_rows
            (rows,) int32.
        """
        leaves = np.empty(rows.size, np.int32)
        reach(
            features.as_table(),
            rows,
            self.nodes,
            self.categories,
            permuted,
            rows if permuted_rows is None else permuted_rows,
            leaves,
        )
        return leaves


def build_tree(
    number: int,
    features: BinnedFeatures,
    targets: Targets,
    params: GrowthParams,
    rows: Int32s,
    counts: Int32s | None,
    workspace: Workspace,
) -> CartTree:
    """Return the tree of one sample of rows.

    Parameters
    ----------
    number
        The number of the tree, which selects its random numbers.
    features, targets, params
        The training data and the stopping rules.
    rows
        (sampled rows,) int32, ascending.
    counts
        (rows of the table,) int32: how often the sample contains each row; None: once.
    workspace
        Working memory for as many rows, which no other thread uses.
    """
    w = workspace
    while (n_nodes := _grow(number, features, targets, params, rows, counts, w)) < 0:
        w.categories = np.empty(2 * w.categories.size, np.int32)
    nodes = w.nodes[:n_nodes].copy()
    ends = nodes["first_category"] + nodes["n_categories"]
    n_categories = int(ends[nodes["n_categories"] > 0].max(initial=0))
    return CartTree(
        nodes,
        w.categories[:n_categories].copy(),
        features.assign_thresholds(nodes),
        w.sums[:n_nodes].copy(),
    )


def _grow(
    number: int,
    features: BinnedFeatures,
    targets: Targets,
    params: GrowthParams,
    rows: Int32s,
    counts: Int32s | None,
    w: Workspace,
) -> int:
    """Grow a tree in the workspace; return its number of nodes.

    Returns -1 if the categories of its splits do not fit into the workspace.
    """
    sampled_rows = w.rows[: rows.size]
    sampled_rows[:] = rows
    return grow_tree(
        TreeDraws(np.uint64(number), np.uint64(params.seed)),
        sampled_rows,
        features.as_table(),
        CartRules(
            targets.criterion,
            targets.n_classes,
            params.max_features,
            params.random_cuts,
            float(params.min_samples_leaf),
            float(params.min_weight_leaf),
            float(params.min_samples_split),
            float(params.min_gain),
            _NO_LIMIT if params.max_depth is None else params.max_depth,
            params.max_leaf_nodes or 0,
        ),
        targets.of_sample(rows, counts),
        w.scratch,
        CartNodes(w.nodes, w.categories, w.sums),
    )
