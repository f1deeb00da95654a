"""Cross-validation: the boosters of all folds are trained in parallel."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from itertools import repeat
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
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.features.matrix import (
    DerivedMatrix,
    Recipe,
    derived,
    derived_fold,
    expanded,
)
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource
from hornbeam.training import check_training_data, run_rounds

__all__ = ["Fold", "FoldModels", "cv", "fold_rows", "new_fold", "scores_table"]

Rows: TypeAlias = NDArray[np.intp]
#: A function of (dtrain, dtest, parameters) of a fold that returns them changed.
Preprocess: TypeAlias = Callable[[DMatrix, DMatrix, dict[str, Any]], Any]


@short_traceback
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
    """Return the metrics of a cross-validation, round by round.

    The result has a row for every round, up to the best round if training stops early,
    and the columns ``train-rmse-mean``, ``train-rmse-std``, ``test-rmse-mean`` and so
    on. The features are binned once for all folds, which store bin indices; so the cuts
    depend on the features of test rows, but not on their labels.

    Parameters
    ----------
    params
        Parameters, as a mapping or as pairs of name and value.
    dtrain
        Data with labels. Query groups are not split.
    num_boost_round
        The number of boosting rounds.
    nfold
        The number of folds.
    stratified
        Whether all folds have the same proportions of labels.
    folds
        Custom folds instead: pairs (training rows, test rows), or a splitter of
        scikit-learn, which gets labels and groups.
    metrics
        Metrics to report, instead of the parameter ``eval_metric``.
    obj, custom_metric, callbacks
        As for `train`; callbacks get a `FoldModels`.
    maximize
        Whether early stopping maximizes the metric; None for the metric's default.
    early_stopping_rounds
        Stop when the mean of the last metric over the test folds has not improved for
        this number of rounds.
    fpreproc
        A function that gets the training data, test data and parameters of a fold and
        returns them changed. Each fold is then a separate matrix with its own cuts.
    as_pandas
        Whether to return a data frame if pandas is installed, else a dict of lists.
    verbose_eval
        Whether to print the metrics of each round, or the number of rounds between
        printed lines.
    show_stdv
        Whether to print standard deviations.
    seed
        The seed of the shuffle. The folds are those of XGBoost with the same seed,
        unless they are stratified.
    shuffle
        Whether rows, or query groups, are shuffled before they are divided into folds.
    return_predictions
        Whether to return the pair of metrics and out-of-fold predictions of all rows,
        at the last reported round; NaN for rows in no test fold.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> table = hornbeam.cv(
    ...     {"max_depth": 2, "learning_rate": 0.1}, data, 50, nfold=5, seed=1
    ... )
    >>> table[["test-rmse-mean", "test-rmse-std"]].tail(1).round(1)
        test-rmse-mean  test-rmse-std
    49            57.0            2.0
    """
    check_training_data(dtrain, None, DMatrix)
    chosen = Parameters.resolve(params)
    if metrics:
        chosen = chosen.updated({"eval_metric": metrics})
    given = dict(params or ()) | {"eval_metric": chosen.eval_metric}
    parts = fold_rows(dtrain, nfold, stratified, folds, seed, shuffle)
    if return_predictions:
        _check_disjoint_tests(parts, dtrain.n_rows)
    if obj is None and fpreproc is None:
        # The error of a fold would contain the row of the fold, not of the data.
        Booster(given).check_labels(dtrain)
    models = FoldModels([new_fold(dtrain, *rows, given, fpreproc) for rows in parts])
    if custom_metric is None and (obj is None or isinstance(obj, ScalarLoss)):
        models.divide_threads(chosen.nthread)
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
    # FoldModels has the methods of a booster that callbacks use.
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
    result = scores_table(log.history, rounds, as_pandas)
    if return_predictions:
        return result, models.predict(dtrain.n_rows, parts, rounds)
    return result


class Fold(NamedTuple):
    """A booster, its training data and its test data."""

    bst: Booster
    dtrain: DMatrix
    dtest: DMatrix


class FoldModels:
    """The boosters of all folds, with the methods of one for callbacks.

    Attributes
    ----------
    cvfolds
        The folds.
    measured
        Which rows of a fold metrics are of: ``"train"``, ``"test"`` or both.
    """

    def __init__(
        self, cvfolds: Sequence[Fold], measured: Sequence[str] = ("train", "test")
    ) -> None:
        self.cvfolds = list(cvfolds)
        self.measured = measured
        # The number of folds trained in parallel in each batch. Custom functions may
        # not be thread-safe, so by default it is one.
        self._batch_sizes = [1] * len(self.cvfolds)

    def divide_threads(self, nthread: int) -> None:
        """Divide the threads among the folds, which then train in parallel.

        That is faster than training them in sequence with all threads, which
        synchronise many times per round. The models are the same.
        """
        threads = nthread if nthread > 0 else available_threads()
        full, rest = divmod(len(self.cvfolds), threads)
        self._batch_sizes = [threads] * full + [rest] * (rest > 0)
        nthreads = np.repeat(
            [threads // size for size in self._batch_sizes], self._batch_sizes
        )
        for fold, nthread in zip(self.cvfolds, nthreads.tolist(), strict=True):
            if fold.bst.params.nthread != nthread:
                fold.bst.set_param("nthread", nthread)

    def _map(self, function: Callable[[Fold], Any]) -> list[Any]:
        """Return the results of a function for all folds, in their order.

        Other threads see the context variables of this one.
        """
        if max(self._batch_sizes) == 1:
            return [function(fold) for fold in self.cvfolds]
        results: list[Any] = []
        with ThreadPoolExecutor(max(self._batch_sizes)) as pool:
            for size in self._batch_sizes:
                folds = self.cvfolds[len(results) : len(results) + size]
                if size == 1:
                    results += map(function, folds)
                    continue
                contexts = [copy_context() for _ in folds]
                results += pool.map(Context.run, contexts, repeat(function), folds)
        return results

    def update(
        self,
        dtrain: DMatrix,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
        rounds: int = 1,
    ) -> None:
        """Add rounds to each booster, on its training data.

        Several rounds at a time are faster: the memory of a booster stays in the cache.
        """

        def update(fold: Fold) -> None:
            fold.bst.update(fold.dtrain, iteration, fobj, rounds)

        self._map(update)

    def measure(
        self,
        evals: Any = None,
        feval: MetricFunction | None = None,
        output_margin: bool = True,
    ) -> list[tuple[str, tuple[float, float]]]:
        """Return the mean and standard deviation of each metric, as ``test-rmse``."""

        def measure(fold: Fold) -> list[tuple[str, float]]:
            parts = {"train": fold.dtrain, "test": fold.dtest}
            evals = [(parts[name], name) for name in self.measured]
            return fold.bst.measure(evals, feval, output_margin)

        scores: dict[str, list[float]] = {}
        # Filters that concurrent threads set may remain, so they are restored here.
        with warnings.catch_warnings():
            for fold_scores in self._map(measure):
                for name, score in fold_scores:
                    scores.setdefault(name, []).append(score)
        return [
            (name, (float(np.mean(values)), float(np.std(values))))
            for name, values in scores.items()
        ]

    def predict(
        self, n_rows: int, parts: Sequence[tuple[Rows, Rows]], rounds: int
    ) -> NDArray[Any]:
        """Return the out-of-fold predictions, (rows,) or (rows, outputs)."""
        # A linear model can only be used with all rounds: (0, 0).
        end = 0 if rounds == self.num_boosted_rounds() else rounds
        by_fold = [
            bst.predict(dtest, iteration_range=(0, end))
            for bst, _, dtest in self.cvfolds
        ]
        first = by_fold[0]
        predictions = np.full((n_rows, *first.shape[1:]), np.nan, first.dtype)
        for (_, test), predicted in zip(parts, by_fold, strict=True):
            if len(predicted) != len(test):
                raise DataError(
                    f"fpreproc returned {len(predicted)} rows for the {len(test)} rows "
                    "of a test fold, so predictions cannot be assigned to rows; leave "
                    "return_predictions out",
                    code=ErrorCode.INVALID_FOLDS,
                )
            predictions[test] = predicted
        return predictions

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds, which is the same for all boosters."""
        return self.cvfolds[0].bst.num_boosted_rounds()

    def attr(self, key: str) -> str | None:
        """Return an attribute of the boosters, or None."""
        return self.cvfolds[0].bst.attr(key)

    def set_attr(self, **attributes: str | None) -> None:
        """Set attributes of all boosters."""
        for fold in self.cvfolds:
            fold.bst.set_attr(**attributes)

    def set_param(self, params: ParameterSource | str, value: Any = None) -> None:
        """Set parameters of all boosters."""
        for fold in self.cvfolds:
            fold.bst.set_param(params, value)

    def copy(self) -> FoldModels:
        """Return independent copies of the boosters, with the same data."""
        folds = [fold._replace(bst=fold.bst.copy()) for fold in self.cvfolds]
        return FoldModels(folds, self.measured)


