"""Bootstrap samples, forests of trees, out-of-bag error and permutation importance.

Sources: Breiman 1996 (bagging) and 2001 (random forests). Random draws depend on the
seed and the number of the tree only, so the forest is the same for any number of
threads.
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
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import CartTree, GrowthParams, Workspace, build_tree
from hornbeam.kernels.sampling import draw_bag, draw_bits

__all__ = [
    "BootstrapSampler",
    "FoldSampler",
    "OutOfBag",
    "RowSample",
    "grow_forest",
    "permutation_importance",
]

Result = TypeVar("Result")

Int32s = NDArray[np.int32]
Float64s = NDArray[np.float64]

# Stream of random numbers (see `maths.philox`); the kernel has those of the trees.
_PERMUTATION = 0x60000000


@dataclass(frozen=True, slots=True)
class RowSample:
    """The rows that one tree is trained on, and the rows that are held out.

    Attributes
    ----------
    rows
        Row numbers, ascending, int32.
    counts
        (rows of the table,) int32: how often the sample contains each; None: once.
    held_out
        The other rows, ascending, int32: out-of-bag rows, or those of the test fold.
    """

    rows: Int32s
    counts: Int32s | None
    held_out: Int32s


@dataclass(frozen=True, slots=True)
class BootstrapSampler:
    """Draws the sample of each tree with replacement.

    Attributes
    ----------
    rows
        (rows,) int32: the rows of the table with a positive weight.
    n_rows
        Number of rows of the table.
    n_draws
        Number of draws of each sample; None: every row once, without a draw.
    seed
        Seed of the draws.
    """

    rows: Int32s
    n_rows: int
    n_draws: int | None
    seed: int

    def sample(self, number: int) -> RowSample:
        """Return the sample of a tree."""
        if self.n_draws is None:
            return RowSample(self.rows, None, self.rows[:0])
        drawn = np.zeros(self.rows.size, np.int32)
        draw_bag(np.uint64(number), np.uint64(self.seed), self.n_draws, drawn)
        counts = np.zeros(self.n_rows, np.int32)
        counts[self.rows] = drawn
        return RowSample(self.rows[drawn > 0], counts, self.rows[drawn == 0])

    @property
    def max_rows(self) -> int:
        """The maximum number of distinct rows of a sample."""
        return min(self.rows.size, self.n_draws or self.rows.size)


@dataclass(frozen=True, slots=True)
class FoldSampler:
    """Returns the folds of a cross-validation as samples.

    Attributes
    ----------
    folds
        The training rows and the test rows of each fold, ascending, int32.
    """

    folds: Sequence[tuple[Int32s, Int32s]]

    def sample(self, number: int) -> RowSample:
        """Return a fold."""
        rows, held_out = self.folds[number]
        return RowSample(rows, None, held_out)

    @property
    def max_rows(self) -> int:
        """The maximum number of training rows of a fold."""
        return max(rows.size for rows, _ in self.folds)


def grow_forest(
    features: BinnedFeatures,
    targets: Targets,
    params: GrowthParams,
    sampler: BootstrapSampler | FoldSampler,
    n_trees: int,
    n_threads: int,
    finish: Callable[[int, RowSample, CartTree], Result],
) -> Iterator[Result]:
    """Grow trees, and yield the result of `finish` for each, in order.

    Parameters
    ----------
    features, targets, params
        The training data and the stopping rules.
    sampler
        Returns the rows of each tree.
    n_trees
        Number of trees.
    n_threads
        Threads, each of which grows one tree; 0 or less uses all processors.
    finish
        Is called with the number of a tree, its sample and the tree, in the thread
        that grew it.
    """
    n_threads = thread_count(n_threads, n_trees)
    workspaces: SimpleQueue[Workspace] = SimpleQueue()
    for _ in range(n_threads):
        workspaces.put(Workspace(features, targets, params, sampler.max_rows))

    def work(number: int) -> Result:
        sample = sampler.sample(number)
        rows, counts = sample.rows, sample.counts
        workspace = workspaces.get()
        try:
            tree = build_tree(
                number, features, targets, params, rows, counts, workspace
            )
        finally:
            workspaces.put(workspace)
        return finish(number, sample, tree)

    if n_threads == 1:
        yield from map(work, range(n_trees))
        return
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(n_threads, "hornbeam_tree")
        # An interrupt cancels the trees that no thread has begun.
        stack.callback(pool.shutdown, cancel_futures=True)
        pending: deque[Future[Result]] = deque()
        for number in range(n_trees):
            pending.append(pool.submit(work, number))
            if len(pending) > 2 * n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class OutOfBag:
    """Accumulates the out-of-bag predictions and the out-of-bag error of a forest.

    A row that every sample so far contains has no prediction and does not count in
    the error.

    Parameters
    ----------
    targets
        The targets of all rows.
    y
        (rows,): the target values, or the classes.

    Attributes
    ----------
    counts
        (rows,) int64: the number of trees that predicted each row.
    errors
        The weighted mean loss of the rows with a prediction, after each tree; see
        `Targets.losses`.
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
        """Add the predictions of a tree for its out-of-bag rows."""
        self._sums[rows] += predicted
        self.counts[rows] += 1
        means = self._means(rows)
        self._losses[rows] = self._targets.losses(means, self._y[rows])
        weights = self._targets.weights * (self.counts > 0)
        total = weights.sum()
        self.errors.append(float(weights @ self._losses / total) if total else np.nan)

    def _means(self, rows: Int32s | slice) -> Float64s:
        with np.errstate(invalid="ignore"):
            return (self._sums[rows].T / self.counts[rows]).T

    @property
    def predictions(self) -> Float64s:
        """(rows,), or (rows, classes) of more than two; NaN of rows without any."""
        return self._means(slice(None))


def permutation_importance(
    number: int,
    seed: int,
    tree: CartTree,
    features: BinnedFeatures,
    targets: Targets,
    y: Float64s,
    predicted: Float64s,
    rows: Int32s,
) -> Float64s:
    """Return the increase of a tree's loss by permutation of each feature, (features,).

    Breiman 2001, section 10. A feature that the tree does not split on has 0.

    Parameters
    ----------
    number, seed
        The number of the tree and the seed, which select the permutations.
    tree, features, targets
        The tree and its training data.
    y
        (rows of the table,): the target values, or the classes.
    predicted
        (nodes,) or (nodes, classes): the prediction of each node.
    rows
        The out-of-bag rows of the tree.
    """
    increases = np.zeros(features.n_features)
    weights = targets.weights[rows]
    if rows.size == 0:
        return increases

    def error(permuted: int, permuted_rows: Int32s) -> float:
        leaves = tree.apply(features, rows, permuted, permuted_rows)
        losses = targets.losses(predicted[leaves], y[rows])
        return float(weights @ losses / weights.sum())

    baseline = error(-1, rows)
    bits = np.empty(rows.size, np.uint32)
    for feature in np.unique(tree.nodes["feature"][tree.nodes["left"] >= 0]).tolist():
        stream = np.uint64(_PERMUTATION + feature)
        draw_bits(np.uint64(number), stream, np.uint64(seed), bits)
        permuted_rows = rows[np.argsort(bits, kind="stable")]
        increases[feature] = error(feature, permuted_rows) - baseline
    return increases
