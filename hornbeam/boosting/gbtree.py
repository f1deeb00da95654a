"""Boosters gbtree and dart: each round grows new trees on the gradients."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    Constraints,
    GradientRows,
    GrowthLimits,
    RowSample,
    SplitParams,
)
from hornbeam.boosting.constraints import constraints_of
from hornbeam.boosting.dart import Dropout
from hornbeam.boosting.gradient_booster import GradientBooster, Round
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.linear_leaves import LinearLeaves
from hornbeam.boosting.margin_cache import MarginCache, TrainingData, TrainingMargins
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.meta_info import MetaInfo
from hornbeam.forest.layout import weighted_leaf_values
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.growth.column_sampler import ColumnSampler, draw_projection
from hornbeam.growth.grower import (
    LeafConstants,
    LeafRegression,
    grow_rounds,
    grow_tree,
)
from hornbeam.params import Parameters

if TYPE_CHECKING:
    from hornbeam.boosting.line_search import LineSearch

__all__ = ["Dart", "GBTree", "row_sample", "split_params"]

Values = NDArray[np.float32]


class GBTree(GradientBooster):
    """Gradient boosted trees (Friedman 2001; Chen and Guestrin 2016)."""

    _settings: TreeSettings | None = None

    def new_round(self, data: Any, use_objective: bool) -> TreeRound:
        training = self._cache.training_data(data, use_objective)
        settings, learner = self._settings, self._learner
        if settings is None or not settings.are_of(learner, training):
            settings = self._settings = TreeSettings(learner, training)
        return self._round(learner, self._predictor, self._cache, training, settings)

    def add_rounds(self, data: Any, wanted: int) -> int:
        settings, learner = self._settings, self._learner
        if settings is None or not settings.all_alike:
            return 0
        training = self._cache.training_data(data, True)
        if not settings.are_of(learner, training):
            return 0
        model = learner.model
        of_trees = training.cuts, not model.exact_features
        outputs = range(settings.outputs)
        try:
            trees = grow_rounds(training.backend, learner.objective, wanted, *of_trees)
            if trees:
                self._predictor.clear()
            for first in range(0, len(trees), len(outputs)):
                model.append_round(trees[first : first + len(outputs)], outputs)
        except BaseException:
            self._cache.discard(training)  # the margins may have more trees
            raise
        training.weights = model.weights
        return len(trees) // len(outputs)

    def _round(self, *parts: Any) -> TreeRound:
        return TreeRound(*parts)


class Dart(GBTree):
    """Gradient boosted trees with dropout (Rashmi and Gilad-Bachrach 2015)."""

    def _round(self, *parts: Any) -> TreeRound:
        return DartRound(*parts)


class TreeSettings:
    """What is the same for all trees of a training, made once and not for each tree.

    Parameters
    ----------
    learner
        Of the model.
    training
        The rows.

    Attributes
    ----------
    params
        The parameters of the learner.
    split_params, limits
        Regularisation and size of trees.
    learning_rate
        The factor on the leaf values of one tree.
    columns
        Number of gradient columns of multi-output trees; 0: trees have one output.
    outputs
        Number of outputs that trees are grown for one by one.
    all_alike
        Whether rounds differ in their gradients only, which the objective computes row
        by row: each has a tree of all rows and features for each output, and nothing is
        printed.
    """

    def __init__(self, learner: Learner, training: TrainingData) -> None:
        p = self.params = learner.params
        self._training = weakref.ref(training)
        self._feature_names = learner.model.feature_names
        self.split_params = split_params(p)
        lossguide = p.grow_policy == "lossguide"
        symmetric = p.grow_policy == "symmetric"
        size = p.max_depth, p.max_leaves
        # Each split gains more than epsilon, so that a lower gamma prunes none.
        prunes = p.prunes() and p.gamma > p.gain_epsilon
        self.limits = GrowthLimits(
            lossguide, *size, p.gamma, prunes, symmetric, p.gain_epsilon
        )
        self.learning_rate = p.learning_rate / p.num_parallel_tree
        self.columns = p.multi_output_columns(learner.model.n_outputs)
        self.outputs = learner.model.n_outputs if self.columns == 0 else 1
        self._n_features = training.backend.n_features
        self._feature_weights = training.feature_weights
        shares = p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode
        #: Of all trees; None: each tree draws other columns.
        self._sampler = self._sampler_of(0) if min(shares) == 1.0 else None
        self._draws_rows = p.drawn_share() < 1.0
        self._constraints: Constraints | None = None
        self._is_costed = bool(p.feature_costs) and p.feature_costs_for == "model"
        if not self._is_costed:
            self._constraints = constraints_of(p, learner.model, self._n_features)
        draws = self._sampler is None or self._draws_rows
        limited = self._is_costed or self._constraints is not None
        limited = limited or self.split_params.counts_rows
        weighs = self.limits.weighs_early(p.path_smooth)
        self.all_alike = (
            (learner.objective.by_row and weighs and not (draws or limited))
            and p.num_parallel_tree == 1
            and self.columns == 0
            and (p.leaf_solver, p.leaf_model) == ("newton", "constant")
            and (p.booster == "gbtree" and p.verbosity < 2)
        )

    def are_of(self, learner: Learner, training: TrainingData) -> bool:
        """Return whether these are the settings of the next round."""
        return (
            self.params is learner.params
            and self._training() is training
            and self._feature_names is learner.model.feature_names
        )

    def of_tree(
        self, number: int, model: Model, trees: Sequence[Tree]
    ) -> tuple[ColumnSampler, RowSample | None, Constraints | None]:
        """Return what draws the columns of tree `number`, its rows and its constraints.

        `trees` follow those of `model`.
        """
        sampler, constraints = self._sampler, self._constraints
        if sampler is None:
            sampler = self._sampler_of(number)
        if self._is_costed:
            constraints = constraints_of(self.params, model, self._n_features, trees)
        rows = row_sample(self.params, number) if self._draws_rows else None
        return sampler, rows, constraints

    def _sampler_of(self, number: int) -> ColumnSampler:
        p = self.params
        shares = p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode
        weights = self._feature_weights
        return ColumnSampler(self._n_features, *shares, p.seed, number, weights)


class TreeRound(Round):
    """A round of new trees: `num_parallel_tree` for each output, or for all together.

    Parameters
    ----------
    learner, predictor, cache
        As for `GradientBooster`.
    training
        The rows, with the margins of all trees so far.
    settings
        Of the trees.
    """

    def __init__(
        self,
        learner: Learner,
        predictor: Predictor,
        cache: MarginCache,
        training: TrainingData,
        settings: TreeSettings,
    ) -> None:
        self._learner, self._predictor = learner, predictor
        self._cache, self._training, self._settings = cache, training, settings
        self._trees: list[Tree] = []
        self._outputs: list[int] = []

    @property
    def rows(self) -> GradientRows:
        return self._training.backend

    @property
    def info(self) -> MetaInfo:
        return self._training.info

    def grow(self) -> None:
        if self._learner.params.leaf_solver == "line_search":
            with closing(self._line_search()) as search:
                self._grow(search.constants)
        else:
            self._grow(None)

    def _linear_leaves(self) -> LinearLeaves:
        """Return what fits linear leaves."""
        p, training = self._learner.params, self._training
        assert isinstance(training, TrainingMargins)
        rate = self._settings.learning_rate
        return LinearLeaves(training.feature_values, training.data, p, rate)

    def _line_search(self) -> LineSearch:
        """Return the search for leaf values, from the margins before the round."""
        from hornbeam.boosting.line_search import LineSearch

        training, learner = self._training, self._learner
        assert isinstance(training, TrainingMargins)
        assert training.targets is not None
        return LineSearch(
            learner.objective,
            training.targets,
            training.row_weights,
            training.backend.margins(),
            learner.params,
        )

    def _grow(self, constants: LeafConstants | None) -> None:
        """Grow the trees; each adds its leaf values to the margins of the rows."""
        p, model, settings = self._learner.params, self._learner.model, self._settings
        if 0 < settings.columns < model.n_outputs:
            mix = draw_projection(
                settings.columns, model.n_outputs, p.seed, model.n_rounds
            )
            self._training.backend.sketch_outputs(mix)
        regression = None if p.leaf_model == "constant" else self._linear_leaves()
        for output in range(settings.outputs):
            for _ in range(p.num_parallel_tree):
                tree = self._grow_tree(output, constants, regression)
                self._trees.append(tree)
                self._outputs.append(output)

    def _grow_tree(
        self,
        output: int,
        constants: LeafConstants | None,
        regression: LeafRegression | None,
    ) -> Tree:
        settings, model, training = self._settings, self._learner.model, self._training
        number = len(model.trees) + len(self._trees)  # seeds the draws of the tree
        columns, sample, limits = settings.of_tree(number, model, self._trees)
        return grow_tree(
            training.backend,
            output,
            training.cuts,
            settings.split_params,
            settings.limits,
            columns,
            sample,
            settings.learning_rate,
            limits,
            self._margin_values(),
            constants,
            regression,
            rounded=not model.exact_features,
        )

    def _margin_values(self) -> Callable[[Values], Values] | None:
        """Return what leaf values become in the margins; None: they stay."""
        return None

    def update_model(self) -> None:
        model, objective = self._learner.model, self._learner.objective
        model.append_round(self._trees, self._outputs)
        model.objective_state = objective.state = objective.next_state
        self._predictor.clear()
        if self._learner.params.verbosity >= 2:
            sizes = [f"{t.n_leaves} leaves deep {t.depth()}" for t in self._trees]
            sys.stderr.write(f"round {model.n_rounds}: {', '.join(sizes)}\n")

    def update_margins(self) -> None:
        # The backend has added the leaf values of each tree as it was grown.
        self._training.weights = self._learner.model.weights

    def abort(self) -> None:
        # The margins may contain some of the new trees, and the model none.
        self._cache.discard(self._training)


class DartRound(TreeRound):
    """A round that drops some trees; the new trees are scaled to replace them."""

    def begin(self) -> None:
        model = self._learner.model
        self._before = model.weights
        self._dropout = Dropout.of_round(self._learner.params, model)
        self._training.update_to(self._dropout.during(self._before))

    def _margin_values(self) -> Callable[[Values], Values] | None:
        scale = self._training.scale
        assert scale is not None
        return partial(
            weighted_leaf_values, weights=self._dropout.weight, step=scale.step
        )

    def update_model(self) -> None:
        super().update_model()
        # The new trees get weights, and the dropped ones other weights.
        after = self._dropout.after(self._before, len(self._trees))
        self._learner.model.tree_weights = after

    def update_margins(self) -> None:
        training, weights = self._training, self._learner.model.weights
        new = weights[self._before.size :]
        training.weights = np.concatenate([training.weights, new])
        training.extend_scale(self._trees)


def row_sample(parameters: Parameters, number: int) -> RowSample | None:
    """Return the sample of rows that tree `number` is grown on; None: all rows."""
    p = parameters
    share = p.drawn_share()
    if share == 1.0:
        return None
    by_gradient = p.sampling_method != "uniform"
    top_rate = p.top_rate if p.sampling_method == "goss" else None
    return RowSample(share, p.seed, number, by_gradient, top_rate)


def split_params(parameters: Parameters) -> SplitParams:
    """Return the regularisation of splits and leaf weights."""
    p = parameters
    return SplitParams(
        p.reg_lambda,
        p.reg_alpha,
        p.max_delta_step if p.leaf_solver == "newton" else 0.0,
        p.min_child_weight,
        p.max_cat_to_onehot,
        p.max_cat_threshold,
        p.min_samples_leaf,
        p.path_smooth,
        p.cat_smooth,
        p.cat_l2,
        p.min_data_per_group,
        bool(p.feature_costs) and p.feature_costs_for == "rows",
        p.default_direction,
        p.opt_dense_col,
    )
