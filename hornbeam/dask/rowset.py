"""The rows of some partitions on the worker that holds them: from tables to codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from hornbeam.dask.opening import Opening
from hornbeam.dask.partitions import Partition
from hornbeam.dask.tables import JoinedTable, PartitionTable, aligned
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError

__all__ = ["CodeFacts", "Rowset", "threads_here"]

Floats = npt.NDArray[np.float64]

#: Bytes for columns that are kept in order while their cuts are found: those of a
#: million rows of 28 floats.
_ROOM = 128 << 20


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What must be the same of the codes of all rows, wherever they lie.

    Attributes
    ----------
    has_missing
        (features,) bool: whether any cell of a feature is missing.
    is_float32
        Whether every value is exactly a float32.
    dtype
        Of the codes.
    """

    has_missing: npt.NDArray[np.bool_]
    is_float32: bool
    dtype: np.dtype[Any]

    def joined(self, other: CodeFacts) -> CodeFacts:
        """Return the facts of these rows and others."""
        has_missing = self.has_missing | other.has_missing
        dtype = np.promote_types(self.dtype, other.dtype)
        return CodeFacts(has_missing, self.is_float32 and other.is_float32, dtype)


class Rowset:
    """Some partitions' rows, and what goes with them.

    `prepare` comes first. Rows that are learned from are then read for their cuts, as
    often as those ask for it, and binned; rows that are only predicted stay a table.

    Parameters
    ----------
    partitions
        In any order; the rows come in the order of their numbers.
    opening
        How they become tables.

    Attributes
    ----------
    table
        The features; when they have been let go for the codes, what these say of them.
    info
        Labels and all that goes with the rows.
    spans
        (spans, 2) int64: rows that follow each other among all rows, each time the
        first one's place here, and its number there.
    binned
        The codes, once they are settled.
    """

    def __init__(self, partitions: Sequence[Partition], opening: Opening) -> None:
        self._partitions = sorted(partitions, key=lambda part: part.number)
        self._opening = opening
        self._parts: list[Table] = []
        self._ordered: SortedColumnCache | None = None
        self.binned: DenseMatrix | ExternalMatrix | None = None
        #: What decides cuts, (rows,), if it is not the weights of the rows.
        self._cut_weights: Floats | None = None

    def prepare(
        self,
        schema: Schema,
        first_rows: npt.NDArray[np.int64],
        unseen: str = "error",
        of: str = "the other partitions",
    ) -> None:
        """Open the partitions, with the columns and codes of `schema`.

        Parameters
        ----------
        schema
            The columns of all partitions together, or of a model.
        first_rows
            (partitions + 1,): the number of the first row of each among all rows.
        unseen, of
            As for `align`.
        """
        fields = FieldCollector()
        spans: list[tuple[int, int]] = []
        n_rows, after = 0, -1
        for partition in self._partitions:
            begin, end = first_rows[partition.number : partition.number + 2].tolist()
            opened = self._opening.open(partition)
            found = 0 if opened is None else opened.table.n_rows
            if found != end - begin:
                raise DataError(
                    f"partition {partition.number} had {end - begin} rows before and "
                    f"has {found} now; what makes it must give the same rows each time",
                    code=ErrorCode.SOURCE_CHANGED,
                )
            if opened is None:
                continue
            named = PartitionTable(opened.table, partition.number)
            part = aligned(named, schema, unseen, of)
            self._parts.append(PartitionTable(part, partition.number))
            fields.add(opened.fields, found)
            if begin != after:
                spans.append((n_rows, begin))
            n_rows, after = n_rows + found, end
        if not self._parts:
            raise DataError(
                "none of the partitions on this worker has rows",
                code=ErrorCode.EMPTY_DATA,
            )
        self.table: Table = JoinedTable(self._parts)
        self.n_rows, self.n_features = n_rows, schema.n_features
        self.dtype: np.dtype[Any] = self.table.dtype
        self.spans = np.array(spans, np.int64)
        self.info = MetaInfo(n_rows, schema.n_features)
        self.info.set(fields.whole(), whole=False)
        self._partitions = []

    def read_for_cuts(
        self,
        features: Sequence[int],
        passes: list[ColumnPass],
        largest_weight: float | None,
        n_rows: int,
        n_threads: int,
    ) -> list[ColumnPass]:
        """Return the passes when they have seen these rows.

        Parameters
        ----------
        features, passes
            Columns, and what is to be found out about each.
        largest_weight, n_rows
            Of all rows, wherever they are.
        n_threads
            Threads that share the columns, 0 or less for those of the worker.
        """
        n_threads = threads_here(n_threads)
        own = self.row_weights if self._cut_weights is None else self._cut_weights
        weights = integer_weights(own, largest_weight, n_rows)
        if self._ordered is None:
            # What goes to disk may be more than fits in memory.
            room = _ROOM if self._opening.caching is None else 0
            self._ordered = SortedColumnCache(self.table, weights, room)
        done = self._ordered.run_passes(features, passes, n_threads)
        if done == len(features):
            return passes
        begin = 0
        for part in self._parts:
            end = begin + part.n_rows
            carried = None if weights is None else weights[begin:end]
            run_passes(part, features[done:], passes[done:], carried, n_threads)
            begin = end
        return passes

    def bin(self, columns: list[ColumnCuts], max_bin: int, n_threads: int) -> CodeFacts:
        """Code the rows by the cuts of all, and return what is found of them."""
        n_threads = threads_here(n_threads)
        self._ordered = None
        binned: DenseMatrix | ExternalMatrix
        caching = self._opening.caching
        if caching is None:
            binned = bin_batches(self.table, columns, max_bin, n_threads, own_cuts=True)
        else:
            with _on_this_worker():
                binned = build_worker_external(
                    self.table, columns, max_bin, caching, n_threads, own_cuts=True
                )
        self.binned = binned
        return CodeFacts(binned.has_missing, binned.is_float32, binned.bin_dtype)

    def settle(self, facts: CodeFacts, keeps_features: bool = False) -> None:
        """Give the codes the form they have everywhere, and let the features go.

        They are kept where they are to be coded anew.
        """
        assert self.binned is not None
        if isinstance(self.binned, ExternalMatrix):  # of codes that stay as they are
            self.binned.set_facts(facts.has_missing, facts.is_float32)
        else:
            self.binned = replace(
                self.binned,
                by_feature=self.binned.by_feature.astype(facts.dtype, copy=False),
                has_missing=facts.has_missing,
                is_float32=facts.is_float32,
            )
        if keeps_features:
            return
        self.table, self._parts = BinnedTable(self.binned, self.table.schema), []
        self.dtype = self.table.dtype

    def rows(
        self, start: int, stop: int, features: npt.NDArray[np.intp] | None = None
    ) -> np.ndarray:
        """Return a block of rows, missing as NaN; read it, never write to it."""
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


def threads_here(n_threads: int) -> int:
    """Return how many threads to use: the worker's, unless a number is given."""
    return n_threads if n_threads > 0 else int(get_worker().state.nthreads)


@contextmanager
def _on_this_worker() -> Iterator[None]:
    """Say which worker it was in an error that is not of the rows themselves."""
    try:
        yield
    except (DataError, ParameterError) as error:
        if str(error).startswith("partition "):
            raise
        where = f"on the worker at {get_worker().address}: {error}"
        raise type(error)(where, code=error.code, **error.details) from error
