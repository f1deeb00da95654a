"""The rows of some partitions on their worker: read as tables, then binned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import get_worker

from hornbeam.binning.bin_table import BinnedTable, bin_batches
from hornbeam.binning.column_pass import ColumnPass
from hornbeam.binning.cuts import ColumnCuts, integer_weights
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.external_build import build_worker_external
from hornbeam.binning.table_passes import SortedColumnCache, run_passes
from hornbeam.dask.binning import BinInfo
from hornbeam.dask.partition_schema import align_partition
from hornbeam.dask.partitions import Partition, PartitionReader, PartitionTable
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError

__all__ = ["JoinedTable", "PartitionRows", "worker_threads"]

Floats = npt.NDArray[np.float64]

#: Bytes for sorted columns that are kept between the passes for cuts: enough for a
#: million rows of 28 floats.
_SORTED_BYTES = 128 << 20


class PartitionRows:
    """The rows of some partitions on their worker, with labels, weights and so on.

    Call `prepare` first. Training rows then take part in the passes for cuts, and are
    binned; evaluation rows stay a table.

    Parameters
    ----------
    partitions
        In any order; the rows are in the order of the partitions' numbers.
    reader
        Reads them as tables.

    Attributes
    ----------
    table
        The features; after `unify_bins` a table of the bins' representative values,
        unless the features are kept.
    info
        Labels, weights and so on.
    spans
        (spans, 2) int64: for each run of consecutive rows the index of its first row
        here, and the index of that row among all rows.
    binned
        The bin indices, final after `unify_bins`.
    """

    def __init__(
        self, partitions: Sequence[Partition], reader: PartitionReader
    ) -> None:
        self._partitions = sorted(partitions, key=lambda part: part.number)
        self._reader = reader
        self._tables: list[Table] = []
        self._sorted: SortedColumnCache | None = None
        self.binned: DenseMatrix | ExternalMatrix | None = None
        #: Weights of the cuts, (rows,), if they differ from the weights of the rows.
        self._cut_weights: Floats | None = None

    def prepare(
        self,
        schema: Schema,
        first_rows: npt.NDArray[np.int64],
        unseen: str = "error",
        of: str = "the other partitions",
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
        """
        fields = FieldCollector()
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
            self._tables.append(PartitionTable(aligned, partition.number))
            fields.add(data.fields, found)
            if begin != previous_end:
                spans.append((n_rows, begin))
            n_rows, previous_end = n_rows + found, end
        if not self._tables:
            raise DataError(
                "none of the partitions on this worker has rows",
                code=ErrorCode.EMPTY_DATA,
            )
        self.table: Table = JoinedTable(self._tables)
        self.n_rows, self.n_features = n_rows, schema.n_features
        self.dtype: np.dtype[Any] = self.table.dtype
        self.spans = np.array(spans, np.int64)
        self.info = MetaInfo(n_rows, schema.n_features)
        self.info.set(fields.whole(), whole=False)
        self._partitions = []

    # Bins

    def column_passes(
        self,
        features: Sequence[int],
        passes: list[ColumnPass],
        largest_weight: float | None,
        n_rows: int,
        n_threads: int,
    ) -> list[ColumnPass]:
        """Return column passes that include the values of these rows.

        Parameters
        ----------
        features, passes
            The columns, and the pass of each.
        largest_weight, n_rows
            Of all rows on all workers.
        n_threads
            Threads that share the columns, 0 or less for those of the worker.
        """
        n_threads = worker_threads(n_threads)
        own = self.row_weights if self._cut_weights is None else self._cut_weights
        weights = integer_weights(own, largest_weight, n_rows)
        if self._sorted is None:
            # Rows whose bins go to disk may not fit in memory.
            n_bytes = _SORTED_BYTES if self._reader.caching is None else 0
            self._sorted = SortedColumnCache(self.table, weights, n_bytes)
        done = self._sorted.run_passes(features, passes, n_threads)
        if done == len(features):
            return passes
        begin = 0
        for table in self._tables:
            end = begin + table.n_rows
            part = None if weights is None else weights[begin:end]
            run_passes(table, features[done:], passes[done:], part, n_threads)
            begin = end
        return passes

    def bin(self, columns: list[ColumnCuts], max_bin: int, n_threads: int) -> BinInfo:
        """Bin the rows by the global cuts; return the properties of the bins."""
        n_threads = worker_threads(n_threads)
        self._sorted = None
        binned: DenseMatrix | ExternalMatrix
        caching = self._reader.caching
        if caching is None:
            binned = bin_batches(self.table, columns, max_bin, n_threads, own_cuts=True)
        else:
            with _worker_errors():
                binned = build_worker_external(
                    self.table, columns, max_bin, caching, n_threads, own_cuts=True
                )
        self.binned = binned
        return BinInfo(binned.has_missing, binned.is_float32, binned.bin_dtype)

    def unify_bins(self, info: BinInfo, keep_features: bool = False) -> None:
        """Give the bins the form that they have on all workers; release the features.

        The features are kept if the rows will be binned again, for another tree.
        """
        assert self.binned is not None
        if isinstance(self.binned, ExternalMatrix):  # its dtype is always the same
            self.binned.set_facts(info.has_missing, info.is_float32)
        else:
            self.binned = replace(
                self.binned,
                by_feature=self.binned.by_feature.astype(info.dtype, copy=False),
                has_missing=info.has_missing,
                is_float32=info.is_float32,
            )
        if keep_features:
            return
        self.table, self._tables = BinnedTable(self.binned, self.table.schema), []
        self.dtype = self.table.dtype

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