def new_fold(
    data: DMatrix,
    train: Rows,
    test: Rows,
    params: dict[str, Any],
    preprocess: Preprocess | None = None,
    recipe: Recipe | None = None,
) -> Fold:
    """Return one fold, with an untrained booster.

    Features that `data` or the recipe derives are fitted to the training rows alone.
    """
    p = Parameters.resolve(params)
    if isinstance(data, DerivedMatrix):
        recipe, data = data.recipe, data.raw
    elif recipe is None:
        data = expanded(data)
    needs_values = p.booster == "gblinear" or p.method() != "hist"
    if recipe is not None and preprocess is None and not needs_values:
        bins = derived_fold(
            *(data, recipe, train, test, p.max_bin, p.nthread),
            with_values=p.leaf_model == "linear",
        )
        return Fold(Booster(params, [bins[0]]), *bins)
    if preprocess is None and needs_values:
        dtrain, dtest = (data.slice(r, allow_groups=True) for r in (train, test))
        if recipe is not None:
            dtrain = derived(dtrain, recipe)
    elif preprocess is None and p.leaf_model == "linear":
        dtrain, dtest = (data.slice(r, allow_groups=True) for r in (train, test))
        binned = data.binned(p.max_bin, p.nthread)
        dtrain.use_bins(p.max_bin, binned.take(train))
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


