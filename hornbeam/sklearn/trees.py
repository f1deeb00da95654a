"""Single trees: CART (Breiman, Friedman, Olshen and Stone 1984)."""

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
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.sklearn.whole import (
    Learned,
    WholeClassifier,
    WholeEstimator,
    WholeRegressor,
    a_number,
    gains_of,
)

__all__ = ["DecisionTreeClassifier", "DecisionTreeRegressor"]

Float64s = npt.NDArray[np.float64]


class _Tree(WholeEstimator):
    """What single trees share.

    Attributes
    ----------
    ccp_alpha_
        What a leaf cost where the tree was cut back.
    ccp_path_
        With ``ccp_alpha="cv"``: the path as `cost_complexity_pruning_path` returns it,
        and for each of its subtrees ``cv_errors``, the mean loss of rows in folds that
        did not train it (the squared error, or the share of wrong classes), and
        ``cv_errors_std``, its standard deviation over folds.
    """

    ccp_alpha: float | str
    cv: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree, and cut it back.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix, missing as `missing`.
        y
            Targets.
        sample_weight
            How much each row counts.
        """
        alpha = 0.0
        if self.ccp_alpha != "cv":
            alpha = a_number("ccp_alpha", self.ccp_alpha, 0, math.inf)
        learned = self._learned(X, y, sample_weight)
        ((sample, tree),) = self._trees(learned, learned.sampler(), 1)
        if self.ccp_alpha != 0:
            path = path_of(learned, sample, tree)
            if self.ccp_alpha == "cv":
                self.ccp_path_ = self._validated(learned, path)
                errors = self.ccp_path_.cv_errors
                # Of equal ones the smallest tree.
                best = errors.size - 1 - int(errors[::-1].argmin())
                alpha = float(path.alphas[best])
            tree = prune(tree, path, alpha)
        self.ccp_alpha_ = alpha
        importances = gains_of(tree, learned.features.n_features)
        converted = self._as_tree(learned, tree, learned.predictions(tree), 1.0)
        self._take_trees(learned, [converted], [importances])
        return self

    def _trees(
        self, learned: Learned, sampler: BootstrapSampler | FoldSampler, n_trees: int
    ) -> list[tuple[RowSample, CartTree]]:
        """Return the tree of each bag, with the bag."""
        return list(
            grow_forest(
                learned.features,
                learned.targets,
                learned.params,
                sampler,
                n_trees,
                self.n_jobs or 0,
                lambda _, sample, tree: (sample, tree),
            )
        )

    def _validated(self, learned: Learned, path: PruningPath) -> Bunch:
        """Return the path, and how good each of its subtrees is by cross-validation.

        A subtree stands for the geometric mean of the alphas that it is best for
        (Breiman et al. 1984, section 3.4.2).
        """
        y, rows = learned.y[learned.rows], learned.rows
        parts = [
            (rows[train], rows[test])
            for train, test in self._folds(y, learned.params.seed).split(
                np.zeros((y.size, 1)), y
            )
        ]
        middles = np.append(np.sqrt(path.alphas[:-1] * path.alphas[1:]), np.inf)
        trees = self._trees(learned, FoldSampler(parts), len(parts))
        losses = np.array([_losses(learned, middles, *each) for each in trees])
        weights = [
            learned.targets.weights[sample.held_out].sum() for sample, _ in trees
        ]
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

    def cost_complexity_pruning_path(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Bunch:
        """Return how the tree of these rows shrinks as leaves cost more.

        The estimator stays as it is.

        Returns
        -------
        path
            ``ccp_alphas``, ascending, the first 0: from which alpha on each subtree is
            the best; ``impurities`` of its leaves, by their share of the weight; and
            ``n_leaves``.
        """
        fresh = type(self)(**self.get_params())
        learned = fresh._learned(X, y, sample_weight)
        ((sample, tree),) = fresh._trees(learned, learned.sampler(), 1)
        return _bunch(path_of(learned, sample, tree))

    def get_depth(self) -> int:
        """Return the number of splits on the longest way to a leaf."""
        return self.get_booster().model.trees[0].depth()

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return self.get_booster().model.trees[0].n_leaves


def path_of(learned: Learned, sample: RowSample, tree: CartTree) -> PruningPath:
    """Return how the tree of a bag shrinks."""
    targets = learned.targets
    own = targets.of_sample(sample.rows, sample.counts)
    weight = float(targets.node_weights(tree.sums[:1])[0])
    return pruning_path(tree, weight, targets.impurity(own, tree.sums[0]))


def _losses(
    learned: Learned, alphas: Float64s, sample: RowSample, tree: CartTree
) -> Float64s:
    """Return what the rows outside of a bag lose by the tree cut back to each alpha."""
    path = path_of(learned, sample, tree)
    predicted, rows = learned.predictions(tree), sample.held_out
    y, weights = learned.y[rows], learned.targets.weights[rows]

    def loss_at(nodes: npt.NDArray[Any], chosen: npt.NDArray[Any]) -> Float64s:
        losses = learned.targets.losses(predicted[nodes], y[chosen])
        return losses * weights[chosen]

    leaves = tree.apply(learned.features, rows)
    return losses_by_alpha(tree, path, alphas, leaves, loss_at)


def _bunch(path: PruningPath, **more: Float64s) -> Bunch:
    return Bunch(
        ccp_alphas=path.alphas,
        impurities=path.impurities,
        n_leaves=path.n_leaves,
        **more,
    )


class DecisionTreeRegressor(WholeRegressor, _Tree):
    """A single tree that predicts numbers.

    Parameters
    ----------
    criterion
        ``"squared_error"``, the default.
    splitter
        ``"best"``, or ``"random"`` to cut each feature at a random place and take the
        best of these.
    max_depth
        The most splits on a way to a leaf; None: any number.
    min_samples_split, min_samples_leaf
        Rows of a node that is split, and of a leaf: how many, or a share of all.
    min_weight_fraction_leaf
        The least share of the weight of all rows that a leaf has.
    max_features
        How many features each split chooses from, drawn anew: a number, a share,
        ``"sqrt"``, ``"log2"``, ``"auto"`` (a third), or None for all. More are drawn if
        all of these are constant.
    max_leaf_nodes
        The most leaves; the splits that gain most are made first. None: any number.
    min_impurity_decrease
        How much a split has to gain, as a share of the weight of all rows.
    ccp_alpha
        What a leaf costs: the tree is cut back to the subtree of the least impurity and
        costs. ``"cv"`` takes what is best in cross-validation.
    cv
        The folds of ``ccp_alpha="cv"``: how many, or what scikit-learn's `check_cv`
        takes.
    random_state
        Seed of all draws.
    n_jobs
        Threads; None: all. They do not change the tree.
    missing
        The value that stands for a missing one, besides NaN. Missing values go to the
        side where they are better off.
    enable_categorical
        Whether columns of categories are split by category.
    feature_types
        Types of the columns, ``"c"`` for categories; None: as the frame says.
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


class DecisionTreeClassifier(WholeClassifier, _Tree):
    """A single tree that predicts classes, with labels of any kind.

    The parameters are those of `DecisionTreeRegressor`, and:

    Parameters
    ----------
    criterion
        ``"gini"``, the default; ``"entropy"`` (or ``"log_loss"``), in bits; or
        ``"error"``, the share of rows that are not of the most frequent class.
    class_weight
        What rows of each class weigh, by label; ``"balanced"``: that all classes
        weigh the same.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.
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
