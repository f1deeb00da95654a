"""A tree in the spelling of XGBoost's dumps: its numbers as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np

from hornbeam.data.floats import nearest
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.tree import Tree

__all__ = ["SpelledTree", "spelled"]


def spelled(number: float) -> str:
    """Return a float32 in as many digits as tell all of them apart."""
    return f"{number:.9g}"


class SpelledTree:
    """What a dump says of each node of a tree.

    Parameters
    ----------
    tree
        A tree; thresholds that float32 does not hold are told as in a model file, by
        the nearest float32.
    features
        Names and types of the features.
    """

    def __init__(self, tree: Tree, features: FeatureMap) -> None:
        features.check(tree)
        self._features = features
        self._feature = tree.feature.tolist()
        self._left, self._right = tree.left.tolist(), tree.right.tolist()
        self._missing_left = tree.default_left.tolist()
        self._thresholds = nearest(tree.threshold, np.float32).tolist()
        self._categories = tree.categories
        self._starts = tree.category_starts
        self._values = tree.value.reshape(tree.n_nodes, -1).tolist()
        self._gains, self._covers = tree.gain.tolist(), tree.cover.tolist()

    def walk(self) -> Iterator[tuple[int, int]]:
        """Yield each node and its depth: a split, all at its left, all at its right."""
        waiting = [(0, 0)]
        while waiting:
            node, depth = waiting.pop()
            yield node, depth
            if not self.is_leaf(node):
                waiting += [
                    (self._right[node], depth + 1),
                    (self._left[node], depth + 1),
                ]

    def is_leaf(self, node: int) -> bool:
        return self._left[node] < 0

    def kind(self, node: int) -> str:
        """Return the type of the feature that a node splits on."""
        return self._features.types[self._feature[node]]

    def name(self, node: int) -> str:
        """Return the name of the feature that a node splits on."""
        return self._features.names[self._feature[node]]

    def escaped_name(self, node: int) -> str:
        """Return the name as it stands between quotation marks, which are not there."""
        return json.dumps(self.name(node), ensure_ascii=False)[1:-1]

    def categories(self, node: int) -> list[str]:
        """Return the codes of the categories that go right."""
        start, stop = self._starts[node : node + 2]
        return [str(code) for code in self._categories[start:stop].tolist()]

    def threshold(self, node: int) -> str:
        return spelled(self._thresholds[node])

    def limit(self, node: int) -> str:
        """Return the threshold, of whole numbers the whole number that is no lower."""
        if self.kind(node) == "int":
            return str(math.ceil(self._thresholds[node]))
        return self.threshold(node)

    def ways(self, node: int) -> tuple[int, int, int]:
        """Return where rows go for which it is so, for which not, and missing ones.

        An indicator asks whether there is a value other than what is missing.
        """
        left, right = self._left[node], self._right[node]
        missing, other = (left, right) if self._missing_left[node] else (right, left)
        if self.kind(node) == "c":
            return right, left, missing
        if self.kind(node) == "i":
            return other, missing, missing
        return left, right, missing

    def branches(self, node: int) -> list[tuple[int, str, bool]]:
        """Return the children, which rows go there, and whether missing ones do."""
        left, right = self._left[node], self._right[node]
        words = ("no", "yes") if self.kind(node) == "c" else ("yes", "no")
        missing_left = bool(self._missing_left[node])
        return [(left, words[0], missing_left), (right, words[1], not missing_left)]

    def values(self, node: int) -> list[str]:
        """Return the values of a leaf."""
        return [spelled(value) for value in self._values[node]]

    def gain(self, node: int) -> str:
        return spelled(self._gains[node])

    def cover(self, node: int) -> str:
        return spelled(self._covers[node])
