"""How large a tree may become."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GrowthLimits"]

#: A split must gain more than this, whatever gamma says (XGBoost's kRtEps).
_LEAST_GAIN = 1e-6


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """How large a tree may become.

    Parameters
    ----------
    best_first
        Split the leaf of the highest gain next, instead of whole levels.
    max_depth, max_leaves
        0 means no limit.
    gamma
        The least gain of a split.
    prunes
        Whether what gains less is cut off when the tree has grown: a split may then
        stay for what is gained below it. Otherwise it is never made.
    """

    best_first: bool
    max_depth: int
    max_leaves: int
    gamma: float
    prunes: bool = False

    def deep_enough(self, depth: int) -> bool:
        """Whether nodes at this depth stay leaves."""
        return 0 < self.max_depth <= depth

    def leaves_left(self, leaves: int) -> int:
        """Return how many more splits a tree of so many leaves may have."""
        return self.max_leaves - leaves if self.max_leaves > 0 else sys.maxsize

    def worthwhile(self, splits: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which splits gain enough."""
        gains = splits["gain"]
        return (gains > _LEAST_GAIN) & (self.prunes | (gains >= self.gamma))
