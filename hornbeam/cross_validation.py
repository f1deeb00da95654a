"""Cross-validation: models of several folds that train side by side."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import EarlyStopping, EvaluationMonitor, TrainingCallback
from hornbeam.cpu_count import available_threads
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource
from hornbeam.training import check_training_data, run_rounds

__all__ = ["Fold", "FoldModels", "cv", "parts_of", "scores_of"]

Rows: TypeAlias = NDArray[np.intp]
#: (training, test, parameters) -> the same, changed.
Preprocess: TypeAlias = Callable[[DMatrix, DMatrix, dict[str, Any]], Any]


def cv(
    params: ParameterSource,
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    nfold: int = 3,
    stratified: bool = False,
    folds: Any = None,
    metrics: str | Sequence[str] = (),
    obj: ObjectiveFunction | ScalarLoss | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    fpreproc: Preprocess | None = None,
    as_pandas: bool = True,
    verbose_eval: bool | int | None = None,
    show_stdv: bool = True,
    seed: int = 0,
    callbacks: Sequence[TrainingCallback] | None = None,
    shuffle: bool = True,
    custom_metric: MetricFunction | None = None,
    return_predictions: bool = False,
) -> Any:
    """Return the metrics of models that are each tested on rows they did not see.

    There is a row for every round, with the columns ``train-rmse-mean``,
    ``train-rmse-std``, ``test-rmse-mean`` and so on, up to the best round if training
    stops early. The features are binned once for all folds, so that the cuts know the
    rows of a test (their features, not their labels), and folds are held as codes.

    Parameters
    ----------
    params
        Parameters, as a mapping or as pairs of name and value.
    dtrain
        Data with labels. If it has groups, they stay whole.
    num_boost_round
        Rounds to train.
    nfold
        How many folds; each of them is once the test.
    stratified
        Whether each fold has its share of every label.
    folds
        Instead, the folds: pairs (rows of training, rows of test), or a splitter of
        scikit-learn, which gets labels and groups.
    metrics
        Metrics to report, instead of the parameter ``eval_metric``.
    obj, custom_metric, callbacks
        As for `train`; callbacks get a `FoldModels`.
    maximize
        Whether a higher value of the metric that stops training early is better; None
        asks the metric.
    early_stopping_rounds
        Stop when the mean of the last metric over the tests has not become better for
        so many rounds.
    fpreproc
        Takes training data, test data and parameters of a fold and returns them
        changed. The folds are then matrices of their own, with cuts of their own.
    as_pandas
        Return a frame if pandas is installed, else a dict of lists.
    verbose_eval
        Print the metrics every round, every so many rounds, or not.
    show_stdv
        Whether to print standard deviations, too.
    seed
        Decides which rows go together; XGBoost's folds of the same seed are the same,
        unless they are stratified.
    shuffle
        Whether rows, or groups, are shuffled before they are dealt out.
    return_predictions
        Return the metrics and the predictions of all rows, each by the model that did
        not see it, of the last round that is reported; NaN for rows of no test.
    """
    check_training_data(dtrain, None, DMatrix)
    chosen = Parameters.resolve(params)
    if metrics:
        chosen = chosen.updated({"eval_metric": metrics})
    given = dict(params or ()) | {"eval_metric": chosen.eval_metric}
    parts = parts_of(dtrain, nfold, stratified, folds, seed, shuffle)
    if return_predictions:
        _check_tested_once(parts, dtrain.n_rows)
    if obj is None and fpreproc is None:
        # A fold would name its own row, not that of the data.
        Booster(given).check_labels(dtrain)
    models = FoldModels([_fold(dtrain, *rows, given, fpreproc) for rows in parts])
    if custom_metric is None and (obj is None or isinstance(obj, ScalarLoss)):
        models.part_threads(chosen.nthread)
    callbacks = list(callbacks or ())
    if verbose_eval:
        callbacks.append(EvaluationMonitor(0, int(verbose_eval), show_stdv))
    if early_stopping_rounds:
        callbacks.append(
            EarlyStopping(
                rounds=early_stopping_rounds,
                maximize=maximize,
                save_best=return_predictions,
            )
        )
    # What a callback asks of a model, these have.
    best, log = run_rounds(
        cast(Booster, models),
        dtrain,
        num_boost_round,
        evals=None,
        obj=obj,
        maximize=None,
        early_stopping_rounds=None,
        verbose_eval=None,
        callbacks=callbacks,
        custom_metric=custom_metric,
    )
    if log.stopped:
        models = cast(FoldModels, best)
    rounds = models.num_boosted_rounds()
    if log.stopped and (best_iteration := models.attr("best_iteration")) is not None:
        rounds = int(best_iteration) + 1
    result = scores_of(log.history, rounds, as_pandas)
    if return_predictions:
        return result, models.predict(dtrain.n_rows, parts, rounds)
    return result


class Fold(NamedTuple):
    """A model, the data that it trains on, and the data that tests it."""

    bst: Booster
    dtrain: DMatrix
    dtest: DMatrix


class FoldModels:
    """The models of all folds, in the place of one for callbacks.

    Attributes
    ----------
    cvfolds
        The folds.
    """

    def __init__(self, cvfolds: Sequence[Fold]) -> None:
        self.cvfolds = list(cvfolds)
        # How many go side by side, again and again: a caller's functions may not.
        self._at_once = [1] * len(self.cvfolds)

    def part_threads(self, nthread: int) -> None:
        """Have the folds train side by side, each with its share of the threads.

        That takes less time than one after the other with all threads, which wait for
        each other many times a round. The models are the same.
        """
        threads = nthread if nthread > 0 else available_threads()
        full, rest = divmod(len(self.cvfolds), threads)
        self._at_once = [threads] * full + [rest] * (rest > 0)
        shares = np.repeat(
            [threads // at_once for at_once in self._at_once], self._at_once
        )
        for fold, own in zip(self.cvfolds, shares.tolist(), strict=True):
            fold.bst.set_param("nthread", own)

    def _each(self, do: Callable[[Fold], Any]) -> list[Any]:
        """Return what is done with each fold."""
        done: list[Any] = []
        with ThreadPoolExecutor(max(self._at_once)) as pool:
            for at_once in self._at_once:
                folds = self.cvfolds[len(done) : len(done) + at_once]
                done += pool.map(do, folds) if at_once > 1 else map(do, folds)
        return done

    def update(
        self,
        dtrain: DMatrix,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
    ) -> None:
        """Add a round to each model, on its own part of the data."""
        self._each(lambda fold: fold.bst.update(fold.dtrain, iteration, fobj))

    def measure(
        self,
        evals: Any = None,
        feval: MetricFunction | None = None,
        output_margin: bool = True,
    ) -> list[tuple[str, tuple[float, float]]]:
        """Return mean and standard deviation of each metric, as of ``test-rmse``."""

        def measure(fold: Fold) -> list[tuple[str, float]]:
            parts = [(fold.dtrain, "train"), (fold.dtest, "test")]
            return fold.bst.measure(parts, feval, output_margin)

        scores: dict[str, list[float]] = {}
        with warnings.catch_warnings():  # threads that do so leave each other's filters
            for of_fold in self._each(measure):
                for name, score in of_fold:
                    scores.setdefault(name, []).append(score)
        return [
            (name, (float(np.mean(of_folds)), float(np.std(of_folds))))
            for name, of_folds in scores.items()
        ]

    def predict(
        self, n_rows: int, parts: Sequence[tuple[Rows, Rows]], rounds: int
    ) -> NDArray[Any]:
        """Return the predictions of the tests, (rows,) or (rows, outputs)."""
        # Not every model can do without its last rounds.
        asked = 0, 0 if rounds == self.num_boosted_rounds() else rounds
        of_folds = [
            bst.predict(dtest, iteration_range=asked) for bst, _, dtest in self.cvfolds
        ]
        first = of_folds[0]
        predictions = np.full((n_rows, *first.shape[1:]), np.nan, first.dtype)
        for (_, test), of_fold in zip(parts, of_folds, strict=True):
            if len(of_fold) != len(test):
                raise DataError(
                    f"fpreproc has made {len(of_fold)} rows of the {len(test)} of a "
                    "test, so that predictions have no place; leave "
                    "return_predictions out",
                    code=ErrorCode.INVALID_FOLDS,
                )
            predictions[test] = of_fold
        return predictions

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds, of which each model has as many."""
        return self.cvfolds[0].bst.num_boosted_rounds()

    def attr(self, key: str) -> str | None:
        """Return an attribute of the models, or None."""
        return self.cvfolds[0].bst.attr(key)

    def set_attr(self, **attributes: str | None) -> None:
        """Set attributes of all models."""
        for fold in self.cvfolds:
            fold.bst.set_attr(**attributes)

    def set_param(self, params: ParameterSource | str, value: Any = None) -> None:
        """Change parameters of all models."""
        for fold in self.cvfolds:
            fold.bst.set_param(params, value)

    def copy(self) -> FoldModels:
        """Return models that go their own way, on the same data."""
        return FoldModels([fold._replace(bst=fold.bst.copy()) for fold in self.cvfolds])


