"""Boosting of trees: rounds of gradients and new trees on one training set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, RowSample, SplitParams
from hornbeam.boosting.constraints import constraints_of
from hornbeam.data.floats import nearest
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.growth.column_sampler import ColumnSampler, draw_projection
from hornbeam.growth.constraints import Constraints
from hornbeam.growth.grower import LeafConstants, Thresholds, grow_tree
from hornbeam.growth.growth_limits import GrowthLimits
from hornbeam.params import Parameters

__all__ = ["boost_round", "growth_of", "sample_of"]

Values = NDArray[np.float32]


def boost_round(
    backend: Backend,
    cuts: Thresholds,
    parameters: Parameters,
    model: Model,
    feature_weights: NDArray[np.float64] | None = None,
    contributions: Callable[[Values], Values] | None = None,
    constants: LeafConstants | None = None,
) -> None:
    """Add one round of trees to `model`, on the gradients that `backend` has.

    Each output, or all of them together, gets `num_parallel_tree` trees, which share
    the learning rate. The `feature_weights`, (features,), say how likely each column is
    to be drawn. What leaf values add to the scores are their `contributions`, if it is
    not they themselves. The `constants` are what leaves weigh, if it is not Newton's
    step.
    """
    columns = parameters.multi_output_columns(model.n_outputs)
    if 0 < columns < model.n_outputs:
        mix = draw_projection(columns, model.n_outputs, parameters.seed, model.n_rounds)
        backend.sketch_outputs(mix)
    outputs = range(model.n_outputs if columns == 0 else 1)
    trees: list[Tree] = []
    of_output: list[int] = []
    for output in outputs:
        for _ in range(parameters.num_parallel_tree):
            number = len(model.trees) + len(trees)
            constraints = constraints_of(parameters, model, backend.n_features, trees)
            tree = _grow(
                backend,
                cuts,
                parameters,
                output,
                number,
                feature_weights,
                constraints,
                contributions,
                constants,
            )
            if not model.exact_features:
                # The model rounds features to float32, so the value that a threshold
                # was taken from will be rounded, too.
                tree.threshold = nearest(tree.threshold, np.float32).astype(np.float64)
            trees.append(tree)
            of_output.append(output)
    model.trees += trees
    model.tree_output += of_output
    model.round_starts.append(len(model.trees))


def _grow(
    backend: Backend,
    cuts: Thresholds,
    parameters: Parameters,
    output: int,
    number: int,
    feature_weights: NDArray[np.float64] | None,
    constraints: Constraints | None,
    contributions: Callable[[Values], Values] | None,
    constants: LeafConstants | None,
) -> Tree:
    """Return the tree that has this number in the model; its draws depend on it."""
    p = parameters
    best_first = p.grow_policy == "lossguide"
    return grow_tree(
        backend,
        output,
        cuts,
        growth_of(p),
        GrowthLimits(best_first, p.max_depth, p.max_leaves, p.gamma, p.prunes()),
        ColumnSampler(
            backend.n_features,
            p.colsample_bytree,
            p.colsample_bylevel,
            p.colsample_bynode,
            p.seed,
            number,
            feature_weights,
        ),
        sample_of(p, number),
        p.learning_rate / p.num_parallel_tree,
        constraints,
        contributions,
        constants,
    )


def sample_of(parameters: Parameters, number: int) -> RowSample | None:
    """Return which rows the tree of this number is grown on; None: all."""
    p = parameters
    share = p.drawn_share()
    if share == 1.0:
        return None
    by_gradient = p.sampling_method != "uniform"
    top_rate = p.top_rate if p.sampling_method == "goss" else None
    return RowSample(share, p.seed, number, by_gradient, top_rate)


def growth_of(parameters: Parameters) -> SplitParams:
    """Return the numbers of the objective."""
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
        bool(p.feature_costs) and p.feature_costs_for == "rows",
        p.default_direction,
        p.opt_dense_col,
    )
