"""What whole trees learn: targets as sums that no order changes, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.impurity import ENTROPY, ERROR, GINI, SQUARED_ERROR

__all__ = ["CLASS_CRITERIA", "NUMBER_CRITERIA", "Targets"]

Float64s = NDArray[np.float64]

#: What a split of numbers is judged by, and what a split of classes.
NUMBER_CRITERIA = {"squared_error": SQUARED_ERROR}
CLASS_CRITERIA = {
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
    "error": ERROR,
}

#: Sums of weights and of values have no more bits than a float64 holds.
_BITS = 52


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of all rows.

    Weights and values are multiples of a power of two so large that sums over any bag
    are exact, in whatever order they are made.

    Attributes
    ----------
    criterion
        What splits are judged by, as kernels know it.
    n_classes
        How many classes there are; 0 of numbers.
    weights
        (rows,) float64, none of them negative.
    values
        (rows,) float64: the target above `center`, times the weight; 0 of classes.
    labels
        (rows,) int32: the class, or a number that is the same where the targets are.
    center
        Near the mean of the targets; 0 of classes.
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
        most_draws: int,
    ) -> Targets:
        """Return targets as trees learn them.

        Parameters
        ----------
        y
            (rows,): finite numbers, or classes from 0 on.
        weights
            (rows,), or None where all weigh 1.
        n_classes
            How many classes there are; 0 of numbers.
        criterion
            ``"squared_error"`` of numbers; ``"gini"``, ``"entropy"`` (or
            ``"log_loss"``) or ``"error"`` of classes.
        most_draws
            The most rows of a bag.
        """
        known = CLASS_CRITERIA if n_classes else NUMBER_CRITERIA
        if criterion not in known:
            raise ParameterError(
                f"criterion must be one of {tuple(known)}, not {criterion!r}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
        n_terms = max(y.size, most_draws)
        weights = np.ones(y.size) if weights is None else _on_grid(weights, n_terms)
        if n_classes:
            labels, center, values = y.astype(np.int32), 0.0, np.zeros(y.size)
        else:
            labels = np.unique(y, return_inverse=True)[1].astype(np.int32)
            y = y.astype(np.float64)
            center = float(np.clip(y.mean(), y.min(), y.max()))
            # A few bits, so that targets with a few bits stay as they are.
            center = float(_on_grid(np.array([center, *y[:1]]), 1 << 32)[0])
            values = _on_grid((y - center) * weights, n_terms)
        return cls(known[criterion], n_classes, weights, values, labels, center)

    @property
    def n_sums(self) -> int:
        """How many sums a node has: weight and values, or the weight of each class."""
        return self.n_classes or 2

    def of_bag(
        self, rows: NDArray[np.int32], times: NDArray[np.int32] | None
    ) -> tuple[Float64s, Float64s, NDArray[np.int32]]:
        """Return weights, values and labels of the rows of a bag."""
        weights, values = self.weights[rows], self.values[rows]
        if times is not None:
            weights *= times[rows]
            values *= times[rows]
        return weights, values, self.labels[rows]

    def weights_of(self, sums: Float64s) -> Float64s:
        """Return the weight of each node from its sums, (nodes, sums)."""
        return sums.sum(axis=1) if self.n_classes else sums[:, 0]

    def means_of(self, sums: Float64s) -> Float64s:
        """Return what each node predicts: (nodes,) or, of more classes, one for each.

        That is the mean of the targets, the share of the second of two classes, or
        the share of each class.
        """
        if self.n_classes == 0:
            return self.center + sums[:, 1] / sums[:, 0]
        shares = sums / sums.sum(axis=1, keepdims=True)
        return shares[:, -1] if self.n_classes <= 2 else shares

    def impurity_of(
        self, bag: tuple[Float64s, Float64s, NDArray[np.int32]], sums: Float64s
    ) -> float:
        """Return the impurity of a bag as one leaf, from its rows and their (sums,).

        The mean squared error, the Gini index, the entropy in bits, or the share of
        rows that are not of the most frequent class.
        """
        if self.n_classes == 0:
            weights, values, _ = bag
            square = np.sum(values * (values / weights)) / sums[0]
            return float(square - (sums[1] / sums[0]) ** 2)
        shares = sums[sums > 0] / sums.sum()
        if self.criterion == ENTROPY:
            return float(-np.sum(shares * np.log2(shares)))
        if self.criterion == ERROR:
            return float(1 - shares.max())
        return float(1 - np.sum(shares**2))

    def votes_of(self, sums: Float64s) -> Float64s:
        """Return the same where each node votes for its class: the first of equal."""
        won = sums.argmax(axis=1)
        if self.n_classes <= 2:
            return (won == 1).astype(np.float64)
        return np.eye(self.n_classes)[won]

    def losses_of(self, predicted: Float64s, y: Float64s) -> Float64s:
        """Return what is lost by predictions, see `means_of`, of targets or classes.

        That is the squared error, or 1 for a wrong class.
        """
        if self.n_classes == 0:
            return (predicted - y) ** 2
        classes = predicted.argmax(axis=1) if predicted.ndim == 2 else predicted > 0.5
        return (classes != y).astype(np.float64)


def _on_grid(values: Float64s, n_terms: int) -> Float64s:
    """Round values so that the sum of `n_terms` of them has 52 bits."""
    exponent = math.frexp(float(np.abs(values).max(initial=0.0)))[1]
    step = exponent + n_terms.bit_length() - _BITS
    return np.ldexp(np.rint(np.ldexp(values, -step)), step)
