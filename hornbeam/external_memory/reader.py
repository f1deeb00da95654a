"""Reads blocks of bins from disk in order, ahead of the consumer."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode
from hornbeam.external_memory.blocks import (
    BlockReader,
    DamagedBlockError,
    crc_of,
    encode_block,
    same_encodings,
)
from hornbeam.external_memory.folders import MANIFEST, FolderLock
from hornbeam.external_memory.manifest import Manifest, write_manifest
from hornbeam.external_memory.read_ahead import Buffer, ReadAhead, map_pages
from hornbeam.external_memory.spill import SpillFiles
from hornbeam.external_memory.writer import replace_block
from hornbeam.memory import in_words

__all__ = ["Block", "BlockStore", "Rebuild"]

Bins = npt.NDArray[Any]
#: Returns the bins (columns, rows) of the rows `begin` to `end - 1`, from the source.
Rebuild = Callable[[int, int], Bins]


@dataclass(slots=True)
class Block:
    """Bins of one block. The arrays are valid until the next block is read.

    Attributes
    ----------
    number
        Index of the block.
    begin, end
        Its first row, and the row after its last.
    by_feature
        (columns, rows), C-contiguous. Only the requested columns hold bins; the others
        are undefined. (0, 0) if no columns are requested.
    by_row
        (rows * columns,), or (0,) if not requested.
    """

    number: int
    begin: int
    end: int
    by_feature: Bins
    by_row: Bins


class BlockStore:
    """Blocks of bins on disk.

    `open_store` and `open_or_build` make it. While it is open, no process builds
    another cache in its folders.

    Attributes
    ----------
    folders
        The folders of the blocks.
    n_rows, n_columns, block_rows, n_blocks
        Number of rows, columns, rows of a block, and blocks.
    dtype
        The dtype of the bins: uint8 or uint16.
    facts
        The JSON object that was passed to `BlockWriter.finish`.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        manifest: Manifest,
        lock: FolderLock,
        rebuild: Rebuild | None = None,
    ) -> None:
        self.folders = list(folders)
        self.n_rows, self.n_columns = manifest.n_rows, manifest.n_columns
        self.block_rows, self.n_blocks = manifest.block_rows, len(manifest.blocks)
        self.dtype = np.dtype(manifest.dtype)
        self.facts = manifest.facts
        self._manifest, self._rebuild = manifest, rebuild
        self._verified = np.zeros((self.n_blocks, self.n_columns + 1), np.bool_)
        self._buffers: list[Buffer] = []
        #: Row-major blocks that are kept in memory, and which of them are read already.
        self._kept: dict[int, Bins] = {}
        self._is_read = np.zeros(self.n_blocks, np.bool_)
        self._lock = Lock()
        self._scratch_bytes = self._find_scratch_bytes()
        self._is_open = True
        self._unlock = weakref.finalize(self, lock.close)

    @property
    def n_bytes(self) -> int:
        """Size of the blocks on disk in bytes."""
        return sum(entry.n_bytes for entry in self._manifest.blocks)

    def rows_of(self, block: int) -> tuple[int, int]:
        """Return the first row of a block, and the row after its last."""
        entry = self._manifest.blocks[block]
        return entry.begin, entry.end

    def path_of(self, block: int) -> Path:
        """Return the path of a block's file."""
        entry = self._manifest.blocks[block]
        return self.folders[entry.folder] / entry.file

    def keep_in_memory(self, n_bytes: int) -> int:
        """Keep row-major blocks in memory, as many as fit in `n_bytes`.

        They are kept when a pass first reads them; later passes do not read them again.
        Returns the bytes that they take.
        """
        sizes = [(end - begin) * self.n_columns for begin, end in self._all_rows()]
        largest = max(sizes, default=1) * self.dtype.itemsize
        count = min(max(n_bytes, 0) // largest, self.n_blocks)
        # Spread them evenly, so that other blocks are read while these are processed.
        chosen = {place * self.n_blocks // count for place in range(count)}
        with self._lock:
            is_dropped = [number not in chosen for number in range(self.n_blocks)]
            self._is_read[is_dropped] = False
            # A pass that is running keeps using the old dict.
            self._kept = {
                number: self._kept[number]
                if number in self._kept
                else map_pages(sizes[number], self.dtype)
                for number in sorted(chosen)
            }
            return sum(bins.nbytes for bins in self._kept.values())

    def _all_rows(self) -> list[tuple[int, int]]:
        return [self.rows_of(number) for number in range(self.n_blocks)]

    def ring_bytes(self, n_buffers: int, *, columns: bool, by_row: bool) -> int:
        """Return the maximum memory of a pass with `n_buffers` buffers, in bytes."""
        return n_buffers * self._buffer_bytes(columns, by_row) + self._scratch_bytes

    def _buffer_bytes(self, columns: bool, by_row: bool) -> int:
        rows = min(self.block_rows, self.n_rows)
        return (columns + by_row) * rows * self.n_columns * self.dtype.itemsize

    def _find_scratch_bytes(self) -> int:
        """Return the memory that the threads need to decode segments."""
        longest = [0] * len(self.folders)
        for entry in self._manifest.blocks:
            packed = [s.length for s in entry.segments if s.codec != "raw"]
            longest[entry.folder] = max([longest[entry.folder], *packed])
        return sum(longest)

    @contextmanager
    def read_blocks(
        self,
        columns: Sequence[int] | None,
        by_row: bool,
        ring_bytes: int | None = None,
        blocks: Sequence[int] | None = None,
    ) -> Iterator[Iterator[Block]]:
        """Make one pass over the blocks in order, with one thread per folder.

        ``with store.read_blocks([2, 5], by_row=True) as blocks: for block in blocks:``

        Parameters
        ----------
        columns
            The columns to read; None: all.
        by_row
            Whether to read the row-major copy.
        ring_bytes
            Maximum memory of the buffers; None: two buffers per folder and one more.
            Raises a DataError if two buffers do not fit.
        blocks
            The blocks to read; None: all.

        If a block cannot be read, or is damaged and cannot be rebuilt, the iterator
        raises a DataError in its place.
        """
        if not self._is_open:
            raise ValueError("the blocks are closed")
        chosen = range(self.n_columns) if columns is None else sorted({*columns})
        numbers = range(self.n_blocks) if blocks is None else sorted({*blocks})
        with self._lock:
            kept, is_read = self._kept, self._is_read.copy()
        # What to read of each block: columns, and whether the row-major copy.
        needed = {
            number: (chosen, by_row and not is_read[number]) for number in numbers
        }
        on_disk = [number for number in numbers if any(needed[number])]
        size = min(self._ring_size(bool(chosen), by_row, ring_bytes), len(on_disk))
        buffers = self._take_buffers(size)
        readers = [BlockReader() for _ in self.folders]
        entries = self._manifest.blocks

        def block_in(number: int, buffer: Buffer | None) -> Block:
            begin, end = self.rows_of(number)
            rows = end - begin
            by_feature, flat = np.empty((0, 0), self.dtype), np.empty(0, self.dtype)
            if chosen and buffer is not None:
                by_feature = buffer.by_feature(self.n_columns, rows)
            if by_row and number in kept:
                flat = kept[number]
            elif by_row and buffer is not None:
                flat = buffer.by_row(rows * self.n_columns)
            return Block(number, begin, end, by_feature, flat)

        def read(position: int, slot: int, after: int | None) -> None:
            number = on_disk[position]
            reader = readers[entries[number].folder]
            if after is not None:
                later = on_disk[after]
                reader.advise(self.path_of(later), entries[later], *needed[later])
            self._read(reader, block_in(number, buffers[slot]), *needed[number])

        positions: list[list[int]] = [[] for _ in self.folders]
        for position, number in enumerate(on_disk):
            positions[entries[number].folder].append(position)
        ahead = ReadAhead(positions, size, read)

        def in_order() -> Iterator[Block]:
            position = 0
            for number in numbers:
                if not any(needed[number]):
                    yield block_in(number, None)
                    continue
                block = block_in(number, buffers[position % size])
                try:
                    ahead.wait(position)
                except DamagedBlockError as error:
                    self._replace_damaged(number, error)
                    self._read_again(block, *needed[number])
                yield block
                ahead.release()
                position += 1

        try:
            ahead.start()
            yield in_order()
        finally:
            ahead.stop()
            with self._lock:
                self._buffers += buffers

    def _ring_size(self, columns: bool, by_row: bool, ring_bytes: int | None) -> int:
        default = 2 * len(self.folders) + 1
        if ring_bytes is None or self.n_blocks == 0:
            return default
        one = self._buffer_bytes(columns, by_row)
        left = ring_bytes - self._scratch_bytes
        if one and left < 2 * one:
            needed = self.ring_bytes(2, columns=columns, by_row=by_row)
            raise DataError(
                f"two blocks of {self.block_rows} rows need {in_words(needed)} of "
                f"memory, but only {in_words(ring_bytes)} are left; increase "
                "memory_limit",
                code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
            )
        return min(default, left // one) if one else default

    def _take_buffers(self, count: int) -> list[Buffer]:
        rows = min(self.block_rows, self.n_rows)
        with self._lock:
            taken, self._buffers = self._buffers[:count], self._buffers[count:]
        missing = count - len(taken)
        n_bins = rows * self.n_columns
        return taken + [Buffer(n_bins, self.dtype) for _ in range(missing)]

    def _read(
        self, reader: BlockReader, block: Block, columns: Sequence[int], by_row: bool
    ) -> None:
        path = self.path_of(block.number)
        try:
            reader.read(
                path,
                self._manifest.blocks[block.number],
                columns,
                by_row,
                block.by_feature,
                block.by_row,
                self._verified[block.number],
            )
        except OSError as error:
            raise DataError(
                f"block {block.number} (rows {block.begin} to {block.end}) cannot be "
                f"read from {str(path)!r}: {error.strerror or error}",
                code=ErrorCode.CACHE_DAMAGED,
            ) from None
        with self._lock:
            if by_row and self._kept.get(block.number) is block.by_row:
                self._is_read[block.number] = True

    def _read_again(self, block: Block, columns: Sequence[int], by_row: bool) -> None:
        try:
            self._read(BlockReader(), block, columns, by_row)
        except DamagedBlockError as error:
            path = str(self.path_of(block.number))
            raise DataError(
                f"block {block.number} in {path!r} was rebuilt and is damaged again: "
                f"{error}; the disk may be failing",
                code=ErrorCode.CACHE_DAMAGED,
            ) from None

    def _replace_damaged(self, number: int, damage: DamagedBlockError) -> None:
        """Rebuild a damaged block from the source and replace its file."""
        entry, path = self._manifest.blocks[number], self.path_of(number)
        message = (
            f"block {number} (rows {entry.begin} to {entry.end}) of the cache is "
            f"damaged: {str(path)!r}: {damage}"
        )
        manifest = str(self.folders[0] / MANIFEST)
        if self._rebuild is None:
            raise DataError(
                f"{message}; delete {manifest!r} and build the cache again",
                code=ErrorCode.CACHE_DAMAGED,
            ) from None
        bins = np.ascontiguousarray(self._rebuild(entry.begin, entry.end), self.dtype)
        shape = self.n_columns, entry.end - entry.begin
        if bins.shape != shape or crc_of(bins) != entry.crc:
            raise DataError(
                f"{message}; the rows of the source have changed since the cache was "
                f"built: delete {manifest!r} and build it again",
                code=ErrorCode.SOURCE_CHANGED,
            )
        pieces, segments, _ = encode_block(bins, same_encodings(entry.segments, bins))
        replace_block(path, pieces)
        if segments != entry.segments:
            entry.segments = segments
            write_manifest(self.folders, self._manifest)
            self._scratch_bytes = self._find_scratch_bytes()
        self._verified[number] = False
        warnings.warn(f"{message}; it was rebuilt from the source", stacklevel=4)

    def open_spill(self) -> SpillFiles:
        """Return files in the same folders for arrays of rows."""
        return SpillFiles(self.folders)

    def close(self) -> None:
        """Free the buffers and release the lock; the files stay."""
        self._is_open = False
        self._buffers = []
        self.keep_in_memory(0)
        self._unlock()

    def __enter__(self) -> BlockStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
