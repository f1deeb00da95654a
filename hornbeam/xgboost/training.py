"""Training and cross-validation with XGBoost's arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hornbeam.callbacks.base import EvalsLog
from hornbeam.cross_validation import Fold, FoldModels, fold_rows, scores_table
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError, require
from hornbeam.params import ParameterSource
from hornbeam.training import check_training_data, run_rounds
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.callback import (
    CallbackContainer,
    EarlyStopping,
    EvaluationMonitor,
    TrainingCallback,
)
from hornbeam.xgboost.collective import get_world_size
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.error_messages import with_xgboost_messages

__all__ = [
    "CVPack",
    "all_callbacks",
    "cv",
    "groups_to_rows",
    "mkgroupfold",
    "mknfold",
    "train",
]


@deprecate_positional_args
@with_xgboost_messages
def train(
    params: ParameterSource,
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DMatrix, str]] | None = None,
    obj: Any = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: EvalsLog | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: str | os.PathLike[str] | Booster | bytearray | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: Any = None,
) -> Booster:
    """Return a booster trained for `num_boost_round` rounds.

    The arguments are those of `hornbeam.train`.
    """
    for data, _ in evals or ():
        if not isinstance(data, DMatrix):
            raise TypeError("Invalid type for the `evals`.")
        if (
            isinstance(data, QuantileDMatrix)
            and data is not dtrain
            and data.ref is not dtrain
        ):
            raise DataError(
                "Training dataset should be used as a reference when constructing the "
                "`QuantileDMatrix` for evaluation.",
                code=ErrorCode.INVALID_REF,
            )
    cache = [dtrain, *(data for data, _ in evals or ())]
    booster, log = run_rounds(
        Booster(params, cache, xgb_model),
        dtrain,
        num_boost_round,
        evals=evals,
        obj=obj,
        maximize=None,
        early_stopping_rounds=None,
        verbose_eval=None,
        callbacks=all_callbacks(
            callbacks,
            verbose_eval if evals else None,
            early_stopping_rounds,
            maximize,
        ),
        custom_metric=custom_metric,
        container_type=CallbackContainer,
    )
    if evals_result is not None:
        evals_result.update(log.history)
    return cast(Booster, booster.reset())


def all_callbacks(
    given: Sequence[TrainingCallback] | None,
    verbose_eval: bool | int | None,
    early_stopping_rounds: int | None,
    maximize: bool | None,
    show_stdv: bool = False,
) -> list[TrainingCallback]:
    """Return the callbacks given, and those of the other arguments of training."""
    callbacks = list(given or ())
    if verbose_eval:
        callbacks.append(EvaluationMonitor(0, int(verbose_eval), show_stdv))
    if early_stopping_rounds:
        callbacks.append(EarlyStopping(rounds=early_stopping_rounds, maximize=maximize))
    return callbacks


# --- Cross-validation -----------------------------------------------------------------


@deprecate_positional_args
@with_xgboost_messages
def cv(
    params: ParameterSource,
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    nfold: int = 3,
    stratified: bool = False,
    folds: Any = None,
    metrics: str | Sequence[str] = (),
    obj: Any = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    fpreproc: Callable[..., Any] | None = None,
    as_pandas: bool = True,
    verbose_eval: bool | int | None = None,
    show_stdv: bool = True,
    seed: int = 0,
    callbacks: Sequence[TrainingCallback] | None = None,
    shuffle: bool = True,
    custom_metric: Any = None,
) -> Any:
    """Return the metrics of a cross-validation, round by round.

    The arguments are those of `hornbeam.cv`. As in XGBoost, each fold is a separate
    matrix with its own cuts. The folds are trained in parallel.
    """
    check_training_data(dtrain, None, DMatrix)
    if get_world_size() > 1:
        raise ParameterError(
            "xgboost.cv function should not be used in distributed environment.",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )
    if isinstance(dtrain, QuantileDMatrix):
        raise DataError(
            "`QuantileDMatrix` is not yet supported.",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    given = dict(params)
    if isinstance(params, list):
        given["eval_metric"] = [m for name, m in params if name == "eval_metric"]
    named = given.pop("eval_metric", None)
    metrics = metrics or named or []
    packs = mknfold(
        dall=dtrain,
        nfold=nfold,
        param=given,
        seed=seed,
        evals=[metrics] if isinstance(metrics, str) else metrics,
        fpreproc=fpreproc,
        stratified=stratified,
        folds=folds,
        shuffle=shuffle,
    )
    models = _PackedBooster(cast(Sequence[Fold], packs))
    if custom_metric is None and obj is None:
        models.divide_threads(packs[0].bst.params.nthread)
    # FoldModels has the methods of a booster that callbacks use.
    _, log = run_rounds(
        cast(Booster, models),
        dtrain,
        num_boost_round,
        evals=None,
        obj=obj,
        maximize=None,
        early_stopping_rounds=None,
        verbose_eval=None,
        callbacks=all_callbacks(
            callbacks, verbose_eval, early_stopping_rounds, maximize, show_stdv
        ),
        custom_metric=custom_metric,
        container_type=partial(CallbackContainer, is_cv=True),
    )
    rounds = models.num_boosted_rounds()
    best = models.attr("best_iteration")
    if log.stopped and best is not None:
        rounds = int(best) + 1
    table = scores_table(log.history, rounds, as_pandas)
    # The scores of a custom metric come after all others.
    built_in = tuple(f"-{metric.name}-" for metric in packs[0].bst.metrics)
    columns = sorted(table, key=lambda name: not any(m in name for m in built_in))
    return {name: table[name] for name in columns} if not as_pandas else table[columns]


class CVPack:
    """A fold: a booster, its training data and its test data.

    Other attributes are those of the booster.
    """

    def __init__(
        self, dtrain: DMatrix, dtest: DMatrix, param: ParameterSource | None
    ) -> None:
        self.dtrain = dtrain
        self.dtest = dtest
        self.watchlist = [(dtrain, "train"), (dtest, "test")]
        self.bst = Booster(param, [dtrain, dtest])

    def __getattr__(self, name: str) -> Any:
        if name == "bst":  # before __init__ has set it
            raise AttributeError(name)
        return getattr(self.bst, name)

    def update(self, iteration: int, fobj: Any) -> None:
        """Add a round to the model."""
        self.bst.update(self.dtrain, iteration, fobj)

    def eval(self, iteration: int, feval: Any, output_margin: bool) -> str:
        """Return the line of scores on the training and the test data."""
        return self.bst.eval_set(self.watchlist, iteration, feval, output_margin)


class _PackedBooster(FoldModels):
    """The boosters of all folds, with XGBoost's attributes for callbacks."""

    @property
    def best_iteration(self) -> int:
        """The best round of early stopping, from 0."""
        return self.cvfolds[0].bst.best_iteration

    @best_iteration.setter
    def best_iteration(self, iteration: int) -> None:
        self.set_attr(best_iteration=str(iteration))

    @property
    def best_score(self) -> float:
        """The score of the best round of early stopping."""
        return self.cvfolds[0].bst.best_score

    @best_score.setter
    def best_score(self, score: float) -> None:
        self.set_attr(best_score=str(score))


