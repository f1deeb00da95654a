"""The tree of a model that is to be shown, with its names and class shares."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.errors import ErrorCode, NotTrainedError, ParameterError
from hornbeam.explain.node_text import Float64s, NodeText, in_rows
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.objectives.registry import find

__all__ = ["Boosted", "booster_of", "names_of", "node_text_of", "number_of"]

#: Tolerance of the sum of shares around 1, since they are float32.
_ROUNDING = 1e-4


class HasBooster(Protocol):
    """A fitted estimator."""

    def get_booster(self) -> Booster:
        """Return the trained model."""


#: A model, or the estimator that has trained one.
Boosted: TypeAlias = Booster | HasBooster


def node_text_of(
    model: Boosted,
    number: int,
    class_names: Sequence[str] | None = None,
    *,
    max_depth: int | None = None,
    most_categories: int | None = None,
    fmap: str | os.PathLike[str] = "",
    with_stats: bool = True,
    brief: bool = False,
) -> NodeText:
    """Return the node text of one tree of a model.

    Parameters
    ----------
    model
        A booster, or a fitted estimator.
    number
        Index of the tree, in the order in which trees were grown.
    class_names
        Names of the outputs, or of two classes; None: the classes of the estimator.
    max_depth
        Splits at this depth are left out; None: show all.
    most_categories
        Maximum number of categories of a split that are listed; None: all.
    fmap
        A feature map.
    with_stats
        Whether plots show the gain of splits, and the cover of all nodes.
    brief
        Whether to shorten long names in the middle.
    """
    booster = booster_of(model)
    trained = booster.model
    number = number_of(trained, number)
    for name, limit in (("max_depth", max_depth), ("most_categories", most_categories)):
        if limit is not None and limit < 0:
            raise ParameterError(
                f"{name} must be 0 or more, not {limit}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
    tree = trained.trees[number]
    values = in_rows(tree.value) * float(trained.weights[number])
    if trained.n_rounds == 1:
        values *= trained.num_parallel_tree  # the model predicts the mean
    names = getattr(model, "classes_", None) if class_names is None else class_names
    outputs = None if names is None else names_of(trained, names)
    if booster.objective.margin_names:
        outputs = list(booster.objective.margin_names)
    shares = _shares_of(trained, tree, values, outputs)
    about = ""
    if shares is None and tree.leaf_size < len(outputs or range(trained.n_outputs)):
        # With two classes the only output belongs to the second.
        output = trained.tree_output[number] + (trained.n_outputs == 1)
        about = f"adds to {outputs[output] if outputs else f'output {output}'}"
    elif trained.double_scores and trained.n_outputs == 1:
        about = f"adds to {trained.base_score[0]:.12g}"
    return NodeText(
        tree,
        FeatureMap.of(trained, fmap).names,
        trained.categories,
        outputs,
        values=values,
        shares=shares,
        about=about,
        max_depth=max_depth,
        most_categories=most_categories,
        with_stats=with_stats,
        brief=brief,
    )


def booster_of(model: Boosted) -> Booster:
    """Return the booster itself, or the booster of an estimator."""
    if isinstance(model, Booster):
        return model
    booster = model.get_booster() if hasattr(model, "get_booster") else None
    if isinstance(booster, Booster):
        return booster
    said = type(model).__name__
    if type(model).__module__.startswith("xgboost"):
        said = (
            f"XGBoost's {said}; hornbeam.Booster(model_file=path) reads what its "
            "save_model writes"
        )
    raise ParameterError(
        f"the model must be a Booster or an estimator of Hornbeam, not {said}",
        code=ErrorCode.NOT_A_MODEL,
    )


def number_of(model: Model, number: int) -> int:
    """Return the index of an existing tree."""
    if model.linear is not None:
        raise ParameterError(
            "a model of booster='gblinear' has no trees; get_score() tells its weights",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if not model.trees:
        raise NotTrainedError(
            "the model has no trees yet; train it first", code=ErrorCode.NOT_TRAINED
        )
    try:
        place = operator.index(number)
    except TypeError:
        place = -1
    if not 0 <= place < len(model.trees):
        raise ParameterError(
            f"tree={number!r} is not a tree of this model; give a whole number from 0 "
            f"to {len(model.trees) - 1}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return place


def names_of(model: Model, names: Sequence[Any]) -> list[str]:
    """Return a name for each output, or the names of two classes that share one."""
    n_outputs = model.n_outputs
    if len(names) != n_outputs and (len(names), n_outputs) != (2, 1):
        raise ParameterError(
            f"class_names has {len(names)} names; give {n_outputs}, one for each "
            "output of the model" + (", or those of two classes" * (n_outputs == 1)),
            code=ErrorCode.CLASS_NAMES_MISMATCH,
        )
    return [str(name) for name in names]


def _shares_of(
    model: Model, tree: Tree, values: Float64s, outputs: Sequence[str] | None
) -> Float64s | None:
    """Return the shares of classes in the nodes, if the tree alone determines them.

    Leaves of a softmax model have the probabilities that they would predict alone. In a
    tree whose values are shares, all nodes have them.
    """
    leaves = tree.leaf_mask
    objective = find(model.objective)
    if tree.leaf_size > 1 and objective is not None and objective.task == "classes":
        margins = values + model.base_score
        odds = np.exp(margins - margins.max(axis=1, keepdims=True))
        odds[~leaves] = np.nan
        return odds / odds.sum(axis=1, keepdims=True)
    if model.objective != "reg:squarederror" or np.any(model.base_score):
        return None
    inner = tree.left >= 0
    known = np.where(inner[:, None], in_rows(tree.weight), values)
    if tree.leaf_size == 1 and outputs is not None and len(outputs) == 2:
        known = np.concatenate([1.0 - known, known], axis=1)
    ends = known[leaves]
    is_share = ends.min() >= -_ROUNDING and np.ptp([*ends.sum(axis=1), 1.0]) < _ROUNDING
    if known.shape[1] == 1 or not is_share:
        return None
    return np.clip(known, 0.0, None) / known.sum(axis=1, keepdims=True)
