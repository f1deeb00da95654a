"""The actor on a worker: the rows of some partitions, their margins and histograms."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoGetters
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.distributed.binned_rows import BinnedRows
from hornbeam.distributed.joined_table import JoinedTable
from hornbeam.distributed.label_info import LabelInfo
from hornbeam.distributed.partition_schema import align_partition
from hornbeam.distributed.partitions import (
    Partition,
    PartitionReader,
    PartitionTable,
    partition_errors,
)
from hornbeam.distributed.training_rows import MetaInfoView, ModelState, TrainingRows
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.expansion import with_parts
from hornbeam.forest.layout import Layout
from hornbeam.kernels.team import Team, give_back_team, lease, take_team
from hornbeam.objectives.base import Objective
from hornbeam.objectives.totals import sum_steps

__all__ = ["Shard", "Worker"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Worker:
    """The worker of an actor.

    Attributes
    ----------
    place
        Its name, as of `RowActor`.
    n_threads
        Its number of threads.
    """

    place: str
    n_threads: int


class Shard(MetaInfoGetters, BinnedRows):
    """The rows of some partitions on their worker, for training or evaluation.

    Call `prepare` first. Training rows then take part in the passes for cuts, and are
    binned; `begin` starts training, whose messages `run` executes. Evaluation rows stay
    a table; `begin_margins` starts evaluation. The state of a shard is a function of
    its partitions and of the trees so far, so that any worker can reconstruct it.

    Parameters
    ----------
    numbers
        The numbers of the partitions.
    partitions
        In any order; the rows are in the order of the partitions' numbers.
    reader
        Reads them as tables.
    worker
        The worker that has them.

    Attributes
    ----------
    info
        Labels, weights and so on.
    spans
        (spans, 2) int64: for each run of consecutive rows the index of its first row
        here, and the index of that row among all rows.
    """

    def __init__(
        self,
        numbers: Sequence[int],
        partitions: Sequence[Partition],
        reader: PartitionReader,
        worker: Worker,
    ) -> None:
        super().__init__(reader.caching)
        self._worker = worker
        self._partitions = sorted(partitions, key=lambda part: part.number)
        self._reader = reader
        self._numbers = sorted(numbers)
        self._team: Team | None = None

    def prepare(
        self,
        schema: Schema,
        first_rows: NDArray[np.int64],
        unseen: str = "error",
        of: str = "the other partitions",
        derived: DerivedFeatures | None = None,
    ) -> None:
        """Read the partitions, with the columns and category codes of `schema`.

        Parameters
        ----------
        schema
            The columns of all partitions together, or of a model.
        first_rows
            (partitions + 1,): the index of each partition's first row among all rows.
        unseen, of
            As for `align`.
        derived
            The parts of times that the rows get as further columns.
        """
        fields, tables = FieldCollector(), []
        spans: list[tuple[int, int]] = []
        n_rows, previous_end = 0, -1
        for partition in self._partitions:
            begin, end = first_rows[partition.number : partition.number + 2].tolist()
            data = self._reader.read(partition)
            found = 0 if data is None else data.table.n_rows
            if found != end - begin:
                raise DataError(
                    f"partition {partition.number} had {end - begin} rows before and "
                    f"has {found} now; the function that creates it must return the "
                    "same rows each time",
                    code=ErrorCode.SOURCE_CHANGED,
                )
            if data is None:
                continue
            numbered = PartitionTable(data.table, partition.number)
            aligned = align_partition(numbered, schema, unseen, of)
            expanded = with_parts(aligned, derived)
            tables.append(PartitionTable(expanded, partition.number))
            fields.add(data.fields, found)
            if begin != previous_end:
                spans.append((n_rows, begin))
            n_rows, previous_end = n_rows + found, end
        if not tables:
            raise DataError(
                "none of the partitions on this worker has rows",
                code=ErrorCode.EMPTY_DATA,
            )
        self.set_table(JoinedTable(tables), tables)
        self.spans = np.array(spans, np.int64)
        self.info = MetaInfo(n_rows, schema.n_features)
        self.info.set(fields.whole(), whole=False)
        self._partitions = []
        self._schema = self.table.schema
        self._sizes = [int(first_rows[k + 1] - first_rows[k]) for k in self._numbers]

    def threads(self, n_threads: int) -> int:
        return n_threads if n_threads > 0 else self._worker.n_threads

    def errors(self) -> AbstractContextManager[None]:
        return _errors_of(self._worker)

    # Rows and fields

    def rows(
        self, start: int, stop: int, features: NDArray[np.intp] | None = None
    ) -> np.ndarray:
        """Return a block of rows, missing values as NaN; the array is read-only."""
        return self.table.rows(start, stop, features)

    # Initialisation of a model

    def check_labels(self, objective: Objective | None, estimate: bool) -> LabelInfo:
        """Check the labels for the objective; return their statistics.

        With `estimate` these include the magnitudes for the sums of `sum_start`.
        """
        if objective is not None:
            targets = objective.targets_of(self.info)
            for number, begin, end in self._partition_rows():
                with partition_errors(number):
                    objective.check_targets(targets[:, begin:end])
        return LabelInfo.of(self.info, objective, estimate)

    def sum_start(
        self, objective: Objective, largest: Floats, n_rows: int
    ) -> NDArray[np.int64]:
        """Return the quantised sums of the columns that determine the base score."""
        targets = objective.targets_of(self.info)
        columns = objective.start_columns(targets, self.row_weights)
        return sum_steps(columns, largest, n_rows)

    def _partition_rows(self) -> Iterator[tuple[int, int, int]]:
        begin = 0
        for number, rows in zip(self._numbers, self._sizes, strict=True):
            if rows > 0:
                yield number, begin, begin + rows
            begin += rows

    # Training

    def begin(self, term: int, state: ModelState, layout: HistogramLayout) -> None:
        """Compute the margins of the trees so far, and prepare for the next round."""
        assert self.binned is not None
        self.end()
        threads = self.threads(state.n_threads)
        self._team = take_team(threads)
        margins = self._margins_under(state, self._team)
        targets = np.empty((1, 0))
        if state.objective is not None:
            targets = state.objective.targets_of(self.info)
        rows, _ = create_rows(
            self.binned.as_bins(threads),
            targets,
            self.row_weights,
            np.ascontiguousarray(margins.T),
            self._team,
            spans=self.spans,
            cached_share=state.cached_share,
            multi_output_columns=state.multi_output_columns,
            row_keys=self.info.row_key,
        )
        view = MetaInfoView(self.info, self._schema)
        # A weak proxy: files on disk are deleted with the shard, and not only when the
        # garbage collector finds a reference cycle.
        add_trees = partial(add_layout, self._team, weakref.proxy(self))
        self._training = TrainingRows(
            rows, layout, self.spans, view, term, state, add_trees
        )

    def catch_up(self, state: ModelState) -> None:
        """Add the trees that have grown since `begin`."""
        training = self._training
        if state.step > 0.0:
            assert self._team is not None
            margins = self._margins_under(state, self._team)
            training.set_margins(state.n_trees, np.ascontiguousarray(margins.T))
        elif training.n_trees < state.n_trees:
            assert state.layout is not None
            training.add_trees(state.layout.skip_trees(training.n_trees))
            training.n_trees = state.n_trees

    def run(self, term: int, calls: Sequence[Call], n_workers: int) -> PartialSums:
        """Execute the calls in order; return their results, to be added to others'."""
        return self._training.run(term, calls, n_workers)

    def margins_after(self, term: int, calls: Sequence[Call]) -> Spread:
        """Execute the calls in order; return the margins after them."""
        self._training.run(term, calls, n_workers=1)
        return self.spans, self._training.rows.margins()

    def rewind(self, term: int, n_trees: int) -> bool:
        """Restore the margins of the first `n_trees` trees; return whether it can."""
        return self._training.rewind(term, n_trees)

    # Bins for each tree (approx)

    def weigh_cuts(self, output: int) -> tuple[float, bool]:
        """Use the hessians of an output as the weights of the next cuts.

        Returns as `use_cut_weights` does.
        """
        return self.use_cut_weights(self._training.rows.bin_weights(output))

    def set_tree_bins(self, layout: HistogramLayout) -> None:
        """Grow the next tree on the bins that the rows have now."""
        assert isinstance(self.binned, DenseMatrix) and self._team is not None
        bins = self.binned.as_bins(self._team.size)
        assert isinstance(bins, DenseBins)
        self._training.set_bins(bins, layout)

    def end(self) -> None:
        """Release the threads and the state of training."""
        if self._team is not None:
            self._training.rows.close()
            give_back_team(self._team)
            self._team = None

    # Margins and fields

    def largest_margin(self, base: Floats) -> float:
        """Return the largest absolute margin before the first tree."""
        margins = start_margins(self.base_margin, base, self.n_rows, np.float64)
        return float(np.abs(margins).max())

    def begin_margins(self, state: ModelState) -> None:
        """Compute the margins of the trees so far, of rows for evaluation."""
        with lease(self.threads(state.n_threads)) as team:
            self._margins = self._margins_under(state, team)
        self._n_trees = state.n_trees

    def margins_with(
        self, layout: Layout | None, begin: int, end: int, n_threads: int
    ) -> Spread:
        """Return the margins, (outputs, rows), of rows for evaluation.

        Adds the trees `begin` to `end`, of `layout`, unless the margins include them.
        """
        if self._n_trees != end:
            assert self._n_trees == begin and layout is not None
            with lease(self.threads(n_threads)) as team:
                add_layout(team, self, layout, self._margins)
            self._n_trees = end
        return self.spans, self._margins.T.astype(np.float64, copy=False)

    def fields(self) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return the spans, and labels, weights and so on with a value for each row."""
        fields = self.info.fields()
        pointers = fields.pop("group_ptr", None)
        fields.pop("feature_weights", None)
        if self.row_weights is not None:
            fields["weight"] = self.row_weights
        if pointers is not None:
            # A group is on one worker: the global index of its first row identifies it.
            spans, first = self.spans, pointers[:-1]
            run = np.searchsorted(spans[:, 0], first, side="right") - 1
            numbers = first - spans[run, 0] + spans[run, 1]
            fields["qid"] = np.repeat(numbers, np.diff(pointers))
        return self.spans, fields

    def _margins_under(self, state: ModelState, team: Team) -> Floats:
        """Return the margins of the trees so far."""
        kind = state.sum_type
        margins = start_margins(self.base_margin, state.base, self.n_rows, kind)
        if state.step > 0.0:
            margins = rounded(margins, state.step)
        if state.layout is not None:
            add_layout(team, self, state.layout, margins)
        return margins


@contextmanager
def _errors_of(worker: Worker) -> Iterator[None]:
    """Prefix errors from the block with the worker, unless they name a partition."""
    try:
        yield
    except (DataError, ParameterError) as error:
        if str(error).startswith("partition "):
            raise
        text = f"on the worker at {worker.place}: {error}"
        raise type(error)(text, code=error.code, **error.details) from error
