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

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.cross_validation import FoldModels, fold_rows, new_fold
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.metrics.registry import maximize_of
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
#: A round is better than the best one if its score is so by more than this share: a
#: thousand rounds that gain nothing that matters are not worth their time.
_LEAST_GAIN = 1e-4

Objective = ObjectiveFunction | ScalarLoss | None


class Quality(NamedTuple):
    """What a quality fixes.

    Attributes
    ----------
    learning_rate, max_depth
        The parameters.
    patience
        The number of rounds without improvement after which a training stops.
    max_rounds
        At most so many rounds are tried.
    fold_rows
        Another fold is held out, up to all five, until these have so many rows.
    races
        Whether two sizes of leaves are tried.
    """

    learning_rate: float
    max_depth: int
    patience: int
    max_rounds: int
    fold_rows: int
    races: bool


QUALITIES = {
    "fast": Quality(0.2, 5, 15, 500, 0, races=False),
    "auto": Quality(0.1, 5, 30, 1000, 600, races=True),
    "best": Quality(0.05, 5, 60, 4000, 100_000, races=True),
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
    """

    params: dict[str, Any]
    rounds: int
    patience: int | None = None
    chosen: Mapping[str, Any] = MappingProxyType({})


def choose(
    quality: str,
    params: Mapping[str, Any],
    dtrain: Any,
    *,
    has_evals: bool,
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
    preset = preset._replace(patience=patience or preset.patience)
    added = {"learning_rate": preset.learning_rate}
    if not given.keys() & {"max_depth", "max_leaves", "grow_policy"}:
        added["max_depth"] = preset.max_depth
    sizes = [added | size for size in _leaf_sizes(given, dtrain)]
    if has_evals:
        choice = Choice(sizes[0], preset.max_rounds, preset.patience)
        return _told(p, choice, quality, {"held_out": "eval_set"})
    folds = _held_out(preset, p, dtrain, Booster(given).objective.task)
    candidates = [
        _Candidate(size, dtrain, folds, given | size, obj, custom_metric)
        for size in sizes[: 1 + preset.races]
    ]
    winner = _race(candidates, preset)
    if math.isnan(winner.best_score):
        reason = f"{winner.metric} is not defined on the held-out rows"
        return _told(p, without, quality, {"not_chosen": reason})
    train, test = folds[0]
    rounds = round((winner.best_round + 1) * dtrain.n_rows / len(train))
    found = {
        "n_estimators": rounds,
        "held_out": f"{len(folds)} x {len(test)} rows",
        winner.metric: winner.best_score,
    }
    return _told(p, Choice(winner.params, rounds), quality, found)


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


def _leaf_sizes(given: Mapping[str, Any], dtrain: DMatrix) -> list[dict[str, Any]]:
    """Return parameters of the least size of leaves: the usual one, then the other.

    Where hessians count rows they are limited, as histograms have them in any case.
    """
    if given.keys() & {"min_child_weight", "min_samples_leaf"}:
        return [{}]
    few = min(_FEW_ROWS_OF_LEAF, _ROWS_OF_LEAF)
    rows = [min(_ROWS_OF_LEAF, max(few, dtrain.n_rows // 50)), few]
    objective = Booster(given).objective
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
        all_params: dict[str, Any],
        obj: Objective,
        custom_metric: MetricFunction | None,
    ) -> None:
        self.params = params
        self.metric = ""
        self.best_score = math.nan
        self.best_round = 0
        self._dtrain = dtrain
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
        if number == 0 or self._is_better(score, self.best_score, _LEAST_GAIN):
            self.best_score, self.best_round = score, number

    def leads(self, other: _Candidate) -> bool:
        """Return whether this one is better than another by the margin of the race."""
        return self._is_better(self.best_score, other.best_score, _RACE_MARGIN)

    def _is_better(self, score: float, other: float, margin: float) -> bool:
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