def groups_to_rows(
    groups: npt.NDArray[Any], boundaries: npt.NDArray[Any]
) -> npt.NDArray[np.intp]:
    """Return the row indices of groups; group g has the rows from `boundaries[g]`."""
    return np.concatenate(
        [np.arange(*boundaries[group : group + 2]) for group in groups]
    )


def mkgroupfold(
    *,
    dall: DMatrix,
    nfold: int,
    param: Any,
    evals: Sequence[str] = (),
    fpreproc: Callable[..., Any] | None = None,
    shuffle: bool = True,
) -> list[CVPack]:
    """Return folds of whole groups; see `mknfold`."""
    seed = int(np.random.randint(2**31)) if shuffle else 0  # noqa: NPY002
    return mknfold(
        dall=dall,
        nfold=nfold,
        param=param,
        seed=seed,
        evals=evals,
        fpreproc=fpreproc,
        shuffle=shuffle,
    )


def mknfold(
    *,
    dall: DMatrix,
    nfold: int,
    param: Any,
    seed: int,
    evals: Sequence[str] = (),
    fpreproc: Callable[..., Any] | None = None,
    stratified: bool | None = False,
    folds: Any = None,
    shuffle: bool = True,
) -> list[CVPack]:
    """Return the folds of a cross-validation, each with an untrained booster.

    Parameters
    ----------
    dall
        The data; query groups are not split.
    param
        Parameters of all boosters.
    evals
        Names of metrics, added to the parameters.
    nfold, seed, fpreproc, stratified, folds, shuffle
        As for `hornbeam.cv`; stratified folds are those of scikit-learn.
    """
    if stratified and folds is None:
        splitters = require("sklearn.model_selection", "sklearn", "stratified cv")
        folds = splitters.StratifiedKFold(
            n_splits=nfold, shuffle=True, random_state=seed
        )
    packs = []
    for rows in fold_rows(dall, nfold, False, folds, seed, shuffle):
        dtrain, dtest = (dall.slice(part, allow_groups=True) for part in rows)
        fold_param = param
        if fpreproc is not None:
            dtrain, dtest, fold_param = fpreproc(dtrain, dtest, param.copy())
        metrics = [("eval_metric", metric) for metric in evals]
        packs.append(CVPack(dtrain, dtest, [*dict(fold_param).items(), *metrics]))
    return packs