def _fold(
    data: DMatrix,
    train: Rows,
    test: Rows,
    params: dict[str, Any],
    preprocess: Preprocess | None,
) -> Fold:
    """Return one fold, with a model that has not begun."""
    p = Parameters.resolve(params)
    if preprocess is None and (p.booster == "gblinear" or p.method() != "hist"):
        dtrain, dtest = (data.slice(r, allow_groups=True) for r in (train, test))
    elif preprocess is None:
        dtrain, dtest = (
            QuantileDMatrix.of_rows(data, rows, p.max_bin, p.nthread)
            for rows in (train, test)
        )
    else:
        dtrain, dtest, params = preprocess(
            data.slice(train, allow_groups=True),
            data.slice(test, allow_groups=True),
            dict(params),
        )
    return Fold(Booster(params, [dtrain, dtest]), dtrain, dtest)


def scores_of(history: Any, rounds: int, as_pandas: bool = True) -> Any:
    """Return the means and deviations of the first rounds, by column.

    In a frame, if that is asked for and pandas is installed.
    """
    table = {
        f"{data}-{metric}-{what}": [score[place] for score in scores[:rounds]]
        for data, metrics in history.items()
        for metric, scores in metrics.items()
        for place, what in enumerate(("mean", "std"))
    }
    if not as_pandas:
        return table
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return table
    return pandas.DataFrame(table)


