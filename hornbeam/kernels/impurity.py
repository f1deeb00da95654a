"""Impurity of CART nodes, and its decrease by a split.

The squared error of regression; the Gini index, the entropy or the misclassification
rate of classes (Breiman et al. 1984, chapters 4 and 8).
"""

from __future__ import annotations

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel

__all__ = [
    "ENTROPY",
    "ERROR",
    "GINI",
    "SQUARED_ERROR",
    "class_gain",
    "most_of",
    "score_classes",
    "score_numbers",
    "times_log",
]

#: The split criteria; see `cart.targets`.
SQUARED_ERROR, GINI, ENTROPY, ERROR = range(4)

#: 1 / ln(2): bits per nat.
_BITS = 1.4426950408889634


@inline
def score_numbers(left_w, left_v, right_w, totals):
    """Return the decrease of the squared error, times the weight of the node."""
    pull = left_v * totals[0] - totals[1] * left_w
    return pull * pull / (left_w * right_w)


@kernel
def score_classes(criterion, weight, counts):
    """Return the purity of a node, times its weight: higher is better."""
    if criterion == ERROR:
        return most_of(counts)
    total = 0.0
    if criterion == GINI:
        for k in range(counts.size):
            total += counts[k] * counts[k]
        return total / weight
    for k in range(counts.size):
        total += times_log(counts[k])
    return total - times_log(weight)


@kernel
def times_log(x):
    """Return x log(x); 0 for 0."""
    return x * maths.log(x) if x > 0.0 else 0.0


@inline
def most_of(counts):
    """Return the largest count."""
    most = counts[0]
    for k in range(1, counts.size):
        most = max(most, counts[k])
    return most


@inline
def class_gain(criterion, score, weight, counts):
    """Return the decrease of the impurity by a split, times the weight."""
    gain = max(0.0, score - score_classes(criterion, weight, counts))
    return gain * _BITS if criterion == ENTROPY else gain
