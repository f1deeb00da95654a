"""A trained model: trees or linear weights, and the parameters of prediction."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.data.schema import Schema
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.formulas import Formula
from hornbeam.forest.tree import Tree

__all__ = [
    "LinearModel",
    "Model",
    "merge_models",
    "unit_weights",
]

_UNITS = np.ones(4096, np.float32)
_UNITS.flags.writeable = False

# Attributes that are wrong for a subset of the rounds.
_ROUND_ATTRIBUTES = ("best_iteration", "best_score")


def _default_base_score() -> NDArray[np.float64]:
    return np.array([0.5])


def _default_config() -> dict[str, dict[str, str]]:
    return {"reg_loss_param": {"scale_pos_weight": "1"}}


@dataclass(slots=True, eq=False, repr=False)
class Model:
    """Trees in boosting order, and the parameters that turn margins into predictions.

    Trees in a model are immutable, so models can share them.

    Parameters
    ----------
    trees
        All trees, round by round.
    tree_output
        The output that each tree adds to (XGBoost's `tree_info`); 0 for multi-output
        trees.
    round_starts
        The first tree of each round, followed by the number of trees (XGBoost's
        `iteration_indptr`).
    tree_weights
        (trees,): the factor on the leaf values of each tree (DART's `weight_drop`). The
        array is replaced, never modified. None: all factors are 1.
    linear
        The linear model of ``booster='gblinear'``; None for trees.
    num_parallel_tree
        Number of trees per output and round.
    base_score
        (outputs,): a prediction, or for ``multi:*`` a margin.
    boost_from_average
        Whether `base_score` was estimated from the labels.
    objective
        Name of the objective.
    objective_config
        The objective's parameters as XGBoost groups and writes them.
    objective_state
        State of the objective after the last round, by its names in XGBoost's files.
        The mapping is replaced, never modified.
    num_class, num_target
        The number of classes, 0 without classes, and the number of targets.
    num_feature
        Number of features of the training data.
    feature_names, feature_types
        One per feature, or an empty list.
    categories
        The names of the categories of each feature, if they have names.
    derived
        The formulas of the last features; None: all features are columns of the data.
    attributes
        Attributes set by callers, such as ``best_iteration``.
    exact_features
        Whether features are compared with thresholds in their own precision. If not,
        they are rounded to float32 first, because the training data were, or may have
        been. Models from XGBoost's files need that.
    double_scores
        Whether leaf values are summed in float64, because float32 cannot distinguish
        the training labels.
    unseen_missing
        Whether a category that is not in `categories` is treated as missing. If not, it
        raises an error.
    """

    trees: list[Tree] = field(default_factory=list)
    tree_output: list[int] = field(default_factory=list)
    round_starts: list[int] = field(default_factory=lambda: [0])
    tree_weights: NDArray[np.float32] | None = None
    linear: LinearModel | None = None
    num_parallel_tree: int = 1
    base_score: NDArray[np.float64] = field(default_factory=_default_base_score)
    boost_from_average: bool = True
    objective: str = "reg:squarederror"
    objective_config: dict[str, dict[str, str]] = field(default_factory=_default_config)
    objective_state: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    num_class: int = 0
    num_target: int = 1
    num_feature: int = 0
    feature_names: list[str] = field(default_factory=list)
    feature_types: list[str] = field(default_factory=list)
    categories: Categories = NO_CATEGORIES
    derived: DerivedFeatures | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    exact_features: bool = True
    double_scores: bool = False
    unseen_missing: bool = False

    def __repr__(self) -> str:
        return f"Model({self.summary()})"

    def summary(self) -> str:
        """Return the objective and the sizes of the model, in one line."""
        facts: dict[str, object] = {"objective": repr(self.objective)}
        if self.linear is None:
            facts |= {"rounds": self.n_rounds, "trees": len(self.trees)}
        else:
            facts |= {"booster": "'gblinear'", "rounds": self.linear.rounds}
        facts["features"] = self.num_feature
        if self.n_outputs > 1:
            facts["outputs"] = self.n_outputs
        if "best_iteration" in self.attributes:
            facts["best_iteration"] = self.attributes["best_iteration"]
        return ", ".join(f"{name}={value}" for name, value in facts.items())

    @property
    def n_rounds(self) -> int:
        if self.linear is not None:
            return self.linear.rounds
        return len(self.round_starts) - 1

    @property
    def n_outputs(self) -> int:
        return max(self.num_class, self.num_target, 1)

    @property
    def weights(self) -> NDArray[np.float32]:
        """(trees,): the factor on the leaf values of each tree, 1 without DART."""
        if self.tree_weights is None:
            return unit_weights(len(self.trees))
        return self.tree_weights

    @property
    def has_linear_leaves(self) -> bool:
        """Whether the leaves of some trees have terms."""
        return any(tree.terms is not None for tree in self.trees)

    @property
    def leaf_size(self) -> int:
        """Values of a leaf of the last tree: 1, or one per output; 0 without trees."""
        return self.trees[-1].leaf_size if self.trees else 0

    @property
    def schema(self) -> Schema:
        """The number, names, types and categories of the features."""
        return Schema(
            self.num_feature,
            self.feature_names or None,
            self.feature_types or None,
            self.categories,
        )

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """The formulas of the derived features."""
        return () if self.derived is None else self.derived.formulas

    @property
    def raw_schema(self) -> Schema:
        """The schema of the columns of the data, without derived features."""
        whole = self.schema
        return whole if self.derived is None else self.derived.raw_schema(whole)

    def tree_range(self, rounds: tuple[int, int]) -> tuple[int, int]:
        """Return the trees (begin, end) of rounds (begin, end); (0, 0) means all.

        A linear model has no trees, and no range of its rounds but all.

        Raises
        ------
        ParameterError
            If the model does not have these rounds.
        """
        n_rounds = self.n_rounds
        try:
            begin, end = map(operator.index, rounds)
        except (TypeError, ValueError):
            raise ParameterError(
                "iteration_range must be two whole numbers (begin, end), "
                f"not {rounds!r}",
                code=ErrorCode.INVALID_ITERATION_RANGE,
            ) from None
        end = end or n_rounds
        if self.linear is not None and (begin, end) != (0, n_rounds):
            raise ParameterError(
                "each round of booster='gblinear' changes all weights, so "
                f"iteration_range={tuple(rounds)} cannot select some of its "
                f"{n_rounds} rounds; leave it out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if not 0 <= begin <= end <= n_rounds or (begin == end and n_rounds > 0):
            raise ParameterError(
                f"iteration_range={tuple(rounds)} is not a part of the model's "
                f"{n_rounds} rounds; give (begin, end) with "
                f"0 <= begin < end <= {n_rounds}, or (0, 0) for all",
                code=ErrorCode.ITERATION_RANGE_OUT_OF_BOUNDS,
            )
        if self.linear is not None:
            return 0, 0
        return self.round_starts[begin], self.round_starts[end]

    def copy(self) -> Model:
        """Return an independent copy, which shares the trees."""
        return replace(
            self,
            trees=list(self.trees),
            tree_output=list(self.tree_output),
            round_starts=list(self.round_starts),
            base_score=self.base_score.copy(),
            objective_config=copy.deepcopy(self.objective_config),
            feature_names=list(self.feature_names),
            feature_types=list(self.feature_types),
            attributes=dict(self.attributes),
        )

    def without_rounds(self) -> Model:
        """Return a copy without any rounds."""
        part = self.copy()
        part.trees, part.tree_output, part.round_starts = [], [], [0]
        if part.tree_weights is not None:
            part.tree_weights = part.tree_weights[:0]
        for name in _ROUND_ATTRIBUTES:
            part.attributes.pop(name, None)
        return part

    def append_round(
        self,
        trees: Sequence[Tree],
        outputs: Sequence[int],
        weights: NDArray[np.float32] | None = None,
    ) -> None:
        """Append a round of trees, with the output and the weight of each; None: 1."""
        if self.tree_weights is not None:
            weights = unit_weights(len(trees)) if weights is None else weights
            self.tree_weights = np.concatenate([self.tree_weights, weights])
        self.trees += trees
        self.tree_output += outputs
        self.round_starts.append(len(self.trees))

    def slice(self, begin: int, end: int, step: int = 1) -> Model:
        """Return a model of every `step`-th round of ``[begin, end)``.

        Attributes that refer to all rounds, such as ``best_iteration``, are removed.

        Raises
        ------
        ParameterError
            For a linear model.
        IndexError
            If the range is empty or not within the rounds of the model.
        ValueError
            If `step` is below 1.
        """
        if self.linear is not None:
            raise ParameterError(
                "a model of booster='gblinear' has no separate rounds and cannot be "
                "sliced; copy() returns the whole model",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if not 0 <= begin < end <= self.n_rounds:
            raise IndexError(
                f"the range of rounds [{begin}, {end}) is not valid for this model of "
                f"{self.n_rounds} rounds; pass 0 <= begin < end <= {self.n_rounds}"
            )
        if step < 1:
            raise ValueError(f"the step is {step}; pass 1 or more")
        part = self.without_rounds()
        part.append_rounds(self, range(begin, end, step))
        return part

    def append_rounds(self, other: Model, rounds: Iterable[int]) -> None:
        """Append the given rounds of another model with the same outputs."""
        for number in rounds:
            trees = slice(*other.round_starts[number : number + 2])
            self.append_round(
                other.trees[trees], other.tree_output[trees], other.weights[trees]
            )


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """The weights of a linear model, one per feature and output. Immutable.

    Attributes
    ----------
    weights
        (features + 1, outputs) float32; the last row has the biases, which are added
        to the base score.
    rounds
        Number of rounds trained.
    last_change
        The largest change of a weight in the last round.
    """

    weights: NDArray[np.float32]
    rounds: int = 0
    last_change: float = np.inf

    @classmethod
    def zero(cls, features: int, outputs: int) -> LinearModel:
        """Return the model before the first round."""
        return cls(np.zeros((features + 1, outputs), np.float32))


# Fields that must be equal in merged models, and the advice if they are not.
_EQUAL_FIELDS = {
    "objective": "train them with the same objective",
    "objective_config": "train them with the same parameters of the objective",
    "num_class": "train them with the same classes",
    "num_target": "train them on as many targets",
    "num_feature": "train them on the same columns",
    "feature_names": "train them on the same columns",
    "feature_types": "train them on the same columns",
    "categories": "train them on columns with the same categories",
    "derived": "train them on matrices with the same derived features",
    "num_parallel_tree": "train them with the same number",
    "exact_features": "train them on columns of the same precision",
    "unseen_missing": "train them with the same unseen",
}


def unit_weights(trees: int) -> NDArray[np.float32]:
    """Return the weights of trees without DART, (trees,), all 1; read-only."""
    return _UNITS[:trees] if trees <= _UNITS.size else np.ones(trees, np.float32)


def merge_models(models: Sequence[Model]) -> Model:
    """Return a model with the rounds of all models, one model after the other.

    If some of the models have tree weights (DART), the trees of the others get 1.

    Raises
    ------
    ParameterError
        If the models differ in objective, features, outputs or base score, or are
        linear.
    """
    first = models[0]
    merged = first.without_rounds()
    if any(model.tree_weights is not None for model in models):
        merged.tree_weights = merged.weights
    for model in models:
        _check_mergeable(first, model)
        merged.double_scores |= model.double_scores
        merged.append_rounds(model, range(model.n_rounds))
    return merged


def average_models(models: Sequence[Model]) -> Model:
    """Return a model whose margins are the mean of those of all models.

    A round has the trees of that round of all models, as a round of a boosted forest.
    Derived features may differ; the average has those of all models.

    Raises
    ------
    ParameterError
        If the models differ in objective, features, outputs, base score or number of
        rounds, or are linear.
    """
    models = _with_all_formulas(models)
    first = models[0]
    averaged = first.without_rounds()
    averaged.num_parallel_tree = first.num_parallel_tree * len(models)
    if any(model.tree_weights is not None for model in models):
        averaged.tree_weights = averaged.weights
    for model in models:
        _check_mergeable(first, model)
        averaged.double_scores |= model.double_scores
        if model.round_starts != first.round_starts:
            raise ParameterError(
                f"the models have {first.n_rounds} and {model.n_rounds} rounds, and "
                "only models of as many rounds have an average; slice the longer one",
                code=ErrorCode.MODELS_NOT_MERGEABLE,
            )
    share = 1 / len(models)
    scaled = [[_scaled(tree, share) for tree in model.trees] for model in models]
    for begin, end in pairwise(first.round_starts):
        trees = [tree for own in scaled for tree in own[begin:end]]
        outputs = first.tree_output[begin:end] * len(models)
        weights = np.concatenate([model.weights[begin:end] for model in models])
        # Trees of one output are neighbours.
        order = np.argsort(outputs, kind="stable")
        averaged.append_round(
            [trees[place] for place in order],
            [outputs[place] for place in order],
            weights[order],
        )
    return averaged


def models_of_average(averaged: Model, parts: int) -> list[Model]:
    """Return the models whose average, by `average_models`, is this one.

    Leaf values are those of the models up to the rounding of float32.
    """
    models = []
    for part in range(parts):
        model = averaged.without_rounds()
        model.num_parallel_tree = averaged.num_parallel_tree // parts
        for begin, end in pairwise(averaged.round_starts):
            # Trees of one output are neighbours, in the order of the models.
            outputs = np.array(averaged.tree_output[begin:end])
            own = np.concatenate(
                [
                    np.array_split(begin + np.flatnonzero(outputs == k), parts)[part]
                    for k in np.unique(outputs)
                ]
            )
            model.append_round(
                [_scaled(averaged.trees[place], parts) for place in own],
                [averaged.tree_output[place] for place in own],
                averaged.weights[own],
            )
        models.append(model)
    return models


def _with_all_formulas(models: Sequence[Model]) -> list[Model]:
    """Return the same models with the derived features of all of them."""
    raw, named = models[0].raw_schema, models[0].derived and models[0].derived.named
    formulas = dict.fromkeys(formula for model in models for formula in model.formulas)
    if all(len(model.formulas) == len(formulas) for model in models):
        return list(models)
    features = DerivedFeatures(tuple(formulas), bool(named))
    schema = features.schema(raw)
    places = {formula: raw.n_features + place for place, formula in enumerate(formulas)}
    changed = []
    for model in models:
        if model.raw_schema != raw:
            return list(models)  # the error tells what differs
        place = [*range(raw.n_features), *(places[own] for own in model.formulas)]
        moved = np.array(place, np.int32)
        part = model.copy()
        part.trees = [_with_features(tree, moved) for tree in model.trees]
        part.num_feature, part.derived = schema.n_features, features
        part.feature_names = schema.names or []
        part.feature_types = schema.types or []
        part.categories = schema.categories
        changed.append(part)
    return changed


def _with_features(tree: Tree, places: NDArray[np.int32]) -> Tree:
    """Return a tree whose splits are on the features at other places."""
    feature = tree.feature.copy()
    is_split = tree.left >= 0
    feature[is_split] = places[feature[is_split]]
    terms = tree.terms
    if terms is not None:
        moved = terms.terms.copy()
        moved["feature"] = places[moved["feature"]]
        terms = terms._replace(terms=moved)
    return replace(tree, feature=feature, terms=terms)


def _scaled(tree: Tree, factor: float) -> Tree:
    share = np.float32(factor)
    return replace(
        tree,
        value=tree.value * share,
        weight=tree.weight * share,
        terms=None if tree.terms is None else tree.terms.scaled(share),
    )


def _check_mergeable(first: Model, other: Model) -> None:
    if first.linear is not None or other.linear is not None:
        raise ParameterError(
            "linear models cannot be merged: they have no separate rounds; "
            "continue the training of one with xgb_model",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    for name, advice in _EQUAL_FIELDS.items():
        ours, theirs = getattr(first, name), getattr(other, name)
        if ours != theirs:
            raise ParameterError(
                f"the models differ in {name} ({ours!r:.60} and {theirs!r:.60}) and "
                f"cannot be merged; {advice}",
                code=ErrorCode.MODELS_NOT_MERGEABLE,
            )
    if len({tree.value.ndim for tree in (*first.trees, *other.trees)}) > 1:
        raise ParameterError(
            "one model has multi-output trees and the other has not, so they cannot be "
            "merged; train them with the same multi_strategy",
            code=ErrorCode.MODELS_NOT_MERGEABLE,
        )
    if not np.array_equal(first.base_score, other.base_score):
        raise ParameterError(
            f"the models have the base scores {first.base_score.tolist()} and "
            f"{other.base_score.tolist()}, and a merged model has only one; train them "
            "with the same base_score",
            code=ErrorCode.MODELS_NOT_MERGEABLE,
        )
