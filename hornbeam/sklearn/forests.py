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
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.tree import Tree
from hornbeam.sklearn.trees import path_of
from hornbeam.sklearn.whole import (
    Learned,
    WholeClassifier,
    WholeEstimator,
    WholeRegressor,
    a_number,
    a_whole_number,
    gains_of,
    is_share,
    is_whole,
)

__all__ = ["RandomForestClassifier", "RandomForestRegressor"]

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Member:
    """A tree of the forest, its importances, and what it says of the other rows."""

    tree: Tree
    gains: Float64s
    held_out: npt.NDArray[np.int32]
    predicted: Float64s
    increases: Float64s


class _Forest(WholeEstimator):
    """What forests share.

    Attributes
    ----------
    oob_score_
        With `oob_score`: R squared, or the share of rows in the right class, of
        predictions by the trees whose bags a row is not in. A row that was in every
        bag has no such prediction, and no part in it.
    oob_error_curve_
        The same as an error, the mean squared one or the share of wrong classes, after
        each tree; (n_estimators,).
    oob_importances_, oob_importances_std_
        With `oob_importances`: how much more a tree errs on the rows outside of its bag
        where the values of a feature are permuted among them; the mean over trees and
        the standard deviation; (features,).
    """

    n_estimators: int
    bootstrap: bool
    max_samples: int | float | None
    oob_score: bool
    oob_importances: bool
    ccp_alpha: float
    verbose: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X
            Features: an array, a frame or a sparse matrix, missing as `missing`.
        y
            Targets.
        sample_weight
            How much each row counts.
        """
        n_trees = a_whole_number("n_estimators", self.n_estimators, 1)
        alpha = a_number("ccp_alpha", self.ccp_alpha, 0, math.inf)
        self._check_bags()
        learned = self._learned(X, y, sample_weight)
        members = grow_forest(
            learned.features,
            learned.targets,
            learned.params,
            learned.sampler(self._n_draws(learned.rows.size)),
            n_trees,
            self.n_jobs or 0,
            partial(self._member, learned, alpha),
        )
        out_of_bag = OutOfBag(learned.targets, learned.y)
        trees, gains, increases = [], [], []
        for member in self._shown(members, n_trees, out_of_bag.errors):
            trees.append(member.tree)
            gains.append(member.gains)
            if self.oob_score:
                out_of_bag.add(member.held_out, member.predicted)
            if self.oob_importances:
                increases.append(member.increases)
        self._take_trees(learned, trees, gains)
        if self.oob_score:
            self._take_out_of_bag(learned, out_of_bag)
        if self.oob_importances:
            self.oob_importances_ = np.mean(increases, axis=0)
            self.oob_importances_std_ = np.std(increases, axis=0)
        return self

    def _member(
        self,
        learned: Learned,
        alpha: float,
        number: int,
        sample: RowSample,
        tree: CartTree,
    ) -> _Member:
        """Return what the forest needs of a tree, and no more, in the tree's thread."""
        if alpha > 0:
            tree = prune(tree, path_of(learned, sample, tree), alpha)
        features, predicted = learned.features, learned.predictions(tree)
        held_out, increases = sample.held_out, np.zeros(0)
        if self.oob_importances:
            increases = permutation_importance(
                number,
                learned.params.seed,
                tree,
                features,
                learned.targets,
                learned.y,
                predicted,
                held_out,
            )
        if not self.oob_score:
            held_out = held_out[:0]
        return _Member(
            self._as_tree(learned, tree, predicted, 1 / self.n_estimators),
            gains_of(tree, features.n_features),
            held_out,
            predicted[tree.apply(features, held_out)],
            increases,
        )

    def _shown(
        self, members: Iterator[_Member], n_trees: int, errors: list[Any]
    ) -> Iterator[_Member]:
        """Yield the members of the forest, and show how far it is if it should."""
        if not self.verbose:
            yield from members
            return
        bar = ProgressBar(n_trees, unit="tree")
        bar.begin()
        try:
            for done, member in enumerate(members, 1):
                yield member
                bar.show(done, {"oob": {"error": errors}} if errors else {})
        finally:
            bar.end()

    def _check_bags(self) -> None:
        if self.bootstrap:
            return
        for name in ("oob_score", "oob_importances"):
            if getattr(self, name):
                raise ParameterError(
                    f"{name}=True asks for rows outside of bags, and bootstrap=False "
                    f"puts every row in each; use bootstrap=True, or {name}=False",
                    code=ErrorCode.CONFLICTING_PARAMETERS,
                )
        if self.max_samples is not None:
            raise ParameterError(
                f"max_samples={self.max_samples!r} is how often a bag draws, and "
                "bootstrap=False takes every row once; use bootstrap=True, or leave "
                "max_samples out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )

    def _n_draws(self, n_rows: int) -> int | None:
        """Return how often a bag draws, None if it takes every row once."""
        if not self.bootstrap:
            return None
        wanted: Any = self.max_samples
        if wanted is None:
            return n_rows
        if is_whole(wanted) and 1 <= wanted <= n_rows:
            return int(wanted)
        if is_share(wanted):
            return max(1, round(wanted * n_rows))
        raise ParameterError(
            f"max_samples must be a whole number from 1 to {n_rows} (the rows), a "
            f"share above 0 and up to 1, or None for as many draws, not {wanted!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )

    def _take_out_of_bag(self, learned: Learned, out_of_bag: OutOfBag) -> None:
        seen = (out_of_bag.counts > 0) & (learned.targets.weights > 0)
        in_every_bag = learned.rows.size - int(np.count_nonzero(seen))
        if in_every_bag:
            warnings.warn(
                f"{in_every_bag} of {learned.rows.size} rows were in every bag and "
                "have no out-of-bag prediction (NaN), nor a part in the score; grow "
                "more trees",
                stacklevel=3,
            )
        self.oob_error_curve_ = np.array(out_of_bag.errors)
        self.oob_score_ = self._score_of(learned, seen)
        self._take_predictions(out_of_bag.predictions)

    def _score_of(self, learned: Learned, seen: npt.NDArray[np.bool_]) -> float:
        """Return the score of the rows that have a prediction."""
        raise NotImplementedError

    def _take_predictions(self, predictions: Float64s) -> None:
        """Take out-of-bag predictions under their name."""
        raise NotImplementedError


class RandomForestRegressor(WholeRegressor, _Forest):
    """A forest of trees that predicts numbers, as the mean of its trees.

    Each tree is grown on a bag of rows, and each split chooses from some features drawn
    anew. With ``max_features=None`` that is bagging, with ``splitter="random"`` and
    ``bootstrap=False`` extra-trees.

    Parameters
    ----------
    n_estimators
        How many trees.
    criterion, splitter, max_depth, min_samples_split, min_samples_leaf
        See `DecisionTreeRegressor`, and so the others that it has.
    max_features
        As there; ``"auto"``, the default, is a third of the features.
    bootstrap
        Whether each tree has a bag of its own, drawn with replacement. If not, each is
        grown on all rows.
    max_samples
        How often a bag draws, or as a share of the rows; None: as often as there are
        rows.
    oob_score
        Whether to predict each row by the trees whose bags it is not in.
    oob_importances
        Whether to permute each feature in the rows outside of bags.
    ccp_alpha
        What a leaf costs; each tree is cut back by it.
    verbose
        Whether to show on standard error how many trees are grown, and the error out of
        bag where there is one: as a bar on a terminal, else as a line now and then.

    Attributes
    ----------
    oob_prediction_
        With `oob_score`: (rows,), NaN of rows in every bag.
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

    def _take_predictions(self, predictions: Float64s) -> None:
        self.oob_prediction_ = predictions

    def _score_of(self, learned: Learned, seen: npt.NDArray[np.bool_]) -> float:
        weights, y = learned.targets.weights[seen], learned.y[seen]
        if not seen.any():
            return math.nan
        mean = np.average(y, weights=weights)
        variance = float(np.average((y - mean) ** 2, weights=weights))
        error = float(self.oob_error_curve_[-1])
        return 1 - error / variance if variance > 0 else math.nan


class RandomForestClassifier(WholeClassifier, _Forest):
    """A forest of trees that predicts classes, with labels of any kind.

    The parameters are those of `RandomForestRegressor`, and:

    Parameters
    ----------
    criterion, class_weight
        See `DecisionTreeClassifier`.
    max_features
        ``"auto"``, the default, is the square root of the number of features.
    voting
        ``"soft"``: the probabilities of trees are averaged. ``"hard"``: each tree votes
        for one class, and probabilities are the shares of votes.

    Attributes
    ----------
    classes_
        The labels, sorted; the columns of `predict_proba` are in this order.
    oob_decision_function_
        With `oob_score`: (rows, classes), NaN of rows in every bag.
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

    def _take_predictions(self, predictions: Float64s) -> None:
        self.oob_decision_function_ = self._shares(predictions)

    def _score_of(self, learned: Learned, seen: npt.NDArray[np.bool_]) -> float:
        return 1 - float(self.oob_error_curve_[-1])
