"""Parameters and rounds that the estimators choose from the data: `quality`.

Early stopping on held-out rows finds the number of rounds, and a race the least size of
leaves. The model is then trained on all rows, for as many more rounds as there are more
rows. The idea of a hold-out and a second training, with its scaling of the rounds, is
that of chimeraboost.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hornbeam.bagging import shared_base_score
from hornbeam.boosting.booster import Booster, average
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.cross_validation import FoldModels, fold_rows, new_fold
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.metrics.registry import maximize_of
from hornbeam.objectives.base import Objective as BuiltInObjective
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters

__all__ = ["CHOSEN", "DEFAULT_ROUNDS", "QUALITIES", "Choice", "choose", "described"]

#: The attribute of a booster that tells what was chosen, as JSON.
CHOSEN = "hornbeam_chosen"
#: XGBoost's number of rounds, of models for which nothing is chosen.
DEFAULT_ROUNDS = 100
#: Held-out rows are one of this number of folds.
_FOLDS = 5
#: Rows in a leaf, at least: a size that suits most data (it is LightGBM's, too), and
#: one that finds small groups of rows.
_ROWS_OF_LEAF = 20
_FEW_ROWS_OF_LEAF = 2
#: After so many rounds of both sizes the first is kept, unless the other's score is
#: better by more than this share.
_RACE_ROUNDS = 25
_RACE_MARGIN = 0.01
#: The rounds of averaged models, by those that are best for one alone on as many rows.
_MORE_ROUNDS = 1.1
#: A round is better than the best one if its score is so by more than this share: a
#: thousand rounds that gain nothing that matters are not worth their time.
_LEAST_GAIN = 1e-4

Objective = ObjectiveFunction | ScalarLoss | None


class Quality(NamedTuple):
    """What a quality fixes.

    Attributes
    ----------
    learning_rate
        The parameter.
    max_depths
        The depths of trees; of several the one with the best score is chosen.
    patience
        The number of rounds without improvement after which a training stops.
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
    max_depths: tuple[int, ...]
    patience: int
    max_rounds: int
    fold_rows: int
    races: bool
    averages: bool


QUALITIES = {
    "fast": Quality(0.2, (5,), 15, 500, 0, races=False, averages=False),
    "auto": Quality(0.1, (5,), 30, 1000, 600, races=True, averages=False),
    "best": Quality(0.05, (4, 6, 8), 60, 4000, 10**9, races=True, averages=True),
}


class Choice(NamedTuple):
    """What was chosen for a training.

    Attributes
    ----------
    params
        Parameters, in addition to the given ones.
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
    patience: int | None = None
    chosen: Mapping[str, Any] = MappingProxyType({})
    booster: Booster | None = None


def choose(
    quality: str,
    params: Mapping[str, Any],
    dtrain: Any,
    *,
    has_evals: bool,
    may_average: bool = True,
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
    has_evals
        Whether the user's evaluation data stop the training, so no row is held out.
    may_average
        Whether the model may be an average. Callbacks see the training of all rows.
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
    without = Choice({}, DEFAULT_ROUNDS, patience)
    reason = _reason_against(p, dtrain, has_evals)
    if reason is not None:
        return _told(p, without, quality, {"not_chosen": reason})
    preset = preset._replace(
        patience=patience or preset.patience, averages=preset.averages and may_average
    )
    depths: list[dict[str, Any]] = [{}]
    if not given.keys() & {"max_depth", "max_leaves", "grow_policy"}:
        depths = [{"max_depth": depth} for depth in preset.max_depths]
    objective = Booster(given).objective
    sizes = _leaf_sizes(given, dtrain, objective)
    rate = {"learning_rate": preset.learning_rate}
    if has_evals:
        # The depth in the middle is neither the fastest nor the slowest to learn.
        usual = {**rate, **depths[len(depths) // 2], **sizes[0]}
        choice = Choice(usual, preset.max_rounds, preset.patience)
        return _told(p, choice, quality, {"held_out": "eval_set"})
    folds = _held_out(preset, p, dtrain, objective.task)
    if preset.averages:
        given |= shared_base_score(given, dtrain, obj)
    trials = (
        [
            _Candidate(
                {**rate, **depth, **size}, dtrain, folds, given, obj, custom_metric
            )
            for size in sizes[: 1 + preset.races]
        ]
        for depth in depths
    )
    leader = _best_of([_race(candidates, preset) for candidates in trials])
    if math.isnan(leader.best_score):
        reason = f"{leader.metric} is not defined on the held-out rows"
        return _told(p, without, quality, {"not_chosen": reason})
    train, test = folds[0]
    choice = Choice(
        leader.params, round((leader.best_round + 1) * dtrain.n_rows / len(train))
    )
    if preset.averages:
        booster = leader.average(p.nthread)
        choice = Choice(leader.params, booster.num_boosted_rounds(), booster=booster)
    found = {
        "n_estimators": choice.rounds,
        "held_out": f"{len(folds)} x {len(test)} rows",
        leader.metric: leader.best_score,
    }
    return _told(p, choice, quality, found)


def _told(p: Parameters, choice: Choice, quality: str, found: dict[str, Any]) -> Choice:
    """Return a choice with all that was found; write it to stderr if verbose."""
    chosen = {"quality": quality, **choice.params, **found}
    if p.verbosity >= 2:
        sys.stderr.write(f"chosen: {described(chosen)}\n")
    return choice._replace(chosen=chosen)


def described(chosen: Mapping[str, Any]) -> str:
    """Return what was chosen as text."""
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in chosen.items()
    )


def _reason_against(p: Parameters, dtrain: Any, has_evals: bool) -> str | None:
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
        return f"{units} {unit} are too few to hold some out"
    return None


def _leaf_sizes(
    given: Mapping[str, Any], dtrain: DMatrix, objective: BuiltInObjective
) -> list[dict[str, Any]]:
    """Return parameters of the least size of leaves: the usual one, then the other.

    Where hessians count rows they are limited, as histograms have them in any case.
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
        task in ("binary", "classes")
        and dtrain.n_targets == 1
        and dtrain.info.group_ptr is None
    )
    folds = fold_rows(dtrain, _FOLDS, is_stratified, None, p.seed % 2**32, True)
    wanted = math.ceil(preset.fold_rows * _FOLDS / dtrain.n_rows)
    return folds[: min(_FOLDS, max(1, wanted))]


