"""The state of rows in memory: margins, gradients and their integers, leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gradient_sampling import quantise_tree
from hornbeam.backends.interface import (
    GradientSource,
    NoSplitGradients,
    RowSample,
    SplitParams,
)
from hornbeam.backends.quantisation import QuantisationScales
from hornbeam.kernels.gradients import find_extent, quantise, widen
from hornbeam.kernels.layout import SIZE_CLASSES, TASK_ROWS
from hornbeam.kernels.partition import add_leaf_values, sum_leaves
from hornbeam.kernels.sampling import (
    GradientSampling,
    draw_by_size,
    draw_rows,
    weigh_rows,
)
from hornbeam.kernels.team import Team, give_back_team

__all__ = [
    "CELLS_PER_ROW",
    "Drawn",
    "MarginRows",
    "RowScratch",
    "RowState",
    "gradient_type",
    "run_rows",
]

#: Whether each row is taken (None: not known here), and the gradients and hessians that
#: it then has.
Drawn = tuple[NDArray[np.uint8] | None, tuple[NDArray[Any], NDArray[Any]]]

#: The cost of one step of a loop over rows, in cells of a histogram.
CELLS_PER_ROW = 8


def run_rows(team: Team, kernel: Any, rows: int, *arguments: Any) -> None:
    """Run a flat loop over rows."""
    team.run(kernel, team.members_for(CELLS_PER_ROW * rows), *arguments)


def gradient_type(weights: NDArray[np.float64] | None) -> np.dtype[Any]:
    """Return the type of gradients: float32 times a weight is not a float32."""
    return np.dtype(np.float32 if weights is None else np.float64)


def _outputs(output: int | None) -> slice:
    """Return where the gradients of an output are, or of all."""
    return slice(None) if output is None else slice(output, output + 1)


class RowScratch:
    """Where rows are at work: gradients as integers, and the leaves.

    Parameters
    ----------
    rows
        The most rows at a time.
    """

    def __init__(self, rows: int) -> None:
        self._packed = np.empty(rows, np.int64)
        self._wide = np.empty(0, np.int64)
        self._scaled = np.empty(0)
        self._leaf_of = np.empty(rows, np.uint32)

    def packed(self, rows: int) -> NDArray[np.int64]:
        """Return (rows,) int64 for coarse pairs."""
        return self._packed[:rows]

    def wide(self, rows: int) -> NDArray[np.int64]:
        """Return (2, rows) int64 for fine pairs, made on first use."""
        if self._wide.size < 2 * rows:
            self._wide = np.empty(2 * self._packed.size, np.int64)
        return self._wide[: 2 * rows].reshape(2, rows)

    def scaled(self, rows: int) -> NDArray[np.float64]:
        """Return (2, rows) float64 for what a sample scales, made on first use."""
        if self._scaled.size < 2 * rows:
            self._scaled = np.empty(2 * self._packed.size)
        return self._scaled[: 2 * rows].reshape(2, rows)

    def leaf_of(self, rows: int) -> NDArray[np.uint32]:
        """Return (rows,) uint32: the number of each row's leaf among the leaves."""
        return self._leaf_of[:rows]


