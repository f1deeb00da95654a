"""Targets of CART trees, rounded so that sums are exact in any order of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.cart_cut_search import NodeTargets
from hornbeam.kernels.impurity import ENTROPY, ERROR, GINI, SQUARED_ERROR

__all__ = ["CLASSIFICATION_CRITERIA", "REGRESSION_CRITERIA", "Targets"]

Float64s = NDArray[np.float64]

#: Split criteria of regression and of classification, by scikit-learn's names.
REGRESSION_CRITERIA = {"squared_error": SQUARED_ERROR}
CLASSIFICATION_CRITERIA = {
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
    "error": ERROR,
}

#: Number of bits of sums of weights and values, which float64 represents exactly.
_BITS = 52


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of all rows.

    Weights and values are multiples of a power of two that is large enough for the sums
    over any sample to be exact, in any order of summation.

    Attributes
    ----------
    criterion
        The split criterion, a constant of `hornbeam.kernels.impurity`.
    n_classes
        Number of classes; 0 for regression.
    weights
        (rows,) float64, not negative.
    values
        (rows,) float64: (target - `center`) * weight; 0 for classification.
    labels
        (rows,) int32: the class; for regression, a number that is equal for equal
        targets.
    center
        A value near the mean of the targets; 0 for classification.
    """

    criterion: int
    n_classes: int
    weights: Float64s
    values: Float64s
    labels: NDArray[np.int32]
    center: float

    @classmethod
    def of(
        cls,
        y: NDArray[Any],
        weights: Float64s | None,
        n_classes: int,
        criterion: str,
        max_draws: int,
    ) -> Targets:
        """Return the targets for trees.

        Parameters
        ----------
        y
            (rows,): finite numbers, or classes from 0 on.
        weights
            (rows,); None: all are 1.
        n_classes
            Number of classes; 0 for regression.
        criterion
            ``"squared_error"`` for regression; ``"gini"``, ``"entropy"`` (or
            ``"log_loss"``) or ``"error"`` for classification.
        max_draws
            The maximum size of a sample, repeated rows included.

        Raises
        ------
        ParameterError
            If the criterion is unknown for such targets.
        """
        known = CLASSIFICATION_CRITERIA if n_classes else REGRESSION_CRITERIA
        if criterion not in known:
            raise ParameterError(
                f"criterion must be one of {tuple(known)}, not {criterion!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        n_terms = max(y.size, max_draws)
        weights = np.ones(y.size) if weights is None else _quantize(weights, n_terms)
        if n_classes:
            labels, center, values = y.astype(np.int32), 0.0, np.zeros(y.size)
        else:
            labels = np.unique(y, return_inverse=True)[1].astype(np.int32)
            y = y.astype(np.float64)
            center = float(np.clip(y.mean(), y.min(), y.max()))
            # Few bits, so that targets with few bits are not rounded.
            center = float(_quantize(np.array([center, *y[:1]]), 1 << 32)[0])
            values = _quantize((y - center) * weights, n_terms)
        return cls(known[criterion], n_classes, weights, values, labels, center)

    @property
    def n_sums(self) -> int:
        """Number of sums of a node: weight and value, or the weight of each class."""
        return self.n_classes or 2

    def of_sample(
        self, rows: NDArray[np.int32], counts: NDArray[np.int32] | None
    ) -> NodeTargets:
        """Return weights, values and labels of the sampled rows."""
        weights, values = self.weights[rows], self.values[rows]
        if counts is not None:
            weights *= counts[rows]
            values *= counts[rows]
        return NodeTargets(weights, values, self.labels[rows])

    def node_weights(self, sums: Float64s) -> Float64s:
        """Return the weight of each node from its sums, (nodes, sums)."""
        return sums.sum(axis=1) if self.n_classes else sums[:, 0]

    def node_means(self, sums: Float64s) -> Float64s:
        """Return the prediction of each node from its sums, (nodes, sums).

        Regression: the mean target, (nodes,). Two classes: the probability of the
        second, (nodes,). More classes: their probabilities, (nodes, classes).
        """
        if self.n_classes == 0:
            return self.center + sums[:, 1] / sums[:, 0]
        shares = sums / sums.sum(axis=1, keepdims=True)
        return shares[:, -1] if self.n_classes <= 2 else shares

    def impurity(
        self, sample: tuple[Float64s, Float64s, NDArray[np.int32]], sums: Float64s
    ) -> float:
        """Return the impurity of a sample as one leaf.

        It is the mean squared error, the Gini index, the entropy in bits, or the
        misclassification rate.

        Parameters
        ----------
        sample
            Weights, values and labels, see `of_sample`.
        sums
            (sums,) of the root.
        """
        if self.n_classes == 0:
            weights, values, _ = sample
            square = np.sum(values * (values / weights)) / sums[0]
            return float(square - (sums[1] / sums[0]) ** 2)
        shares = sums[sums > 0] / sums.sum()
        if self.criterion == ENTROPY:
            return float(-np.sum(shares * np.log2(shares)))
        if self.criterion == ERROR:
            return float(1 - shares.max())
        return float(1 - np.sum(shares**2))

    def node_votes(self, sums: Float64s) -> Float64s:
        """Return `node_means` with probability 1 for each node's most frequent class.

        Of equally frequent classes the first wins.
        """
        winner = sums.argmax(axis=1)
        if self.n_classes <= 2:
            return (winner == 1).astype(np.float64)
        return np.eye(self.n_classes)[winner]

    def losses(self, predicted: Float64s, y: Float64s) -> Float64s:
        """Return the loss of each prediction (see `node_means`), (rows,).

        It is the squared error, or 1 for a wrong class.
        """
        if self.n_classes == 0:
            return (predicted - y) ** 2
        classes = predicted.argmax(axis=1) if predicted.ndim == 2 else predicted > 0.5
        return (classes != y).astype(np.float64)


def _quantize(values: Float64s, n_terms: int) -> Float64s:
    """Round values so that the sum of `n_terms` of them has at most 52 bits."""
    exponent = math.frexp(float(np.abs(values).max(initial=0.0)))[1]
    step = exponent + n_terms.bit_length() - _BITS
    return np.ldexp(np.rint(np.ldexp(values, -step)), step)
