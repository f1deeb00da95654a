"""How impure the nodes of whole trees are, and how much a split makes that better.

The squared error of numbers; the Gini index, the entropy or the share of errors of
classes (Breiman et al. 1984, chapters 4 and 8).
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

#: What the splits of a tree are judged by; see `cart.targets`.
SQUARED_ERROR, GINI, ENTROPY, ERROR = range(4)

#: Bits of a natural logarithm.
_BITS = 1.4426950408889634


@inline
def score_numbers(left_w, left_v, right_w, totals):
    """Return how much less the squared error is, times the weight of the node."""
    pull = left_v * totals[0] - totals[1] * left_w
    return pull * pull / (left_w * right_w)


@kernel
def score_classes(criterion, weight, counts):
    """Return how pure a node is, times its weight: the more, the better."""
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


@inline
def times_log(x):
    return x * maths.log(x) if x > 0.0 else 0.0


@inline
def most_of(counts):
    most = counts[0]
    for k in range(1, counts.size):
        most = max(most, counts[k])
    return most


@inline
def class_gain(criterion, score, weight, counts):
    """Return how much less impure the children are by their score, times the weight."""
    gain = max(0.0, score - score_classes(criterion, weight, counts))
    return gain * _BITS if criterion == ENTROPY else gain
