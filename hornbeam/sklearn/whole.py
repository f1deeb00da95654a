"""What estimators share that learn trees grown whole, by themselves or as a forest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight

from hornbeam.boosting.booster import Booster
from hornbeam.cart.bagging import BootstrapSampler
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.model import as_booster, as_tree, base_score_for
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import CartTree, GrowthParams
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.tree import Tree
from hornbeam.sklearn.labels import LabelEstimator
from hornbeam.sklearn.model import ModelEstimator
from hornbeam.sklearn.table import seed_of

__all__ = [
    "Learned",
    "WholeClassifier",
    "WholeEstimator",
    "WholeRegressor",
    "a_number",
    "a_whole_number",
    "count_of",
    "gains_of",
    "is_share",
    "is_whole",
]

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Learned:
    """What trees are grown on, and what they are held to.

    Attributes
    ----------
    data, codes
        The features.
    y
        (rows,): the targets, or the numbers of the classes.
    targets
        The same as trees learn them.
    rows
        (rows,) int32: those that weigh anything.
    rules
        What trees are held to.
    votes
        Whether a leaf predicts its most frequent class alone.
    span
        The least and the greatest target of these rows.
    """

    data: DMatrix
    features: BinnedFeatures
    y: Float64s
    targets: Targets
    rows: npt.NDArray[np.int32]
    params: GrowthParams
    votes: bool
    span: tuple[float, float]

    def sampler(self, n_draws: int | None = None) -> BootstrapSampler:
        """Return the bags that draw so often; None: all rows, once."""
        return BootstrapSampler(self.rows, self.y.size, n_draws, self.params.seed)

    def predictions(self, tree: CartTree) -> Float64s:
        """Return what each node predicts."""
        if self.votes:
            return self.targets.node_votes(tree.sums)
        return self.targets.node_means(tree.sums)


class WholeEstimator(ModelEstimator):
    """What single trees and forests share.

    Attributes
    ----------
    max_features_
        How many features are drawn at a split.
    """

    # Parameters that all of them have.
    criterion: str | None
    splitter: str
    max_depth: int | None
    min_samples_split: int | float
    min_samples_leaf: int | float
    min_weight_fraction_leaf: float
    max_features: int | float | str | None
    max_leaf_nodes: int | None
    min_impurity_decrease: float
    random_state: int | np.random.RandomState | np.random.Generator | None

    importance_type = None

    # What classes and numbers differ in.
    _usual_criterion = "squared_error"
    _usual_features: str | float = 1 / 3

    def _n_learned(self) -> int:
        """Return how many classes trees tell apart; 0 of numbers."""
        return 0

    def _by_votes(self) -> bool:
        """Return whether a leaf predicts its most frequent class alone."""
        return False

    def _row_weights(self, y: Any, weights: Float64s | None) -> Float64s | None:
        """Return what rows weigh, None if all weigh 1."""
        return weights

    # Training

    def _learned(self, X: Any, y: Any, sample_weight: Any) -> Learned:
        """Return what trees are grown on, after a look at all that was given."""
        X, y = self._taken(X, y)
        data = self._matrix(X, weight=sample_weight)
        weights = self._row_weights(y, data.info["weight"])
        labels = np.asarray(self._labels(y), np.float64)
        rows = np.arange(data.n_rows, dtype=np.int32)
        if weights is not None:
            rows = rows[weights > 0]
        if rows.size == 0:
            raise DataError(
                "no row weighs anything; give some a weight above 0",
                code=ErrorCode.WEIGHTS_ALL_ZERO,
            )
        targets = Targets.of(
            labels,
            weights,
            self._n_learned(),
            self._usual_criterion if self.criterion is None else self.criterion,
            data.n_rows,
        )
        params = self._rules(
            rows.size, data.n_features, float(targets.weights[rows].sum())
        )
        features = BinnedFeatures.of(data, n_threads=self.n_jobs or 0)
        own = labels[rows]
        span = float(own.min()), float(own.max())
        votes = self._by_votes()
        return Learned(data, features, labels, targets, rows, params, votes, span)

    def _rules(self, n_rows: int, n_features: int, weight: float) -> GrowthParams:
        if self.splitter not in ("best", "random"):
            raise ParameterError(
                f"splitter must be 'best' or 'random', not {self.splitter!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        name = "min_weight_fraction_leaf"
        least_share = a_number(name, self.min_weight_fraction_leaf, 0, 0.5)
        name = "min_impurity_decrease"
        least_decrease = a_number(name, self.min_impurity_decrease, 0, math.inf)
        self.max_features_ = self._n_features_drawn(n_features)
        return GrowthParams(
            self.max_features_,
            self.splitter == "random",
            _or_none("max_depth", self.max_depth, 1),
            _or_none("max_leaf_nodes", self.max_leaf_nodes, 2),
            count_of("min_samples_split", self.min_samples_split, n_rows, 2),
            count_of("min_samples_leaf", self.min_samples_leaf, n_rows, 1),
            weight * least_share,
            weight * least_decrease,
            self._seed(),
        )

    def _seed(self) -> int:
        seed = seed_of(self.random_state)
        return 0 if seed is None else a_whole_number("random_state", seed, 0)

    def _n_features_drawn(self, n_features: int) -> int:
        wanted: Any = self.max_features
        if wanted == "auto":
            wanted = self._usual_features
        if wanted is None:
            return n_features
        if wanted == "sqrt":
            return max(1, math.isqrt(n_features))
        if wanted == "log2":
            return max(1, int(math.log2(n_features)))
        if is_whole(wanted) and 1 <= wanted <= n_features:
            return int(wanted)
        if is_share(wanted):
            return max(1, int(wanted * n_features))
        raise ParameterError(
            f"max_features must be a whole number from 1 to {n_features} (the columns "
            "of X), a share above 0 and up to 1, 'sqrt', 'log2', 'auto' or None for "
            f"all, not {wanted!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )

    def _take_trees(
        self, learned: Learned, trees: Sequence[Tree], importances: Sequence[Float64s]
    ) -> None:
        """Take trees, each with its share of the mean, and their importances."""
        self._booster = as_booster(
            trees,
            learned.data,
            learned.features,
            learned.targets,
            learned.span,
            self.n_jobs,
        )
        self._take_importances(importances)

    def _take_importances(self, importances: Sequence[Float64s]) -> None:
        """Take the mean over trees."""
        mean = np.mean(importances, axis=0)
        self._importances = mean / (mean.sum() or 1.0)

    def _take_model(self, booster: Booster, mark: dict[str, Any]) -> None:
        super()._take_model(booster, mark)
        n_features = booster.num_features()
        self._take_importances(
            [
                _shares(tree.left, tree.feature, tree.gain, n_features)
                for tree in booster.model.trees
            ]
        )

    def _as_tree(
        self, learned: Learned, tree: CartTree, predictions: Float64s, share: float
    ) -> Tree:
        """Return a tree in the form of models, which counts for a share of the mean."""
        return as_tree(
            tree,
            learned.features,
            predictions - base_score_for(learned.targets, *learned.span),
            learned.targets.node_weights(tree.sums),
            share,
        )

    @property
    def feature_importances_(self) -> Float64s:
        """By how much splits on each feature make the trees better, with sum 1.

        That is the decrease of the criterion, by weight: of each tree as a share of its
        total, and then on average.
        """
        self.get_booster()
        return self._importances.copy()


class WholeRegressor(RegressorMixin, WholeEstimator):
    """What learns numbers."""

    def _labels(self, y: Any) -> Any:
        numbers = np.asarray(super()._labels(y), np.float64)
        size = np.abs(numbers)
        if size.max() > np.finfo(np.float32).max:
            row = int(size.argmax())
            raise DataError(
                f"the target of row {row} is {numbers[row]:g}, and leaves hold float32 "
                "numbers; scale the targets down",
                code=ErrorCode.FLOAT_OVERFLOW,
            )
        return numbers

    def predict(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Return the mean of the targets in each row's leaf, on average over trees.

        Parameters
        ----------
        X
            Features, with the columns of training.
        """
        return self._predicted(X, "value")


