"""Rows on the members of a cluster: every member is asked, and the integers added.

A message costs about as much as counting some hundred thousand cells. So what has no
answer waits for what has one, and the first message of a round asks for all that the
root of its first tree needs, in the steps that the tree before had:

    leaf values of the last tree, gradients, gradient_ranges, root
    level 1 ... level 5
    leaves

which are seven messages for a tree of depth 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call, Cluster, Member
from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import HistogramLayout

__all__ = ["ClusterRows", "LocalRows", "PartialSums", "Spread"]

#: Rows of a member that follow each other: (spans, 2), first row there, among all.
Spans = NDArray[np.int64]
#: A member's spans, and an array with a value of each of its rows in the last axis.
Spread = tuple[Spans, NDArray[Any]]

#: Of histograms: how many columns they are for, none where trees have one output; and
#: their parts.
Kind = tuple[tuple[int, ...], int]

_ROOT = np.zeros(1, np.intp)
_MOST = np.iinfo(np.int32).max


class PartialSums:
    """What rows answer to the calls of a message; over members they add up.

    Parameters
    ----------
    gradient_ranges
        Of `Rows.gradient_ranges`, if they were asked for.
    sums
        All other answers, integers, in the order of the calls.
    """

    __slots__ = ("gradient_ranges", "sums")

    def __init__(
        self, gradient_ranges: NDArray[np.float64] | None, sums: Sequence[NDArray[Any]]
    ) -> None:
        self.gradient_ranges, self.sums = gradient_ranges, sums

    def __add__(self, other: PartialSums) -> PartialSums:
        gradient_ranges = self.gradient_ranges
        if gradient_ranges is not None:
            assert other.gradient_ranges is not None
            largest = np.maximum(gradient_ranges[:, :2], other.gradient_ranges[:, :2])
            least = np.minimum(gradient_ranges[:, 2:], other.gradient_ranges[:, 2:])
            gradient_ranges = np.hstack([largest, least])
        pairs = zip(self.sums, other.sums, strict=True)
        return PartialSums(
            gradient_ranges, [np.add(a, b, dtype=np.int64) for a, b in pairs]
        )


def _narrow(sums: NDArray[Any]) -> NDArray[Any]:
    if sums.size > 0 and max(int(sums.max()), -int(sums.min())) <= _MOST:
        return sums.astype(np.int32)
    return sums


def _used_cells(layout: HistogramLayout, features: NDArray[np.uint64]) -> Any:
    """Return where the cells of these features' columns are in a histogram."""
    used = np.zeros(layout.n_columns, bool)
    used[layout.feature_table["column"][features]] = True
    if used.all():
        return slice(None)
    return np.flatnonzero(np.repeat(used, np.diff(layout.offsets)))


class LocalRows:
    """Rows where a member is, asked several things at once.

    Parameters
    ----------
    rows
        What answers.
    layout
        Of its histograms.
    """

    def __init__(self, rows: Rows, layout: HistogramLayout) -> None:
        self.rows = rows
        self._layout = layout
        self._cells: Any = slice(None)

    def run_calls(self, calls: Sequence[Call]) -> PartialSums:
        """Do what is asked in turn; return all answers."""
        gradient_ranges = None
        sums = []
        for verb, args in calls:
            if verb == "build_histograms":
                sums.append(self._build_histograms(*args))
                continue
            if verb == "begin_tree":
                self._cells = _used_cells(self._layout, args[1])
            result = self.call(verb, args)
            if verb == "gradient_ranges":
                gradient_ranges = result
            elif result is not None:
                sums.append(result)
        # Most sums are small, and half as many bytes are on the way for half as long.
        return PartialSums(gradient_ranges, [_narrow(array) for array in sums])

    def call(self, verb: str, args: tuple[Any, ...]) -> Any:
        """Return what the rows answer."""
        return getattr(self.rows, verb)(*args)

    def _build_histograms(
        self, nodes: NDArray[np.intp], kind: Kind
    ) -> NDArray[np.int64]:
        """Return the histograms of the nodes, with the cells of the tree alone."""
        columns, parts = kind
        shape = (*columns, nodes.size, parts, self._layout.n_histogram_bins)
        histograms = np.zeros(shape, np.int64)
        self.rows.build_histograms(nodes, np.arange(nodes.size), histograms)
        return histograms[..., self._cells]


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What a tree begins with, and what members answered to it."""

    output: int
    features: NDArray[np.uint64]
    sample: RowSample | None
    steps: NDArray[np.float64]
    fine_steps: NDArray[np.float64]
    wide: Sequence[int]
    magnitudes: NDArray[Any]
    root: NDArray[Any]

    @property
    def kind(self) -> Kind:
        """Of which kind the root's histogram is."""
        return self.root.shape[:-3], self.root.shape[-2]

    def fits(self, *asked: Any) -> bool:
        """Whether these are the arguments of `Rows.begin_tree` that it was for."""
        output, features, sample, steps, fine_steps = asked
        return (
            output == self.output
            and sample == self.sample
            and np.array_equal(features, self.features)
            and np.array_equal(steps, self.steps)
            and np.array_equal(fine_steps, self.fine_steps)
        )


