"""Bagging, random forests and extra-trees (Breiman 1996, 2001; Geurts et al. 2006)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hornbeam.callbacks import ProgressBar
from hornbeam.cart.bagging import (
    OutOfBag,
    RowSample,
    grow_forest,
    permutation_importance,
)
from hornbeam.cart.pruning import prune
from hornbeam.cart.tree_builder import CartTree
from hornbeam.errors import ErrorCode, ParameterError, short_traceback
from hornbeam.forest.tree import Tree
from hornbeam.sklearn.cart import (
    CartClassifier,
    CartEstimator,
    CartRegressor,
    TrainingData,
    check_integer,
    check_number,
    is_fraction,
    is_integer,
    relative_gains,
)
from hornbeam.sklearn.trees import path_of

__all__ = ["RandomForestClassifier", "RandomForestRegressor"]

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _GrownTree:
    """A tree of the forest, and its results.

    Attributes
    ----------
    tree
        The tree, with leaves scaled by its share of the mean.
    gains
        (features,): the importance of each feature in this tree.
    held_out, predicted
        The out-of-bag rows, and their predictions.
    increases
        (features,): permutation importances on the out-of-bag rows, if wanted.
    """

    tree: Tree
    gains: Float64s
    held_out: npt.NDArray[np.int32]
    predicted: Float64s
    increases: Float64s


class _Forest(CartEstimator):
    """Base class of random forests.

    Attributes
    ----------
    oob_score_
        With `oob_score`: R squared, or the accuracy, of out-of-bag predictions. Rows in
        the bootstrap sample of every tree have no such prediction and are left out.
    oob_error_curve_
        With `oob_score`: the out-of-bag error after each tree, the mean squared error
        or the fraction of wrong classes; (n_estimators,).
    oob_importances_, oob_importances_std_
        With `oob_importances`: the increase of a tree's error on its out-of-bag rows
        when the values of a feature are permuted among them; the mean and the standard
        deviation over trees; (features,).
    """

    n_estimators: int
    bootstrap: bool
    max_samples: int | float | None
    oob_score: bool
    oob_importances: bool
    ccp_alpha: float
    verbose: bool

    @short_traceback
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix, missing as `missing`.
        y
            Targets.
        sample_weight
            The weight of each row.
        """
        n_trees = check_integer("n_estimators", self.n_estimators, 1)
        alpha = check_number("ccp_alpha", self.ccp_alpha, 0, math.inf)
        self._check_bootstrap()
        data = self._training_data(X, y, sample_weight)
        results = grow_forest(
            data.features,
            data.targets,
            data.params,
            data.sampler(self._n_draws(data.rows.size)),
            n_trees,
            self.n_jobs or 0,
            partial(self._finish_tree, data, alpha),
        )
        out_of_bag = OutOfBag(data.targets, data.y)
        trees, gains, increases = [], [], []
        for result in self._with_progress(results, n_trees, out_of_bag.errors):
            trees.append(result.tree)
            gains.append(result.gains)
            if self.oob_score:
                out_of_bag.add(result.held_out, result.predicted)
            if self.oob_importances:
                increases.append(result.increases)
        self._set_trees(data, trees, gains)
        if self.oob_score:
            self._set_out_of_bag_results(data, out_of_bag)
        if self.oob_importances:
            self.oob_importances_ = np.mean(increases, axis=0)
            self.oob_importances_std_ = np.std(increases, axis=0)
        return self

    def _finish_tree(
        self,
        data: TrainingData,
        alpha: float,
        number: int,
        sample: RowSample,
        tree: CartTree,
    ) -> _GrownTree:
        """Return the pruned tree and its results; runs in the thread that grew it."""
        if alpha > 0:
            tree = prune(tree, path_of(data, sample, tree), alpha)
        features, predicted = data.features, data.predictions(tree)
        held_out, increases = sample.held_out, np.zeros(0)
        if self.oob_importances:
            increases = permutation_importance(
                number,
                data.params.seed,
                tree,
                features,
                data.targets,
                data.y,
                predicted,
                held_out,
            )
        if not self.oob_score:
            held_out = held_out[:0]
        return _GrownTree(
            self._as_tree(data, tree, predicted, 1 / self.n_estimators),
            relative_gains(tree, features.n_features),
            held_out,
            predicted[tree.apply(features, held_out)],
            increases,
        )

    def _with_progress(
        self, results: Iterator[_GrownTree], n_trees: int, errors: list[Any]
    ) -> Iterator[_GrownTree]:
        """Yield the trees, with a progress bar if `verbose`."""
        if not self.verbose:
            yield from results
            return
        bar = ProgressBar(n_trees, unit="tree")
        bar.begin()
        try:
            for done, result in enumerate(results, 1):
                yield result
                bar.show(done, {"oob": {"error": errors}} if errors else {})
        finally:
            bar.end()

    def _check_bootstrap(self) -> None:
        if self.bootstrap:
            return
        for name in ("oob_score", "oob_importances"):
            if getattr(self, name):
                raise ParameterError(
                    f"{name}=True needs out-of-bag rows, and with bootstrap=False each "
                    f"tree uses all rows; use bootstrap=True, or {name}=False",
                    code=ErrorCode.CONFLICTING_PARAMETERS,
                )
        if self.max_samples is not None:
            raise ParameterError(
                f"max_samples={self.max_samples!r} is the size of bootstrap samples, "
                "and with bootstrap=False each tree uses all rows; use bootstrap=True, "
                "or leave max_samples out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )

    def _n_draws(self, n_rows: int) -> int | None:
        """Return the size of the bootstrap samples; None without bootstrap."""
        if not self.bootstrap:
            return None
        wanted: Any = self.max_samples
        if wanted is None:
            return n_rows
        if is_integer(wanted) and 1 <= wanted <= n_rows:
            return int(wanted)
        if is_fraction(wanted):
            return max(1, round(wanted * n_rows))
        raise ParameterError(
            f"max_samples must be an integer from 1 to {n_rows} (the rows), a fraction "
            f"above 0 and up to 1, or None for the number of rows, not {wanted!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )

    def _set_out_of_bag_results(self, data: TrainingData, out_of_bag: OutOfBag) -> None:
        predicted = (out_of_bag.counts > 0) & (data.targets.weights > 0)
        n_missing = data.rows.size - int(np.count_nonzero(predicted))
        if n_missing:
            warnings.warn(
                f"{n_missing} of {data.rows.size} rows were in the bootstrap sample of "
                "every tree; their out-of-bag predictions are NaN, and they do not "
                "count in the score; grow more trees",
                stacklevel=3,
            )
        self.oob_error_curve_ = np.array(out_of_bag.errors)
        self.oob_score_ = self._out_of_bag_score(data, predicted)
        self._set_out_of_bag_predictions(out_of_bag.predictions)

    def _out_of_bag_score(
        self, data: TrainingData, predicted: npt.NDArray[np.bool_]
    ) -> float:
        """Return the score of the rows with an out-of-bag prediction."""
        raise NotImplementedError

    def _set_out_of_bag_predictions(self, predictions: Float64s) -> None:
        """Set the public attribute of the out-of-bag predictions."""
        raise NotImplementedError


class RandomForestRegressor(CartRegressor, _Forest):
    """A random forest for regression; it predicts the mean of its trees.

    Each tree is grown on a bootstrap sample of the rows, and each split considers a
    random subset of the features. ``max_features=None`` is bagging;
    ``splitter="random"`` with ``bootstrap=False`` is extra-trees.

    Parameters
    ----------
    n_estimators
        The number of trees.
    criterion, splitter, max_depth, min_samples_split, min_samples_leaf
        As for `DecisionTreeRegressor`, as all parameters not listed here.
    max_features
        As there; ``"auto"``, the default, is a third of the features.
    bootstrap
        Whether each tree is grown on a bootstrap sample, drawn with replacement. If
        not, on all rows.
    max_samples
        The size of a bootstrap sample, or a fraction of the rows; None: the number of
        rows.
    oob_score
        Whether to compute out-of-bag predictions and their score.
    oob_importances
        Whether to compute permutation importances on out-of-bag rows.
    ccp_alpha
        The complexity parameter by which each tree is pruned.
    verbose
        Whether to show progress on standard error: the number of trees, and the
        out-of-bag error if there is one; as a bar on a terminal, else as lines at
        intervals.

    Attributes
    ----------
    oob_prediction_
        With `oob_score`: (rows,), NaN for rows in every bootstrap sample.

    Examples
    --------
    >>> from hornbeam import RandomForestRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RandomForestRegressor(50, oob_score=True, random_state=0).fit(X, y)
    >>> round(model.oob_score_, 2)
    0.43
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str | None = None,
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "auto",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        oob_importances: bool = False,
        ccp_alpha: float = 0.0,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        missing: float = math.nan,
        enable_categorical: bool = True,
        feature_types: Sequence[str] | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.oob_importances = oob_importances
        self.ccp_alpha = ccp_alpha
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.missing = missing
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types

    def _set_out_of_bag_predictions(self, predictions: Float64s) -> None:
        self.oob_prediction_ = predictions

    def _out_of_bag_score(
        self, data: TrainingData, predicted: npt.NDArray[np.bool_]
    ) -> float:
        weights, y = data.targets.weights[predicted], data.y[predicted]
        if not predicted.any():
            return math.nan
        mean = np.average(y, weights=weights)
        variance = float(np.average((y - mean) ** 2, weights=weights))
        error = float(self.oob_error_curve_[-1])
        return 1 - error / variance if variance > 0 else math.nan


class RandomForestClassifier(CartClassifier, _Forest):
    """A random forest for classification, with labels of any type.

    The parameters are those of `RandomForestRegressor`, and:

    Parameters
    ----------
    criterion, class_weight
        See `DecisionTreeClassifier`.
    max_features
        ``"auto"``, the default, is the square root of the number of features.
    voting
        ``"soft"``: the probabilities of trees are averaged. ``"hard"``: each tree votes
        for one class, and probabilities are the fractions of votes.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.
    oob_decision_function_
        With `oob_score`: (rows, classes), NaN for rows in every bootstrap sample.

    Examples
    --------
    >>> from hornbeam import RandomForestClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(50, oob_score=True, random_state=0).fit(X, y)
    >>> round(model.oob_score_, 2)
    0.95
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str | None = None,
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "auto",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        voting: str = "soft",
        oob_score: bool = False,
        oob_importances: bool = False,
        ccp_alpha: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        missing: float = math.nan,
        enable_categorical: bool = True,
        feature_types: Sequence[str] | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.voting = voting
        self.oob_score = oob_score
        self.oob_importances = oob_importances
        self.ccp_alpha = ccp_alpha
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.missing = missing
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types

    def _by_votes(self) -> bool:
        if self.voting not in ("soft", "hard"):
            raise ParameterError(
                f"voting must be 'soft' or 'hard', not {self.voting!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        return self.voting == "hard"

    def _set_out_of_bag_predictions(self, predictions: Float64s) -> None:
        self.oob_decision_function_ = self._class_probabilities(predictions)

    def _out_of_bag_score(
        self, data: TrainingData, predicted: npt.NDArray[np.bool_]
    ) -> float:
        return 1 - float(self.oob_error_curve_[-1])