class _Candidate:
    """A model of each fold, all with the same parameters.

    Attributes
    ----------
    params
        The parameters that are chosen.
    metric
        The name of the metric.
    best_score, best_round
        Its best mean over the folds, and in which round that was.
    """

    def __init__(
        self,
        params: dict[str, Any],
        dtrain: DMatrix,
        folds: list[tuple[Any, Any]],
        given: Mapping[str, Any],
        obj: Objective,
        custom_metric: MetricFunction | None,
    ) -> None:
        self.params = params
        self.metric = ""
        self.best_score = math.nan
        self.best_round = 0
        self._dtrain = dtrain
        all_params = {**given, **params}
        self._models = FoldModels(
            [new_fold(dtrain, *rows, all_params) for rows in folds], ("test",)
        )
        self._obj = obj
        self._custom_metric = custom_metric
        if obj is None and custom_metric is None:
            self._models.divide_threads(Parameters.resolve(all_params).nthread)

    def update(self, number: int) -> None:
        """Add a round, and measure it."""
        self._models.update(self._dtrain, number, self._obj)
        is_margin = self._obj is not None and not isinstance(self._obj, ScalarLoss)
        name, (score, _) = self._models.measure(None, self._custom_metric, is_margin)[
            -1
        ]
        self.metric = name.removeprefix("test-")
        if number == 0 or self.is_better(score, self.best_score, _LEAST_GAIN):
            self.best_score, self.best_round = score, number

    def leads(self, other: _Candidate) -> bool:
        """Return whether this one is better than another by the margin of the race."""
        return self.is_better(self.best_score, other.best_score, _RACE_MARGIN)

    def average(self, nthread: int) -> Booster:
        """Return the average of the models of all folds, up to about the best round."""
        boosters = [fold.bst for fold in self._models.cvfolds]
        rounds = round((self.best_round + 1) * _MORE_ROUNDS)
        rounds = min(rounds, self._models.num_boosted_rounds())
        averaged = average([booster[:rounds] for booster in boosters])
        averaged.set_param("nthread", nthread)
        return averaged.reset()

    def is_better(self, score: float, other: float, margin: float = 0.0) -> bool:
        """Return whether a score is better than another by more than a share of it."""
        gain = score - other if maximize_of(self.metric) else other - score
        return gain > margin * abs(other)


def _race(candidates: list[_Candidate], preset: Quality) -> _Candidate:
    """Return the candidate that leads after some rounds, trained until it stops."""
    leader, *others = candidates
    for number in range(preset.max_rounds):
        for candidate in (leader, *others):
            candidate.update(number)
        if number + 1 == _RACE_ROUNDS:
            leader = next((other for other in others if other.leads(leader)), leader)
            others = []
        if not others and number - leader.best_round >= preset.patience:
            break
    return leader


def _best_of(candidates: list[_Candidate]) -> _Candidate:
    """Return the first candidate with the best score."""
    leader, *others = candidates
    for other in others:
        if other.is_better(other.best_score, leader.best_score):
            leader = other
    return leader
