"""Writes the bins of a table to external memory, or opens bins that are there."""

from __future__ import annotations

import hashlib
import json
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bin_table import BinMapper
from hornbeam.binning.cuts import ColumnCuts, Cuts, integer_weights
from hornbeam.binning.exact_quantiles import MAX_BYTES, find_stream_cuts
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.table_passes import checked_batches
from hornbeam.data.opening import CacheOptions
from hornbeam.data.row_blocks import row_slices
from hornbeam.data.table import Table
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.external_memory.blocks import BLOCK_ROWS
from hornbeam.external_memory.cache import open_or_build
from hornbeam.external_memory.folders import FolderLock, as_folders, make_folders
from hornbeam.external_memory.manifest import Manifest
from hornbeam.external_memory.writer import BlockWriter
from hornbeam.memory import give_back_freed, in_words, resident_bytes

__all__ = ["build_external", "build_external_with_cuts", "build_worker_external"]

#: Part of the fingerprint: increase it if blocks of the same data hold other bins.
_VERSION = 1
#: Maximum bytes of a block, unless it then has fewer than `_MIN_BLOCK_ROWS` rows.
_BLOCK_BYTES = 64 << 20
_MIN_BLOCK_ROWS = 1 << 14
#: Blocks in memory while writing: the one that is filled, the one that is written, and
#: its encodings.
_BLOCKS_IN_MEMORY = 4
#: Bytes of batches that are read from a source, and of buffers of threads.
_BATCH_BYTES = 64 << 20
#: Least memory for finding cuts; it takes more passes.
_MIN_CUT_BYTES = 16 << 20
#: Values of a table in memory that are binned at once, and most values of a batch.
_SLICE_VALUES = 1 << 21
_MAX_BATCH_VALUES = 1 << 25
#: Prefix of folders that belong to one worker process, and seconds for which a new one
#: is not yet considered deserted.
_WORKER_FOLDER = "hornbeam-member-"
_JUST_MADE = 60.0


def build_external(
    table: Table,
    max_bin: int,
    options: CacheOptions,
    *,
    weights: npt.NDArray[np.float64] | None = None,
    n_threads: int = 1,
    sketch: str = "exact",
) -> ExternalMatrix:
    """Return the bins of `table` in external memory, cut at its own quantiles.

    Cuts and bins are those of `bin_table`. If the cache holds them already, the table
    is only read for its checksum (`Table.content`).

    Parameters
    ----------
    table, max_bin, weights, n_threads, sketch
        As for `bin_table`.
    options
        Cache folders, memory limit and codec.
    """
    settings = {
        "max_bin": max_bin,
        "sketch": sketch,
        "weights": None if weights is None else _checksum(weights),
    }

    def cut(max_bytes: int) -> list[ColumnCuts]:
        fixed = integer_weights(weights)
        exact = sketch == "exact"
        return find_stream_cuts(table, max_bin, fixed, n_threads, exact, max_bytes)

    builder = _Builder(table, max_bin, options, n_threads, own_cuts=True)
    return builder.open(settings, cut)


def build_external_with_cuts(
    table: Table, cuts: Cuts, options: CacheOptions, n_threads: int = 1
) -> ExternalMatrix:
    """Return the bins of `table` in external memory, with the cuts of another one."""
    parts = cuts.pointers, cuts.values, cuts.minimums
    settings = {"cuts": [_checksum(part) for part in parts]}
    columns = cuts.columns()
    max_bin = int(cuts.n_bins.max())
    builder = _Builder(table, max_bin, options, n_threads, own_cuts=False)
    return builder.open(settings, lambda max_bytes: columns)


def build_worker_external(
    table: Table,
    columns: list[ColumnCuts],
    max_bin: int,
    options: CacheOptions,
    n_threads: int = 1,
    *,
    own_cuts: bool,
) -> ExternalMatrix:
    """Return the bins of `table` in folders of this process, deleted with the matrix.

    Workers that share cache folders each use a subfolder. A damaged block cannot be
    rebuilt, because the matrix does not keep the table.

    Parameters
    ----------
    table, options
        As for `build_external`.
    columns, max_bin, n_threads, own_cuts
        As for `bin_batches`.
    """
    roots = as_folders(options.folders)
    make_folders(roots)
    _remove_deserted(roots)
    name = _WORKER_FOLDER + os.urandom(8).hex()
    folders = [root / name for root in roots]
    options = replace(options, folders=folders)
    builder = _Builder(table, max_bin, options, n_threads, own_cuts=own_cuts)
    store = open_or_build(
        folders, name, lambda new: builder.build(new, lambda _: columns)
    )
    matrix = ExternalMatrix(store, options.memory_limit)
    weakref.finalize(matrix, _remove, folders)
    return matrix


def _remove_deserted(roots: list[Path]) -> None:
    """Delete the folders of processes that were killed."""
    for root in roots:
        for folder in root.glob(f"{_WORKER_FOLDER}*"):
            with suppress(OSError):  # another process may delete it, too
                if time.time() - folder.stat().st_mtime < _JUST_MADE:
                    continue
                lock = FolderLock([folder])
                if lock.try_lock(exclusive=True):
                    _remove([folder])
                    lock.close()


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        rmtree(folder, ignore_errors=True)


