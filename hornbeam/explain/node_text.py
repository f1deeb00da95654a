"""The text of the nodes of a tree: conditions, values and statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.explain.style import number, shorten_distinct
from hornbeam.forest.tree import Tree

__all__ = ["Float64s", "NodeText", "abridged", "in_rows"]

Float64s: TypeAlias = NDArray[np.float64]

#: Threshold of a split that only tests whether the value is missing.
_ABOVE_ALL = np.finfo(np.float32).max


class NodeText:
    """A tree with the text of its nodes.

    Parameters
    ----------
    tree
        The tree.
    feature_names
        Feature names; f0, f1 and so on if there are none.
    categories
        Category names, where categories have names.
    outputs
        Names of the outputs that leaf values and shares belong to; indices if None.
    values
        (nodes, outputs): values to show instead of the tree's own.
    shares
        (nodes, classes): shares of the classes in each node, NaN where unknown;
        None for a tree without classes.
    about
        Text about the tree as a whole.
    max_depth
        Splits at this depth are left out; None: show all.
    most_categories
        Maximum number of categories of a split that are listed; None: all.
    with_stats
        Whether plots show the gain of splits, and the cover of all nodes.
    brief
        Whether to shorten long names in the middle.
    """

    def __init__(
        self,
        tree: Tree,
        feature_names: Sequence[str] = (),
        categories: Categories = NO_CATEGORIES,
        outputs: Sequence[str] | None = None,
        *,
        values: Float64s | None = None,
        shares: Float64s | None = None,
        about: str = "",
        max_depth: int | None = None,
        most_categories: int | None = None,
        with_stats: bool = True,
        brief: bool = False,
    ) -> None:
        self.tree = tree
        self._told = shorten_distinct if brief else list[str]
        outputs = outputs or [str(output) for output in range(tree.leaf_size)]
        self.outputs = self._told(outputs)
        self.about = about
        self.max_depth = max_depth
        self._feature_names = self._told(feature_names)
        self._categories = categories
        self._shares = shares
        self._values = in_rows(tree.value) if values is None else values
        self._most_categories = most_categories
        self._with_stats = with_stats
        self._starts = tree.category_starts

    # Branches

    def is_leaf(self, node: int) -> bool:
        return bool(self.tree.left[node] < 0)

    def ends(self, node: int, depth: int) -> bool:
        """Return whether the nodes below this one are not shown."""
        return depth == self.max_depth or self.is_leaf(node)

    def branches(self, node: int) -> tuple[int, int]:
        """Return the child where the condition of a split holds, and the other."""
        left, right = int(self.tree.left[node]), int(self.tree.right[node])
        return (right, left) if self._by_category(node) else (left, right)

    def answers(self, node: int) -> tuple[str, str]:
        """Return the labels of the two `branches`."""
        goes_left = bool(self.tree.default_left[node])
        if goes_left != self._by_category(node):
            return "yes, missing", "no"
        return "yes", "no, missing"

    def leaves_below(self, node: int) -> Iterator[int]:
        """Yield the leaves below a node."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if self.is_leaf(node):
                yield node
            else:
                waiting += self.branches(node)

    # Text

    def condition(self, node: int) -> str:
        """Return the condition of a split."""
        return f"{self.name(node)} {self.question(node)}"

    def name(self, node: int) -> str:
        """Return the name of the feature of a split."""
        feature = int(self.tree.feature[node])
        return self._feature_names[feature] if self._feature_names else f"f{feature}"

    def question(self, node: int) -> str:
        """Return the condition of a split without the feature name."""
        if not self._by_category(node):
            threshold = self.tree.threshold[node]
            if threshold >= _ABOVE_ALL:
                return "is known"
            return f"< {number(threshold)}"
        codes = self.tree.categories[self._starts[node] : self._starts[node + 1]]
        if codes.size == 0:
            return "is missing"
        levels = self._categories.of(int(self.tree.feature[node]))
        known = [str(code if levels is None else levels[code]) for code in codes]
        return f"is {', '.join(abridged(self._told(known), self._most_categories))}"

    def values(self, node: int) -> list[str]:
        """Return the values of a leaf, with the names of the outputs if there are
        several."""
        shares = self.shares(node)
        known = self._values[node] if shares is None else shares
        numbers = [number(value) for value in known]
        if len(numbers) == 1:
            return numbers
        return [
            f"{name}: {number}"
            for name, number in zip(self.outputs, numbers, strict=True)
        ]

    def shares(self, node: int) -> Float64s | None:
        """Return the shares of the classes in a node, None where unknown."""
        if self._shares is None or np.isnan(self._shares[node, 0]):
            return None
        return self._shares[node]

    def cover(self, node: int) -> str:
        return f"cover {number(self.tree.cover[node])}"

    def gain(self, node: int) -> str:
        return f"gain {number(self.tree.gain[node])}"

    def stats(self, node: int, depth: int) -> list[str]:
        """Return the gain, unless the nodes below are not shown, and the cover."""
        if not self._with_stats:
            return []
        told = [] if self.ends(node, depth) else [self.gain(node)]
        return [*told, self.cover(node)]

    def _by_category(self, node: int) -> bool:
        return bool(self.tree.split_type[node])


def abridged(names: list[str], most: int | None) -> list[str]:
    """Return the first names and the number of others; all names if `most` is None."""
    if most is None or len(names) <= most + 1:  # "1 more" is no shorter than a name
        return names
    return [*names[:most], f"… {len(names) - most} more"]


def in_rows(values: NDArray[np.float32]) -> Float64s:
    """Return the values of nodes as (nodes, outputs), also for one output."""
    return values.reshape(len(values), -1).astype(np.float64)