# --- Which rows -----------------------------------------------------------------------


def parts_of(
    data: DMatrix,
    nfold: int,
    stratified: bool,
    folds: Any,
    seed: int,
    shuffle: bool,
) -> list[tuple[Rows, Rows]]:
    """Return the rows that each fold trains on, and those of its test."""
    if folds is not None:
        if stratified:
            raise ParameterError(
                "stratified and folds both say which rows go together; give one of "
                "them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        return _given(data, folds)
    pointers = data.info.group_ptr
    units = data.n_rows if pointers is None else len(pointers) - 1
    what = "rows" if pointers is None else "groups"
    whole = isinstance(nfold, Integral) and not isinstance(nfold, bool)
    if not whole or not 2 <= nfold <= units:
        raise ParameterError(
            f"nfold must be a whole number from 2 to the {units} {what} of the data, "
            f"not {nfold!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    order = _shuffled(units, seed) if shuffle else np.arange(units)
    fold_of = np.empty(units, np.intp)
    if stratified:
        # Dealt out in the order of the labels, each label goes to all folds alike.
        by_label = order[np.argsort(_strata(data)[order], kind="stable")]
        fold_of[by_label] = np.arange(units) % nfold
    else:
        for number, members in enumerate(np.array_split(order, nfold)):
            fold_of[members] = number
    if pointers is not None:
        fold_of = np.repeat(fold_of, np.diff(pointers))
    return [
        (np.flatnonzero(fold_of != number), np.flatnonzero(fold_of == number))
        for number in range(nfold)
    ]


def _shuffled(count: int, seed: int) -> Rows:
    try:
        return np.random.RandomState(seed).permutation(count).astype(np.intp)
    except (TypeError, ValueError):
        raise ParameterError(
            f"seed of cv must be a whole number from 0 to {2**32 - 1}, not {seed!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        ) from None


def _strata(data: DMatrix) -> NDArray[np.float64]:
    if data.info.group_ptr is not None:
        raise ParameterError(
            "stratified folds would tear groups apart; leave stratified out, or give "
            "folds",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if data.n_targets != 1:
        raise ParameterError(
            f"stratified folds need one label a row, and the data has {data.n_targets};"
            " leave stratified out, or give folds",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    assert data.labels is not None
    return data.labels.ravel()


def _given(data: DMatrix, folds: Any) -> list[tuple[Rows, Rows]]:
    """Return the folds of a caller, each as sorted rows."""
    if hasattr(folds, "split"):
        sizes = data.get_group()
        groups = np.repeat(np.arange(len(sizes)), sizes) if len(sizes) else None
        folds = folds.split(np.empty((data.n_rows, 1)), data.labels, groups)
    if not isinstance(folds, Iterable):
        raise ParameterError(
            "folds must be pairs (rows of training, rows of test), or a splitter of "
            f"scikit-learn, not {folds!r}",
            code=ErrorCode.INVALID_FOLDS,
        )
    parts = []
    for number, pair in enumerate(folds):
        try:
            train, test = pair
        except (TypeError, ValueError):
            raise ParameterError(
                f"fold {number} must be a pair (rows of training, rows of test), not "
                f"{' '.join(repr(pair).split())[:100]}",
                code=ErrorCode.INVALID_FOLDS,
            ) from None
        rows = np.sort(data.row_numbers(train)), np.sort(data.row_numbers(test))
        for what, some in zip(("training", "test"), rows, strict=True):
            if len(some) == 0:
                raise ParameterError(
                    f"fold {number} has no rows of {what}; give some",
                    code=ErrorCode.INVALID_FOLDS,
                )
        parts.append(rows)
    if not parts:
        raise ParameterError(
            "folds is empty; give (training, test) pairs of rows",
            code=ErrorCode.INVALID_FOLDS,
        )
    return parts


def _check_tested_once(parts: Sequence[tuple[Rows, Rows]], n_rows: int) -> None:
    times = np.bincount(np.concatenate([test for _, test in parts]), minlength=n_rows)
    if (times > 1).any():
        row = int((times > 1).argmax())
        raise DataError(
            f"row {row} is in {times[row]} tests, so that it has no one prediction; "
            "give folds that test a row once, or leave return_predictions out",
            code=ErrorCode.INVALID_FOLDS,
        )
