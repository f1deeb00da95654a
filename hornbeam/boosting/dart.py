"""DART: dropout of trees with exact restore (Rashmi and Gilad-Bachrach 2015).

A round computes its gradients without some of the trees. The new trees replace the
dropped ones in part, so both get smaller weights.

Margins are kept from round to round: dropped trees are subtracted, and added again
later. To make that exact, base margins and weighted leaf values are rounded to
multiples of a power of two, chosen so large that no sum of them is ever rounded in
float64: margins depend on the trees and their weights alone, not on the order of
additions and subtractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.kernels.sampling import draw_bits
from hornbeam.params import Parameters

__all__ = ["Dropout", "MarginScale", "rounded"]

Weights = NDArray[np.float32]

# The purposes of draws, other than those of rows and columns.
_OF_TREES = 9 << 28
_OF_ROUND = 10 << 28

#: Bits of base margins and of the largest leaf value; float64 has 53 for their sum.
_BASE_BITS = 50
_LEAF_BITS = 37
#: The largest leaf counts in powers of 2**8, so that the step seldom changes.
_EXPONENTS = 8
_LEAST_EXPONENT = -149  # of float32


@dataclass(frozen=True, slots=True)
class Dropout:
    """The trees that a round drops, and the weights after it.

    Attributes
    ----------
    dropped
        Numbers of the dropped trees, ascending.
    factor
        Multiplies their weights after the round.
    weight
        The weight of each new tree.
    """

    dropped: NDArray[np.intp]
    factor: np.float32
    weight: np.float32

    @classmethod
    def of_round(cls, parameters: Parameters, model: Model) -> Dropout:
        """Return the dropout of the next round, normalised as in XGBoost.

        The draws depend on the seed, the round and the tree alone.
        """
        dropped = _draw(parameters, model.n_rounds, model.weights)
        if dropped.size == 0:
            return cls(dropped, np.float32(1), np.float32(1))
        p = parameters
        # Of each of the round's trees, as XGBoost has it.
        shared = p.multi_output_columns(model.n_outputs) > 0
        n_new = p.num_parallel_tree * (1 if shared else model.n_outputs)
        rate = np.float32(p.learning_rate / n_new)
        if p.normalize_type == "forest":
            factor = np.float32(1.0 / (1.0 + float(rate)))
            return cls(dropped, factor, factor)
        count = float(np.float32(dropped.size) + rate)
        return cls(dropped, np.float32(dropped.size / count), np.float32(1.0 / count))

    def during(self, weights: Weights) -> Weights:
        """Return the tree weights at which the round computes its gradients."""
        left = weights.copy()
        left[self.dropped] = 0
        return left

    def after(self, weights: Weights, n_new: int) -> Weights:
        """Return the tree weights after the round, which adds `n_new` trees."""
        changed = weights.copy()
        changed[self.dropped] *= self.factor
        return np.concatenate([changed, np.full(n_new, self.weight, np.float32)])


def _draw(p: Parameters, number: int, weights: Weights) -> NDArray[np.intp]:
    """Return the trees that round `number` drops."""
    skip, one = _uniform(p.seed, number, _OF_ROUND, 2)
    if weights.size == 0 or skip < p.skip_drop:
        return np.empty(0, np.intp)
    chances = np.ones(weights.size)
    if p.sample_type == "weighted":
        chances = weights.astype(np.float64)
        chances *= weights.size / math.fsum(chances)
    draws = _uniform(p.seed, number, _OF_TREES, weights.size)
    dropped = np.flatnonzero(draws < p.rate_drop * chances)
    if dropped.size == 0 and p.one_drop:
        ends = np.cumsum(chances)
        last = weights.size - 1
        dropped = np.searchsorted(ends[:last], [one * ends[last]], side="right")
    return dropped


def _uniform(seed: int, number: int, purpose: int, size: int) -> NDArray[np.float64]:
    bits = np.empty(size, np.uint32)
    draw_bits(np.uint64(number), np.uint64(purpose), np.uint64(seed % 2**64), bits)
    return bits / 2.0**32


@dataclass(frozen=True, slots=True)
class MarginScale:
    """The magnitude of the numbers that margins are sums of.

    Attributes
    ----------
    base, leaf
        The largest base margin of the rows, and the largest leaf value.
    """

    base: float
    leaf: float = 0.0

    @classmethod
    def of(cls, start: NDArray[Any], trees: Iterable[Tree]) -> MarginScale:
        """Return the scale of margins before the first tree, and of these trees."""
        return cls(float(np.abs(start).max(initial=0.0))).with_trees(trees)

    def with_trees(self, trees: Iterable[Tree]) -> MarginScale:
        """Return the scale that these trees fit, too."""
        leaf = max((float(np.abs(t.value).max()) for t in trees), default=0.0)
        return replace(self, leaf=max(self.leaf, leaf))

    @property
    def step(self) -> float:
        """The power of two of which rounded values are multiples."""
        base, leaf = (math.frexp(number)[1] for number in (self.base, self.leaf))
        leaf = -(-leaf // _EXPONENTS) * _EXPONENTS
        places = [_LEAST_EXPONENT]
        if self.base > 0.0:
            places.append(base - _BASE_BITS)
        if self.leaf > 0.0:
            places.append(leaf - _LEAF_BITS)
        return math.ldexp(1.0, max(places))

    def rounded(self, margins: NDArray[Any]) -> NDArray[Any]:
        """Return margins rounded to multiples of the step."""
        return rounded(margins, self.step)


def rounded(margins: NDArray[Any], step: float) -> NDArray[Any]:
    """Return margins rounded to multiples of the step."""
    return np.asarray(np.rint(margins / step) * step)