class WholeClassifier(LabelEstimator, WholeEstimator):
    """What learns classes."""

    class_weight: dict[Any, float] | str | None

    _usual_criterion = "gini"
    _usual_features = "sqrt"

    def _n_learned(self) -> int:
        return max(2, self.n_classes_)

    def _row_weights(self, y: Any, weights: Float64s | None) -> Float64s | None:
        if self.class_weight is None:
            return weights
        try:
            of_class = compute_sample_weight(self.class_weight, y)
        except (TypeError, ValueError):
            of_class = np.array(-1.0)
        if not (np.isfinite(of_class) & (of_class >= 0)).all():
            raise ParameterError(
                "class_weight must be 'balanced' or a dictionary with a weight of 0 or "
                f"more for each label, not {self.class_weight!r}",
                code=ErrorCode.INVALID_PARAMETER_TYPE,
            )
        return of_class if weights is None else of_class * weights

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row; the first of equal ones.

        Parameters
        ----------
        X
            Features, with the columns of training.
        """
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Float64s:
        """Return the share of each class in each row's leaf, on average over trees.

        Parameters
        ----------
        X
            Features, with the columns of training.
        """
        return self._shares(self._predicted(X, "value").astype(np.float64))

    def predict_log_proba(self, X: Any) -> Float64s:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _shares(self, values: Float64s) -> Float64s:
        """Return the shares of all classes from what trees predict."""
        if values.ndim == 2:
            return values / values.sum(axis=1, keepdims=True)
        if self.n_classes_ == 1:
            return np.ones((values.size, 1))
        return np.column_stack([1 - values, values])


def gains_of(tree: CartTree, n_features: int) -> Float64s:
    """Return the gains of a tree's splits on each feature, as shares of all."""
    nodes = tree.nodes
    return _shares(nodes["left"], nodes["feature"], nodes["gain"], n_features)


