"""Trees laid out for prediction: all nodes end to end in the order of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hornbeam.data.floats import nearest
from hornbeam.forest.tree import Tree, join
from hornbeam.kernels.predict import FEATURE_BITS

__all__ = ["Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays that the prediction kernels walk.

    Parameters
    ----------
    roots
        (trees, 3) int32: place of the root, depth, output.
    nodes
        (nodes,) uint64: feature, whether the missing go right, and the place of the
        left child, which the right one follows (see `hornbeam.kernels.predict`). A
        leaf is its own left child.
    thresholds
        (nodes,) of the type of the features; NaN at leaves.
    values
        (nodes,) float32.
    numbers
        (nodes,) int32: each node's number in its tree.
    """

    roots: NDArray[np.int32]
    nodes: NDArray[np.uint64]
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
        left = np.where(is_leaf, places, joined.left + offsets).astype(np.uint64)
        missing_right = (~is_leaf & (joined.default_left == 0)).astype(np.uint64)
        nodes = (((left << 1) | missing_right) << FEATURE_BITS) | joined.feature.astype(
            np.uint64
        )
        depths = [tree.depth() for tree in trees]
        return cls(
            np.stack([starts[:-1], depths, outputs], axis=1).astype(np.int32),
            nodes,
            nearest(np.where(is_leaf, np.nan, joined.threshold), dtype),
            joined.value,
            (places - offsets).astype(np.int32),
        )
