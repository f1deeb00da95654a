"""Trees that are there, revised by what data says: refreshed, pruned or refitted.

A tree never changes once it is part of a model, so each is a new tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import SplitParams
from hornbeam.boosting.gbtree import growth_of
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.tree import Tree, roots_and_depths
from hornbeam.kernels.leaves import rate_splits, weigh_nodes
from hornbeam.params import Parameters

__all__ = ["Revision", "check_update"]

#: No bounds of weights, and no rows to smooth them by.
_FREE = np.empty((0, 2)), np.empty(0)

Floats = NDArray[np.float64]


def check_update(parameters: Parameters) -> None:
    """Raise a `ParameterError` if trees are to be grown by what does not grow any."""
    p = parameters
    of_trees = p.booster != "gblinear"
    if (
        p.process_type == "default"
        and of_trees
        and not (p.grows or p.updater == "auto")
    ):
        raise ParameterError(
            f"updater={p.updater!r} updates the trees of a model; set "
            "process_type='update' and pass the model as xgb_model, or leave it out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    if p.process_type == "default" and not p.refresh_leaf:
        raise ParameterError(
            "refresh_leaf=False is of no use without process_type='update'; leave it "
            "out",
            code=ErrorCode.INEFFECTIVE_PARAMETER,
        )
    if p.process_type == "update" and not of_trees:
        raise ParameterError(
            "process_type='update' updates trees, and booster='gblinear' has none; "
            "leave it out, and training goes on from the model",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if p.process_type == "update" and p.grows:
        raise ParameterError(
            f"updater={p.updater!r} grows trees; with process_type='update' it must be "
            "'refresh', 'prune' or both",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    held = "monotone_constraints" if p.monotone_constraints else "path_smooth"
    if p.process_type == "update" and p.updater != "prune" and getattr(p, held):
        raise ParameterError(
            f"leaf values are taken from the data alone where trees are refreshed or "
            f"refitted, without regard for {held}; leave {held} out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )


@dataclass(frozen=True, slots=True)
class Revision:
    """How trees are revised.

    Attributes
    ----------
    steps
        Of ``"refresh"``, which takes weights, covers and gains from the data, and
        ``"prune"``, which cuts off what gains too little; in this order.
    growth
        The numbers of the objective.
    learning_rate
        On new leaf values.
    refresh_leaf
        Whether to refresh leaf values, too.
    gamma, max_depth
        What pruning leaves: splits that gain as much, above this depth; 0: any.
    decay
        The share of the old value that a refreshed leaf keeps. Where it is not 0, a
        leaf that no row falls into keeps its value.
    """

    steps: Sequence[str]
    growth: SplitParams
    learning_rate: float
    refresh_leaf: bool = True
    gamma: float = 0.0
    max_depth: int = 0
    decay: float | None = None

    @classmethod
    def by(cls, parameters: Parameters) -> Revision:
        """Return the update that `parameters` ask for."""
        p = parameters
        names = "refresh" if p.updater == "auto" else p.updater
        return cls(
            names.split(","),
            growth_of(p),
            p.learning_rate / p.num_parallel_tree,
            p.refresh_leaf,
            p.gamma,
            p.max_depth,
        )

    def of(self, tree: Tree, sums: Floats) -> Tree:
        """Return the revised tree.

        `sums`, (outputs, nodes, 2), are the gradients and hessians of the rows in each
        leaf, for each of its values.
        """
        sums = _with_inner(tree, sums)
        for step in self.steps:
            tree = self._refreshed(tree, sums) if step == "refresh" else self._cut(tree)
        return tree

    def _refreshed(self, tree: Tree, sums: Floats) -> Tree:
        # A file may number children before their parents.
        _, depth = roots_and_depths(tree.parent)
        order = np.argsort(depth, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        left = np.where(tree.left < 0, -1, place[tree.left])[order].astype(np.int32)
        ordered, rules = sums[:, order], self.growth.rules
        weights, gains = np.empty((2, *ordered.shape[:2]))
        for own, weighed, rated in zip(ordered, weights, gains, strict=True):
            weigh_nodes(left, rules, 1.0, own, *_FREE, weighed)
            rate_splits(left, rules, own, rated)
        weight = weights[:, place].T.reshape(tree.weight.shape)
        value = tree.value
        if self.refresh_leaf:
            value = self._values(tree, weight, sums[..., 1].sum(axis=0))
        return replace(
            tree,
            value=value,
            gain=gains.sum(axis=0)[place].astype(np.float32),
            cover=ordered[..., 1].sum(axis=0)[place].astype(np.float32),
            weight=weight.astype(np.float32, order="C"),
        )

    def _values(
        self, tree: Tree, weights: Floats, hessians: Floats
    ) -> NDArray[np.float32]:
        # Of trees of all outputs values have an axis of outputs, the last one.
        shape = (-1, *[1] * (tree.value.ndim - 1))
        is_leaf = tree.leaf_mask.reshape(shape)
        values = np.where(is_leaf, weights * self.learning_rate, 0.0)
        if self.decay is not None:
            old = tree.value.astype(np.float64)
            mixed = self.decay * old + (1.0 - self.decay) * values
            values = np.where(hessians.reshape(shape) > 0.0, mixed, old)
        return values.astype(np.float32, order="C")

    def _cut(self, tree: Tree) -> Tree:
        """Return the tree without splits above leaves that are not worth it."""
        left, parent = tree.left.copy(), tree.parent.copy()
        value = tree.value.copy()
        _, depth = roots_and_depths(tree.parent)
        for node in np.flatnonzero(tree.leaf_mask):
            # A node that became a leaf may make its parent one.
            above = parent[node]
            while above >= 0 and (left[[left[above], left[above] + 1]] < 0).all():
                too_deep = 0 < self.max_depth <= depth[above]
                if tree.gain[above] >= self.gamma and not too_deep:
                    break
                parent[[left[above], left[above] + 1]] = -1
                value[above] = self.learning_rate * tree.weight[above]
                left[above] = -1
                above = parent[above]
        leaf = left < 0
        kept = np.repeat(~leaf, tree.category_counts)
        return replace(
            tree,
            left=left,
            right=np.where(leaf, np.int32(-1), tree.right),
            parent=parent,
            feature=np.where(leaf, np.int32(0), tree.feature),
            threshold=np.where(leaf, np.nan, tree.threshold),
            default_left=np.where(leaf, np.uint8(0), tree.default_left),
            split_type=np.where(leaf, np.uint8(0), tree.split_type),
            category_counts=np.where(leaf, 0, tree.category_counts),
            categories=tree.categories[kept],
            value=value,
            gain=np.where(leaf, np.float32(0), tree.gain),
        )


def _with_inner(tree: Tree, sums: Floats) -> Floats:
    """Return the sums of leaves, and of all other nodes, too."""
    sums = np.where(tree.leaf_mask[:, None], sums, 0.0)
    _, depth = roots_and_depths(tree.parent)
    for level in range(tree.depth(), 0, -1):
        nodes = np.flatnonzero(depth == level)
        for own in sums:
            np.add.at(own, tree.parent[nodes], own[nodes])
    return sums
