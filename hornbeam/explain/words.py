"""What the nodes of one tree say, in words and numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.booster import Booster
from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.errors import NotTrainedError, ParameterError
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree

__all__ = ["Boosted", "Words", "abridged", "words_of"]

_DIGITS = 5
#: Whole numbers from here on are written with an exponent.
_LARGE = 1e8


class HasBooster(Protocol):
    """A fitted estimator."""

    def get_booster(self) -> Booster:
        """Return the trained model."""


#: A model, or the estimator that has trained one.
Boosted: TypeAlias = Booster | HasBooster
#: Leaf values to the shares of classes.
Shares: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Words:
    """One tree, and what its nodes say.

    Parameters
    ----------
    tree
        The tree.
    feature_names
        One for each feature; f0, f1 and so on if there are none.
    categories
        The names of categories, where they have names.
    outputs
        What the values of a leaf belong to, and so do shares; numbers if None.
    shares
        What makes the values of a leaf shares of classes, if they say that.
    about
        What is to be said of the tree as a whole.
    scale
        The factor on leaf values.
    max_depth
        Splits at this depth are left out; None: at none.
    most_categories
        How many categories of a split are named; None: all.
    """

    def __init__(
        self,
        tree: Tree,
        feature_names: Sequence[str] = (),
        categories: Categories = NO_CATEGORIES,
        outputs: Sequence[str] | None = None,
        *,
        shares: Shares | None = None,
        about: str = "",
        scale: float = 1.0,
        max_depth: int | None = None,
        most_categories: int | None = None,
    ) -> None:
        self.tree = tree
        self.outputs = outputs or [str(output) for output in range(tree.leaf_size)]
        self.about = about
        self.max_depth = max_depth
        self._feature_names = feature_names
        self._categories = categories
        self._shares = shares
        self._values = np.atleast_2d(tree.value.T).T * float(scale)
        self._most_categories = most_categories
        self._starts = tree.category_starts

    # The way down

    def is_leaf(self, node: int) -> bool:
        return bool(self.tree.left[node] < 0)

    def ends(self, node: int, depth: int) -> bool:
        """Return whether nothing is to be said of what is below a node."""
        return depth == self.max_depth or self.is_leaf(node)

    def branches(self, node: int) -> tuple[int, int]:
        """Return the child where the condition of a split holds, and the other."""
        left, right = int(self.tree.left[node]), int(self.tree.right[node])
        return (right, left) if self._by_category(node) else (left, right)

    def answers(self, node: int) -> tuple[str, str]:
        """Return which rows go to the one and to the other of the `branches`."""
        goes_left = bool(self.tree.default_left[node])
        if goes_left != self._by_category(node):
            return "yes, missing", "no"
        return "yes", "no, missing"

    def leaves_below(self, node: int) -> Iterator[int]:
        """Yield the leaves that the rows of a node come to."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if self.is_leaf(node):
                yield node
            else:
                waiting += self.branches(node)

    # Words

    def condition(self, node: int) -> str:
        """Return what a split asks."""
        feature = int(self.tree.feature[node])
        name = self._feature_names[feature] if self._feature_names else f"f{feature}"
        if not self._by_category(node):
            return f"{name} < {self.number(self.tree.threshold[node])}"
        codes = self.tree.categories[self._starts[node] : self._starts[node + 1]]
        levels = self._categories.of(feature)
        known = [str(code if levels is None else levels[code]) for code in codes]
        return f"{name} is {', '.join(abridged(known, self._most_categories))}"

    def values(self, node: int) -> list[str]:
        """Return the values of a leaf, after the names of the outputs if several."""
        numbers = [self.number(value) for value in self._values[node]]
        if len(numbers) == 1:
            return numbers
        return [
            f"{name}: {number}"
            for name, number in zip(self.outputs, numbers, strict=True)
        ]

    def shares(self, node: int) -> NDArray[np.float64] | None:
        """Return the shares of the classes in a leaf, None where it does not say."""
        if self._shares is None or not self.is_leaf(node):
            return None
        return self._shares(self._values[node])

    def cover(self, node: int) -> str:
        return f"cover {self.number(self.tree.cover[node])}"

    def gain(self, node: int) -> str:
        return f"gain {self.number(self.tree.gain[node])}"

    def number(self, value: Any) -> str:
        """Return a number in a few digits, whole numbers in all of theirs."""
        value = float(value) + 0.0  # no negative zero
        whole = value == round(value) or abs(value) >= 10**_DIGITS
        if abs(value) < _LARGE and whole:
            return f"{value:.0f}"
        return f"{value:.{_DIGITS}g}"

    def _by_category(self, node: int) -> bool:
        return bool(self.tree.split_type[node])


