"""Base classes of the CART estimators: single trees and random forests."""

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
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.forest.tree import Tree
from hornbeam.sklearn.base import ModelClassifier, ModelEstimator, seed_of

__all__ = [
    "CartClassifier",
    "CartEstimator",
    "CartRegressor",
    "TrainingData",
    "check_integer",
    "check_number",
    "is_fraction",
    "is_integer",
    "relative_gains",
    "row_count",
]

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Validated training data, and the parameters of growth.

    Attributes
    ----------
    matrix, features
        The features as given, and binned.
    y
        (rows,): the targets, or the class indices.
    targets
        The targets and weights in the form that split search reads.
    rows
        (n,) int32: the rows with a weight above 0.
    params
        The parameters of growth.
    votes
        Whether a leaf predicts only its most frequent class.
    target_range
        The smallest and the largest target of `rows`.
    """

    matrix: DMatrix
    features: BinnedFeatures
    y: Float64s
    targets: Targets
    rows: npt.NDArray[np.int32]
    params: GrowthParams
    votes: bool
    target_range: tuple[float, float]

    def sampler(self, n_draws: int | None = None) -> BootstrapSampler:
        """Return a sampler of bootstrap samples of `n_draws` rows; None: all rows."""
        return BootstrapSampler(self.rows, self.y.size, n_draws, self.params.seed)

    def predictions(self, tree: CartTree) -> Float64s:
        """Return the prediction of each node."""
        if self.votes:
            return self.targets.node_votes(tree.sums)
        return self.targets.node_means(tree.sums)


class CartEstimator(ModelEstimator):
    """Base class of single trees and forests.

    Attributes
    ----------
    max_features_
        The number of features drawn for each split.
    """

    # Parameters of all CART estimators.
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

    # Defaults of regressors; classifiers override them.
    _default_criterion = "squared_error"
    _auto_max_features: str | float = 1 / 3

    def _n_tree_classes(self) -> int:
        """Return the number of classes of a tree; 0 for regression."""
        return 0

    def _by_votes(self) -> bool:
        """Return whether a leaf predicts only its most frequent class."""
        return False

    def _row_weights(self, y: Any, weights: Float64s | None) -> Float64s | None:
        """Return the row weights; None if all are 1."""
        return weights

    # Training

    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Return validated training data, after checking the parameters."""
        X, y = self._validate_training_data(X, y)
        matrix = self._create_dmatrix(X, weight=sample_weight)
        weights = self._row_weights(y, matrix.info["weight"])
        labels = np.asarray(self._encode_targets(y), np.float64)
        rows = np.arange(matrix.n_rows, dtype=np.int32)
        if weights is not None:
            rows = rows[weights > 0]
        if rows.size == 0:
            raise DataError(
                "all weights are 0; give some rows a weight above 0",
                code=ErrorCode.WEIGHTS_ALL_ZERO,
            )
        targets = Targets.of(
            labels,
            weights,
            self._n_tree_classes(),
            self._default_criterion if self.criterion is None else self.criterion,
            matrix.n_rows,
        )
        params = self._growth_params(
            rows.size, matrix.n_features, float(targets.weights[rows].sum())
        )
        used = labels[rows]
        return TrainingData(
            matrix=matrix,
            features=BinnedFeatures.of(matrix, n_threads=self.n_jobs or 0),
            y=labels,
            targets=targets,
            rows=rows,
            params=params,
            votes=self._by_votes(),
            target_range=(float(used.min()), float(used.max())),
        )

    def _growth_params(
        self, n_rows: int, n_features: int, weight: float
    ) -> GrowthParams:
        if self.splitter not in ("best", "random"):
            raise ParameterError(
                f"splitter must be 'best' or 'random', not {self.splitter!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        name = "min_weight_fraction_leaf"
        least_share = check_number(name, self.min_weight_fraction_leaf, 0, 0.5)
        name = "min_impurity_decrease"
        least_decrease = check_number(name, self.min_impurity_decrease, 0, math.inf)
        self.max_features_ = self._n_features_drawn(n_features)
        return GrowthParams(
            self.max_features_,
            self.splitter == "random",
            _check_optional_integer("max_depth", self.max_depth, 1),
            _check_optional_integer("max_leaf_nodes", self.max_leaf_nodes, 2),
            row_count("min_samples_split", self.min_samples_split, n_rows, 2),
            row_count("min_samples_leaf", self.min_samples_leaf, n_rows, 1),
            weight * least_share,
            weight * least_decrease,
            self._seed(),
        )

    def _seed(self) -> int:
        seed = seed_of(self.random_state)
        return 0 if seed is None else check_integer("random_state", seed, 0)

    def _n_features_drawn(self, n_features: int) -> int:
        wanted: Any = self.max_features
        if wanted == "auto":
            wanted = self._auto_max_features
        if wanted is None:
            return n_features
        if wanted == "sqrt":
            return max(1, math.isqrt(n_features))
        if wanted == "log2":
            return max(1, int(math.log2(n_features)))
        if is_integer(wanted) and 1 <= wanted <= n_features:
            return int(wanted)
        if is_fraction(wanted):
            return max(1, int(wanted * n_features))
        raise ParameterError(
            f"max_features must be an integer from 1 to {n_features} (the columns of "
            "X), a fraction above 0 and up to 1, 'sqrt', 'log2', 'auto' or None for "
            f"all, not {wanted!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )

    def _set_trees(
        self,
        data: TrainingData,
        trees: Sequence[Tree],
        importances: Sequence[Float64s],
    ) -> None:
        """Set the booster of trees whose leaves are scaled to sum up to the mean."""
        self._booster = as_booster(
            trees,
            data.matrix,
            data.features,
            data.targets,
            data.target_range,
            self.n_jobs,
        )
        self._set_importances(importances)

    def _set_importances(self, importances: Sequence[Float64s]) -> None:
        """Set the feature importances to their mean over trees, with sum 1."""
        mean = np.mean(importances, axis=0)
        self._importances = mean / (mean.sum() or 1.0)

    def _restore(self, booster: Booster, metadata: dict[str, Any]) -> None:
        super()._restore(booster, metadata)
        n_features = booster.num_features()
        self._set_importances(
            [
                _relative_gains(tree.left, tree.feature, tree.gain, n_features)
                for tree in booster.model.trees
            ]
        )

    def _as_tree(
        self, data: TrainingData, tree: CartTree, predictions: Float64s, share: float
    ) -> Tree:
        """Return a tree of the model, with leaves scaled by its `share` of the mean."""
        return as_tree(
            tree,
            data.features,
            predictions - base_score_for(data.targets, *data.target_range),
            data.targets.node_weights(tree.sums),
            share,
        )

    @property
    def feature_importances_(self) -> Float64s:
        """The importance of each feature: its mean decrease in impurity; sum 1.

        The weighted decreases of the criterion at the splits on a feature are summed,
        divided by the total of the tree, and averaged over trees.
        """
        self.get_booster()
        return self._importances.copy()


class CartRegressor(RegressorMixin, CartEstimator):
    """Base class of CART regressors."""

    def _encode_targets(self, y: Any) -> Any:
        numbers = np.asarray(super()._encode_targets(y), np.float64)
        size = np.abs(numbers)
        if size.max() > np.finfo(np.float32).max:
            row = int(size.argmax())
            raise DataError(
                f"the target of row {row} is {numbers[row]:g}, which exceeds the range "
                "of float32, the type of leaf values; scale the targets down",
                code=ErrorCode.FLOAT_OVERFLOW,
            )
        return numbers

    @short_traceback
    def predict(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Return the mean target of each row's leaf, averaged over trees.

        Parameters
        ----------
        X
            Features, with the columns of training.
        """
        return self._predict(X, "value")


class CartClassifier(ModelClassifier, CartEstimator):
    """Base class of CART classifiers."""

    class_weight: dict[Any, float] | str | None

    _default_criterion = "gini"
    _auto_max_features = "sqrt"

    def _n_tree_classes(self) -> int:
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

    @short_traceback
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row; of equal ones, the first.

        Parameters
        ----------
        X
            Features, with the columns of training.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    @short_traceback
    def predict_proba(self, X: Any) -> Float64s:
        """Return the fraction of each class in each row's leaf, averaged over trees.

        Parameters
        ----------
        X
            Features, with the columns of training.
        """
        return self._class_probabilities(self._predict(X, "value").astype(np.float64))

    @short_traceback
    def predict_log_proba(self, X: Any) -> Float64s:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _class_probabilities(self, values: Float64s) -> Float64s:
        """Return the probabilities of all classes from the predictions of trees."""
        if values.ndim == 2:
            return values / values.sum(axis=1, keepdims=True)
        if self.n_classes_ == 1:
            return np.ones((values.size, 1))
        return np.column_stack([1 - values, values])


def relative_gains(tree: CartTree, n_features: int) -> Float64s:
    """Return the gain of the splits on each feature, divided by the tree's total."""
    nodes = tree.nodes
    return _relative_gains(nodes["left"], nodes["feature"], nodes["gain"], n_features)


def _relative_gains(
    left: npt.NDArray[Any],
    feature: npt.NDArray[Any],
    gain: npt.NDArray[Any],
    n_features: int,
) -> Float64s:
    is_split = left >= 0
    gains = np.bincount(feature[is_split], gain[is_split], n_features)
    return gains / (gains.sum() or 1.0)


# --- Parameters -----------------------------------------------------------------------


def is_integer(value: Any) -> bool:
    """Return whether a parameter is an integer."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_fraction(value: Any) -> bool:
    """Return whether a parameter is a fraction: a float above 0 and up to 1."""
    return (
        isinstance(value, Real)
        and not isinstance(value, Integral)
        and 0 < float(value) <= 1
    )


def check_integer(name: str, value: Any, least: int) -> int:
    """Return a parameter that must be an integer of `least` or more."""
    if not is_integer(value) or value < least:
        raise ParameterError(
            f"{name} must be an integer of {least} or more, not {value!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return int(value)


def check_number(name: str, value: Any, least: float, most: float) -> float:
    """Return a parameter that must be a number from `least` to `most`."""
    if not isinstance(value, Real) or not least <= float(value) <= most:
        limits = (
            f"of {least} or more" if most == math.inf else f"from {least} to {most}"
        )
        raise ParameterError(
            f"{name} must be a number {limits}, not {value!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return float(value)


def row_count(name: str, value: Any, n_rows: int, least: int) -> int:
    """Return a number of rows; the parameter is that number or a fraction of rows."""
    if is_fraction(value):
        return max(least, math.ceil(value * n_rows))
    if is_integer(value) and value >= least:
        return int(value)
    raise ParameterError(
        f"{name} must be an integer of {least} or more, or a fraction of the rows "
        f"above 0 and up to 1, not {value!r}",
        code=ErrorCode.PARAMETER_OUT_OF_RANGE,
    )


def _check_optional_integer(name: str, value: Any, least: int) -> int | None:
    return None if value is None else check_integer(name, value, least)
