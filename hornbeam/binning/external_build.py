"""From tables to bin numbers on disk, or to those that are there already."""

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
from hornbeam.binning.exact_quantiles import ROOM, find_stream_cuts
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

#: Changes whenever pages of the same data would hold other codes.
_VERSION = 1
#: Bytes of a block: one of very many columns has fewer rows, but at least so many.
_BLOCK_BYTES = 64 << 20
_LEAST_ROWS = 1 << 14
#: Blocks that are held while one is written: what fills, and the ways it is laid down.
_BLOCKS_HELD = 4
#: Bytes of batches on their way from a source, and of threads' own.
_ON_THE_WAY = 64 << 20
#: The least that finding cuts is given: with it there are more readings.
_LEAST_ROOM = 16 << 20
#: Summary of a table in memory that are read at once, and of a batch of a stream.
_CELLS = 1 << 21
_CELLS_OF_A_BATCH = 1 << 25
#: How folders begin that one process has for itself, and seconds in which one that it
#: makes is not taken for one that was deserted.
_OWN = "hornbeam-member-"
_JUST_MADE = 60.0


def build_external(
    table: Table,
    max_bin: int,
    caching: CacheOptions,
    *,
    weights: npt.NDArray[np.float64] | None = None,
    n_threads: int = 1,
    sketch: str = "exact",
) -> ExternalMatrix:
    """Return `table` on disk, in bins cut at its own (weighted) quantiles.

    The cuts and codes are those of `bin_table`. If the folders hold them already, the
    table is not read but for its `content`.

    Parameters
    ----------
    table, max_bin, weights, n_threads, sketch
        As for `bin_table`.
    caching
        Where to, and within how much memory.
    """
    marks = {
        "max_bin": max_bin,
        "sketch": sketch,
        "weights": None if weights is None else _checksum(weights),
    }

    def cut(room: int) -> list[ColumnCuts]:
        fixed = integer_weights(weights)
        return find_stream_cuts(
            table, max_bin, fixed, n_threads, sketch == "exact", room
        )

    return _Paging(table, max_bin, caching, n_threads, own_cuts=True).open(marks, cut)


def build_external_with_cuts(
    table: Table, cuts: Cuts, caching: CacheOptions, n_threads: int = 1
) -> ExternalMatrix:
    """Return `table` on disk, in the bins of another one."""
    parts = cuts.pointers, cuts.values, cuts.minimums
    marks = {"cuts": [_checksum(part) for part in parts]}
    columns = [
        ColumnCuts(cuts.of(feature), float(cuts.minimums[feature]), False)
        for feature in range(table.n_features)
    ]
    max_bin = int(cuts.n_bins.max())
    paging = _Paging(table, max_bin, caching, n_threads, own_cuts=False)
    return paging.open(marks, lambda room: columns)


def build_worker_external(
    table: Table,
    columns: list[ColumnCuts],
    max_bin: int,
    caching: CacheOptions,
    n_threads: int = 1,
    *,
    own_cuts: bool,
) -> ExternalMatrix:
    """Return `table` on disk by given cuts, in blocks that are gone with the matrix.

    For one of many processes that use the same folders: each has some of its own in
    them. A damaged block cannot be made again, as the table is not held.

    Parameters
    ----------
    table, caching
        As for `build_external`.
    columns, max_bin, n_threads, own_cuts
        As for `bin_batches`.
    """
    roots = as_folders(caching.folders)
    make_folders(roots)
    _remove_deserted(roots)
    name = _OWN + os.urandom(8).hex()
    folders = [root / name for root in roots]
    caching = replace(caching, folders=folders)
    paging = _Paging(table, max_bin, caching, n_threads, own_cuts=own_cuts)
    pages = open_or_build(
        folders, name, lambda new: paging.build(new, lambda _: columns)
    )
    matrix = ExternalMatrix(pages, caching.memory_limit)
    weakref.finalize(matrix, _remove, folders)
    return matrix


def _remove_deserted(roots: list[Path]) -> None:
    """Delete what processes have left that were killed."""
    for root in roots:
        for folder in root.glob(f"{_OWN}*"):
            with suppress(OSError):  # another one may do the same
                if time.time() - folder.stat().st_mtime < _JUST_MADE:
                    continue
                lock = FolderLock([folder])
                if lock.try_hold(alone=True):
                    _remove([folder])
                    lock.close()


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        rmtree(folder, ignore_errors=True)


