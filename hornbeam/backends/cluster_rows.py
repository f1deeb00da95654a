"""Rows on the workers of a cluster: each worker answers, and the integers are summed.

A message takes as long as adding some hundred thousand rows to histograms. So calls
that return nothing are deferred and sent with the next one that returns something, and
the first message of a round requests all that the root of its first tree needs, with
the scales of the tree before:

    leaf values of the last tree, gradients, gradient ranges, root histogram
    level 1 ... level 5
    leaves

These are seven messages for a tree of depth 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pickle import PickleBuffer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call, Cluster, RowActor
from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.packed_arrays import (
    Calls,
    PackedArray,
    packed,
    unpacked,
)
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import HistogramLayout
from hornbeam.shared_memory import SharedMemory

__all__ = ["ClusterRows", "LocalRows", "PartialSums", "Spread"]

#: Runs of consecutive rows of a worker: (spans, 2), first row there, number among all.
Spans = NDArray[np.int64]
#: A worker's spans, and an array with a value of each of its rows in the last axis.
Spread = tuple[Spans, NDArray[Any]]

#: The number of columns and of parts of histograms.
Kind = tuple[int, int]

_ROOT = np.zeros(1, np.intp)
_INT32_MAX = np.iinfo(np.int32).max


class PartialSums:
    """The results of the calls of a message on one worker; ``+`` combines workers.

    Parameters
    ----------
    gradient_ranges
        Of `Rows.gradient_ranges`, if it was called.
    sums
        Other results, integers, in the order of the calls.
    histograms
        (columns, nodes, parts, bins) of the bins that the tree uses; None: none were
        built.
    """

    __slots__ = ("gradient_ranges", "histograms", "sums")

    def __init__(
        self,
        gradient_ranges: NDArray[np.float64] | None,
        sums: Sequence[NDArray[Any]],
        histograms: Any,
    ) -> None:
        self.gradient_ranges, self.sums = gradient_ranges, sums
        self.histograms = histograms

    def __reduce__(self) -> Any:
        ranges, histograms = self.gradient_ranges, self.histograms
        few = None if ranges is None else packed(ranges), list(map(packed, self.sums))
        if histograms is None:
            return _received, few
        is_wide = histograms.itemsize == 8
        return _received, (*few, is_wide, histograms.shape, PickleBuffer(histograms))

    def added(
        self, other: PartialSums, memory: SharedMemory | None = None
    ) -> PartialSums:
        """Return the sums of both, with histograms in this memory.

        Without any they are in the memory of these sums, if it can be written to and is
        wide enough.
        """
        own, others = self.histograms, other.histograms
        total = None
        if own is not None and others is not None:
            if memory is not None:
                kind = np.promote_types(own.dtype, others.dtype)
                total = memory.array(own.shape, kind)
            elif own.flags.writeable and own.itemsize >= others.itemsize:
                total = own
            total = np.add(own, others, out=total)
        ranges = self.gradient_ranges
        if ranges is not None:
            assert other.gradient_ranges is not None
            largest = np.maximum(ranges[:, :2], other.gradient_ranges[:, :2])
            least = np.minimum(ranges[:, 2:], other.gradient_ranges[:, 2:])
            ranges = np.hstack([largest, least])
        pairs = zip(self.sums, other.sums, strict=True)
        return PartialSums(ranges, [a + b for a, b in pairs], total)

    __add__ = added


def _received(
    ranges: PackedArray | None,
    sums: Sequence[PackedArray],
    is_wide: bool = False,
    shape: tuple[int, ...] = (),
    memory: Any = None,
) -> PartialSums:
    """Return the sums that were pickled."""
    histograms = None
    if memory is not None:
        histograms = np.ndarray(shape, np.int64 if is_wide else np.int32, memory)
    own_ranges = None if ranges is None else unpacked(ranges)
    return PartialSums(own_ranges, list(map(unpacked, sums)), histograms)


def _narrow_type(sums: NDArray[np.int64], n_workers: int) -> type[np.signedinteger]:
    """Return int32 if the total of sums over as many workers fits for certain."""
    largest = max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
    return np.int32 if n_workers * largest <= _INT32_MAX else np.int64


def _used_bins(layout: HistogramLayout, features: NDArray[np.uint64]) -> Any:
    """Return the histogram bins of the columns that these features are in."""
    used = np.zeros(layout.n_columns, bool)
    used[layout.feature_table["column"][features]] = True
    if used.all():
        return slice(None)
    return np.flatnonzero(np.repeat(used, np.diff(layout.offsets)))


class LocalRows:
    """The rows of one worker, on which several calls are made at once.

    Parameters
    ----------
    rows
        Of the worker.
    layout
        Of its histograms.
    """

    def __init__(self, rows: Rows, layout: HistogramLayout) -> None:
        self.rows = rows
        self._layout = layout
        self._used_bins: Any = slice(None)
        #: Of histograms; used again, as memory is slow when it is first written.
        self._buffer = np.empty(0, np.int64)
        #: Where histograms are, in turn: while those of a message are built, others may
        #: still read those of the message before.
        self._results = SharedMemory(), SharedMemory()

    def run_calls(self, calls: Sequence[Call], n_workers: int) -> PartialSums:
        """Make the calls in order; return all results, to be added to other workers'.

        `n_workers` is the number of workers with this one.
        """
        gradient_ranges = histograms = None
        sums = []
        for operation, args in calls:
            if operation == "build_histograms":
                built = self._build_histograms(*args)
                # Most sums fit in int32, which halves the bytes to read and to add.
                kind = _narrow_type(built, n_workers)
                self._results = self._results[::-1]
                histograms = self._results[0].array(built.shape, kind)
                histograms[...] = built
                continue
            if operation == "begin_tree":
                self._used_bins = _used_bins(self._layout, args[1])
            result = self.call(operation, args)
            if operation == "gradient_ranges":
                gradient_ranges = result
            elif result is not None:
                sums.append(result)
        return PartialSums(gradient_ranges, sums, histograms)

    def call(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Return the result of a method of the rows."""
        return getattr(self.rows, operation)(*args)

    def _build_histograms(
        self, nodes: NDArray[np.intp], kind: Kind
    ) -> NDArray[np.int64]:
        """Return the histograms of the nodes, only with bins that the tree uses."""
        columns, parts = kind
        shape = columns, nodes.size, parts, self._layout.n_histogram_bins
        size = math.prod(shape)
        if size > self._buffer.size:
            self._buffer = np.zeros(size, np.int64)
        histograms = self._buffer[:size].reshape(shape)
        self.rows.build_histograms(nodes, np.arange(nodes.size), histograms)
        return histograms[..., self._used_bins]


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The arguments that a tree was begun with, and the results of the workers."""

    output: int
    features: NDArray[np.uint64]
    sample: RowSample | None
    scales: NDArray[np.float64]
    leaf_scales: NDArray[np.float64]
    wide: Sequence[int]
    magnitudes: NDArray[Any]
    root: NDArray[Any]

    @property
    def kind(self) -> Kind:
        """The kind of the root's histogram."""
        return self.root.shape[0], self.root.shape[2]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of `Rows.begin_tree`."""
        return (
            self.output, self.features, self.sample, self.scales, self.leaf_scales
        )  # fmt: skip

    def fits(self, *arguments: Any) -> bool:
        """Return whether the tree was begun with these arguments."""
        output, features, sample, scales, leaf_scales = arguments
        return (
            output == self.output
            and sample == self.sample
            and np.array_equal(features, self.features)
            and np.array_equal(scales, self.scales)
            and np.array_equal(leaf_scales, self.leaf_scales)
        )


class ClusterRows(Rows):
    """The rows of all workers of a cluster.

    Parameters
    ----------
    cluster
        That messages are sent by.
    layout
        Of histograms.
    n_rows, n_outputs
        Number of rows of all workers together, and of margins of each row.
    multi_output_columns
        As for `Rows`.
    make_tree_bins
        Bins the rows of all workers by the hessians of an output (approx), and returns
        the layout of the new bins; None if the bins stay as they are.

    Attributes
    ----------
    actors
        The actors that have the rows; `begin_term` may replace them between two trees.
    """

    # Each message takes long, and splitting several nodes at a time takes one.
    lookahead = 16

    def __init__(
        self,
        cluster: Cluster,
        layout: HistogramLayout,
        n_rows: int,
        n_outputs: int,
        multi_output_columns: int = 0,
        make_tree_bins: Callable[[int], HistogramLayout | None] | None = None,
    ) -> None:
        self.n_rows, self.n_outputs = n_rows, n_outputs
        self.n_features = layout.feature_table.size
        self.multi_output_columns = multi_output_columns
        self.actors: list[RowActor] = []
        self._cluster, self.layout = cluster, layout
        self._make_tree_bins = make_tree_bins
        self._term = 0
        self._deferred: list[Call] = []
        self._expected: tuple[int, NDArray[np.uint64], RowSample | None] | None = None
        #: By output: the scales of its last tree, and the columns with wide sums.
        self._last: dict[
            int, tuple[NDArray[np.float64], NDArray[np.float64], Sequence[int]]
        ] = {}
        self._begun: _Beginning | None = None
        #: Of the histograms that were requested last.
        self._kind: Kind = max(1, multi_output_columns), 2

    def bin_tree(self, output: int) -> HistogramLayout | None:
        if self._make_tree_bins is None:
            return None
        layout = self._make_tree_bins(output)
        if layout is not None:
            self.layout = layout
        return layout

    def begin_term(self, term: int, actors: Sequence[RowActor]) -> None:
        """Send messages to these actors from now on, and drop deferred calls."""
        self._term, self.actors = term, list(actors)
        self._deferred.clear()
        self._expected = self._begun = None

    def defer(self, operation: str, *args: Any) -> None:
        """Call a method of all workers' rows with the next message."""
        self._deferred.append((operation, args))

    def flush(self) -> None:
        """Send the deferred calls now."""
        if self._deferred:
            self._send()

    def _send(self, *calls: Call) -> PartialSums:
        message = Calls((*self._deferred, *calls))
        self._deferred.clear()
        actors = self.actors
        sums: PartialSums = self._cluster.sum(
            actors, "run", self._term, message, len(actors)
        )
        return sums

    def compute_gradients(self, objective: GradientSource) -> None:
        self.defer("compute_gradients", objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self.defer("set_gradients", gradients, hessians)

    def expect(
        self, output: int, features: NDArray[np.uint64], sample: RowSample | None
    ) -> None:
        self._expected = (output, features, sample)

    def gradient_ranges(self) -> NDArray[np.float64]:
        guess = None
        if self._expected is not None and self._expected[0] in self._last:
            output, _, sample = self._expected
            # The threshold of a sample by gradient needs counts from the workers first.
            if sample is None or not sample.by_gradient:
                guess = (*self._expected, *self._last[output])
        calls = self._beginning_calls(guess) if guess is not None else []
        answer = self._send(("gradient_ranges", ()), *calls)
        if guess is not None:
            self._begun = _Beginning(*guess, answer.sums[0], answer.histograms)
        ranges = answer.gradient_ranges
        assert ranges is not None
        if len(ranges) > self.n_outputs:  # columns that are not the outputs follow them
            self._kind = len(ranges) - self.n_outputs, self._kind[1]
        return ranges

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        self.defer("sketch_outputs", projection)

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        (counts,) = self._send(("count_size_classes", (output, hessian_weight))).sums
        return counts.astype(np.int64)

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        arguments = (output, features, sample, scales, leaf_scales)
        begun = self._begun
        if begun is None or not begun.fits(*arguments):
            wide = self._last[output][2] if output in self._last else ()
            answer = self._send(*self._beginning_calls((*arguments, wide)))
            begun = _Beginning(*arguments, wide, answer.sums[0], answer.histograms)
        self._begun = begun
        assert self.layout is not None
        self._used_bins = _used_bins(self.layout, features)
        self._last[output] = (scales, leaf_scales, ())
        return begun.magnitudes.astype(np.int64)

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        assert self._begun is not None
        output = self._begun.output
        self._last[output] = (*self._last[output][:2], tuple(columns))

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        begun, self._begun = self._begun, None
        self._kind = histograms.shape[0], histograms.shape[2]
        if begun is None:
            sums = self._send(("build_histograms", (nodes, self._kind))).histograms
        else:
            sums = self._root_of(begun, nodes)
        for i, slot in enumerate(slots.tolist()):
            histograms[:, slot][..., self._used_bins] = sums[:, i]

    def _root_of(self, begun: _Beginning, nodes: NDArray[np.intp]) -> NDArray[Any]:
        """Return the root's histogram, built again if it is not of the wanted kind."""
        assert np.array_equal(nodes, _ROOT)
        wide = self._last[begun.output][2]
        if wide == begun.wide and self._kind == begun.kind:
            return begun.root
        return self._send(*self._beginning_calls((*begun.arguments, wide))).histograms

    def _beginning_calls(self, beginning: tuple[Any, ...]) -> list[Call]:
        """Return the calls that begin a tree and build its root's histogram."""
        *arguments, wide = beginning
        widen: list[Call] = [("widen", (wide,))] if wide else []
        build = "build_histograms", (_ROOT, self._kind)
        return [("begin_tree", tuple(arguments)), *widen, build]

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        self.defer("apply_splits", nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        (sums,) = self._send(("sum_leaves", (nodes, leaves, n_leaves))).sums
        return sums.astype(np.int64)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self.defer("add_leaf_values", values)

    def margins(self) -> NDArray[np.float64]:
        message = Calls(self._deferred)
        self._deferred.clear()
        parts: list[Spread] = self._cluster.call(
            self.actors, "margins_after", self._term, message
        )
        return join_margins(parts, (self.n_outputs, self.n_rows))

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self.defer("set_margins", margins)

    def close(self) -> None:
        self._deferred.clear()


def join_margins(
    parts: Sequence[Spread], shape: tuple[int, int], dtype: Any = np.float64
) -> NDArray[Any]:
    """Return the arrays of all workers as one, (outputs, rows)."""
    whole = np.empty(shape, dtype)
    for spans, array in parts:
        ends = [*spans[1:, 0].tolist(), array.shape[1]]
        for (begin, first), end in zip(spans.tolist(), ends, strict=True):
            whole[:, first : first + end - begin] = array[:, begin:end]
    return whole