class _Builder:
    """Writes the blocks of a table; the matrix keeps it to rebuild damaged blocks.

    Parameters
    ----------
    table, max_bin, options, n_threads
        As for `build_external`.
    own_cuts
        As for `bin_batches`.
    """

    def __init__(
        self,
        table: Table,
        max_bin: int,
        options: CacheOptions,
        n_threads: int,
        *,
        own_cuts: bool,
    ) -> None:
        self._table = table
        self._max_bin = max_bin
        self._options = options
        self._n_threads = n_threads
        self._own_cuts = own_cuts
        self._matrix: ExternalMatrix | None = None
        self._block_rows = BLOCK_ROWS
        while (
            self._block_rows * table.n_features > _BLOCK_BYTES
            and self._block_rows > _MIN_BLOCK_ROWS
        ):
            self._block_rows //= 2

    def open(
        self, settings: dict[str, Any], cut: Callable[[int], list[ColumnCuts]]
    ) -> ExternalMatrix:
        """Return the matrix of the cache, built if it is not there.

        Parameters
        ----------
        settings
            What the bins depend on in addition to the table.
        cut
            Finds the cuts with a given number of bytes of memory.
        """
        store = open_or_build(
            self._options.folders,
            self._fingerprint(settings),
            lambda new: self.build(new, cut),
            self._rebuild,
        )
        give_back_freed()  # memory of reading, before margins are allocated
        self._matrix = ExternalMatrix(store, self._options.memory_limit)
        return self._matrix

    def _fingerprint(self, settings: dict[str, Any]) -> str:
        table = self._table
        levels = [table.categories.of(f) for f in range(table.n_features)]
        facts = [
            _VERSION,
            table.content(),
            [table.n_rows, table.n_features, np.dtype(table.dtype).name],
            [feature for feature, kind in enumerate(table.types or ()) if kind == "c"],
            [None if names is None else names.tolist() for names in levels],
            self._options.codec,
            settings,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def build(
        self,
        new_writer: Callable[..., BlockWriter],
        cut: Callable[[int], list[ColumnCuts]],
    ) -> Manifest:
        """Write all blocks and return their manifest."""
        table = self._table
        columns = cut(self._cut_bytes())
        give_back_freed()  # memory of finding the cuts
        mapper = self._mapper(columns)
        while True:
            writer = new_writer(
                table.n_rows,
                table.n_features,
                mapper.dtype,
                codec=self._options.codec,
                block_rows=self._block_rows,
            )
            if self._write(writer, mapper):
                break
            # A column of 256 bins has a missing value: start again with uint16.
        facts = ExternalMatrix.facts(
            Cuts.join(columns),
            mapper.has_missing,
            mapper.is_float32,
            mapper.is_categorical,
        )
        schema = {"names": table.names, "types": table.types}
        return writer.finish(facts | {"schema": schema})

    def _write(self, writer: BlockWriter, mapper: BinMapper) -> bool:
        """Write all bins; return whether they fit in the dtype of the writer."""
        dtype = mapper.dtype
        for _, batch in self._batches():
            bins: Any = np.empty((batch.n_features, batch.n_rows), dtype)
            if not mapper.map_batch(batch, bins, self._n_threads):
                return False
            writer.write(bins)
        return True

    def _rebuild(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the bins of the rows `begin` to `end - 1`, (features, rows)."""
        matrix = self._matrix
        assert matrix is not None
        cuts = matrix.cuts
        columns = [
            ColumnCuts(cuts.of(f), float(cuts.minimums[f]), bool(matrix.has_missing[f]))
            for f in range(matrix.n_features)
        ]
        mapper = self._mapper(columns)
        bins: Any = np.empty((matrix.n_features, end - begin), mapper.dtype)
        for first, batch in self._batches():
            last = first + batch.n_rows
            if last <= begin:
                continue
            if first >= end:
                break
            part: Any = np.empty((matrix.n_features, batch.n_rows), mapper.dtype)
            mapper.map_batch(batch, part, self._n_threads)
            chosen = slice(max(begin - first, 0), min(end, last) - first)
            bins[:, max(first - begin, 0) : min(end, last) - begin] = part[:, chosen]
        return bins

    def _mapper(self, columns: list[ColumnCuts]) -> BinMapper:
        return BinMapper(self._table, columns, self._max_bin, own_cuts=self._own_cuts)

    def _batches(self) -> Iterator[tuple[int, Table]]:
        for first, batch in checked_batches(self._table):
            n_values = batch.n_rows * batch.n_features
            if self._table.is_stream and n_values <= _MAX_BATCH_VALUES:
                yield first, batch
                continue
            n_rows = max(1, _SLICE_VALUES // batch.n_features)
            for begin, part in row_slices(batch, n_rows):
                yield first + begin, part

    def _cut_bytes(self) -> int:
        """Return the memory for finding cuts; raise if `memory_limit` is too small."""
        limit = self._options.memory_limit
        if limit is None:
            return MAX_BYTES
        resident = resident_bytes()
        block = self._block_rows * self._table.n_features
        if self._max_bin > 255:
            block *= 2
        least = _BATCH_BYTES + max(_MIN_CUT_BYTES, _BLOCKS_IN_MEMORY * block)
        if resident + least > limit:
            raise ParameterError(
                f"memory_limit={in_words(limit)} is too small: the process uses "
                f"{in_words(resident)} already, and writing {self._table.n_features} "
                f"columns to the cache needs {in_words(least)} more; set it to at "
                f"least {in_words(resident + least)}",
                code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
            )
        # Half is for chunks, half for the values that passes keep.
        return min(MAX_BYTES, (limit - resident - _BATCH_BYTES) // 2)


def _checksum(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