class _Paging:
    """A table on its way to pages; it stays with them, to mend what is damaged.

    Parameters
    ----------
    table, max_bin, caching, n_threads
        As for `build_external`.
    own_cuts
        Whether the cuts are those of these rows.
    """

    def __init__(
        self,
        table: Table,
        max_bin: int,
        caching: CacheOptions,
        n_threads: int,
        *,
        own_cuts: bool,
    ) -> None:
        self._table = table
        self._max_bin = max_bin
        self._caching = caching
        self._n_threads = n_threads
        self._own_cuts = own_cuts
        self._matrix: ExternalMatrix | None = None
        self._block_rows = BLOCK_ROWS
        while (
            self._block_rows * table.n_features > _BLOCK_BYTES
            and self._block_rows > _LEAST_ROWS
        ):
            self._block_rows //= 2

    def open(
        self, marks: dict[str, Any], cut: Callable[[int], list[ColumnCuts]]
    ) -> ExternalMatrix:
        """Return the pages, old or new.

        Parameters
        ----------
        marks
            What the codes depend on besides the table.
        cut
            Finds the cuts within so many bytes of memory.
        """
        pages = open_or_build(
            self._caching.folders,
            self._fingerprint(marks),
            lambda new: self.build(new, cut),
            self._mend,
        )
        give_back_freed()  # what reading took; margins come next
        self._matrix = ExternalMatrix(pages, self._caching.memory_limit)
        return self._matrix

    def _fingerprint(self, marks: dict[str, Any]) -> str:
        table = self._table
        levels = [table.categories.of(f) for f in range(table.n_features)]
        facts = [
            _VERSION,
            table.content(),
            [table.n_rows, table.n_features, np.dtype(table.dtype).name],
            [feature for feature, kind in enumerate(table.types or ()) if kind == "c"],
            [None if names is None else names.tolist() for names in levels],
            self._caching.codec,
            marks,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def build(
        self,
        new_writer: Callable[..., BlockWriter],
        cut: Callable[[int], list[ColumnCuts]],
    ) -> Manifest:
        """Write all blocks."""
        table = self._table
        columns = cut(self._room())
        give_back_freed()  # what cutting took
        coder = self._coder(columns)
        while True:
            writer = new_writer(
                table.n_rows,
                table.n_features,
                coder.dtype,
                codec=self._caching.codec,
                block_rows=self._block_rows,
            )
            if self._write(writer, coder):
                break
            # A column of 256 bins has a missing cell: all begins anew, in larger codes.
        facts = ExternalMatrix.facts(
            Cuts.join(columns),
            coder.has_missing,
            coder.is_float32,
            coder.is_categorical,
        )
        schema = {"names": table.names, "types": table.types}
        return writer.finish(facts | {"schema": schema})

    def _write(self, writer: BlockWriter, coder: BinMapper) -> bool:
        """Write all codes; return False if they turn out not to fit."""
        dtype = coder.dtype
        for _, batch in self._batches():
            codes: Any = np.empty((batch.n_features, batch.n_rows), dtype)
            if not coder.code(batch, codes, self._n_threads):
                return False
            writer.write(codes)
        return True

    def _mend(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the codes of these rows anew, (features, rows)."""
        matrix = self._matrix
        assert matrix is not None
        cuts = matrix.cuts
        columns = [
            ColumnCuts(cuts.of(f), float(cuts.minimums[f]), bool(matrix.has_missing[f]))
            for f in range(matrix.n_features)
        ]
        coder = self._coder(columns)
        codes: Any = np.empty((matrix.n_features, end - begin), coder.dtype)
        for first, batch in self._batches():
            last = first + batch.n_rows
            if last <= begin:
                continue
            if first >= end:
                break
            part: Any = np.empty((matrix.n_features, batch.n_rows), coder.dtype)
            coder.code(batch, part, self._n_threads)
            here = slice(max(begin - first, 0), min(end, last) - first)
            codes[:, max(first - begin, 0) : min(end, last) - begin] = part[:, here]
        return codes

    def _coder(self, columns: list[ColumnCuts]) -> BinMapper:
        return BinMapper(self._table, columns, self._max_bin, own_cuts=self._own_cuts)

    def _batches(self) -> Iterator[tuple[int, Table]]:
        for first, batch in checked_batches(self._table):
            n_cells = batch.n_rows * batch.n_features
            if self._table.is_stream and n_cells <= _CELLS_OF_A_BATCH:
                yield first, batch
                continue
            for begin, part in row_slices(batch, max(1, _CELLS // batch.n_features)):
                yield first + begin, part

    def _room(self) -> int:
        """Return the bytes for finding cuts, or raise if there is too little memory."""
        limit = self._caching.memory_limit
        if limit is None:
            return ROOM
        taken = resident_bytes()
        block = self._block_rows * self._table.n_features
        if self._max_bin > 255:
            block *= 2
        least = _ON_THE_WAY + max(_LEAST_ROOM, _BLOCKS_HELD * block)
        if taken + least > limit:
            raise ParameterError(
                f"memory_limit={in_words(limit)} is too small: the process takes "
                f"{in_words(taken)} already, and to write {self._table.n_features} "
                f"columns to the cache takes {in_words(least)} more; give at least "
                f"{in_words(taken + least)}",
                code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
            )
        # Half is for chunks, half for the values of them that are kept.
        return min(ROOM, (limit - taken - _ON_THE_WAY) // 2)


def _checksum(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
