"""The rows of some partitions on their worker: read as tables, then binned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.distributed.binned_rows import BinnedRows
from hornbeam.distributed.joined_table import JoinedTable
from hornbeam.distributed.partition_schema import align_partition
from hornbeam.distributed.partitions import Partition, PartitionReader, PartitionTable
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.expansion import with_parts

__all__ = ["PartitionRows", "Worker"]

Floats = npt.NDArray[np.float64]


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


class PartitionRows(BinnedRows):
    """The rows of some partitions on their worker, with labels, weights and so on.

    Call `prepare` first. Training rows then take part in the passes for cuts, and are
    binned; evaluation rows stay a table.

    Parameters
    ----------
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
        self, partitions: Sequence[Partition], reader: PartitionReader, worker: Worker
    ) -> None:
        super().__init__(reader.caching)
        self._worker = worker
        self._partitions = sorted(partitions, key=lambda part: part.number)
        self._reader = reader

    def prepare(
        self,
        schema: Schema,
        first_rows: npt.NDArray[np.int64],
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

    def threads(self, n_threads: int) -> int:
        return n_threads if n_threads > 0 else self._worker.n_threads

    def errors(self) -> AbstractContextManager[None]:
        return _errors_of(self._worker)

    # Rows and fields

    def rows(
        self, start: int, stop: int, features: npt.NDArray[np.intp] | None = None
    ) -> np.ndarray:
        """Return a block of rows, missing values as NaN; the array is read-only."""
        return self.table.rows(start, stop, features)

    @property
    def labels(self) -> Floats | None:
        """The labels, (rows,) or (rows, targets)."""
        return self.info["label"]

    @property
    def row_weights(self) -> Floats | None:
        """The weights, one for each row."""
        return self.info.row_weights

    @property
    def base_margin(self) -> Floats | None:
        """The margins, (rows,) or (rows, outputs)."""
        return self.info["base_margin"]


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
