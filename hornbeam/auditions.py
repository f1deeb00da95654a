"""Auditions: models of the folds of some data, and races of a few rounds between them.

A candidate is a set of parameters and derived features, with a model of each fold. A
leader is challenged by one proposal after the other: each gets as many rounds as the
leader has, and takes its place if its score on the held-out rows is better by a margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from hornbeam.boosting.booster import Booster, average
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.cross_validation import Fold, FoldModels, new_fold
from hornbeam.data.dmatrix import DMatrix
from hornbeam.features.matrix import Recipe, derived
from hornbeam.metrics.registry import maximize_of
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters

__all__ = [
    "Candidate",
    "Objective",
    "Proposal",
    "Trial",
    "audition",
    "best_of",
]

#: The rounds of a race, and the share by which most challengers have to be better then.
_RACE_ROUNDS = 25
_RACE_MARGIN = 0.01
#: A challenger goes on if it is better by so much after the first rounds.
_HEAT_ROUNDS = 10
_HEAT_MARGIN = 0.005
#: At a higher rate than this one models learn as much in fewer rounds.
_RACE_RATE = 0.1
#: Formulas are screened by so many trees of this depth, on at most so many rows.
_SCREENED_ROUNDS = 10
_SCREENED_DEPTH = 4
_SCREENED_ROWS = 4000
#: The rounds of averaged models, by those that are best for one alone on as many rows.
_MORE_ROUNDS = 1.1
#: Rounds are measured after each further eighth of their number, of five at least.
_MEASURED_PARTS = 8
_MEASURED_STEP = 5
#: A round is better than the best one if its score is so by more than this share: a
#: thousand rounds that gain nothing that matters are not worth their time.
_LEAST_GAIN = 5e-4
#: The first patience grows by one round in each of so many of the best round.
_WAIT_PARTS = 5

Objective: TypeAlias = ObjectiveFunction | ScalarLoss | None


class Trial(NamedTuple):
    """What all candidates have in common.

    Attributes
    ----------
    data
        All rows.
    folds
        The training rows and the held-out rows of each fold.
    given
        The parameters of the user.
    obj, custom_metric
        As for `train`.
    """

    data: DMatrix
    folds: list[tuple[Any, Any]]
    given: Mapping[str, Any]
    obj: Objective
    custom_metric: MetricFunction | None


class Candidate:
    """A model of each fold, all with the same parameters and formulas.

    Parameters
    ----------
    trial
        What it has in common with all candidates.
    params, recipe, margin
        The attributes.
    folds
        Those of another candidate, whose matrices are used again; empty: new ones.

    Attributes
    ----------
    params
        The parameters that are chosen.
    recipe
        The derived features; None: there are none.
    margin
        The share by which it has to be better than a leader.
    models
        The models of the folds.
    metric
        The name of the metric.
    rounds
        The number of rounds so far.
    scores
        The mean over the folds after so many rounds, for those that were measured.
    best_score, best_round
        The best of them, and in which round that was.
    """

    def __init__(
        self,
        trial: Trial,
        params: dict[str, Any],
        recipe: Recipe | None = None,
        margin: float = _RACE_MARGIN,
        *,
        folds: Sequence[Fold] = (),
    ) -> None:
        self.params, self.recipe, self.margin = params, recipe, margin
        self.metric = ""
        self.rounds = 0
        self.scores: dict[int, float] = {}
        self.best_score = math.nan
        self.best_round = 0
        self._trial = trial
        all_params = {**trial.given, **params}
        p = Parameters.resolve(all_params)
        # Each fold has a seed of its own, for sampling.
        by_fold = [
            {**all_params, "seed": p.seed + number}
            for number in range(len(trial.folds))
        ]
        own = [
            fold._replace(bst=Booster(fold_params, [fold.dtrain]))
            for fold, fold_params in zip(folds, by_fold, strict=False)
        ] or [
            new_fold(trial.data, *rows, fold_params, recipe=recipe)
            for rows, fold_params in zip(trial.folds, by_fold, strict=True)
        ]
        self.models = FoldModels(own, ("test",))
        is_compiled = trial.obj is None or isinstance(trial.obj, ScalarLoss)
        if is_compiled and trial.custom_metric is None:
            self.models.divide_threads(p.nthread)

    def variant(
        self,
        params: Mapping[str, Any] | None = None,
        recipe: Recipe | None = None,
        margin: float = _RACE_MARGIN,
    ) -> Candidate:
        """Return an untrained candidate with other parameters or further formulas."""
        if self.recipe is not None and recipe is not None:
            recipe = self.recipe.with_more(recipe)
        params = {**self.params, **(params or {})}
        # The matrices of linear leaves have values, those of constant leaves only bins.
        is_same = params.get("leaf_model") == self.params.get("leaf_model")
        folds = self.folds if is_same and recipe is None else ()
        recipe = recipe or self.recipe
        return Candidate(self._trial, params, recipe, margin, folds=folds)

    def train(
        self, patience: int, max_rounds: int, first_patience: int | None = None
    ) -> None:
        """Add rounds until the score has not improved for as many as `patience`.

        With a `first_patience` the first rounds wait for so many, and a fifth of the
        best round more: what is best early has hardly more to find.
        """
        while self.rounds < max_rounds:
            waits = patience
            if first_patience is not None:
                waits = min(patience, first_patience + self.best_round // _WAIT_PARTS)
            if self.rounds > self.best_round + waits:
                break
            self._add_rounds(min(self._next_measure(patience), max_rounds))
            self._measure()

    def race(self, rounds: int) -> None:
        """Add rounds up to this number, and measure the held-out rows only then."""
        self._add_rounds(rounds)
        self._measure()

    def _add_rounds(self, rounds: int) -> None:
        """Add rounds up to this number."""
        more = rounds - self.rounds
        self.models.update(self._trial.data, self.rounds, self._trial.obj, more)
        self.rounds = rounds

    def _next_measure(self, patience: int) -> int:
        """Return after how many rounds the held-out rows are measured next."""
        if not self.scores:
            return 1
        measured = next(reversed(self.scores))
        step = max(_MEASURED_STEP, measured // _MEASURED_PARTS)
        return measured + min(step, max(1, patience // 2))

    def _measure(self) -> None:
        """Measure the held-out rows."""
        obj = self._trial.obj
        is_margin = obj is not None and not isinstance(obj, ScalarLoss)
        scores = self.models.measure(None, self._trial.custom_metric, is_margin)
        name, (score, _) = scores[-1]
        self.metric = name.removeprefix("test-")
        if not self.scores or self.is_better(score, self.best_score, _LEAST_GAIN):
            self.best_score, self.best_round = score, self.rounds - 1
        self.scores[self.rounds] = score

    def leads(self, other: Candidate, margin: float = 0.0) -> bool:
        """Return whether its best score is better than another's by a share of it."""
        return self.is_better(self.best_score, other.best_score, margin)

    def gains(self) -> dict[str, float]:
        """Return the total gain of each feature that trees split on, by name."""
        gains: dict[str, float] = {}
        for fold in self.folds:
            scores = fold.bst.get_score(importance_type="total_gain")
            for name, gain in scores.items():
                gains[name] = gains.get(name, 0.0) + float(gain)
        return gains

    def screened(self, recipe: Recipe, most: int) -> Recipe | None:
        """Return the formulas that trees gain most by beyond this model.

        A few trees are grown on training rows of the first fold, from the margins of
        its model.

        Parameters
        ----------
        recipe
            The formulas.
        most
            At most so many are returned; None instead of a recipe without any.
        """
        fold, trial = self.folds[0], self._trial
        rows = trial.folds[0][0]
        step = max(1, len(rows) // _SCREENED_ROWS)
        if trial.data.info.group_ptr is not None:
            step = 1
        margins = fold.bst.predict(fold.dtrain, output_margin=True)[::step]
        part = trial.data.slice(rows[::step], allow_groups=True)
        part.info.set({"base_margin": margins})
        screen = derived(part, recipe)
        booster = Booster({**trial.given, **self.params, "max_depth": _SCREENED_DEPTH})
        for number in range(_SCREENED_ROUNDS):
            booster.update(screen, number, trial.obj)
        gains = booster.get_score(importance_type="total_gain")
        ranked = sorted(
            (text for text in recipe.formulas if text in gains),
            key=lambda text: -float(gains[text]),
        )
        return recipe._replace(formulas=tuple(ranked[:most])) if ranked else None

    @property
    def folds(self) -> list[Fold]:
        """The folds, with all rounds."""
        return self.models.cvfolds

    def boosters(self) -> list[Booster]:
        """Return the models of all folds, with the rounds that suit their average."""
        rounds = round((self.best_round + 1) * _MORE_ROUNDS)
        rounds = min(rounds, self.models.num_boosted_rounds())
        return [fold.bst[:rounds] for fold in self.folds]

    def average(self, nthread: int) -> Booster:
        """Return the average of the models of all folds, up to about the best round."""
        averaged = average(self.boosters())
        averaged.set_param("nthread", nthread)
        return averaged.reset()

    def is_better(self, score: float, other: float, margin: float = 0.0) -> bool:
        """Return whether a score is better than another by more than a share of it."""
        gain = score - other if maximize_of(self.metric) else other - score
        return gain > margin * abs(other)


#: Returns a challenger of a leader, untrained; None if there is none.
Proposal: TypeAlias = Callable[[Candidate], Candidate | None]


def audition(
    leader: Candidate, proposals: Iterable[Proposal], max_rounds: int
) -> Candidate:
    """Return the leader after the races against all challengers.

    Each proposal is asked when the leader has the rounds of a race, so that it can
    build on its trees and its parameters. A challenger that is not ahead after the
    first rounds goes no further.
    """
    share = min(1.0, _RACE_RATE / leader.params["learning_rate"])
    rounds = min(round(_RACE_ROUNDS * share), max_rounds)
    heat = min(round(_HEAT_ROUNDS * share), max_rounds)
    leader.train(rounds, heat)
    leader.train(rounds, rounds)
    for proposal in proposals:
        challenger = proposal(leader)
        if challenger is None:
            continue
        challenger.race(heat)
        scores = challenger.scores[heat], leader.scores[heat]
        if not challenger.is_better(*scores, _HEAT_MARGIN):
            continue
        challenger.race(rounds)
        if challenger.leads(leader, challenger.margin):
            leader = challenger
    return leader


def best_of(candidates: Iterable[Candidate]) -> Candidate:
    """Return the first candidate with the best score."""
    leader, *others = candidates
    for other in others:
        if other.leads(leader):
            leader = other
    return leader
