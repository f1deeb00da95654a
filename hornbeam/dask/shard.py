"""The actor: some partitions' rows on the worker that holds them, and their margins."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call
from hornbeam.backends.cluster_rows import PartialSums, Spread
from hornbeam.backends.factory import create_rows
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.layout import DenseBins, HistogramLayout
from hornbeam.boosting.dart import rounded
from hornbeam.boosting.margins import add_layout, start_margins
from hornbeam.dask.learning import LearningRows, Start, View
from hornbeam.dask.opening import Opening, named
from hornbeam.dask.partitions import Partition
from hornbeam.dask.rowset import Rowset, threads_here
from hornbeam.dask.tree_reduction import Adder
from hornbeam.data.schema import Schema
from hornbeam.forest.layout import Layout
from hornbeam.kernels.team import Team, give_back_team, lease, take_team
from hornbeam.objectives.base import Objective
from hornbeam.objectives.totals import largest_of, sum_steps

__all__ = ["LabelFacts", "Shard"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelFacts:
    """What the labels of some rows say of how a model begins.

    Attributes
    ----------
    least, most
        The range of the labels; None without any.
    largest
        Magnitudes of the objective's `start_columns`; None if they were not asked for.
    """

    least: float | None
    most: float | None
    largest: Floats | None

    def __add__(self, other: LabelFacts) -> LabelFacts:
        largest = self.largest
        if largest is not None and other.largest is not None:
            largest = np.maximum(largest, other.largest)
        if self.least is None or other.least is None:
            return LabelFacts(None, None, largest)
        assert self.most is not None and other.most is not None
        return LabelFacts(
            min(self.least, other.least), max(self.most, other.most), largest
        )


class Shard(Adder, Rowset):
    """Rows of some partitions, which are learned from or only looked at.

    After what `Rowset` does, `begin` readies rows for training, whose messages `run`
    answers; `begin_margins` readies those that are measured. A shard is a function of
    its partitions and the trees so far, so that it can be made anew anywhere.

    Parameters
    ----------
    numbers
        Of the partitions.
    partitions, opening
        As for `Rowset`.
    """

    def __init__(
        self, numbers: Sequence[int], partitions: Sequence[Partition], opening: Opening
    ) -> None:
        Adder.__init__(self)
        Rowset.__init__(self, partitions, opening)
        self._numbers = sorted(numbers)
        self._team: Team | None = None

    def prepare(
        self,
        schema: Schema,
        first_rows: NDArray[np.int64],
        unseen: str = "error",
        of: str = "the other partitions",
    ) -> None:
        Rowset.prepare(self, schema, first_rows, unseen, of)
        self._schema = schema
        self._ends = [int(first_rows[k + 1] - first_rows[k]) for k in self._numbers]

    # How a model begins

    def look_at_labels(self, objective: Objective | None, estimate: bool) -> LabelFacts:
        """Check the labels for the objective, and say what decides the base score."""
        largest = None
        if objective is not None:
            targets = objective.targets_of(self.info)
            for number, begin, end in self._partition_rows():
                with named(number):
                    objective.check_targets(targets[:, begin:end])
            if estimate and objective.by_row:
                largest = largest_of(objective.start_columns(targets, self.row_weights))
        labels = self.labels
        if labels is None:
            return LabelFacts(None, None, largest)
        return LabelFacts(float(labels.min()), float(labels.max()), largest)

    def sum_start(
        self, objective: Objective, largest: Floats, n_rows: int
    ) -> NDArray[np.int64]:
        """Return the sums, in steps, of the columns that decide the base score."""
        targets = objective.targets_of(self.info)
        columns = objective.start_columns(targets, self.row_weights)
        return sum_steps(columns, largest, n_rows)

    def _partition_rows(self) -> Iterator[tuple[int, int, int]]:
        begin = 0
        for number, rows in zip(self._numbers, self._ends, strict=True):
            if rows > 0:
                yield number, begin, begin + rows
            begin += rows

    # Training

    def begin(self, term: int, start: Start, layout: HistogramLayout) -> None:
        """Make the margins of the trees so far, and be ready for the next round."""
        assert self.binned is not None
        self.end()
        threads = threads_here(start.n_threads)
        self._team = take_team(threads)
        margins = self._margins_under(start, self._team)
        targets = np.empty((1, 0))
        if start.objective is not None:
            targets = start.objective.targets_of(self.info)
        rows, _ = create_rows(
            self.binned.as_bins(threads),
            targets,
            self.row_weights,
            np.ascontiguousarray(margins.T),
            self._team,
            spans=self.spans,
            cached_share=start.cached_share,
            multi_output_columns=start.multi_output_columns,
        )
        view = View(self.info, self._schema)
        # By a proxy: files on disk go when the shard does, and not when a cycle of
        # references is found.
        add_trees = partial(add_layout, self._team, weakref.proxy(self))
        self._learning = LearningRows(
            rows, layout, self.spans, view, term, start, add_trees
        )

    def catch_up(self, start: Start) -> None:
        """Add the trees that have grown since the rows began."""
        learning = self._learning
        if start.step > 0.0:
            assert self._team is not None
            margins = self._margins_under(start, self._team)
            learning.set_margins(start.n_trees, np.ascontiguousarray(margins.T))
        elif learning.n_trees < start.n_trees:
            assert start.layout is not None
            learning.add_trees(start.layout.skip_trees(learning.n_trees))
            learning.n_trees = start.n_trees

    def run(self, term: int, calls: Sequence[Call]) -> PartialSums:
        """Do what is asked of the rows in turn; return all answers."""
        return self._learning.run(term, calls)

    def margins_after(self, term: int, calls: Sequence[Call]) -> Spread:
        """Return the scores when this has been done."""
        self._learning.run(term, calls)
        return self.spans, self._learning.rows.margins()

    def rewind(self, term: int, n_trees: int) -> bool:
        """Go back to so many trees; return whether that was possible."""
        return self._learning.rewind(term, n_trees)

    # Codes for each tree

    def weigh_cuts(self, output: int) -> tuple[float, bool]:
        """Have cuts be decided by the hessians of an output from now on.

        Returns the largest, and whether they are those that have decided them.
        """
        before, self._cut_weights = self._cut_weights, self._learning.hessians(output)
        is_same = before is not None and np.array_equal(before, self._cut_weights)
        return float(self._cut_weights.max()), is_same

    def recode(self, layout: HistogramLayout) -> None:
        """Grow the next tree on the codes that the rows have got."""
        assert isinstance(self.binned, DenseMatrix) and self._team is not None
        codes = self.binned.as_bins(self._team.size)
        assert isinstance(codes, DenseBins)
        self._learning.set_bins(codes, layout)

    def end(self) -> None:
        """Give the threads back."""
        if self._team is not None:
            self._learning.rows.close()
            give_back_team(self._team)
            self._team = None

    # Margins

    def largest_margin(self, base: Floats) -> float:
        """Return how large the margins are at most before the first tree."""
        margins = start_margins(self.base_margin, base, self.n_rows, np.float64)
        return float(np.abs(margins).max())

    # Margins of rows that are only looked at

    def begin_margins(self, start: Start) -> None:
        """Make the margins of the trees so far."""
        with lease(threads_here(start.n_threads)) as team:
            self._margins = self._margins_under(start, team)
        self._n_trees = start.n_trees

    def margins_with(
        self, layout: Layout | None, begin: int, end: int, n_threads: int
    ) -> Spread:
        """Return the margins with trees `begin` to `end`, unless they have them.

        The margins are (outputs, rows).
        """
        if self._n_trees != end:
            assert self._n_trees == begin and layout is not None
            with lease(threads_here(n_threads)) as team:
                add_layout(team, self, layout, self._margins)
            self._n_trees = end
        return self.spans, self._margins.T

    def beside(self) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return the spans, and what goes with the rows, one for each."""
        fields = self.info.fields()
        pointers = fields.pop("group_ptr", None)
        fields.pop("feature_weights", None)
        if self.row_weights is not None:
            fields["weight"] = self.row_weights
        if pointers is not None:
            # A group is never on two workers: its first row's number tells it apart.
            spans, first = self.spans, pointers[:-1]
            run = np.searchsorted(spans[:, 0], first, side="right") - 1
            numbers = first - spans[run, 0] + spans[run, 1]
            fields["qid"] = np.repeat(numbers, np.diff(pointers))
        return self.spans, fields

    def _margins_under(self, start: Start, team: Team) -> Floats:
        margins = start_margins(self.base_margin, start.base, self.n_rows, np.float64)
        if start.step > 0.0:
            margins = rounded(margins, start.step)
        if start.layout is not None:
            add_layout(team, self, start.layout, margins)
        return margins
