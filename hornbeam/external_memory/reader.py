"""Blocks from disk, in their order, read ahead while the one before is worked on."""

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
from hornbeam.external_memory.read_ahead import Buffer, ReadAhead, room
from hornbeam.external_memory.spill import SpillFiles
from hornbeam.external_memory.writer import replace_block
from hornbeam.memory import in_words

__all__ = ["Block", "BlockStore", "Rebuild"]

Codes = npt.NDArray[Any]
#: Makes the codes (columns, rows) of the rows from `begin` to `end` anew.
Rebuild = Callable[[int, int], Codes]


@dataclass(slots=True)
class Block:
    """Rows of a sweep. The arrays are valid until the next block is asked for.

    Attributes
    ----------
    number
        Of the block.
    begin, end
        Its rows.
    by_feature
        (columns, rows), C-contiguous. Only the columns that were asked for hold
        their codes, the others anything. (0, 0) if none were asked for.
    by_row
        (rows * columns,), or (0,) if not asked for.
    """

    number: int
    begin: int
    end: int
    by_feature: Codes
    by_row: Codes


class BlockStore:
    """The codes of all cells, in blocks on disk.

    Made by `open_store` and `open_or_build`. While it is open, nobody else makes
    another cache in its folders.

    Attributes
    ----------
    folders
        Where the blocks are.
    n_rows, n_columns, block_rows, n_blocks
        The shape.
    dtype
        Of the codes: uint8 or uint16.
    facts
        What was given to the writer's `finish`.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        manifest: Manifest,
        lock: FolderLock,
        mend: Rebuild | None = None,
    ) -> None:
        self.folders = list(folders)
        self.n_rows, self.n_columns = manifest.n_rows, manifest.n_columns
        self.block_rows, self.n_blocks = manifest.block_rows, len(manifest.blocks)
        self.dtype = np.dtype(manifest.dtype)
        self.facts = manifest.facts
        self._manifest, self._mend = manifest, mend
        self._verified = np.zeros((self.n_blocks, self.n_columns + 1), np.bool_)
        self._buffers: list[Buffer] = []
        #: Row-major copies that stay in memory, and those of them that are filled.
        self._kept: dict[int, Codes] = {}
        self._is_filled = np.zeros(self.n_blocks, np.bool_)
        self._lock = Lock()
        self._scratch_bytes = self._find_scratch_bytes()
        self._is_open = True
        self._unlock = weakref.finalize(self, lock.close)

    @property
    def n_bytes(self) -> int:
        """What the blocks take on disk."""
        return sum(entry.n_bytes for entry in self._manifest.blocks)

    def rows_of(self, block: int) -> tuple[int, int]:
        """Return where the rows of a block begin and end."""
        entry = self._manifest.blocks[block]
        return entry.begin, entry.end

    def path_of(self, block: int) -> Path:
        """Return the file of a block."""
        entry = self._manifest.blocks[block]
        return self.folders[entry.folder] / entry.file

    def keep_in_memory(self, n_bytes: int) -> int:
        """Keep row-major copies of blocks in memory, as many as fit in `n_bytes`.

        They are filled by the sweeps that ask for them, and later sweeps do not read
        them again. Returns the bytes that they take.
        """
        sizes = [(end - begin) * self.n_columns for begin, end in self._all_rows()]
        largest = max(sizes, default=1) * self.dtype.itemsize
        count = min(max(n_bytes, 0) // largest, self.n_blocks)
        # Spread evenly: what is read in between comes while these are worked on.
        chosen = {place * self.n_blocks // count for place in range(count)}
        with self._lock:
            left_out = [number not in chosen for number in range(self.n_blocks)]
            self._is_filled[left_out] = False
            # A sweep under way goes on with the old ones.
            self._kept = {
                number: self._kept[number]
                if number in self._kept
                else room(sizes[number], self.dtype)
                for number in sorted(chosen)
            }
            return sum(codes.nbytes for codes in self._kept.values())

    def _all_rows(self) -> list[tuple[int, int]]:
        return [self.rows_of(number) for number in range(self.n_blocks)]

    def ring_bytes(self, n_buffers: int, *, columns: bool, by_row: bool) -> int:
        """Return the memory that a sweep with so many buffers takes at most."""
        return n_buffers * self._buffer_bytes(columns, by_row) + self._scratch_bytes

    def _buffer_bytes(self, columns: bool, by_row: bool) -> int:
        rows = min(self.block_rows, self.n_rows)
        return (columns + by_row) * rows * self.n_columns * self.dtype.itemsize

    def _find_scratch_bytes(self) -> int:
        """Return what the threads need for runs that are not raw."""
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
        """Read blocks in the order of their numbers, one thread a folder ahead.

        ``with blocks.read_blocks([2, 5], by_row=True) as read: for block in read: ...``

        Parameters
        ----------
        columns
            The columns that are needed, None for all of them.
        by_row
            Whether the row-major copy is needed.
        ring_bytes
            The most memory for buffers; by default there are two a folder and one.
            DataError if two buffers do not fit.
        blocks
            Numbers of the blocks that are needed, None for all of them.

        A block that cannot be read, or is damaged and cannot be made again, raises a
        DataError with its name where it would have come.
        """
        if not self._is_open:
            raise ValueError("these pages are closed")
        chosen = range(self.n_columns) if columns is None else sorted({*columns})
        numbers = range(self.n_blocks) if blocks is None else sorted({*blocks})
        with self._lock:
            kept, is_filled = self._kept, self._is_filled.copy()
        wants = {
            number: (chosen, by_row and not is_filled[number]) for number in numbers
        }
        on_disk = [number for number in numbers if any(wants[number])]
        size = min(self._ring_size(bool(chosen), by_row, ring_bytes), len(on_disk))
        buffers = self._take_buffers(size)
        readings = [BlockReader() for _ in self.folders]
        entries = self._manifest.blocks

        def place(number: int, buffer: Buffer | None) -> Block:
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
            reading = readings[entries[number].folder]
            if after is not None:
                later = on_disk[after]
                reading.advise(self.path_of(later), entries[later], *wants[later])
            self._read(reading, place(number, buffers[slot]), *wants[number])

        lanes: list[list[int]] = [[] for _ in self.folders]
        for position, number in enumerate(on_disk):
            lanes[entries[number].folder].append(position)
        ahead = ReadAhead(lanes, size, read)

        def arrive() -> Iterator[Block]:
            position = 0
            for number in numbers:
                if not any(wants[number]):
                    yield place(number, None)
                    continue
                block = place(number, buffers[position % size])
                try:
                    ahead.wait(position)
                except DamagedBlockError as error:
                    self._make_again(number, error)
                    self._read_again(block, *wants[number])
                yield block
                ahead.release()
                position += 1

        try:
            ahead.start()
            yield arrive()
        finally:
            ahead.stop()
            with self._lock:
                self._buffers += buffers

    def _ring_size(self, columns: bool, by_row: bool, ring_bytes: int | None) -> int:
        wanted = 2 * len(self.folders) + 1
        if ring_bytes is None or self.n_blocks == 0:
            return wanted
        one = self._buffer_bytes(columns, by_row)
        left = ring_bytes - self._scratch_bytes
        if one and left < 2 * one:
            needed = self.ring_bytes(2, columns=columns, by_row=by_row)
            raise DataError(
                f"two blocks of {self.block_rows} rows in memory need "
                f"{in_words(needed)}, and {in_words(ring_bytes)} are left for them; "
                "raise memory_limit",
                code=ErrorCode.MEMORY_LIMIT_TOO_SMALL,
            )
        return min(wanted, left // one) if one else wanted

    def _take_buffers(self, count: int) -> list[Buffer]:
        rows = min(self.block_rows, self.n_rows)
        with self._lock:
            taken, self._buffers = self._buffers[:count], self._buffers[count:]
        missing = count - len(taken)
        cells = rows * self.n_columns
        return taken + [Buffer(cells, self.dtype) for _ in range(missing)]

    def _read(
        self, reading: BlockReader, block: Block, columns: Sequence[int], by_row: bool
    ) -> None:
        path = self.path_of(block.number)
        try:
            reading.read(
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
                self._is_filled[block.number] = True

    def _read_again(self, block: Block, columns: Sequence[int], by_row: bool) -> None:
        try:
            self._read(BlockReader(), block, columns, by_row)
        except DamagedBlockError as error:
            path = str(self.path_of(block.number))
            raise DataError(
                f"block {block.number} in {path!r} was made again and is damaged "
                f"still: {error}; the disk may be failing",
                code=ErrorCode.CACHE_DAMAGED,
            ) from None

    def _make_again(self, number: int, damage: DamagedBlockError) -> None:
        """Replace the file of a damaged block."""
        entry, path = self._manifest.blocks[number], self.path_of(number)
        what = (
            f"block {number} (rows {entry.begin} to {entry.end}) of the cache is "
            f"damaged: {str(path)!r}: {damage}"
        )
        manifest = str(self.folders[0] / MANIFEST)
        if self._mend is None:
            raise DataError(
                f"{what}; delete {manifest!r} and make the cache again",
                code=ErrorCode.CACHE_DAMAGED,
            ) from None
        codes = np.ascontiguousarray(self._mend(entry.begin, entry.end), self.dtype)
        shape = self.n_columns, entry.end - entry.begin
        if codes.shape != shape or crc_of(codes) != entry.crc:
            raise DataError(
                f"{what}; the source gives other rows now than when the cache was "
                f"made: delete {manifest!r} and make it again",
                code=ErrorCode.SOURCE_CHANGED,
            )
        pieces, segments, _ = encode_block(codes, same_encodings(entry.segments, codes))
        replace_block(path, pieces)
        if segments != entry.segments:
            entry.segments = segments
            write_manifest(self.folders, self._manifest)
            self._scratch_bytes = self._find_scratch_bytes()
        self._verified[number] = False
        warnings.warn(f"{what}; it was made again from the source", stacklevel=4)

    def open_spill(self) -> SpillFiles:
        """Return room in the same folders for what rows need beside their codes."""
        return SpillFiles(self.folders)

    def close(self) -> None:
        """Free the buffers and let others have the folders; the files stay."""
        self._is_open = False
        self._buffers = []
        self.keep_in_memory(0)
        self._unlock()

    def __enter__(self) -> BlockStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
