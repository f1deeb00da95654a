"""Linear leaves: each leaf of a tree predicts by some of the features on its path.

The splits of the tree and the constants of its leaves are those of ordinary trees. Then
each leaf gets a ridge regression of the gradients of its rows on numerical features
that the path to it splits on (Shi, Li and Li 2019; LightGBM's ``linear_tree``), those
nearest to the leaf first. A feature counts as the mean of the leaf where it is missing,
and as the end of its range in the leaf where it is beyond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, LeafFeatures
from hornbeam.boosting.margins import block_of, check_values
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.dmatrix import DMatrix
from hornbeam.forest.tree import LeafTerms, Tree
from hornbeam.growth.grower import beyond_float32
from hornbeam.kernels.layout import TERM_DTYPE
from hornbeam.kernels.linear_leaves import NodeTerms, list_path_features, write_terms
from hornbeam.params import Parameters

__all__ = ["FeatureValues", "LinearLeaves"]


class FeatureValues:
    """The values of the features of training rows.

    Of sparse rows only the columns of one tree are in memory at a time.

    Parameters
    ----------
    data
        The training matrix.
    dtype
        The type in which features are compared with thresholds.

    Raises
    ------
    DataError
        If the matrix has only the bins of its features.
    """

    def __init__(self, data: DMatrix, dtype: np.dtype[Any]) -> None:
        check_values(data)
        self._dtype = dtype
        self._whole: NDArray[Any] | None = None
        if not isinstance(data.table, SparseTable):
            self._whole = block_of(data, 0, data.n_rows, dtype, None)
            self._spans = _spans(self._whole)

    def of_leaves(self, data: DMatrix, features: NDArray[np.int64]) -> LeafFeatures:
        """Return the values of the features, (leaves, features), of the leaves."""
        if self._whole is not None:
            return LeafFeatures(self._whole, self._spans, features)
        used, columns = np.unique(features, return_inverse=True)
        first = int(np.searchsorted(used, 0))  # -1 stands for no feature
        own = block_of(data, 0, data.n_rows, self._dtype, used[first:])
        columns = columns.reshape(features.shape) - first
        return LeafFeatures(own, _spans(own), columns)


def _spans(data: NDArray[Any]) -> NDArray[np.float64]:
    """Return the least value, the range, and 1 / the range of each column.

    The last one is 0 where it would not be finite.
    """
    if len(data) == 0:
        return np.zeros((data.shape[1], 3))
    lows = np.fmin.reduce(data, axis=0).astype(np.float64)
    highs = np.fmax.reduce(data, axis=0).astype(np.float64)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ranges = highs - lows
        inverse = 1.0 / ranges
    inverse[~np.isfinite(inverse)] = 0.0
    return np.stack([lows, ranges, inverse], axis=1)


class LinearLeaves:
    """Fits the linear leaves of trees.

    Parameters
    ----------
    values, data
        The features of the training rows, and their matrix.
    parameters
        Of the training.
    learning_rate
        The factor on the leaf values of one tree.
    """

    def __init__(
        self,
        values: FeatureValues,
        data: DMatrix,
        parameters: Parameters,
        learning_rate: float,
    ) -> None:
        self._values, self._data = values, data
        self._params, self._learning_rate = parameters, learning_rate

    def __call__(self, backend: Backend, tree: Tree) -> LeafTerms:
        """Return the terms of the leaves, and add what these predict to the margins."""
        p = self._params
        leaves = np.flatnonzero(tree.left < 0)
        features = path_features(tree, leaves, p.linear_max_features)
        own = self._values.of_leaves(self._data, features)
        slopes = backend.regress_leaves(own, p.linear_lambda)
        steps = slopes.steps
        if p.max_delta_step > 0.0:
            steps = _limited(steps, tree.weight[leaves], p.max_delta_step)
        values = tree.value[leaves]

        def terms_of(features: NDArray[np.int64]) -> NodeTerms:
            starts = np.empty(leaves.size + 1, np.int64)
            terms = np.empty(features.size, TERM_DTYPE)
            found = steps, slopes.centred, features, values, self._learning_rate
            if write_terms(*found, starts, terms):
                raise beyond_float32()
            return NodeTerms(starts, terms[: starts[-1]])

        of_leaves = by_column = terms_of(features)
        if own.columns is not features:
            by_column = terms_of(own.columns)
        backend.add_linear_leaves(own.data, values, by_column)
        counts = np.zeros(tree.n_nodes, np.int64)
        counts[leaves] = np.diff(of_leaves.starts)
        return LeafTerms(counts, of_leaves.terms)


def path_features(tree: Tree, leaves: NDArray[np.intp], most: int) -> NDArray[np.int64]:
    """Return the numerical features on the paths to leaves, (leaves, features).

    Those nearest to the leaf come first, at most `most` of them (0: all); -1 follows.
    """
    feature = np.where(tree.split_type == 0, tree.feature, -1).astype(np.int64)
    n_features = len(set(feature.tolist()) - {-1})
    width = min(n_features, most) if most > 0 else n_features
    features = np.full((leaves.size, max(1, width)), -1)
    largest = list_path_features(feature, tree.parent, leaves, features)
    return np.ascontiguousarray(features[:, : max(1, largest)])


def _limited(
    steps: NDArray[np.float64], weights: NDArray[np.float32], limit: float
) -> NDArray[np.float64]:
    """Return the steps of leaves, shortened until no row gets more than the limit."""
    reach = np.abs(steps).sum(axis=1)
    room = np.maximum(limit - np.abs(weights.astype(np.float64)), 0.0)
    share = np.divide(room, reach, out=np.ones(reach.size), where=reach > room)
    return steps * share[:, None]
