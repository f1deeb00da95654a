"""Rows of one worker, binned by the cuts of the rows on all workers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bin_table import BinnedTable, bin_batches
from hornbeam.binning.column_pass import ColumnPass
from hornbeam.binning.cuts import ColumnCuts, integer_weights
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.external_build import build_worker_external
from hornbeam.binning.table_passes import ColumnCache, run_passes
from hornbeam.data.opening import CacheOptions
from hornbeam.data.table import Table
from hornbeam.distributed.binning import BinInfo

__all__ = ["BinnedRows"]

Floats = npt.NDArray[np.float64]

#: Bytes for columns that are kept between the passes for cuts: enough for a
#: million rows of 28 floats.
_KEPT_BYTES = 128 << 20


class BinnedRows:
    """The rows of one worker: they take part in the passes for cuts, and are binned.

    Parameters
    ----------
    caching
        Options of bins in external memory; None: bins stay in memory.

    Attributes
    ----------
    table
        The features; after `unify_bins` a table of the bins' representative values,
        unless the features are kept.
    binned
        The bin indices, final after `unify_bins`.
    """

    def __init__(self, caching: CacheOptions | None) -> None:
        self._caching = caching
        self._tables: list[Table] = []
        self._column_cache: ColumnCache | None = None
        self.binned: DenseMatrix | ExternalMatrix | None = None
        #: Weights of the cuts, (rows,), if they differ from the weights of the rows.
        self._cut_weights: Floats | None = None

    def set_table(self, table: Table, parts: Sequence[Table]) -> None:
        """Set the features: all rows, and the same in parts."""
        self.table, self._tables = table, list(parts)
        self.n_rows, self.n_features = table.n_rows, table.n_features
        self.dtype: np.dtype[Any] = table.dtype

    @property
    def row_weights(self) -> Floats | None:
        """The weights, one for each row."""
        raise NotImplementedError

    @property
    def keeps_columns(self) -> bool:
        """Whether columns are kept in memory between the passes for cuts."""
        # Rows whose bins go to disk may not fit in memory.
        return self._caching is None

    def threads(self, n_threads: int) -> int:
        """Return `n_threads`, or those of the worker if it is 0 or less."""
        return n_threads

    def errors(self) -> AbstractContextManager[None]:
        """Return a context whose errors name the worker."""
        return nullcontext()

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
        if self.n_rows == 0:
            return passes
        n_threads = self.threads(n_threads)
        own = self.row_weights if self._cut_weights is None else self._cut_weights
        weights = integer_weights(own, largest_weight, n_rows)
        if self._column_cache is None:
            n_bytes = _KEPT_BYTES if self.keeps_columns else 0
            self._column_cache = ColumnCache(self.table, weights, n_bytes)
        done = self._column_cache.run_passes(features, passes, n_threads)
        if done == len(features):
            return passes
        begin = 0
        for table in self._tables:
            end = begin + table.n_rows
            part = None if weights is None else weights[begin:end]
            run_passes(table, features[done:], passes[done:], part, n_threads)
            begin = end
        return passes

    def use_cut_weights(self, hessians: Floats) -> tuple[float, bool]:
        """Use hessians as the weights of the next cuts.

        Returns the largest one, and whether all are equal to the weights before.
        """
        before, self._cut_weights = self._cut_weights, hessians
        is_same = before is not None and np.array_equal(before, hessians)
        return float(hessians.max(initial=0.0)), is_same

    def bin(self, columns: list[ColumnCuts], max_bin: int, n_threads: int) -> BinInfo:
        """Bin the rows by the global cuts; return the properties of the bins."""
        n_threads = self.threads(n_threads)
        cache, self._column_cache = self._column_cache, None
        binned: DenseMatrix | ExternalMatrix
        if self._caching is None:
            table = self.table if cache is None else cache.rows()
            binned = bin_batches(table, columns, max_bin, n_threads, own_cuts=True)
        else:
            with self.errors():
                binned = build_worker_external(
                    self.table,
                    columns,
                    max_bin,
                    self._caching,
                    n_threads,
                    own_cuts=True,
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
