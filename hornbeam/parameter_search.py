"""The search for parameters: which are tried on some data, in which order.

Early stopping on held-out rows finds the number of rounds, and races the least size of
leaves, linear leaves and derived features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from hornbeam.auditions import (
    Candidate,
    Objective,
    Proposal,
    Trial,
    audition,
    best_of,
)
from hornbeam.bagging import shared_base_score
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction
from hornbeam.cross_validation import fold_rows
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.data.schema import Schema
from hornbeam.errors import ParameterError
from hornbeam.features.matrix import Recipe, reason_against
from hornbeam.features.proposals import (
    FeatureOptions,
    cross_features,
    means_of_pairs,
    target_means,
)
from hornbeam.log import LOGGER
from hornbeam.objectives.base import Objective as BuiltInObjective
from hornbeam.params import GAIN_EPSILON, Parameters

__all__ = [
    "CONSTRAINTS",
    "DEFAULT_ROUNDS",
    "ParameterSearch",
    "Preset",
    "number_of_classes",
]

#: XGBoost's number of rounds, of models for which nothing is chosen.
DEFAULT_ROUNDS = 100
#: Parameters that say what trees may do with some features.
CONSTRAINTS = ("monotone_constraints", "interaction_constraints", "feature_costs")
#: Held-out rows are one of this number of folds.
_FOLDS = 5
#: Rounds of more than so many trees, as of many classes, are fewer in proportion, but
#: not fewer than `DEFAULT_ROUNDS`; the folds have at most so many trees in a round.
_TREES_OF_ROUND = 10
_TREES_OF_FOLDS = 20
#: Rows in a leaf, at least: a size that suits most data (it is LightGBM's, too), and
#: one that finds small groups of rows.
_ROWS_OF_LEAF = 20
_FEW_ROWS_OF_LEAF = 2
#: Where the sum of squared deviations of the labels is less than this, a ten thousandth
#: of it is no gain for a split, unless that is in proportion to the labels.
_LEAST_SQUARES = 1e4 * GAIN_EPSILON
#: Leaf values are of float32, which loses digits below 1e-38: those of labels with a
#: standard deviation of less than this.
_LEAST_DEVIATION = 1e-32
#: The tasks of objectives whose labels are classes.
_CLASS_TASKS = ("binary", "classes")
#: Crosses of features are tried of so many rows or more.
_ROWS_OF_CROSSES = 4000
#: Of all crosses so many are tried together.
_MOST_CROSSES = 6
#: They have to be better by this share: they were the best of many on few rows.
_CROSSES_MARGIN = 0.02
#: The mean labels of levels are tried for columns of so many levels or more.
_LEVELS_OF_MEANS = 50
#: More of them, as of many classes, are not worth their time.
_MOST_MEANS = 20
#: The parameters of linear leaves.
_LINEAR = {"leaf_model": "linear"}


class Preset(NamedTuple):
    """How long to search, and where from.

    Attributes
    ----------
    learning_rate
        The parameter, for constant leaves.
    linear_rate
        The same for linear leaves, which fit more in each tree.
    bags_linear_rate
        The same for linear leaves of bags, whose average needs less shrinkage.
    max_depths
        The depths of trees; of several the one with the best score is chosen.
    first_patience, patience
        The number of rounds without improvement after which a training stops: at its
        first rounds, and at most.
    max_rounds
        At most so many rounds are tried.
    fold_rows
        Another fold is held out, up to all five, until these have so many rows.
    races
        Whether two sizes of leaves are tried.
    averages
        Whether the model is the average of those of the folds, instead of one that is
        trained on all rows.
    """

    learning_rate: float
    linear_rate: float
    bags_linear_rate: float
    max_depths: tuple[int, ...]
    first_patience: int
    patience: int
    max_rounds: int
    fold_rows: int
    races: bool
    averages: bool

    def waiting(self, patience: int | None) -> Preset:
        """Return the same with the user's patience, if there is one."""
        if not patience:
            return self
        return self._replace(first_patience=patience, patience=patience)


