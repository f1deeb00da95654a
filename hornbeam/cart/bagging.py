"""Bags of rows, a tree for each, and what the rows outside of a bag say of it.

Breiman 1996 (bagging) and 2001 (random forests). All that is drawn depends on the seed
and the number of the tree alone, so that trees may be grown by any number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.threads import thread_count
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Grown, Rules, Workspace, grow
from hornbeam.cart.targets import Targets
from hornbeam.kernels.sampling import draw_bag, draw_bits

__all__ = [
    "Bag",
    "Bags",
    "Folds",
    "OutOfBag",
    "grow_forest",
    "permutation_increases",
]

Result = TypeVar("Result")

Int32s = NDArray[np.int32]
Float64s = NDArray[np.float64]

# Purpose of draws (see `maths.philox`); those of trees are in their kernel.
_PERMUTATION = 0x60000000


@dataclass(frozen=True, slots=True)
class Bag:
    """The rows that a tree is grown on.

    Attributes
    ----------
    rows
        Ascending, int32.
    times
        (rows of the table,) int32: how often each is in the bag. None: once.
    others
        The rows outside, ascending, int32.
    """

    rows: Int32s
    times: Int32s | None
    others: Int32s


@dataclass(frozen=True, slots=True)
class Bags:
    """How the bags of a forest are drawn.

    Attributes
    ----------
    rows
        (rows,) int32: of the table, those that weigh anything.
    n_rows
        How many the table has.
    n_draws
        How often each bag draws one of them; None: it takes each once.
    seed
        Of the draws.
    """

    rows: Int32s
    n_rows: int
    n_draws: int | None
    seed: int

    def of(self, number: int) -> Bag:
        """Return the bag of a tree."""
        if self.n_draws is None:
            return Bag(self.rows, None, self.rows[:0])
        drawn = np.zeros(self.rows.size, np.int32)
        draw_bag(np.uint64(number), np.uint64(self.seed), self.n_draws, drawn)
        times = np.zeros(self.n_rows, np.int32)
        times[self.rows] = drawn
        return Bag(self.rows[drawn > 0], times, self.rows[drawn == 0])

    @property
    def most_rows(self) -> int:
        """The most different rows of a bag."""
        return min(self.rows.size, self.n_draws or self.rows.size)


@dataclass(frozen=True, slots=True)
class Folds:
    """Bags that are given: the rows to train on, and those to test on.

    Attributes
    ----------
    parts
        Of each fold the rows of both, ascending, int32.
    """

    parts: Sequence[tuple[Int32s, Int32s]]

    def of(self, number: int) -> Bag:
        """Return the bag of a fold."""
        rows, others = self.parts[number]
        return Bag(rows, None, others)

    @property
    def most_rows(self) -> int:
        """The most rows of a bag."""
        return max(rows.size for rows, _ in self.parts)


def grow_forest(
    codes: Codes,
    targets: Targets,
    rules: Rules,
    bags: Bags | Folds,
    n_trees: int,
    n_threads: int,
    finish: Callable[[int, Bag, Grown], Result],
) -> Iterator[Result]:
    """Grow trees, and yield what `finish` makes of each, in their order.

    Parameters
    ----------
    codes, targets, rules
        What trees are grown on, and held to.
    bags
        The rows of each.
    n_trees
        How many.
    n_threads
        Threads that grow one tree each, 0 or less for all processors.
    finish
        Takes the number of a tree, its bag and the tree, in the thread that grew it.
    """
    n_threads = thread_count(n_threads, n_trees)
    workspaces: SimpleQueue[Workspace] = SimpleQueue()
    for _ in range(n_threads):
        workspaces.put(Workspace(codes, targets, rules, bags.most_rows))

    def work(number: int) -> Result:
        bag = bags.of(number)
        workspace = workspaces.get()
        try:
            grown = grow(number, codes, targets, rules, bag.rows, bag.times, workspace)
        finally:
            workspaces.put(workspace)
        return finish(number, bag, grown)

    if n_threads == 1:
        yield from map(work, range(n_trees))
        return
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(n_threads, "hornbeam_tree")
        # An interrupt does not wait for trees that are not begun.
        stack.callback(pool.shutdown, cancel_futures=True)
        waiting: deque[Future[Result]] = deque()
        for number in range(n_trees):
            waiting.append(pool.submit(work, number))
            if len(waiting) > 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class OutOfBag:
    """What trees predict for the rows that they have not seen.

    A row that was in every bag so far has no prediction, and no part in the error.

    Parameters
    ----------
    targets
        Those of all rows.
    y
        (rows,): the targets, or the classes.

    Attributes
    ----------
    errors
        The mean loss of the rows that have a prediction, after each tree; see
        `Targets.losses_of`.
    """

    def __init__(self, targets: Targets, y: Float64s) -> None:
        self._targets = targets
        self._y = y
        shape = (y.size, targets.n_classes) if targets.n_classes > 2 else (y.size,)
        self._sums = np.zeros(shape)
        self._losses = np.zeros(y.size)
        self.counts = np.zeros(y.size, np.int64)
        self.errors: list[float] = []

    def add(self, rows: Int32s, predicted: Float64s) -> None:
        """Take what a tree predicts for the rows outside of its bag."""
        self._sums[rows] += predicted
        self.counts[rows] += 1
        means = self._means(rows)
        self._losses[rows] = self._targets.losses_of(means, self._y[rows])
        weights = self._targets.weights * (self.counts > 0)
        total = weights.sum()
        self.errors.append(float(weights @ self._losses / total) if total else np.nan)

    def _means(self, rows: Int32s | slice) -> Float64s:
        with np.errstate(invalid="ignore"):
            return (self._sums[rows].T / self.counts[rows]).T

    @property
    def predictions(self) -> Float64s:
        """(rows,), or (rows, classes) of more than two: NaN of rows in every bag."""
        return self._means(slice(None))


def permutation_increases(
    number: int,
    seed: int,
    grown: Grown,
    codes: Codes,
    targets: Targets,
    y: Float64s,
    predicted: Float64s,
    rows: Int32s,
) -> Float64s:
    """Return by how much a tree errs more where a feature is permuted, (features,).

    Breiman 2001, section 10. A feature that the tree does not look at has 0.

    Parameters
    ----------
    number, seed
        The tree's, by which permutations are drawn.
    grown, codes, targets
        The tree, and what it was grown on.
    y
        (rows of the table,): the targets, or the classes.
    predicted
        (nodes,) or (nodes, classes): what each predicts.
    rows
        Those outside of the tree's bag.
    """
    increases = np.zeros(codes.n_features)
    weights = targets.weights[rows]
    if rows.size == 0:
        return increases

    def error(swapped: int, others: Int32s) -> float:
        leaves = grown.leaves_of(codes, rows, swapped, others)
        losses = targets.losses_of(predicted[leaves], y[rows])
        return float(weights @ losses / weights.sum())

    usual = error(-1, rows)
    bits = np.empty(rows.size, np.uint32)
    for feature in np.unique(grown.nodes["feature"][grown.nodes["left"] >= 0]).tolist():
        purpose = np.uint64(_PERMUTATION + feature)
        draw_bits(np.uint64(number), purpose, np.uint64(seed), bits)
        others = rows[np.argsort(bits, kind="stable")]
        increases[feature] = error(feature, others) - usual
    return increases