class ClusterRows(Rows):
    """All rows of a cluster's members.

    Parameters
    ----------
    cluster
        The way to the members.
    layout
        Of histograms.
    n_rows, n_outputs
        Rows of all members together, and margins of each.
    multi_output_columns
        As for `create_backend`.

    Attributes
    ----------
    members
        Who has the rows; others may be put in their place between two trees, by
        `begin_term`.
    """

    # A batch of so many costs little more than one split, which is a message each.
    lookahead = 16

    def __init__(
        self,
        cluster: Cluster,
        layout: HistogramLayout,
        n_rows: int,
        n_outputs: int,
        multi_output_columns: int = 0,
    ) -> None:
        self.n_rows, self.n_outputs = n_rows, n_outputs
        self.members: list[Member] = []
        self._cluster, self._layout = cluster, layout
        self._term = 0
        self._waiting: list[Call] = []
        self._expected: tuple[int, NDArray[np.uint64], RowSample | None] | None = None
        #: By output: the steps of its last tree, and the columns that needed fine.
        self._last: dict[
            int, tuple[NDArray[np.float64], NDArray[np.float64], Sequence[int]]
        ] = {}
        self._begun: _Beginning | None = None
        #: Of the histograms that were asked for last.
        self._kind: Kind = (
            (multi_output_columns,) if multi_output_columns > 0 else (),
            2,
        )

    def set_layout(self, layout: HistogramLayout) -> None:
        """Ask for histograms of other codes, which the members have by now."""
        self._layout = layout

    def begin_term(self, term: int, members: Sequence[Member]) -> None:
        """Ask these members from now on; what waited to be sent is dropped."""
        self._term, self.members = term, list(members)
        self._waiting.clear()
        self._expected = self._begun = None

    def defer(self, verb: str, *args: Any) -> None:
        """Have the members do something before the next answer."""
        self._waiting.append((verb, args))

    def flush(self) -> None:
        """Have everything done that was put off."""
        if self._waiting:
            self._send()

    def _send(self, *calls: Call) -> PartialSums:
        message = [*self._waiting, *calls]
        self._waiting.clear()
        answers: PartialSums = self._cluster.sum(
            self.members, "run", self._term, message
        )
        return answers

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
            # A sample by gradients is settled by counts that come first.
            if sample is None or not sample.by_gradient:
                guess = (*self._expected, *self._last[output])
        calls = self._beginning_calls(guess) if guess is not None else []
        answers = self._send(("gradient_ranges", ()), *calls)
        if guess is not None:
            self._begun = _Beginning(*guess, *answers.sums)
        assert answers.gradient_ranges is not None
        if (
            len(answers.gradient_ranges) > self.n_outputs
        ):  # those of other columns come last
            self._kind = (len(answers.gradient_ranges) - self.n_outputs,), self._kind[1]
        return answers.gradient_ranges

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        self.defer("sketch_outputs", mix)

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
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        asked = (output, features, sample, steps, fine_steps)
        begun = self._begun
        if begun is None or not begun.fits(*asked):
            wide = self._last[output][2] if output in self._last else ()
            answers = self._send(*self._beginning_calls((*asked, wide)))
            begun = _Beginning(*asked, wide, *answers.sums)
        self._begun = begun
        self._cells = _used_cells(self._layout, features)
        self._last[output] = (steps, fine_steps, ())
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
        self._kind = histograms.shape[:-3], histograms.shape[-2]
        if begun is None:
            (sums,) = self._send(("build_histograms", (nodes, self._kind))).sums
        else:
            sums = self._root_of(begun, nodes)
        for i, slot in enumerate(slots.tolist()):
            histograms[..., slot, :, :][..., self._cells] = sums[..., i, :, :]

    def _root_of(self, begun: _Beginning, nodes: NDArray[np.intp]) -> NDArray[Any]:
        """Return the root's histogram, counted anew if it is not as it has to be."""
        assert np.array_equal(nodes, _ROOT)
        wide = self._last[begun.output][2]
        if wide == begun.wide and self._kind == begun.kind:
            return begun.root
        return self._send(
            *self._beginning_calls(
                (
                    begun.output,
                    begun.features,
                    begun.sample,
                    begun.steps,
                    begun.fine_steps,
                    wide,
                )
            )
        ).sums[1]

    def _beginning_calls(self, beginning: tuple[Any, ...]) -> list[Call]:
        """Return the calls that begin a tree and count its root."""
        *asked, wide = beginning
        widen: list[Call] = [("widen", (wide,))] if wide else []
        count = "build_histograms", (_ROOT, self._kind)
        return [("begin_tree", tuple(asked)), *widen, count]

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
        message = self._waiting.copy()
        self._waiting.clear()
        answers: list[Spread] = self._cluster.call(
            self.members, "margins_after", self._term, message
        )
        return join_margins(answers, (self.n_outputs, self.n_rows))

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self.defer("set_margins", margins)

    def close(self) -> None:
        self._waiting.clear()


def join_margins(
    parts: Sequence[Spread], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Return the arrays of all members as one, (outputs, rows)."""
    whole = np.empty(shape)
    for spans, array in parts:
        ends = [*spans[1:, 0].tolist(), array.shape[1]]
        for (begin, first), end in zip(spans.tolist(), ends, strict=True):
            whole[:, first : first + end - begin] = array[:, begin:end]
    return whole
