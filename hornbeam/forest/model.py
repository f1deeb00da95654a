"""A trained model: trees, and what turns their sums into predictions."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.tree import Tree

__all__ = [
    "Linear",
    "Model",
    "merge_models",
]

# Which round was best is not known of a part of the rounds.
_ATTRIBUTES_OF_ALL_ROUNDS = ("best_iteration", "best_score")


def _half() -> NDArray[np.float64]:
    return np.array([0.5])


def _plain_loss() -> dict[str, dict[str, str]]:
    return {"reg_loss_param": {"scale_pos_weight": "1"}}


@dataclass(slots=True, eq=False)
class Model:
    """Trees in the order in which they were grown, and how to read their sums.

    A tree never changes once it is part of a model, so models share trees.

    Parameters
    ----------
    trees
        All trees, round after round.
    tree_output
        The output to which each tree adds (XGBoost's `tree_info`); 0 of a tree of all.
    round_starts
        The first tree of each round, then the number of trees.
    tree_weights
        (trees,): the factor on the leaf values of each tree, which DART learns beside
        the trees. It is replaced as a whole, never changed. None: the trees count as
        they are.
    linear
        The linear model, which then stands in the place of trees.
    num_parallel_tree
        Trees for each output in a round.
    base_score
        One number for each output: a prediction, or for ``multi:*`` a margin.
    boost_from_average
        Whether `base_score` was estimated from the labels.
    objective
        Name of the objective.
    objective_config
        The objective's parameters as XGBoost groups and writes them.
    objective_state
        What the rounds so far leave for the next, by its names in XGBoost's files.
        It is replaced as a whole.
    num_class, num_target
        0 and 1 unless there are several classes or several targets.
    num_feature
        Number of columns that the trees were trained on.
    feature_names, feature_types
        One for each feature, or none.
    categories
        The names of the categories of each feature, where they have names.
    attributes
        What callers have attached, such as ``best_iteration``.
    exact_features
        Whether features are compared with thresholds as they are. If not, they are
        rounded to float32 first: so were, or might have been, the features that the
        trees were grown on. XGBoost's files need that.
    double_scores
        Whether leaf values are summed in float64: float32 could not tell the labels
        of training apart.
    unseen_missing
        Whether a category that `categories` does not name counts as missing. If not,
        it is an error.
    """

    trees: list[Tree] = field(default_factory=list)
    tree_output: list[int] = field(default_factory=list)
    round_starts: list[int] = field(default_factory=lambda: [0])
    tree_weights: NDArray[np.float32] | None = None
    linear: Linear | None = None
    num_parallel_tree: int = 1
    base_score: NDArray[np.float64] = field(default_factory=_half)
    boost_from_average: bool = True
    objective: str = "reg:squarederror"
    objective_config: dict[str, dict[str, str]] = field(default_factory=_plain_loss)
    objective_state: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    num_class: int = 0
    num_target: int = 1
    num_feature: int = 0
    feature_names: list[str] = field(default_factory=list)
    feature_types: list[str] = field(default_factory=list)
    categories: Categories = NO_CATEGORIES
    attributes: dict[str, str] = field(default_factory=dict)
    exact_features: bool = True
    double_scores: bool = False
    unseen_missing: bool = False

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
        """The factor on the leaf values of each tree, 1 where there is no other."""
        if self.tree_weights is None:
            return np.ones(len(self.trees), np.float32)
        return self.tree_weights

    @property
    def leaf_size(self) -> int:
        """Values of a leaf: 1, or one for each output; 0 before the first tree."""
        return self.trees[0].leaf_size if self.trees else 0

    def copy(self) -> Model:
        """Return a model that can be changed without a change of this one."""
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

    def beginning(self) -> Model:
        """Return the model of before the first round."""
        part = self.copy()
        part.trees, part.tree_output, part.round_starts = [], [], [0]
        if part.tree_weights is not None:
            part.tree_weights = part.tree_weights[:0]
        for name in _ATTRIBUTES_OF_ALL_ROUNDS:
            part.attributes.pop(name, None)
        return part

    def add_round(
        self,
        trees: Sequence[Tree],
        outputs: Sequence[int],
        weights: NDArray[np.float32],
    ) -> None:
        """Add a round of trees, which add to these outputs and have these weights."""
        if self.tree_weights is not None:
            self.tree_weights = np.concatenate([self.tree_weights, weights])
        self.trees += trees
        self.tree_output += outputs
        self.round_starts.append(len(self.trees))

    def slice(self, begin: int, end: int, step: int = 1) -> Model:
        """Return a model of every `step`-th round from `begin` up to before `end`.

        The attributes that speak of all rounds, such as ``best_iteration``, are left
        out.
        """
        if self.linear is not None:
            raise ParameterError(
                "a model of booster='gblinear' changes as a whole and has no rounds to "
                "take from it; copy() takes all of it",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if not 0 <= begin < end <= self.n_rounds:
            raise IndexError(
                f"rounds {begin} up to {end} are not a part of this model, which has "
                f"{self.n_rounds} rounds; give 0 <= begin < end <= {self.n_rounds}"
            )
        if step < 1:
            raise ValueError(f"the step is {step}; give 1 or more")
        part = self.beginning()
        part.add_rounds_of(self, range(begin, end, step))
        return part

    def add_rounds_of(self, other: Model, rounds: Iterable[int]) -> None:
        """Add some rounds of a model of as many outputs."""
        for number in rounds:
            trees = slice(*other.round_starts[number : number + 2])
            self.add_round(
                other.trees[trees], other.tree_output[trees], other.weights[trees]
            )


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """One weight for each feature and output. It never changes: rounds make new ones.

    Attributes
    ----------
    weights
        (features + 1, outputs) float32; the last are the biases, on top of the base
        score.
    rounds
        How many rounds have been learned.
    last_change
        The largest change of a weight in the last of them.
    """

    weights: NDArray[np.float32]
    rounds: int = 0
    last_change: float = np.inf

    @classmethod
    def zero(cls, features: int, outputs: int) -> Linear:
        """Return the model of no rounds."""
        return cls(np.zeros((features + 1, outputs), np.float32))


# What must be the same, and how to make it so.
_SHARED = {
    "objective": "train them with the same objective",
    "objective_config": "train them with the same parameters of the objective",
    "num_class": "train them with the same classes",
    "num_target": "train them on as many targets",
    "num_feature": "train them on the same columns",
    "feature_names": "train them on the same columns",
    "feature_types": "train them on the same columns",
    "categories": "train them on columns with the same categories",
    "num_parallel_tree": "train them with the same number",
    "exact_features": "train them on columns of the same precision",
    "unseen_missing": "train them with the same unseen",
}


def merge_models(models: Sequence[Model]) -> Model:
    """Return a model of the rounds of all models, which have one base score.

    Trees of a model whose trees have no weights get the weight 1 beside others.
    """
    first = models[0]
    merged = first.beginning()
    if any(model.tree_weights is not None for model in models):
        merged.tree_weights = merged.weights
    for model in models:
        _check_alike(first, model)
        merged.double_scores |= model.double_scores
        merged.add_rounds_of(model, range(model.n_rounds))
    return merged


def _check_alike(first: Model, other: Model) -> None:
    if first.linear is not None or other.linear is not None:
        raise ParameterError(
            "linear models cannot be put together: they have no rounds of their own; "
            "train one on with xgb_model",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    for name, advice in _SHARED.items():
        ours, theirs = getattr(first, name), getattr(other, name)
        if ours != theirs:
            raise ParameterError(
                f"the models differ in {name} ({ours!r:.60} and {theirs!r:.60}) and "
                f"cannot be put together; {advice}",
                code=ErrorCode.MODELS_NOT_MERGEABLE,
            )
    if len({tree.value.ndim for tree in (*first.trees, *other.trees)}) > 1:
        raise ParameterError(
            "one model has trees of all outputs and the other has not, and they cannot "
            "be put together; train them with the same multi_strategy",
            code=ErrorCode.MODELS_NOT_MERGEABLE,
        )
    if not np.array_equal(first.base_score, other.base_score):
        raise ParameterError(
            f"the models have the base scores {first.base_score.tolist()} and "
            f"{other.base_score.tolist()}, and one model has one; train them with the "
            "same base_score",
            code=ErrorCode.MODELS_NOT_MERGEABLE,
        )
