"""Plain twins of what the kernels and the forest do: slow, short and surely right."""

from __future__ import annotations

import numpy as np


def predict_tree(tree, rows):
    """Return the value of the leaf that each row reaches."""
    return np.array([tree.value[leaf_of(tree, row)] for row in rows], np.float32)


def leaf_of(tree, row):
    """Return the number of the leaf that one row reaches."""
    node = 0
    while tree.left[node] >= 0:
        x = row[tree.feature[node]]
        if np.isnan(x):
            goes_left = tree.default_left[node] == 1
        else:
            goes_left = x < tree.threshold[node]
        node = tree.left[node] if goes_left else tree.right[node]
    return node
