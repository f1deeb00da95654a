"""Decision trees: CART (Breiman, Friedman, Olshen and Stone 1984)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import Bunch

from hornbeam.cart.bagging import BootstrapSampler, FoldSampler, RowSample, grow_forest
from hornbeam.cart.pruning import (
    PruningPath,
    losses_by_alpha,
    prune,
    pruning_path,
)
from hornbeam.cart.tree_builder import CartTree
from hornbeam.errors import ErrorCode, ParameterError, short_traceback
from hornbeam.sklearn.cart import (
    CartClassifier,
    CartEstimator,
    CartRegressor,
    TrainingData,
    check_number,
    relative_gains,
)

__all__ = ["DecisionTreeClassifier", "DecisionTreeRegressor"]

Float64s = npt.NDArray[np.float64]


class _Tree(CartEstimator):
    """Base class of single trees.

    Attributes
    ----------
    ccp_alpha_
        The complexity parameter by which the tree was pruned.
    ccp_path_
        With ``ccp_alpha="cv"``: the result of `cost_complexity_pruning_path`, and for
        each of its subtrees ``cv_errors``, the mean loss on the validation rows (the
        squared error, or the fraction of wrong classes), and ``cv_errors_std``, its
        standard deviation over folds.
    """

    ccp_alpha: float | str
    cv: Any

    @short_traceback
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree, and prune it.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix, missing as `missing`.
        y
            Targets.
        sample_weight
            The weight of each row.
        """
        alpha = 0.0
        if self.ccp_alpha != "cv":
            alpha = check_number("ccp_alpha", self.ccp_alpha, 0, math.inf)
        data = self._training_data(X, y, sample_weight)
        ((sample, tree),) = self._trees(data, data.sampler(), 1)
        if self.ccp_alpha != 0:
            path = path_of(data, sample, tree)
            if self.ccp_alpha == "cv":
                self.ccp_path_ = self._cross_validated(data, path)
                errors = self.ccp_path_.cv_errors
                # Of equal errors, that of the smallest tree.
                best = errors.size - 1 - int(errors[::-1].argmin())
                alpha = float(path.alphas[best])
            tree = prune(tree, path, alpha)
        self.ccp_alpha_ = alpha
        importances = relative_gains(tree, data.features.n_features)
        converted = self._as_tree(data, tree, data.predictions(tree), 1.0)
        self._set_trees(data, [converted], [importances])
        return self

    def _trees(
        self,
        data: TrainingData,
        sampler: BootstrapSampler | FoldSampler,
        n_trees: int,
    ) -> list[tuple[RowSample, CartTree]]:
        """Return each sample of rows with the tree grown on it."""
        return list(
            grow_forest(
                data.features,
                data.targets,
                data.params,
                sampler,
                n_trees,
                self.n_jobs or 0,
                lambda _, sample, tree: (sample, tree),
            )
        )

    def _cross_validated(self, data: TrainingData, path: PruningPath) -> Bunch:
        """Return the pruning path with the cross-validated error of each subtree.

        The trees of the folds are pruned by the geometric mean of the interval of
        alphas for which the subtree is optimal (Breiman et al. 1984, section 3.4.2).
        """
        y, rows = data.y[data.rows], data.rows
        folds = [
            (rows[train], rows[test])
            for train, test in self._folds(y, data.params.seed).split(
                np.zeros((y.size, 1)), y
            )
        ]
        mean_alphas = np.append(np.sqrt(path.alphas[:-1] * path.alphas[1:]), np.inf)
        trees = self._trees(data, FoldSampler(folds), len(folds))
        losses = np.array([_losses(data, mean_alphas, *each) for each in trees])
        weights = [data.targets.weights[sample.held_out].sum() for sample, _ in trees]
        return _bunch(
            path,
            cv_errors=losses.sum(axis=0) / np.sum(weights),
            cv_errors_std=(losses.T / weights).std(axis=1),
        )

    def _folds(self, y: Float64s, seed: int) -> Any:
        if not isinstance(self.cv, int):
            return check_cv(self.cv, y, classifier=is_classifier(self))
        if not 2 <= self.cv <= y.size:
            raise ParameterError(
                f"cv must be from 2 to {y.size}, the number of rows, not {self.cv}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        kind = StratifiedKFold if is_classifier(self) else KFold
        return kind(self.cv, shuffle=True, random_state=seed)

    @short_traceback
    def cost_complexity_pruning_path(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Bunch:
        """Return the subtrees of minimal cost-complexity pruning of these rows' tree.

        The estimator does not change.

        Returns
        -------
        path
            ``ccp_alphas``, ascending from 0: the smallest alpha for which each subtree
            is optimal; ``impurities``: the weighted mean impurity of its leaves; and
            ``n_leaves``.
        """
        clone = type(self)(**self.get_params())
        data = clone._training_data(X, y, sample_weight)
        ((sample, tree),) = clone._trees(data, data.sampler(), 1)
        return _bunch(path_of(data, sample, tree))

    def get_depth(self) -> int:
        """Return the depth: the number of splits on the longest path to a leaf."""
        return self.get_booster().model.trees[0].depth()

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return self.get_booster().model.trees[0].n_leaves


def path_of(data: TrainingData, sample: RowSample, tree: CartTree) -> PruningPath:
    """Return the cost-complexity pruning path of the tree grown on a sample."""
    targets = data.targets
    sampled = targets.of_sample(sample.rows, sample.counts)
    weight = float(targets.node_weights(tree.sums[:1])[0])
    return pruning_path(tree, weight, targets.impurity(sampled, tree.sums[0]))


def _losses(
    data: TrainingData, alphas: Float64s, sample: RowSample, tree: CartTree
) -> Float64s:
    """Return the summed loss of the held-out rows for the tree pruned by each alpha."""
    path = path_of(data, sample, tree)
    predicted, rows = data.predictions(tree), sample.held_out
    y, weights = data.y[rows], data.targets.weights[rows]

    def loss_at(nodes: npt.NDArray[Any], chosen: npt.NDArray[Any]) -> Float64s:
        losses = data.targets.losses(predicted[nodes], y[chosen])
        return losses * weights[chosen]

    leaves = tree.apply(data.features, rows)
    return losses_by_alpha(tree, path, alphas, leaves, loss_at)


def _bunch(path: PruningPath, **more: Float64s) -> Bunch:
    return Bunch(
        ccp_alphas=path.alphas,
        impurities=path.impurities,
        n_leaves=path.n_leaves,
        **more,
    )


class DecisionTreeRegressor(CartRegressor, _Tree):
    """A decision tree for regression.

    Parameters
    ----------
    criterion
        ``"squared_error"``, the default.
    splitter
        ``"best"``, or ``"random"`` for the best of one random threshold per feature.
    max_depth
        The maximum depth; None: no limit.
    min_samples_split, min_samples_leaf
        The minimum number of rows of a node that is split, and of a leaf; or a
        fraction of all rows.
    min_weight_fraction_leaf
        The minimum fraction of the weight of all rows in a leaf.
    max_features
        The number of features drawn for each split: an integer, a fraction,
        ``"sqrt"``, ``"log2"``, ``"auto"`` (a third), or None for all. More are drawn if
        all of these are constant.
    max_leaf_nodes
        The maximum number of leaves; the tree then grows best-first. None: no limit.
    min_impurity_decrease
        The minimum decrease in impurity of a split, weighted by the node's fraction of
        the weight of all rows.
    ccp_alpha
        The complexity parameter of minimal cost-complexity pruning. ``"cv"`` chooses
        it by cross-validation.
    cv
        The folds of ``ccp_alpha="cv"``: their number, or another argument of
        scikit-learn's `check_cv`.
    random_state
        The seed.
    n_jobs
        The number of threads; None: all. The tree does not depend on it.
    missing
        The value that represents missing values, in addition to NaN. At each split
        missing values go to the side with the larger gain.
    enable_categorical
        Whether columns of categories are split by category.
    feature_types
        The types of the columns, ``"c"`` for categories; None: those of the frame.

    Examples
    --------
    >>> from hornbeam import DecisionTreeRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DecisionTreeRegressor(min_samples_leaf=40).fit(X, y)
    >>> model.get_depth(), round(model.score(X, y), 2)
    (4, 0.49)
    """

    def __init__(
        self,
        *,
        criterion: str | None = None,
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float | str = 0.0,
        cv: Any = 5,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_jobs: int | None = None,
        missing: float = math.nan,
        enable_categorical: bool = True,
        feature_types: Sequence[str] | None = None,
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.missing = missing
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types


class DecisionTreeClassifier(CartClassifier, _Tree):
    """A decision tree for classification, with labels of any type.

    The parameters are those of `DecisionTreeRegressor`, and:

    Parameters
    ----------
    criterion
        ``"gini"``, the default; ``"entropy"`` (or ``"log_loss"``), in bits; or
        ``"error"``, the misclassification rate.
    class_weight
        The weight of each class, by label; ``"balanced"`` for equal total weights.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.

    Examples
    --------
    >>> from hornbeam import DecisionTreeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecisionTreeClassifier(max_depth=2).fit(X, y)
    >>> model.get_n_leaves(), round(model.score(X, y), 2)
    (3, 0.96)
    """

    def __init__(
        self,
        *,
        criterion: str | None = None,
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float | str = 0.0,
        cv: Any = 5,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_jobs: int | None = None,
        missing: float = math.nan,
        enable_categorical: bool = True,
        feature_types: Sequence[str] | None = None,
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.cv = cv
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.missing = missing
        self.enable_categorical = enable_categorical
        self.feature_types = feature_types
