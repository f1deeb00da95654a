"""Minimal cost-complexity pruning, by repeated removal of the weakest link.

The cost of a tree is the impurity of its leaves plus alpha times their number. As alpha
grows, the subtree of minimal cost loses one branch after the other (Breiman et al.
1984, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.cart.tree_builder import CartTree
from hornbeam.kernels.cost_complexity import link_strengths

__all__ = ["PruningPath", "losses_by_alpha", "prune", "pruning_path"]

Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PruningPath:
    """The subtrees of minimal cost for some alpha, from the whole tree to its root.

    Attributes
    ----------
    alphas
        (subtrees,), ascending: the smallest alpha for which each subtree has minimal
        cost. The first is 0.
    impurities
        (subtrees,): the mean impurity of the leaves, by weight.
    n_leaves
        (subtrees,) int64: the number of leaves.
    pruned_at
        (nodes,): the alpha at which each node becomes a leaf or is removed; 0 at the
        leaves of the whole tree.
    """

    alphas: Float64s
    impurities: Float64s
    n_leaves: NDArray[np.int64]
    pruned_at: Float64s


def pruning_path(tree: CartTree, weight: float, impurity: float) -> PruningPath:
    """Return the cost-complexity pruning path of a tree.

    Parameters
    ----------
    tree
        The whole tree.
    weight
        The sum of weights of its sample.
    impurity
        The impurity of its sample as one leaf.
    """
    nodes, n = tree.nodes, tree.nodes.size
    pruned_at, lost_gains = np.empty(n), np.empty(n)
    lost_splits, cut = np.empty(n, np.int64), np.empty(n, np.int32)
    n_cuts = link_strengths(
        np.ascontiguousarray(nodes["left"]),
        np.ascontiguousarray(nodes["parent"]),
        np.ascontiguousarray(nodes["gain"]),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        pruned_at,
        cut,
        lost_gains,
        lost_splits,
    )
    pruned_at /= weight
    gained = np.cumsum(np.append(0.0, lost_gains[:n_cuts][::-1]))[::-1]
    lost = np.append(0, np.cumsum(lost_splits[:n_cuts]))
    return PruningPath(
        alphas=np.append(0.0, pruned_at[cut[:n_cuts]]),
        impurities=impurity - gained / weight,
        n_leaves=np.count_nonzero(nodes["left"] < 0) - lost,
        pruned_at=pruned_at,
    )


def prune(tree: CartTree, path: PruningPath, alpha: float) -> CartTree:
    """Return the subtree of minimal cost for `alpha`; of equal ones the smallest.

    For 0 that is the whole tree, including splits without a gain.
    """
    nodes = tree.nodes
    is_split = (nodes["left"] >= 0) & (path.pruned_at > alpha)
    if alpha == 0 or np.array_equal(is_split, nodes["left"] >= 0):
        return tree
    kept = np.zeros(nodes.size, bool)
    kept[0] = True
    for depth in range(1, nodes["depth"].max() + 1):
        here = np.flatnonzero(nodes["depth"] == depth)
        above = nodes["parent"][here]
        kept[here] = kept[above] & is_split[above]
    is_split &= kept
    numbers = np.cumsum(kept) - 1  # siblings stay adjacent
    nodes = nodes.copy()
    nodes["left"] = np.where(is_split, numbers[nodes["left"]], -1)
    nodes["parent"][1:] = numbers[nodes["parent"][1:]]
    for name, of_leaf in (("feature", -1), ("gain", 0.0), ("n_categories", 0)):
        nodes[name][~is_split] = of_leaf
    thresholds = np.where(is_split, tree.thresholds, np.nan)
    return CartTree(nodes[kept], tree.categories, thresholds[kept], tree.sums[kept])


def losses_by_alpha(
    tree: CartTree,
    path: PruningPath,
    alphas: Float64s,
    leaves: NDArray[np.int32],
    loss_at: Callable[[NDArray[np.int32], NDArray[np.intp]], Float64s],
) -> Float64s:
    """Return the sum of the losses of all rows in each alpha's subtree, (alphas,).

    Parameters
    ----------
    tree, path
        The whole tree and its pruning path.
    alphas
        (alphas,), ascending.
    leaves
        (rows,): the leaf of the whole tree that each row reaches.
    loss_at
        ``loss_at(nodes, rows)`` returns the loss of each row if it ends at that node.
    """
    sums = np.zeros(alphas.size + 1)
    rows = np.arange(leaves.size)
    here = leaves
    first = np.searchsorted(alphas, path.pruned_at[here])
    while rows.size:
        # A row ends at this node until the parent becomes a leaf.
        above = tree.nodes["parent"][here]
        last = np.searchsorted(alphas, path.pruned_at[above])
        last[above < 0] = alphas.size  # the root has no parent, even for alpha = inf
        loss = loss_at(here, rows)
        sums += np.bincount(first, loss, sums.size)
        sums -= np.bincount(last, loss, sums.size)
        goes_on = above >= 0
        rows, here, first = rows[goes_on], above[goes_on], last[goes_on]
    return np.cumsum(sums)[:-1]