def abridged(names: list[str], most: int | None) -> list[str]:
    """Return the first names and how many more there are; all if `most` is None."""
    if most is None or len(names) <= most + 1:  # "1 more" is no shorter than a name
        return names
    return [*names[:most], f"… {len(names) - most} more"]


def words_of(
    model: Boosted,
    number: int,
    class_names: Sequence[str] | None = None,
    *,
    max_depth: int | None = None,
    most_categories: int | None = None,
) -> Words:
    """Return what tree `number` of a model says.

    Parameters
    ----------
    model
        A booster, or an estimator that holds one.
    number
        Of the tree, in the order in which they were grown.
    class_names
        Names of the outputs, or of two classes; those of an estimator if None.
    max_depth
        Splits at this depth are left out; None: at none.
    most_categories
        How many categories of a split are named; None: all.
    """
    trained = _booster_of(model).model
    number = _checked(trained, number)
    for name, limit in (("max_depth", max_depth), ("most_categories", most_categories)):
        if limit is not None and limit < 0:
            raise ParameterError(f"{name} must be 0 or more, not {limit}")
    tree = trained.trees[number]
    names = getattr(model, "classes_", None) if class_names is None else class_names
    outputs = None if names is None else _names_of(trained, names)
    about = ""
    if tree.leaf_size < (trained.n_outputs if names is None else len(names)):
        output = trained.tree_output[number]
        about = f"adds to {outputs[output] if outputs else f'output {output}'}"
    return Words(
        tree,
        trained.feature_names,
        trained.categories,
        outputs,
        shares=_shares_of(trained, tree),
        about=about,
        scale=float(trained.weights[number]),
        max_depth=max_depth,
        most_categories=most_categories,
    )


def _booster_of(model: Boosted) -> Booster:
    if isinstance(model, Booster):
        return model
    if not hasattr(model, "get_booster"):
        raise ParameterError(
            "the model must be a Booster or an estimator of Hornbeam, not "
            f"{type(model).__name__}"
        )
    return model.get_booster()


def _checked(model: Model, number: int) -> int:
    """Return the number of a tree that is there."""
    if model.linear is not None:
        raise ParameterError(
            "a model of booster='gblinear' has no trees; get_score() tells its weights"
        )
    if not model.trees:
        raise NotTrainedError("the model has no trees yet; train it first")
    try:
        place = operator.index(number)
    except TypeError:
        place = -1
    if not 0 <= place < len(model.trees):
        raise ParameterError(
            f"tree={number!r} is not a tree of this model; give a whole number from 0 "
            f"to {len(model.trees) - 1}"
        )
    return place


def _names_of(model: Model, names: Sequence[Any]) -> list[str]:
    """Return a name for each output: of two classes the second has the only one."""
    n_outputs = model.n_outputs
    if n_outputs == 1 and len(names) == 2:
        return [str(names[1])]
    if len(names) != n_outputs:
        raise ParameterError(
            f"class_names has {len(names)} names; give {n_outputs}, one for each "
            "output of the model" + (", or those of two classes" * (n_outputs == 1))
        )
    return [str(name) for name in names]


def _shares_of(model: Model, tree: Tree) -> Shares | None:
    """Return what makes a leaf's values shares: those the tree alone would predict."""
    if tree.leaf_size == 1 or not model.objective.startswith("multi:"):
        return None

    def softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
        odds = np.exp(values + model.base_score - np.max(values + model.base_score))
        return odds / odds.sum()

    return softmax
