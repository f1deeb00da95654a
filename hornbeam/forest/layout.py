"""Trees laid out for prediction: all nodes end to end in the order of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hornbeam.forest.tree import Tree, join

__all__ = ["Layout", "round_up"]


def round_up(values: NDArray[np.float64], dtype: DTypeLike) -> NDArray[Any]:
    """Return `values` in `dtype`, none smaller than it was.

    For every x of that type, ``x < value`` and ``x < round_up(value)`` are the same.
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    short = rounded < values
    rounded[short] = np.nextafter(rounded[short], np.asarray(np.inf, rounded.dtype))
    return rounded


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays that the prediction kernels walk.

    Parameters
    ----------
    roots
        (trees, 3) int32: place of the root, depth, output.
    nodes
        (nodes, 3) int32: feature, place of the left child (the right one follows),
        and whether the missing go right. A leaf is its own left child.
    thresholds
        (nodes,) of the type of the features; NaN at leaves.
    values
        (nodes,) float32.
    numbers
        (nodes,) int32: each node's number in its tree.
    """

    roots: NDArray[np.int32]
    nodes: NDArray[np.int32]
    thresholds: NDArray[Any]
    values: NDArray[np.float32]
    numbers: NDArray[np.int32]

    @classmethod
    def of(
        cls, trees: Sequence[Tree], outputs: Sequence[int], dtype: DTypeLike
    ) -> Layout:
        """Return the layout of `trees` for features of type `dtype`."""
        joined, starts = join(trees)
        sizes = np.diff(starts)
        places = np.arange(starts[-1])
        offsets = np.repeat(starts[:-1], sizes)
        is_leaf = joined.left < 0
        nodes = np.empty((places.size, 3), np.int32)
        nodes[:, 0] = joined.feature
        nodes[:, 1] = np.where(is_leaf, places, joined.left + offsets)
        nodes[:, 2] = ~is_leaf & (joined.default_left == 0)
        depths = [tree.depth() for tree in trees]
        return cls(
            np.stack([starts[:-1], depths, outputs], axis=1).astype(np.int32),
            nodes,
            round_up(np.where(is_leaf, np.nan, joined.threshold), dtype),
            joined.value,
            (places - offsets).astype(np.int32),
        )