class ParameterSearch:
    """A search for the parameters of some data that are not given.

    Parameters
    ----------
    preset
        How long to search, and where from.
    params
        The parameters of the user, without those that are None.
    dtrain
        Training data.
    """

    def __init__(self, preset: Preset, params: Mapping[str, Any], dtrain: Any) -> None:
        self.preset = preset
        self._given = dict(params)
        self._p = Parameters.resolve(self._given)
        self._objective = Booster(self._given).objective
        self._data = dtrain

    def reason_against(self, has_evals: bool) -> str | None:
        """Return why nothing can be chosen; None if it can.

        `has_evals`: whether the user's evaluation data stop the training, so that no
        row is held out.
        """
        if self._p.booster != "gbtree":
            return f"booster={self._p.booster!r} has no rounds to choose"
        if self._p.process_type != "default":
            return "trees that are updated are those of the given model"
        if not isinstance(self._data, DMatrix):
            return "on a cluster nothing is chosen"
        if has_evals:
            return None
        pointers = self._data.info.group_ptr
        units, unit = self._data.n_rows, "rows"
        if pointers is not None:
            units, unit = len(pointers) - 1, "groups"
        if units < 2 * _FOLDS:
            return f"too few {unit} to hold some out: {units}"
        return self._reason_of_labels()

    def _reason_of_labels(self) -> str | None:
        """Return why no fold of the labels can be held out; None if one can."""
        labels, task = self._data.info["label"], self._objective.task
        if labels is None or self._data.n_targets > 1 or task not in _CLASS_TASKS:
            return None
        weights = self._data.info.row_weights
        counted = labels if weights is None else labels[weights > 0.0]
        if np.all(counted == counted[:1]):
            return "all rows are of one class"
        if task == "classes" and np.unique(labels).size == labels.size:
            return "no class has two rows, one to hold out and one to train on"
        return None

    @cached_property
    def max_rounds(self) -> int:
        """At most so many rounds are tried."""
        preset = self.preset.max_rounds
        most = preset * _TREES_OF_ROUND // self._trees
        return min(preset, max(DEFAULT_ROUNDS, most))

    @cached_property
    def folds(self) -> list[tuple[Any, Any]]:
        """The training rows and the held-out rows of each fold."""
        data = self._data
        is_stratified = (
            self._objective.task in _CLASS_TASKS
            and data.n_targets == 1
            and data.info.group_ptr is None
        )
        seed = self._p.seed % 2**32
        folds = fold_rows(data, _FOLDS, is_stratified, None, seed, True)
        number = math.ceil(self.preset.fold_rows * _FOLDS / data.n_rows)
        if not self.preset.averages:
            number = min(number, _TREES_OF_FOLDS // self._trees)
        return folds[: min(_FOLDS, max(1, number))]

    @cached_property
    def _trees(self) -> int:
        """The number of trees of a round."""
        n_outputs = self._objective.n_outputs
        has_vectors = self._p.multi_output_columns(n_outputs) > 0
        return self._p.num_parallel_tree * (1 if has_vectors else n_outputs)

    @cached_property
    def _depths(self) -> list[dict[str, Any]]:
        """Parameters of the depth of trees."""
        if self._given.keys() & {"max_depth", "max_leaves", "grow_policy"}:
            return [{}]
        return [{"max_depth": depth} for depth in self.preset.max_depths]

    @cached_property
    def _leaf_sizes(self) -> list[dict[str, Any]]:
        """Parameters of the least size of leaves: the usual one, then the other.

        Where hessians count rows they are limited, as histograms have them in any case.
        Symmetric trees count no rows.
        """
        if self._given.keys() & {"min_child_weight", "min_samples_leaf"}:
            return [{}]
        usual = min(_ROWS_OF_LEAF, max(_FEW_ROWS_OF_LEAF, self._data.n_rows // 50))
        rows = list(dict.fromkeys([usual, _FEW_ROWS_OF_LEAF]))
        # The hessian of a row of classes is at most a quarter: p (1 - p).
        share = {"binary": 0.25, "classes": 0.25}.get(self._objective.task)
        if self._objective.name == "reg:squarederror":
            share = 1.0
        if share is None and self._given.get("grow_policy") == "symmetric":
            return [{}]
        if share is None:
            return [{"min_samples_leaf": count} for count in rows]
        weights = self._data.info.row_weights
        weight = share * (1.0 if weights is None else float(np.mean(weights)))
        return [{"min_child_weight": count * weight} for count in rows]

    @cached_property
    def _least_gain(self) -> dict[str, Any]:
        """The gain that splits have to exceed, for labels in a large unit.

        All splits of squared errors together gain at most the sum of squared
        deviations. Where that is small the gain is in proportion to the variance: so
        the model is that of labels in a smaller unit. Leaf values that do not hold the
        labels are logged as a warning.
        """
        labels = self._data.info["label"]
        if self._objective.name != "reg:squarederror" or labels is None:
            return {}
        labels = labels.astype(np.float64)
        if "gain_epsilon" in self._given or np.all(labels == labels[:1]):
            return {}
        weights = self._data.info.row_weights
        squares = (labels - labels.mean(axis=0)) ** 2
        total = float(squares.sum() if weights is None else (squares.T @ weights).sum())
        if total >= _LEAST_SQUARES:
            return {}
        variance = float(squares.mean())
        if variance < _LEAST_DEVIATION**2 and self._p.verbosity >= 1:
            LOGGER.warning(
                "the standard deviation of the labels is %.2g, and leaf values, which "
                "are of float32, lose digits below 1e-38; multiply the labels by a "
                "number, such as 1 / their standard deviation",
                math.sqrt(variance),
            )
        return {"gain_epsilon": GAIN_EPSILON * variance}

    def learning_rate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the learning rate that suits the leaves of these parameters."""
        linear = {**self._given, **params}.get("leaf_model") == "linear"
        rate = self.preset.linear_rate if linear else self.preset.learning_rate
        return {"learning_rate": rate}

    def usual(self, depth: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the parameters that a search begins with, those of a depth.

        Without one it is that in the middle, which is neither the fastest nor the
        slowest to learn.
        """
        if depth is None:
            depth = self._depths[len(self._depths) // 2]
        first = {**self.learning_rate({}), **depth}
        return {**first, **self._leaf_sizes[0], **self._least_gain}

    def winner(
        self,
        recipe: Recipe | None,
        features: FeatureOptions,
        obj: Objective,
        custom_metric: MetricFunction | None,
        finds_rounds: bool,
    ) -> Candidate:
        """Return the candidate with the best score on the held-out rows.

        Parameters
        ----------
        recipe
            Derived features that all candidates have.
        features
            Which features may be derived, too.
        obj, custom_metric
            As for `train`.
        finds_rounds
            Whether the number of rounds is wanted. If not, there are races, but no
            training beyond them, unless depths are compared.
        """
        given, preset = dict(self._given), self.preset
        if preset.averages:
            given |= shared_base_score(given, self._data, obj)
        trial = Trial(self._data, self.folds, given, obj, custom_metric)
        proposals: list[Proposal] = []
        if preset.races:
            proposals += self._other_leaves()
            proposals += self._derived_features(features)
        leaders = []
        for depth in self._depths:
            first = Candidate(trial, self.usual(depth), recipe)
            leader = audition(first, proposals, self.max_rounds)
            if finds_rounds or len(self._depths) > 1:
                rate = self.learning_rate(leader.params)
                if rate.items() - leader.params.items():
                    leader = leader.variant(rate)
                leader.train(preset.patience, self.max_rounds, preset.first_patience)
            leaders.append(leader)
        return best_of(leaders)

    def _other_leaves(self) -> Iterator[Proposal]:
        """Yield the other size of leaves, and linear leaves where they can be."""
        for size in self._leaf_sizes[1:]:
            yield partial(Candidate.variant, params=size)
        data, is_fixed = self._data, "leaf_model" in self._given
        if is_fixed or reason_against(data) is not None:
            return
        if len(categorical(data.feature_types)) == data.n_features:
            return
        try:
            Booster({**self._given, **_LINEAR})
        except ParameterError:
            return
        yield partial(Candidate.variant, params=_LINEAR)

    def _derived_features(self, features: FeatureOptions) -> Iterator[Proposal]:
        """Yield what derives features, where they can be and are promising."""
        p, data = self._p, self._data
        constrained = any(getattr(p, name) for name in CONSTRAINTS)
        if constrained or p.method() != "hist" or reason_against(data) is not None:
            return
        schema = data.schema
        columns = [
            feature
            for feature, levels in enumerate(schema.categories.names)
            if levels is not None and len(levels) >= _LEVELS_OF_MEANS
        ]
        is_one = data.info["label"] is not None and data.n_targets == 1
        n_classes = number_of_classes(self._objective)
        has_means = features.cat_method == "auto" and is_one
        formulas = target_means(schema, columns, n_classes)
        if has_means and 0 < len(formulas) <= _MOST_MEANS:
            recipe, usual_size = Recipe(formulas, (), p.seed), self._leaf_sizes[0]
            yield partial(Candidate.variant, recipe=recipe)
            yield partial(_with_means, recipe=recipe, usual_size=usual_size)
        if has_means and data.n_rows >= _ROWS_OF_CROSSES:
            yield partial(_paired, schema=schema, seed=p.seed, n_classes=n_classes)
        if features.cross_features == "auto" and data.n_rows >= _ROWS_OF_CROSSES:
            yield partial(_crossed, schema=schema, seed=p.seed)


def number_of_classes(objective: BuiltInObjective) -> int:
    """Return the number of classes; 0 unless the labels are classes of many outputs."""
    return objective.n_outputs if objective.task == "classes" else 0


def _with_means(
    leader: Candidate, recipe: Recipe, usual_size: dict[str, Any]
) -> Candidate | None:
    """Return a leader with mean labels of categories and the usual size of leaves.

    Small leaves learn the levels that the means tell, so that with these neither the
    means alone nor leaves of the usual size alone need be better.
    """
    if usual_size.items() <= leader.params.items():
        return None
    known = () if leader.recipe is None else leader.recipe.formulas
    has_means = set(recipe.formulas) <= set(known)
    return leader.variant(usual_size, None if has_means else recipe)


def _paired(
    leader: Candidate, schema: Schema, seed: int, n_classes: int
) -> Candidate | None:
    """Return a leader with mean labels of two categorical features at a time."""
    formulas = means_of_pairs(schema, leader.gains(), n_classes)
    if not 0 < len(formulas) <= _MOST_MEANS:
        return None
    return leader.variant(recipe=Recipe(formulas, (), seed), margin=_CROSSES_MARGIN)


def _crossed(leader: Candidate, schema: Schema, seed: int) -> Candidate | None:
    """Return a leader with crosses of the features that its trees gain most by."""
    formulas = cross_features(schema, leader.gains())
    if not formulas:
        return None
    screened = leader.screened(Recipe(formulas, (), seed), _MOST_CROSSES)
    if screened is None:
        return None
    return leader.variant(recipe=screened, margin=_CROSSES_MARGIN)
