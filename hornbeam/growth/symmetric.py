"""Grows a symmetric tree (`grow_policy="symmetric"`): one split for each level.

All nodes of a level are split by the same feature, threshold and direction of missing
values, those without rows too, so that every tree is complete (Kohavi 1994, oblivious
decision graphs; Prokhorenkova et al. 2018, CatBoost).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, GrowthLimits
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.tree_builder import TreeBuilder
from hornbeam.kernels.interactions import allow_together

__all__ = ["grow_symmetric"]

_ONE = np.uint64(1)


def grow_symmetric(
    backend: Backend,
    limits: GrowthLimits,
    columns: ColumnSampler,
    groups: NDArray[np.uint64] | None,
) -> TreeBuilder:
    """Return the tree; its nodes have the numbers of the backend.

    `groups`, (groups, words), are sets of features that may interact; None: any may.
    The features of a level are drawn for its first node, as it has one split.
    """
    tree = TreeBuilder.of_root()
    level = np.zeros(1, np.intp)
    used = np.zeros(-(-backend.n_features // 64), np.uint64)
    depth = 0
    while not limits.deep_enough(depth):
        allowed = columns.allowed(level[:1], depth)
        # The root may use any feature: one without a group does not interact.
        if groups is not None and depth > 0:
            if allowed is None:
                allowed = np.ones((1, backend.n_features), np.uint8)
            allow_together(used, groups, allowed[0])
        splits, sets, gain = backend.find_level_split(level, allowed)
        if not limits.worthwhile(np.array([gain]))[0]:
            break
        feature = int(splits["feature"][0])
        used[feature >> 6] |= _ONE << np.uint64(feature & 63)
        left = tree.split(level, splits, sets)
        backend.apply_splits(level, splits, sets, left)
        level = np.arange(left[0], left[-1] + 2)
        depth += 1
    return tree
