"""Parameters and rounds that the estimators choose from the data: `quality`.

Early stopping on held-out rows finds the number of rounds, and a race the least size of
leaves. The model is then trained on all rows, for as many more rounds as there are more
rows. The idea of a hold-out and a second training, with its scaling of the rounds, is
that of chimeraboost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
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
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.matrix import Recipe, derived, reason_against
from hornbeam.features.proposals import (
    AUTOMATIC,
    FeatureOptions,
    cross_features,
    means_of_pairs,
    target_means,
)
from hornbeam.log import LOGGER
from hornbeam.objectives.base import Objective as BuiltInObjective
from hornbeam.params import GAIN_EPSILON, Parameters

__all__ = [
    "CHOSEN",
    "DEFAULT_ROUNDS",
    "QUALITIES",
    "Choice",
    "choose",
    "described",
    "given_features",
]

#: The attribute of a booster that tells what was chosen, as JSON.
CHOSEN = "hornbeam_chosen"
#: XGBoost's number of rounds, of models for which nothing is chosen.
DEFAULT_ROUNDS = 100
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
#: Parameters that say what trees may do with some features.
_CONSTRAINTS = ("monotone_constraints", "interaction_constraints", "feature_costs")
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


class Quality(NamedTuple):
    """What a quality fixes.

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

    def waiting(self, patience: int | None) -> Quality:
        """Return the same with the user's patience, if there is one."""
        if not patience:
            return self
        return self._replace(first_patience=patience, patience=patience)


QUALITIES = {
    "fast": Quality(0.2, 0.2, 0.3, (5,), 15, 15, 500, 0, races=False, averages=False),
    "auto": Quality(
        0.15, 0.2, 0.3, (5,), 10, 20, 1000, 600, races=True, averages=False
    ),
    "best": Quality(
        0.05, 0.05, 0.05, (4, 6, 8), 60, 60, 4000, 10**9, races=True, averages=True
    ),
}


class Choice(NamedTuple):
    """What was chosen for a training.

    Attributes
    ----------
    params
        Parameters, in addition to the given ones.
    recipe
        Derived features; None: the columns of the data only.
    rounds
        The number of rounds.
    patience
        Early stopping on the user's evaluation data waits for so many rounds; None: no
        early stopping.
    chosen
        All of it by name, with the score; empty if nothing was to be chosen.
    booster
        The average of the models of the folds; None: a model is to be trained.
    """

    params: dict[str, Any]
    rounds: int
    recipe: Recipe | None = None
    patience: int | None = None
    chosen: Mapping[str, Any] = MappingProxyType({})
    booster: Booster | None = None

    def training_data(self, data: DMatrix) -> DMatrix:
        """Return training data with the derived features."""
        return data if self.recipe is None else derived(data, self.recipe)


