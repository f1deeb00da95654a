"""Bagged models: each bag is trained without one fold; the model is their average.

The folds are disjoint, so each row is out of bag once (k-fold bagging; the committees
of cross-validation of Parmanto, Munro and Doyle 1996). All bags share one set of bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hornbeam.auditions import Candidate, Trial
from hornbeam.boosting.booster import Booster, average, split_average
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.boosting.parameter_checks import check_rounds
from hornbeam.callbacks import EvalsLog, TrainingCallback
from hornbeam.callbacks.base import Score, mean_of
from hornbeam.cross_validation import Fold, FoldModels, fold_rows
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters
from hornbeam.training import run_rounds

__all__ = [
    "BAGS",
    "Bags",
    "bags_of",
    "check_n_bags",
    "find_bags",
    "shared_base_score",
    "shortened",
    "train_bags",
]

#: The attribute of a booster that holds its number of bags.
BAGS = "hornbeam_bags"
#: The rounds of a bag, as a share of those of one model.
_SHARE_OF_ROUNDS = 0.5


class Bags(NamedTuple):
    """A bagged model, and what its bags predict for the rows that they did not see.

    Attributes
    ----------
    booster
        The average of the bags.
    bag_of
        (rows,): the bag that each row is out of.
    margins
        (rows,) or (rows, outputs): the out-of-bag margins.
    history
        The mean metrics of the out-of-bag rows in each round, if they were measured;
        in rounds between two measurements those of the last one.
    """

    booster: Booster
    bag_of: NDArray[np.intp]
    margins: NDArray[Any]
    history: EvalsLog


def train_bags(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    num_boost_round: int,
    n_bags: int,
    *,
    stratified: bool = False,
    obj: ObjectiveFunction | ScalarLoss | None = None,
    custom_metric: MetricFunction | None = None,
    early_stopping_rounds: int | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
) -> Bags:
    """Train a bag without each fold of rows, or of query groups.

    The bags have the base score of all rows, and their own seeds, for sampling.

    Parameters
    ----------
    params, num_boost_round, obj, custom_metric
        As for `train`, of each bag.
    dtrain
        Training data.
    n_bags
        The number of bags, and of folds: from 2 to the number of rows or groups.
    stratified
        Whether the classes have the same shares in all folds.
    early_stopping_rounds
        All bags stop when the last metric, its mean over the out-of-bag rows of the
        bags, has not improved for this number of rounds.
    callbacks
        They see all bags at once, as those of `cv` see all folds.

    Raises
    ------
    ParameterError
        If `n_bags` is not such a number, or the booster is linear.
    """
    trial = _trial(params, dtrain, n_bags, stratified, obj, custom_metric)
    models = Candidate(trial, {}).models
    if not (early_stopping_rounds or callbacks):
        check_rounds(num_boost_round)
        models.update(dtrain, 0, obj, num_boost_round)
        return _bags(trial, models.cvfolds, [fold.bst for fold in models.cvfolds], {})
    # FoldModels has the methods of a booster that callbacks use.
    best, log = run_rounds(
        cast(Booster, models),
        dtrain,
        num_boost_round,
        evals=None,
        obj=obj,
        maximize=None,
        early_stopping_rounds=early_stopping_rounds,
        verbose_eval=None,
        callbacks=callbacks,
        custom_metric=custom_metric,
    )
    models = cast(FoldModels, best)
    rounds = models.num_boosted_rounds()
    if (best_iteration := models.attr("best_iteration")) is not None:
        rounds = int(best_iteration) + 1
    boosters = [fold.bst[:rounds] if rounds else fold.bst for fold in models.cvfolds]
    scores: dict[str, list[Score]] = {
        metric: [mean_of(score) for score in scores[:rounds]]
        for metric, scores in log.history.get("test", {}).items()
    }
    return _bags(trial, models.cvfolds, boosters, {"oob": scores})


def find_bags(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    max_rounds: int,
    n_bags: int,
    *,
    first_patience: int,
    patience: int,
    stratified: bool = False,
    obj: ObjectiveFunction | ScalarLoss | None = None,
    custom_metric: MetricFunction | None = None,
) -> Bags:
    """Train bags as `train_bags` does, for the rounds that suit the rows out of bag.

    Parameters
    ----------
    params, dtrain, n_bags, stratified, obj, custom_metric
        As for `train_bags`.
    max_rounds, first_patience, patience
        As for `Candidate.train`.
    """
    trial = _trial(params, dtrain, n_bags, stratified, obj, custom_metric)
    found = Candidate(trial, {})
    found.train(patience, max_rounds, first_patience)
    boosters = found.boosters()
    rounds = boosters[0].num_boosted_rounds()
    history: list[Score] = []
    for number in range(1, rounds + 1):
        history.append(found.scores.get(number, history[-1] if history else math.nan))
    return _bags(trial, found.folds, boosters, {"oob": {found.metric: history}})


def shortened(params: Mapping[str, Any], rounds: int) -> tuple[dict[str, Any], int]:
    """Return the parameters and rounds of bags for those of one model.

    Their average needs less shrinkage than one model (Breiman 1996: it lowers the
    variance), so they have half the rounds, at the rate that leaves the same share of
    a residual: ``(1 - rate) ** rounds``.
    """
    check_rounds(rounds)
    fewer = math.ceil(rounds * _SHARE_OF_ROUNDS)
    rate = Parameters.resolve(params).learning_rate
    if fewer > 0 and rate < 1.0:
        rate = 1.0 - (1.0 - rate) ** (rounds / fewer)
    return {**params, "learning_rate": rate}, fewer


def _trial(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    n_bags: int,
    stratified: bool,
    obj: ObjectiveFunction | ScalarLoss | None,
    custom_metric: MetricFunction | None,
) -> Trial:
    """Return what the bags have in common, with the rows of each and those out of it.

    The bags have the base score of all rows.
    """
    p = Parameters.resolve(params)
    check_n_bags(n_bags, dtrain)
    if p.booster == "gblinear":
        raise ParameterError(
            "n_bags averages trees, and booster='gblinear' has none; leave one of them "
            "out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    folds = fold_rows(dtrain, n_bags, stratified, None, p.seed % 2**32, True)
    given = {**params, **shared_base_score(params, dtrain, obj)}
    return Trial(dtrain, folds, given, obj, custom_metric)


def check_n_bags(n_bags: Any, dtrain: DMatrix) -> None:
    """Raise a `ParameterError` unless so many folds can be held out."""
    pointers = dtrain.info.group_ptr
    units = dtrain.n_rows if pointers is None else len(pointers) - 1
    is_integer = isinstance(n_bags, int | np.integer) and not isinstance(n_bags, bool)
    if units < 2:
        unit = "sample" if pointers is None else "group"
        raise ParameterError(
            f"n_bags={n_bags!r} leaves rows out of each bag, and there is {units} "
            f"{unit}; fit with more, or leave it out",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if not is_integer or not 2 <= n_bags <= units:
        unit = "rows" if pointers is None else "groups"
        raise ParameterError(
            f"n_bags must be an integer from 2 to {units}, the number of {unit}, not "
            f"{n_bags!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )


def shared_base_score(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    obj: ObjectiveFunction | ScalarLoss | None,
) -> dict[str, Any]:
    """Return the base score of all rows, which the models of all folds start from."""
    booster = Booster({**params, "max_depth": 1}, [dtrain])
    booster.update(dtrain, 0, obj)
    found = {"base_score": booster.model.base_score.tolist()}
    try:
        Booster({**params, **found})
    except ParameterError:
        # It is the end of its range, as all labels are, so each fold has the same.
        return {}
    return found


def bags_of(booster: Booster) -> list[Booster]:
    """Return the bags of a bagged model; an empty list of any other model."""
    n_bags = booster.attr(BAGS)
    return [] if n_bags is None else split_average(booster, int(n_bags))


def _bags(
    trial: Trial,
    matrices: Sequence[Fold],
    boosters: Sequence[Booster],
    history: EvalsLog,
) -> Bags:
    """Return the bags of these boosters, each of which was trained without a fold."""
    by_bag = [
        booster.predict(fold.dtest, output_margin=True)
        for booster, fold in zip(boosters, matrices, strict=True)
    ]
    rows = np.concatenate([test for _, test in trial.folds])
    bag_of = np.empty(len(rows), np.intp)
    bag_of[rows] = np.repeat(np.arange(len(by_bag)), [len(part) for part in by_bag])
    margins = np.empty((len(rows), *by_bag[0].shape[1:]), by_bag[0].dtype)
    margins[rows] = np.concatenate(by_bag)
    averaged = average(boosters)
    p = Parameters.resolve(trial.given)
    averaged.set_param({"nthread": p.nthread, "seed": p.seed})
    averaged.set_attr(**{BAGS: str(len(boosters))})
    return Bags(averaged.reset(), bag_of, margins, history)
