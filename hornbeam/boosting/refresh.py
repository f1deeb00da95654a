"""The update of existing trees: XGBoost's updaters refresh and prune, and refit.

A tree never changes once it is part of a model, so an update makes new trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.factory import create_leaf_rows
from hornbeam.backends.interface import NodeSumRows, SplitParams
from hornbeam.boosting.gbtree import split_params
from hornbeam.boosting.gradient_booster import GradientBooster, Round
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.margins import leaf_indices
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree, roots_and_depths
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.leaves import rate_splits, weigh_nodes
from hornbeam.kernels.team import lease
from hornbeam.params import Parameters

__all__ = ["Refresh", "Revision"]

#: No bounds on weights, and no row counts to smooth them by.
_FREE = np.empty((0, 2)), np.empty(0)
#: All children are weighted alike: a model does not tell which splits `cat_l2` is for.
_ALIKE = np.empty(0, SPLIT_DTYPE)

Floats = NDArray[np.float64]


class Refresh(GradientBooster):
    """Updates the trees of a model, round by round: process_type=update, and refit.

    Parameters
    ----------
    learner, predictor, cache
        As for `GradientBooster`.
    grown
        The model whose trees are updated; None: the learner's, which then starts again
        from before its first round.
    revision
        How; None: as the parameters say.
    """

    def __init__(
        self,
        learner: Learner,
        predictor: Predictor,
        cache: MarginCache,
        grown: Model | None = None,
        revision: Revision | None = None,
    ) -> None:
        super().__init__(learner, predictor, cache)
        self._grown, self._revision = grown, revision

    def resumed(self, model: Model) -> Refresh:
        parts = self._learner, self._predictor, self._cache
        return Refresh(*parts, self._grown or model, self._revision)

    def new_round(self, data: Any, use_objective: bool) -> RefreshRound:
        if self._grown is None:
            self._grown = self._restart()
        learner, grown = self._learner, self._grown
        model = learner.model
        if model.n_rounds == grown.n_rounds:
            raise ParameterError(
                f"all {model.n_rounds} rounds of the model have been updated; lower "
                "num_boost_round",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        aligned, margins = self._learner.align(data), self._cache.margins(data)
        targets = np.empty((1, 0))
        if use_objective:
            targets = learner.objective.targets_of(data.info)
            learner.objective.check_targets(targets)
            if learner.objective.many_targets and len(targets) != model.n_outputs:
                raise DataError(
                    f"the labels have {len(targets)} columns, but the model has "
                    f"{model.n_outputs} targets; give a column for each",
                    code=ErrorCode.LABEL_TARGETS_MISMATCH,
                )
        rows = create_leaf_rows(
            targets,
            data.row_weights,
            np.ascontiguousarray(margins.T),
            threads=learner.params.nthread,
        )
        revision = self._revision or Revision.by(learner.params)
        return RefreshRound(learner, self._predictor, aligned, rows, grown, revision)

    def _restart(self) -> Model:
        """Return the learner's model, and replace it by one without rounds."""
        grown = self._learner.model
        if not grown.trees:
            raise ParameterError(
                "process_type='update' updates the rounds of a model, and there are "
                "none; pass the model as xgb_model",
                code=ErrorCode.MISSING_PARAMETER,
            )
        self._learner.model = grown.without_rounds()
        self._cache.clear()
        self._predictor.clear()
        return grown


class RefreshRound(Round):
    """The next round of the model `grown`, with its trees revised."""

    def __init__(
        self,
        learner: Learner,
        predictor: Predictor,
        data: DMatrix,
        rows: NodeSumRows,
        grown: Model,
        revision: Revision,
    ) -> None:
        self._learner, self._predictor, self._data = learner, predictor, data
        self._rows, self._grown, self._revision = rows, grown, revision
        number = learner.model.n_rounds
        self._range = slice(*grown.round_starts[number : number + 2])
        self._trees: list[Tree] = []

    @property
    def rows(self) -> NodeSumRows:
        return self._rows

    @property
    def info(self) -> MetaInfo:
        return self._data.info

    def grow(self) -> None:
        grown = self._grown
        trees, outputs = grown.trees[self._range], grown.tree_output[self._range]
        kind = self._predictor.feature_type(self._data.dtype)
        layout = Layout.of(trees, outputs, kind, grown.num_feature)
        with lease(self._learner.params.nthread) as team:
            leaves = leaf_indices(team, self._data, layout).astype(np.uint32)
        for tree, first, nodes in zip(trees, outputs, leaves.T, strict=True):
            own = range(first, first + tree.leaf_size)
            sums = self._rows.sums(own, nodes, tree.n_nodes)
            self._trees.append(self._revision.of(tree, sums))

    def update_model(self) -> None:
        grown = self._grown
        outputs, weights = grown.tree_output[self._range], grown.weights[self._range]
        self._learner.model.append_round(self._trees, outputs, weights)
        self._predictor.clear()

    def close(self) -> None:
        self._rows.close()


@dataclass(frozen=True, slots=True)
class Revision:
    """How trees are updated.

    Attributes
    ----------
    steps
        ``"refresh"``, which computes weights, covers and gains from the data, and
        ``"prune"``, which removes splits; in this order.
    growth
        The regularisation of splits and leaf weights.
    learning_rate
        The factor on new leaf values.
    refresh_leaf
        Whether to refresh leaf values, too.
    gamma, max_depth
        Pruning keeps splits of at least this gain above this depth; 0: any depth.
    decay
        The share of the old value that a refreshed leaf keeps; leaves without rows
        keep their values. None: leaf values are replaced.
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
        """Return the update that `parameters` select."""
        p = parameters
        names = "refresh" if p.updater == "auto" else p.updater
        return cls(
            names.split(","),
            split_params(p),
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
            weigh_nodes(left, _ALIKE, rules, 1.0, own, *_FREE, weighed)
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
        # Values of multi-output trees have an axis of outputs, the last one.
        shape = (-1, *[1] * (tree.value.ndim - 1))
        is_leaf = tree.leaf_mask.reshape(shape)
        values = np.where(is_leaf, weights * self.learning_rate, 0.0)
        if self.decay is not None:
            old = tree.value.astype(np.float64)
            mixed = self.decay * old + (1.0 - self.decay) * values
            values = np.where(hessians.reshape(shape) > 0.0, mixed, old)
        return values.astype(np.float32, order="C")

    def _cut(self, tree: Tree) -> Tree:
        """Return the tree without splits of too little gain above its leaves."""
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
    """Return the sums of leaves together with those of all inner nodes."""
    sums = np.where(tree.leaf_mask[:, None], sums, 0.0)
    _, depth = roots_and_depths(tree.parent)
    for level in range(tree.depth(), 0, -1):
        nodes = np.flatnonzero(depth == level)
        for own in sums:
            np.add.at(own, tree.parent[nodes], own[nodes])
    return sums
