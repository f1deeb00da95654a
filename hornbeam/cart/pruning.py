"""Cost-complexity pruning: the weakest link is cut off, again and again.

A tree of so many leaves costs its impurity and alpha for each leaf. As alpha grows, the
best subtree loses one branch after the other (Breiman et al. 1984, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.cart.growing import Grown
from hornbeam.kernels.cost_complexity import link_strengths

__all__ = ["PruningPath", "cut_back", "losses_of_alphas", "pruning_path"]

Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PruningPath:
    """The subtrees of a tree that are best for some alpha, from all of it to its root.

    Attributes
    ----------
    alphas
        (subtrees,), ascending: from which alpha on each is the best. The first is 0.
    impurities
        (subtrees,): the impurity of its leaves, by their share of the weight.
    n_leaves
        (subtrees,) int64.
    until
        (nodes,): from which alpha on each node is a leaf, or gone; 0 of the leaves of
        the tree.
    """

    alphas: Float64s
    impurities: Float64s
    n_leaves: NDArray[np.int64]
    until: Float64s


def pruning_path(grown: Grown, weight: float, impurity: float) -> PruningPath:
    """Return how a tree shrinks.

    Parameters
    ----------
    grown
        The tree.
    weight
        Of its bag.
    impurity
        Of its bag as one leaf.
    """
    nodes, n = grown.nodes, grown.nodes.size
    until, lost_gains = np.empty(n), np.empty(n)
    lost_splits, cut = np.empty(n, np.int64), np.empty(n, np.int32)
    n_cuts = link_strengths(
        np.ascontiguousarray(nodes["left"]),
        np.ascontiguousarray(nodes["parent"]),
        np.ascontiguousarray(nodes["gain"]),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        until,
        cut,
        lost_gains,
        lost_splits,
    )
    until /= weight
    gained = np.cumsum(np.append(0.0, lost_gains[:n_cuts][::-1]))[::-1]
    lost = np.append(0, np.cumsum(lost_splits[:n_cuts]))
    return PruningPath(
        alphas=np.append(0.0, until[cut[:n_cuts]]),
        impurities=impurity - gained / weight,
        n_leaves=np.count_nonzero(nodes["left"] < 0) - lost,
        until=until,
    )


def cut_back(grown: Grown, path: PruningPath, alpha: float) -> Grown:
    """Return the subtree that is best for `alpha`: of equal ones the smallest.

    At 0 that is all of the tree, also where splits gain nothing.
    """
    nodes = grown.nodes
    is_split = (nodes["left"] >= 0) & (path.until > alpha)
    if alpha == 0 or np.array_equal(is_split, nodes["left"] >= 0):
        return grown
    kept = np.zeros(nodes.size, bool)
    kept[0] = True
    for depth in range(1, nodes["depth"].max() + 1):
        here = np.flatnonzero(nodes["depth"] == depth)
        above = nodes["parent"][here]
        kept[here] = kept[above] & is_split[above]
    is_split &= kept
    numbers = np.cumsum(kept) - 1  # children stay next to each other
    nodes = nodes.copy()
    nodes["left"] = np.where(is_split, numbers[nodes["left"]], -1)
    nodes["parent"][1:] = numbers[nodes["parent"][1:]]
    for name, of_leaf in (("feature", -1), ("gain", 0.0), ("n_categories", 0)):
        nodes[name][~is_split] = of_leaf
    thresholds = np.where(is_split, grown.thresholds, np.nan)
    return Grown(nodes[kept], grown.categories, thresholds[kept], grown.sums[kept])


def losses_of_alphas(
    grown: Grown,
    path: PruningPath,
    alphas: Float64s,
    leaves: NDArray[np.int32],
    loss_at: Callable[[NDArray[np.int32], NDArray[np.intp]], Float64s],
) -> Float64s:
    """Return the sum of losses over rows of each alpha's subtree, (alphas,).

    Parameters
    ----------
    grown, path
        A tree, and how it shrinks.
    alphas
        Ascending.
    leaves
        (rows,): the leaf of the whole tree that each row comes to.
    loss_at
        Returns the losses of rows, the second, that end at nodes, the first.
    """
    sums = np.zeros(alphas.size + 1)
    rows = np.arange(leaves.size)
    here = leaves
    first = np.searchsorted(alphas, path.until[here])
    while rows.size:
        # A row ends here until what is above becomes a leaf.
        above = grown.nodes["parent"][here]
        last = np.searchsorted(alphas, path.until[above])
        last[above < 0] = alphas.size  # above the root nothing does, infinite or not
        loss = loss_at(here, rows)
        sums += np.bincount(first, loss, sums.size)
        sums -= np.bincount(last, loss, sums.size)
        goes_on = above >= 0
        rows, here, first = rows[goes_on], above[goes_on], last[goes_on]
    return np.cumsum(sums)[:-1]
