"""Limits of the size of a tree (`max_depth`, `max_leaves`, `gamma`)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GrowthLimits"]

#: The gain of a split must be above this for any `gamma` (XGBoost's kRtEps).
_MIN_GAIN = 1e-6


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """Limits of the size of a tree.

    Parameters
    ----------
    lossguide
        Split the leaf with the highest gain next, instead of whole levels.
    max_depth, max_leaves
        0 means no limit.
    gamma
        The minimum gain of a split.
    prunes
        Whether splits with a lower gain are pruned when the tree is complete: then such
        a split stays if there are better ones below it. Otherwise it is never applied.
    """

    lossguide: bool
    max_depth: int
    max_leaves: int
    gamma: float
    prunes: bool = False

    def deep_enough(self, depth: int) -> bool:
        """Return whether nodes at this depth stay leaves."""
        return 0 < self.max_depth <= depth

    def leaves_left(self, leaves: int) -> int:
        """Return how many more splits a tree with this number of leaves may have."""
        return self.max_leaves - leaves if self.max_leaves > 0 else sys.maxsize

    def worthwhile(self, splits: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which splits have enough gain."""
        gains = splits["gain"]
        return (gains > _MIN_GAIN) & (self.prunes | (gains >= self.gamma))