def _shares(
    left: npt.NDArray[Any],
    feature: npt.NDArray[Any],
    gain: npt.NDArray[Any],
    n_features: int,
) -> Float64s:
    is_split = left >= 0
    gains = np.bincount(feature[is_split], gain[is_split], n_features)
    return gains / (gains.sum() or 1.0)


# --- Parameters -----------------------------------------------------------------------


def is_whole(value: Any) -> bool:
    """Return whether a parameter is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_share(value: Any) -> bool:
    """Return whether a parameter is a share: above 0, up to 1, and no whole number."""
    return (
        isinstance(value, Real)
        and not isinstance(value, Integral)
        and 0 < float(value) <= 1
    )


def a_whole_number(name: str, value: Any, least: int) -> int:
    """Return a parameter that is a whole number."""
    if not is_whole(value) or value < least:
        raise ParameterError(
            f"{name} must be a whole number of {least} or more, not {value!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return int(value)


def a_number(name: str, value: Any, least: float, most: float) -> float:
    """Return a parameter that is a number."""
    if not isinstance(value, Real) or not least <= float(value) <= most:
        limits = (
            f"of {least} or more" if most == math.inf else f"from {least} to {most}"
        )
        raise ParameterError(
            f"{name} must be a number {limits}, not {value!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return float(value)


def count_of(name: str, value: Any, n_rows: int, least: int) -> int:
    """Return a parameter that is a number of rows, or a share of them."""
    if is_share(value):
        return max(least, math.ceil(value * n_rows))
    if is_whole(value) and value >= least:
        return int(value)
    raise ParameterError(
        f"{name} must be a whole number of {least} or more, or a share of the rows "
        f"above 0 and up to 1, not {value!r}",
        code=ErrorCode.PARAMETER_OUT_OF_RANGE,
    )


def _or_none(name: str, value: Any, least: int) -> int | None:
    return None if value is None else a_whole_number(name, value, least)
