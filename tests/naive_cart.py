"""Reference implementations for CART: all splits of a node, all subtrees of a tree."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def impurity(criterion, y, weights):
    """Return the impurity of rows as one leaf, times the sum of weights."""
    total = weights.sum()
    if criterion == "squared_error":
        return np.sum(weights * (y - np.average(y, weights=weights)) ** 2)
    counts = np.array([weights[y == k].sum() for k in np.unique(y)])
    if criterion == "gini":
        return total - np.sum(counts**2) / total
    if criterion == "entropy":
        return -np.sum(counts * np.log2(counts / total))
    return total - counts.max()


def gain(criterion, y, weights, left):
    """Return the decrease of the impurity if these rows go left."""
    parts = [impurity(criterion, y[side], weights[side]) for side in (left, ~left)]
    return impurity(criterion, y, weights) - sum(parts)


def category_orders(x, y, weights, n_classes):
    """Return the orders of categories to cut: by the mean or each class's share."""
    present = np.unique(x[~np.isnan(x)])

    def mean(category, wanted):
        own = x == category
        values = y[own] if wanted is None else y[own] == wanted
        pairs = [
            (Fraction(float(value)), Fraction(float(weight)))
            for value, weight in zip(values, weights[own], strict=True)
        ]
        return sum(v * w for v, w in pairs) / sum(w for _, w in pairs)

    wanted = [None] if n_classes == 0 else [1] if n_classes == 2 else range(n_classes)
    return [
        sorted(present, key=lambda category: (mean(category, k), category))
        for k in wanted
    ]


def sides(x, by_category, y, weights, n_classes):
    """Yield the rows that go left for each cut of a column, missing right first."""
    known = ~np.isnan(x)
    orders = [np.unique(x[known])]
    if by_category:
        orders = category_orders(x, y, weights, n_classes)
    for order in orders:
        for last in range(len(order)):
            left = np.isin(x, order[: last + 1])
            yield left
            if not known.all():
                yield left | ~known


def gains(X, by_category, y, weights, n_classes, criterion, least_rows, least_weight):
    """Yield the gain of each split of a node with large enough children."""
    for f in range(X.shape[1]):
        for left in sides(X[:, f], by_category[f], y, weights, n_classes):
            if min(left.sum(), (~left).sum()) < max(least_rows, 1):
                continue
            if min(weights[left].sum(), weights[~left].sum()) < least_weight:
                continue
            yield gain(criterion, y, weights, left)


def links(left, gains):
    """Return the sum of gains and the number of splits below each internal node."""
    found = {}

    def walk(node):
        if left[node] < 0:
            return 0.0, 0
        below = [walk(child) for child in (left[node], left[node] + 1)]
        total = gains[node] + below[0][0] + below[1][0]
        found[node] = total, 1 + below[0][1] + below[1][1]
        return found[node]

    walk(0)
    return found


def best_subtree(nodes, alpha, node=0):
    """Return the reduced cost of the best subtree relative to a leaf, and its leaves.

    The reduction is the sum of gains minus alpha for each leaf but one. Of equal
    subtrees the smallest is returned.
    """
    left = nodes["left"][node]
    if left < 0:
        return 0.0, 1
    below = [best_subtree(nodes, alpha, child) for child in (left, left + 1)]
    more = nodes["gain"][node] - alpha + below[0][0] + below[1][0]
    return (more, below[0][1] + below[1][1]) if more > 1e-9 else (0.0, 1)