def scores_table(history: Any, rounds: int, as_pandas: bool = True) -> Any:
    """Return the means and standard deviations of the first rounds, by column.

    The result is a data frame if `as_pandas` and pandas is installed, else a dict.
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


# --- Folds ----------------------------------------------------------------------------


def fold_rows(
    data: DMatrix,
    nfold: int,
    stratified: bool,
    folds: Any,
    seed: int,
    shuffle: bool,
) -> list[tuple[Rows, Rows]]:
    """Return the training rows and the test rows of each fold."""
    if folds is not None:
        if stratified:
            raise ParameterError(
                "stratified and folds cannot be combined; pass one of them",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        return _custom_folds(data, folds)
    pointers = data.info.group_ptr
    units = data.n_rows if pointers is None else len(pointers) - 1
    unit = "rows" if pointers is None else "groups"
    is_integer = isinstance(nfold, Integral) and not isinstance(nfold, bool)
    if not is_integer or not 2 <= nfold <= units:
        raise ParameterError(
            f"nfold must be an integer from 2 to {units}, the number of {unit} of the "
            f"data, not {nfold!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    order = _shuffled(units, seed) if shuffle else np.arange(units)
    fold_of = np.empty(units, np.intp)
    if stratified:
        # Rows sorted by label are assigned to the folds in turn.
        by_label = order[np.argsort(_stratification_labels(data)[order], kind="stable")]
        fold_of[by_label] = np.arange(units) % nfold
    else:
        for number, fold in enumerate(np.array_split(order, nfold)):
            fold_of[fold] = number
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
            f"seed of cv must be an integer from 0 to {2**32 - 1}, not {seed!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        ) from None


def _stratification_labels(data: DMatrix) -> NDArray[np.float64]:
    if data.info.group_ptr is not None:
        raise ParameterError(
            "stratified folds would split query groups; leave stratified out, or pass "
            "folds",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if data.n_targets != 1:
        raise ParameterError(
            f"stratified folds need one label per row, and the data has "
            f"{data.n_targets}; leave stratified out, or pass folds",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    assert data.labels is not None
    return data.labels.ravel()


def _custom_folds(data: DMatrix, folds: Any) -> list[tuple[Rows, Rows]]:
    """Return the training rows and test rows of custom folds, in the order given.

    Rows of data with groups are sorted, because those of a group must be adjacent.
    """
    sizes = data.get_group()
    if hasattr(folds, "split"):
        groups = np.repeat(np.arange(len(sizes)), sizes) if len(sizes) else None
        folds = folds.split(np.empty((data.n_rows, 1)), data.labels, groups)
    if not isinstance(folds, Iterable):
        raise ParameterError(
            "folds must be pairs (training rows, test rows), or a splitter of "
            f"scikit-learn, not {folds!r}",
            code=ErrorCode.INVALID_FOLDS,
        )
    parts = []
    for number, pair in enumerate(folds):
        try:
            train, test = pair
        except (TypeError, ValueError):
            raise ParameterError(
                f"fold {number} must be a pair (training rows, test rows), not "
                f"{' '.join(repr(pair).split())[:100]}",
                code=ErrorCode.INVALID_FOLDS,
            ) from None
        rows = data.row_numbers(train), data.row_numbers(test)
        if len(sizes):
            rows = np.sort(rows[0]), np.sort(rows[1])
        for kind, indices in zip(("training", "test"), rows, strict=True):
            if len(indices) == 0:
                raise ParameterError(
                    f"fold {number} has no {kind} rows; pass at least one",
                    code=ErrorCode.INVALID_FOLDS,
                )
        parts.append(rows)
    if not parts:
        raise ParameterError(
            "folds is empty; pass pairs (training rows, test rows)",
            code=ErrorCode.INVALID_FOLDS,
        )
    return parts


def _check_disjoint_tests(parts: Sequence[tuple[Rows, Rows]], n_rows: int) -> None:
    times = np.bincount(np.concatenate([test for _, test in parts]), minlength=n_rows)
    if (times > 1).any():
        row = int((times > 1).argmax())
        raise DataError(
            f"row {row} is in {times[row]} test folds, so its prediction is not "
            "unique; pass disjoint test folds, or leave return_predictions out",
            code=ErrorCode.INVALID_FOLDS,
        )
