"""Bagged models: each bag is trained without one fold; the model is their average.

The folds are disjoint, so each row is out of bag once (k-fold bagging; the committees
of cross-validation of Parmanto, Munro and Doyle 1996). All bags share one set of bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.booster import Booster, average, split_average
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import EvalsLog, TrainingCallback
from hornbeam.callbacks.base import CallbackContainer, mean_of
from hornbeam.cross_validation import FoldModels, fold_rows, new_fold
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters
from hornbeam.training import run_rounds

__all__ = ["BAGS", "Bags", "bags_of", "shared_base_score", "train_bags"]

#: The attribute of a booster that holds its number of bags.
BAGS = "hornbeam_bags"


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


class _MeasuredContainer(CallbackContainer):
    """Measures the first round and each `step`-th one after it.

    In the rounds between, callbacks see the last values.
    """

    def __init__(self, *args: Any, step: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._step = step

    def after_iteration(self, model: Booster, epoch: int, *data: Any) -> bool:
        if epoch % self._step == 0:
            return super().after_iteration(model, epoch, *data)
        for scores in self.history.values():
            for values in scores.values():
                values.append(values[-1])
        self.stopped |= self._ask_all(model, epoch)
        return self.stopped


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
    measured_step: int = 1,
) -> Bags:
    """Train a bag without each fold of rows, or of query groups.

    The bags have the base score of all rows, and their own seeds, for sampling.

    Parameters
    ----------
    params, num_boost_round, obj, custom_metric
        As for `train`.
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
    measured_step
        The rounds from one measurement of the out-of-bag rows to the next.

    Raises
    ------
    ParameterError
        If `n_bags` is not such a number, or the booster is linear.
    """
    check_n_bags(n_bags, dtrain)
    p = Parameters.resolve(params)
    if p.booster == "gblinear":
        raise ParameterError(
            "n_bags averages trees, and booster='gblinear' has none; leave one of them "
            "out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    folds = fold_rows(dtrain, n_bags, stratified, None, p.seed % 2**32, True)
    given = {**params, **shared_base_score(params, dtrain, obj)}
    is_measured = bool(early_stopping_rounds or callbacks)
    models = FoldModels(
        [
            new_fold(dtrain, *rows, {**given, "seed": p.seed + number})
            for number, rows in enumerate(folds)
        ],
        ("test",) if is_measured else (),
    )
    if custom_metric is None and (obj is None or isinstance(obj, ScalarLoss)):
        models.divide_threads(p.nthread)
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
        container_type=partial(_MeasuredContainer, step=measured_step),
    )
    models = cast(FoldModels, best)
    rounds = models.num_boosted_rounds()
    if (best_iteration := models.attr("best_iteration")) is not None:
        rounds = int(best_iteration) + 1
    boosters = [fold.bst[:rounds] if rounds else fold.bst for fold in models.cvfolds]
    return Bags(
        _averaged(boosters, p),
        *_out_of_bag(boosters, models, folds),
        {
            "oob": {
                metric: [mean_of(score) for score in scores[:rounds]]
                for metric, scores in log.history.get("test", {}).items()
            }
        }
        if is_measured
        else {},
    )


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


def _averaged(boosters: Sequence[Booster], p: Parameters) -> Booster:
    averaged = average(boosters)
    averaged.set_param({"nthread": p.nthread, "seed": p.seed})
    averaged.set_attr(**{BAGS: str(len(boosters))})
    return averaged.reset()


def _out_of_bag(
    boosters: Sequence[Booster],
    models: FoldModels,
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the bag that each row is out of, and its margins."""
    by_bag = [
        booster.predict(fold.dtest, output_margin=True)
        for booster, fold in zip(boosters, models.cvfolds, strict=True)
    ]
    rows = np.concatenate([test for _, test in folds])
    bag_of = np.empty(len(rows), np.intp)
    bag_of[rows] = np.repeat(np.arange(len(folds)), [len(part) for part in by_bag])
    margins = np.empty((len(rows), *by_bag[0].shape[1:]), by_bag[0].dtype)
    margins[rows] = np.concatenate(by_bag)
    return bag_of, margins