class RowState:
    """Targets, margins and gradients of rows.

    Parameters
    ----------
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins to begin with; kept and changed.
    team
        The threads that work.
    spans
        (spans, 2) int64: the first row of each run of rows here, and its number among
        all rows, by which samples are drawn. None: they begin at 0.
    gradients, hessians
        (outputs, rows), float64 with weights and else float32, to be written; None:
        arrays of its own.
    scratch
        That of others who are not at work at the same time; None: one of its own.

    Attributes
    ----------
    packed, wide
        The gradients as integers of the tree: (rows,) coarse pairs and (2, 0), or (0,)
        and (2, rows) fine ones.
    output
        That of the tree.
    leaf_of
        (rows,) uint32: the number of each row's leaf among the leaves of the tree.
    """

    def __init__(
        self,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        spans: NDArray[np.int64] | None = None,
        *,
        gradients: NDArray[Any] | None = None,
        hessians: NDArray[Any] | None = None,
        scratch: RowScratch | None = None,
    ) -> None:
        self._team = team
        self._targets, self._weights = targets, weights
        self.margins = margins
        self.n_outputs, self.n_rows = margins.shape
        self._spans = np.zeros((1, 2), np.int64) if spans is None else spans
        kind = gradient_type(weights)
        made = [
            np.empty(margins.shape, kind) if own is None else own
            for own in (gradients, hessians)
        ]
        self.gradients, self.hessians = made
        #: For objectives, none of whose hessians is negative.
        self._least_hessians = np.zeros(self.n_outputs)
        self._scratch = RowScratch(self.n_rows) if scratch is None else scratch
        self._no_packed, self._no_wide = np.empty(0, np.int64), np.empty((2, 0), int)
        self.leaf_of = self._scratch.leaf_of(self.n_rows)

    def of_output(self, output: int) -> RowState:
        """Return the state of these rows for one output, with integers of its own."""
        own = slice(output, output + 1)
        state = RowState(
            self._targets,
            self._weights,
            self.margins[own],
            self._team,
            self._spans,
            gradients=self.gradients[own],
            hessians=self.hessians[own],
        )
        state.leaf_of = self.leaf_of
        return state

    def beside(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> RowState:
        """Return these rows with more gradients, (more, rows), after theirs.

        It has no margins.
        """
        pairs = (self.gradients, gradients), (self.hessians, hessians)
        both = [np.concatenate(pair) for pair in pairs]
        none = np.broadcast_to(0.0, both[0].shape)
        state = RowState(
            self._targets,
            self._weights,
            none,
            self._team,
            self._spans,
            scratch=self._scratch,
        )
        state.set_gradients(*both)
        return state

    def compute_gradients(self, objective: GradientSource) -> None:
        """Take new gradients from the objective at the present margins."""
        objective.write_gradients(
            self._team,
            self.margins,
            self._targets,
            self._weights,
            self.gradients,
            self.hessians,
        )
        self._least_hessians[:] = 0.0

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""
        with np.errstate(over="ignore"):
            self.gradients[...] = gradients
            self.hessians[...] = hessians
        self._least_hessians = self.hessians.min(axis=1, initial=0.0).astype(float)

    def gradient_ranges(self) -> NDArray[np.float64]:
        """Return of each output the largest |g|, largest |h| and least h."""
        bits = np.dtype(f"i{self.gradients.itemsize}").type
        extent = np.empty((-(-self.n_rows // TASK_ROWS), 2), bits)
        gradient_ranges = np.empty((self.n_outputs, 3))
        for output in range(self.n_outputs):
            run_rows(
                self._team,
                find_extent,
                self.n_rows,
                self.gradients[output].view(bits),
                self.hessians[output].view(bits),
                bits(np.iinfo(bits).max),
                extent,
            )
            largest = extent.max(axis=0, initial=0).view(self.gradients.dtype)
            gradient_ranges[output, :2] = largest
        gradient_ranges[:, 2] = self._least_hessians
        return gradient_ranges

    def count_size_classes(
        self, output: int | None, hessian_weight: float
    ) -> NDArray[np.int64]:
        """Return how many rows are in each class of sizes, (SIZE_CLASSES,).

        The sizes are those of an output's gradients, or of all outputs' if it is None.
        """
        own = _outputs(output)
        members = self._team.members_for(CELLS_PER_ROW * self.n_rows)
        counts = np.zeros((members, SIZE_CLASSES), np.int64)
        self._team.run(
            weigh_rows,
            members,
            self.gradients[own],
            self.hessians[own],
            hessian_weight,
            counts,
        )
        return counts.sum(axis=0)

    def set_tree(
        self,
        output: int,
        sample: RowSample | None,
        fine_steps: NDArray[np.float64],
        drawn: Drawn | None = None,
    ) -> None:
        """Begin or go on with a tree for one output.

        Where rows are sampled by their gradients, these are scaled. In trees of all
        outputs that has been done, and what was `drawn` is used as it is.
        """
        self.output, self._sample, self._fine_steps = output, sample, fine_steps
        self._pair = self.gradients[output], self.hessians[output]
        if drawn is None and sample is not None and sample.by_gradient:
            scaled = self._scratch.scaled(self.n_rows)[:, None]
            drawn = self.draw_by_size(output, sample, scaled)
        if drawn is not None:
            self._taken, self._pair = drawn

    def draw(self) -> NDArray[np.uint8] | None:
        """Return for each row whether it is in the tree's sample; None: all are."""
        sample = self._sample
        if sample is None or sample.by_gradient:
            return None if sample is None else self._taken
        taken = np.empty(self.n_rows, np.uint8)
        for number, run in self._runs():
            rows = run.stop - run.start
            drawn = sample.limit, sample.key, taken[run]
            run_rows(self._team, draw_rows, rows, number, *drawn)
        return taken

    def draw_by_size(
        self, output: int | None, sample: RowSample, scaled: NDArray[np.float64]
    ) -> Drawn:
        """Return whether each row is taken, by an output's gradients or by all of them.

        And where their gradients and hessians are, divided by the chance of the row:
        `scaled`, (2, outputs, rows).
        """
        own = _outputs(output)
        taken = np.empty(self.n_rows, np.uint8)
        for number, run in self._runs():
            run_rows(
                self._team,
                draw_by_size,
                run.stop - run.start,
                number,
                self.gradients[own, run],
                self.hessians[own, run],
                GradientSampling(
                    float(sample.hessian_weight),
                    float(sample.threshold),
                    float(sample.rest),
                ),
                sample.key,
                taken[run],
                scaled[0, :, run],
                scaled[1, :, run],
            )
        if output is None:
            return taken, (scaled[0], scaled[1])
        return taken, (scaled[0, 0], scaled[1, 0])

    def _runs(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each run's first row among all, and where it is here."""
        ends = np.append(self._spans[:, 0], self.n_rows)[1:].tolist()
        for (begin, number), end in zip(self._spans.tolist(), ends, strict=True):
            yield number, slice(begin, end)

    def quantise(self, steps: NDArray[np.float64]) -> NDArray[np.int64]:
        """Turn the gradients of the tree into coarse integers.

        Returns the sums of |g| and h in these, (2,).
        """
        magnitudes = np.empty((-(-self.n_rows // TASK_ROWS), 2), np.int64)
        self.packed = self._scratch.packed(self.n_rows)
        self.wide = self._no_wide
        run_rows(
            self._team,
            quantise,
            self.n_rows,
            *self._pair,
            *(1.0 / steps),
            self.packed,
            magnitudes,
        )
        return magnitudes.sum(axis=0)

    def widen(self) -> None:
        """Turn the gradients of the tree into fine integers."""
        self.packed, self.wide = self._no_packed, self._scratch.wide(self.n_rows)
        run_rows(
            self._team,
            widen,
            self.n_rows,
            *self._pair,
            *(1.0 / self._fine_steps),
            self.wide,
        )

    def sum_leaves(self, n_leaves: int) -> NDArray[np.int64]:
        """Return the sums of g and h, (leaves, 2), in fine steps, by `leaf_of`.

        Rows of the leaf numbered `n_leaves` are left out.
        """
        members = self._team.members_for(CELLS_PER_ROW * self.n_rows)
        sums = np.zeros((members, n_leaves + 1, 2), np.int64)
        self._team.run(
            sum_leaves,
            members,
            self.leaf_of,
            *self._pair,
            *(1.0 / self._fine_steps),
            sums,
        )
        return sums.sum(axis=0)[:-1]

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        """Add to each score the value of the row's leaf by `leaf_of`."""
        run_rows(
            self._team,
            add_leaf_values,
            self.n_rows,
            self.leaf_of,
            values,
            self.margins[self.output],
        )


class MarginRows(NoSplitGradients):
    """Rows with margins and gradients in memory, however their features are held.

    Parameters
    ----------
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins.
    team
        The threads that work; given back when it is closed.
    """

    def __init__(
        self,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
    ) -> None:
        self._team, self._closed = team, False
        self._state = RowState(targets, weights, margins, team)
        self._gradient_ranges: NDArray[np.float64] | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the data."""
        return self._state.n_rows

    @property
    def n_outputs(self) -> int:
        """Margins of a row."""
        return self._state.n_outputs

    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""
        return self._state.margins.copy()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        """Take these margins, (outputs, rows)."""
        self._state.margins[...] = margins

    def compute_gradients(self, objective: GradientSource) -> None:
        """Take the gradients of the objective at the margins."""
        self._state.compute_gradients(objective)
        self._gradient_ranges = None

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""
        self._state.set_gradients(gradients, hessians)
        self._gradient_ranges = None

    def leaf_of(self) -> NDArray[np.uint32]:
        """Return the leaf of each row, or the number of leaves."""
        return self._state.leaf_of

    def gradient_ranges(self) -> NDArray[np.float64]:
        """Return `RowState.gradient_ranges`, computed once for all outputs."""
        if self._gradient_ranges is None:
            self._gradient_ranges = self._state.gradient_ranges()
        return self._gradient_ranges

    def _quantise(
        self, output: int, growth: SplitParams, sample: RowSample | None
    ) -> tuple[QuantisationScales, bool]:
        """Begin a tree: turn the output's gradients into coarse integers.

        Returns the steps, and whether coarse ones are enough.
        """
        state = self._state

        def quantise(
            settled: RowSample | None, steps: QuantisationScales
        ) -> NDArray[np.int64]:
            state.set_tree(output, settled, steps.fine)
            return state.quantise(steps.coarse)

        steps, is_coarse, _ = quantise_tree(
            output,
            growth,
            sample,
            self.gradient_ranges(),
            self.n_rows,
            state.count_size_classes,
            quantise,
        )
        return steps, is_coarse

    def close(self) -> None:
        """Give back the threads.

        Who is never closed lets go of them: a lease would give them back from the
        garbage collector, when their pool has lost them.
        """
        if not self._closed:
            self._closed = True
            give_back_team(self._team)