def choose(
    quality: str,
    params: Mapping[str, Any],
    dtrain: Any,
    *,
    features: FeatureOptions = AUTOMATIC,
    has_evals: bool,
    may_average: bool = True,
    finds_rounds: bool = True,
    obj: Objective = None,
    custom_metric: MetricFunction | None = None,
    patience: int | None = None,
) -> Choice:
    """Return parameters and rounds for some data.

    Parameters
    ----------
    quality
        A key of `QUALITIES`.
    params
        The parameters of the user; those that are absent or None may be chosen.
    dtrain
        Training data; for other classes than `DMatrix` nothing is chosen.
    features
        Which features are derived, or tried.
    has_evals
        Whether the user's evaluation data stop the training, so no row is held out.
    may_average
        Whether the model may be an average. Callbacks see the training of all rows.
    finds_rounds
        Whether the number of rounds is wanted. Bags find it out of bag: then there are
        races, but no training beyond them, unless depths are compared.
    obj, custom_metric
        As for `train`.
    patience
        The user's number of rounds for early stopping.
    """
    if quality not in QUALITIES:
        raise ParameterError(
            f"quality must be one of {', '.join(QUALITIES)}, or None for "
            f"{DEFAULT_ROUNDS} rounds at XGBoost's learning rate, not {quality!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    preset = QUALITIES[quality]
    given = {name: value for name, value in params.items() if value is not None}
    p = Parameters.resolve(given)
    objective = Booster(given).objective
    recipe = given_features(features, given, dtrain)
    without = Choice({}, DEFAULT_ROUNDS, recipe, patience)
    reason = _reason_against(p, dtrain, has_evals, objective)
    if reason is not None:
        return _told(p, without, quality, {"not_chosen": reason})
    preset = preset._replace(averages=preset.averages and may_average)
    if not finds_rounds:
        preset = preset._replace(linear_rate=preset.bags_linear_rate)
    preset = preset.waiting(patience)
    trees = p.num_parallel_tree
    if p.multi_output_columns(objective.n_outputs) == 0:
        trees *= objective.n_outputs
    most = max(DEFAULT_ROUNDS, preset.max_rounds * _TREES_OF_ROUND // trees)
    preset = preset._replace(max_rounds=min(preset.max_rounds, most))
    depths: list[dict[str, Any]] = [{}]
    if not given.keys() & {"max_depth", "max_leaves", "grow_policy"}:
        depths = [{"max_depth": depth} for depth in preset.max_depths]
    sizes = _leaf_sizes(given, dtrain, objective)
    always = _gain_of_small_labels(given, p, dtrain, objective)
    if has_evals:
        # The depth in the middle is neither the fastest nor the slowest to learn.
        depth = depths[len(depths) // 2]
        usual = {**_rate(preset, given), **depth, **sizes[0], **always}
        choice = Choice(usual, preset.max_rounds, recipe, preset.patience)
        return _told(p, choice, quality, {"held_out": "eval_set"})
    folds = _held_out(preset, p, dtrain, objective.task)
    if not preset.averages:
        folds = folds[: max(1, _TREES_OF_FOLDS // trees)]
    if preset.averages:
        given |= shared_base_score(given, dtrain, obj)
    trial = Trial(dtrain, folds, given, obj, custom_metric)
    proposals: list[Proposal] = []
    if preset.races:
        proposals += [partial(Candidate.variant, params=size) for size in sizes[1:]]
        proposals += _linear_proposals(given, dtrain)
        proposals += _feature_proposals(features, p, dtrain, objective, sizes[0])
    leaders = []
    for depth in depths:
        usual = {**_rate(preset, given), **depth, **sizes[0], **always}
        first = Candidate(trial, usual, recipe)
        leader = audition(first, proposals, preset.max_rounds)
        if finds_rounds or len(depths) > 1:
            rate = _rate(preset, {**given, **leader.params})
            if rate.items() - leader.params.items():
                leader = leader.variant(rate)
            leader.train(preset.patience, preset.max_rounds, preset.first_patience)
        leaders.append(leader)
    leader = best_of(leaders)
    if math.isnan(leader.best_score):
        reason = f"{leader.metric} is not defined on the held-out rows"
        return _told(p, without, quality, {"not_chosen": reason})
    train, test = folds[0]
    choice = Choice(
        {**leader.params, **_rate(preset, {**given, **leader.params})},
        round((leader.best_round + 1) * dtrain.n_rows / len(train)),
        leader.recipe,
    )
    if preset.averages:
        booster = leader.average(p.nthread)
        choice = choice._replace(rounds=booster.num_boosted_rounds(), booster=booster)
    found = {
        **_derived(leader.recipe),
        "n_estimators": choice.rounds,
        "held_out": f"{len(folds)} x {len(test)} rows",
        leader.metric: leader.best_score,
    }
    return _told(p, choice, quality, found)


def given_features(
    features: FeatureOptions, params: Mapping[str, Any], dtrain: Any
) -> Recipe | None:
    """Return the derived features that the user asks for; None if there are none.

    Raises
    ------
    ParameterError
        If an option is unknown, or formulas cannot be combined with a parameter.
    """
    features.check()
    if features.cat_method != "ordered_target" and not features.formulas:
        return None
    if not isinstance(dtrain, DMatrix):
        raise ParameterError(
            "on a cluster no features are derived; leave cross_features and "
            "cat_method out",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )
    given = {name: value for name, value in params.items() if value is not None}
    p = Parameters.resolve(given)
    for name in _CONSTRAINTS:
        if getattr(p, name):
            raise ParameterError(
                f"{name} and derived features cannot be combined, as formulas contain "
                "the features that are constrained; leave cross_features and "
                "cat_method out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    return features.given(dtrain, _classes(Booster(given).objective), p.seed)


def _classes(objective: BuiltInObjective) -> int:
    """Return the number of classes; 0 unless the labels are classes of many outputs."""
    return objective.n_outputs if objective.task == "classes" else 0


def _told(p: Parameters, choice: Choice, quality: str, found: dict[str, Any]) -> Choice:
    """Return a choice with all that was found; log it if verbose."""
    chosen = {"quality": quality, **choice.params, **found}
    if p.verbosity >= 2:
        LOGGER.info("chosen: %s", described(chosen))
    return choice._replace(chosen=chosen)


def described(chosen: Mapping[str, Any]) -> str:
    """Return what was chosen as text."""
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in chosen.items()
    )


def _reason_against(
    p: Parameters, dtrain: Any, has_evals: bool, objective: BuiltInObjective
) -> str | None:
    """Return why nothing can be chosen; None if it can."""
    if p.booster != "gbtree":
        return f"booster={p.booster!r} has no rounds to choose"
    if p.process_type != "default":
        return "trees that are updated are those of the given model"
    if not isinstance(dtrain, DMatrix):
        return "on a cluster nothing is chosen"
    if has_evals:
        return None
    pointers = dtrain.info.group_ptr
    units, unit = dtrain.n_rows, "rows"
    if pointers is not None:
        units, unit = len(pointers) - 1, "groups"
    if units < 2 * _FOLDS:
        return f"too few {unit} to hold some out: {units}"
    labels = dtrain.info["label"]
    if labels is None or dtrain.n_targets > 1 or objective.task not in _CLASS_TASKS:
        return None
    weights = dtrain.info.row_weights
    counted = labels if weights is None else labels[weights > 0.0]
    if np.all(counted == counted[:1]):
        return "all rows are of one class"
    if objective.task == "classes" and np.unique(labels).size == labels.size:
        return "no class has two rows, one to hold out and one to train on"
    return None


def _gain_of_small_labels(
    given: Mapping[str, Any],
    p: Parameters,
    dtrain: DMatrix,
    objective: BuiltInObjective,
) -> dict[str, Any]:
    """Return the gain that splits have to exceed, for labels in a large unit.

    All splits of squared errors together gain at most the sum of squared deviations.
    Where that is small the gain is in proportion to the variance: so the model is that
    of labels in a smaller unit. Log a warning if leaf values do not hold the labels.
    """
    labels = dtrain.info["label"]
    if objective.name != "reg:squarederror" or labels is None:
        return {}
    labels = labels.astype(np.float64)
    if "gain_epsilon" in given or np.all(labels == labels[:1]):
        return {}
    weights = dtrain.info.row_weights
    squares = (labels - labels.mean(axis=0)) ** 2
    total = float(squares.sum() if weights is None else (squares.T @ weights).sum())
    if total >= _LEAST_SQUARES:
        return {}
    variance = float(squares.mean())
    if variance < _LEAST_DEVIATION**2 and p.verbosity >= 1:
        LOGGER.warning(
            "the standard deviation of the labels is %.2g, and leaf values, which are "
            "of float32, lose digits below 1e-38; multiply the labels by a number, "
            "such as 1 / their standard deviation",
            math.sqrt(variance),
        )
    return {"gain_epsilon": GAIN_EPSILON * variance}


def _linear_proposals(given: Mapping[str, Any], dtrain: DMatrix) -> Iterator[Proposal]:
    """Yield linear leaves, where they can be and there are numerical features."""
    is_fixed = "leaf_model" in given or reason_against(dtrain) is not None
    if is_fixed or len(categorical(dtrain.feature_types)) == dtrain.n_features:
        return
    linear = {"leaf_model": "linear"}
    try:
        Booster({**given, **linear})
    except ParameterError:
        return
    yield partial(Candidate.variant, params=linear)


def _feature_proposals(
    features: FeatureOptions,
    p: Parameters,
    dtrain: DMatrix,
    objective: BuiltInObjective,
    usual_size: dict[str, Any],
) -> Iterator[Proposal]:
    """Yield what derives features, where they can be and are promising."""
    constrained = any(getattr(p, name) for name in _CONSTRAINTS)
    if constrained or p.method() != "hist" or reason_against(dtrain) is not None:
        return
    schema = dtrain.schema
    columns = [
        feature
        for feature, levels in enumerate(schema.categories.names)
        if levels is not None and len(levels) >= _LEVELS_OF_MEANS
    ]
    is_one = dtrain.info["label"] is not None and dtrain.n_targets == 1
    n_classes = _classes(objective)
    has_means = features.cat_method == "auto" and is_one
    formulas = target_means(schema, columns, n_classes)
    if has_means and 0 < len(formulas) <= _MOST_MEANS:
        recipe = Recipe(formulas, (), p.seed)
        yield partial(Candidate.variant, recipe=recipe)
        yield partial(_with_means, recipe=recipe, usual_size=usual_size)
    if has_means and dtrain.n_rows >= _ROWS_OF_CROSSES:
        yield partial(_paired, schema=schema, seed=p.seed, n_classes=n_classes)
    if features.cross_features == "auto" and dtrain.n_rows >= _ROWS_OF_CROSSES:
        yield partial(_crossed, schema=schema, seed=p.seed)


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


def _rate(preset: Quality, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the learning rate of the leaves that these parameters choose."""
    linear = params.get("leaf_model") == "linear"
    return {"learning_rate": preset.linear_rate if linear else preset.learning_rate}


def _derived(recipe: Recipe | None) -> dict[str, Any]:
    """Return what was chosen of derived features."""
    return {} if recipe is None else {"derived_features": list(recipe.formulas)}


def _leaf_sizes(
    given: Mapping[str, Any], dtrain: DMatrix, objective: BuiltInObjective
) -> list[dict[str, Any]]:
    """Return parameters of the least size of leaves: the usual one, then the other.

    Where hessians count rows they are limited, as histograms have them in any case.
    Symmetric trees count no rows.
    """
    if given.keys() & {"min_child_weight", "min_samples_leaf"}:
        return [{}]
    few = min(_FEW_ROWS_OF_LEAF, _ROWS_OF_LEAF)
    usual = min(_ROWS_OF_LEAF, max(few, dtrain.n_rows // 50))
    rows = list(dict.fromkeys([usual, few]))
    # The hessian of a row of classes is at most a quarter: p (1 - p).
    share = {"binary": 0.25, "classes": 0.25}.get(objective.task)
    if objective.name == "reg:squarederror":
        share = 1.0
    if share is None and given.get("grow_policy") == "symmetric":
        return [{}]
    if share is None:
        return [{"min_samples_leaf": count} for count in rows]
    weights = dtrain.info.row_weights
    weight = share * (1.0 if weights is None else float(np.mean(weights)))
    return [{"min_child_weight": count * weight} for count in rows]


def _held_out(
    preset: Quality, p: Parameters, dtrain: DMatrix, task: str
) -> list[tuple[Any, Any]]:
    """Return the training rows and the held-out rows of some folds."""
    is_stratified = (
        task in _CLASS_TASKS and dtrain.n_targets == 1 and dtrain.info.group_ptr is None
    )
    folds = fold_rows(dtrain, _FOLDS, is_stratified, None, p.seed % 2**32, True)
    wanted = math.ceil(preset.fold_rows * _FOLDS / dtrain.n_rows)
    return folds[: min(_FOLDS, max(1, wanted))]