def worker_threads(n_threads: int) -> int:
    """Return `n_threads`, or the threads of the Dask worker if it is 0 or less."""
    return n_threads if n_threads > 0 else int(get_worker().state.nthreads)


@contextmanager
def _worker_errors() -> Iterator[None]:
    """Prefix errors from the block with the worker, unless they name a partition."""
    try:
        yield
    except (DataError, ParameterError) as error:
        if str(error).startswith("partition "):
            raise
        text = f"on the worker at {get_worker().address}: {error}"
        raise type(error)(text, code=error.code, **error.details) from error


class JoinedTable(Table):
    """The concatenated rows of several partitions; its batches are the partitions.

    Parameters
    ----------
    parts
        Their tables, at least one, with the same columns and category codes.
    """

    is_stream = True

    def __init__(self, parts: Sequence[Table]) -> None:
        first = parts[0]
        super().__init__(
            sum(part.n_rows for part in parts),
            first.n_features,
            first.names,
            first.types,
            np.result_type(*(part.dtype for part in parts)),
            first.categories,
        )
        self._parts = list(parts)
        self._begins = np.cumsum([0, *(part.n_rows for part in parts)])

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        for part in self._parts:
            yield from part.batches(features)

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        pieces = [part.columns(start, stop) for part in self._parts]
        return [np.concatenate(column) for column in zip(*pieces, strict=True)]

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        first = max(int(np.searchsorted(self._begins, start, side="right")) - 1, 0)
        pieces: list[np.ndarray] = []
        for number in range(first, len(self._parts)):
            begin = int(self._begins[number])
            if begin >= stop and pieces:
                break
            part = self._parts[number]
            begin, end = max(start - begin, 0), min(stop - begin, part.n_rows)
            pieces.append(part.rows(begin, max(begin, end), features))
        rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return rows.astype(self.dtype, copy=False)

    def select(self, features: Sequence[int]) -> Table:
        return JoinedTable([part.select(features) for part in self._parts])

    def take(self, rows: np.ndarray) -> Table:
        out = np.empty((len(rows), self.n_features), self.dtype)
        for part, begin in zip(self._parts, self._begins.tolist(), strict=False):
            mine = np.flatnonzero((rows >= begin) & (rows < begin + part.n_rows))
            if mine.size:
                taken = part.take(rows[mine] - begin)
                out[mine] = taken.rows(0, taken.n_rows)
        return ArrayTable(
            out, names=self.names, types=self.types, categories=self.categories
        )
