"""One block of rows as a file: its columns one after the other, then its rows."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.external_memory.codecs import (
    Encoding,
    choose_encoding,
    decode,
    encode,
    fits_nibble,
)
from hornbeam.external_memory.manifest import BlockEntry, Segment
from hornbeam.kernels.binning import interleave

__all__ = [
    "BLOCK_ROWS",
    "BlockReader",
    "DamagedBlockError",
    "choose_encodings",
    "encode_block",
]

#: Rows of a block: a column of bytes is then a quarter of a megabyte, one good read.
BLOCK_ROWS = 1 << 18
#: Buffers that one call of preadv takes (IOV_MAX of Linux).
_MOST_BUFFERS = 1024

Codes = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


class DamagedBlockError(Exception):
    """What is wrong with a block's file."""


def crc_of(by_feature: Codes) -> int:
    """Return the CRC-32 of the CRC-32s of the columns, whatever their codecs."""
    raw = Encoding("raw")
    return _join(zlib.crc32(encode(raw, column)) for column in by_feature)


def _join(crcs: Iterable[int]) -> int:
    return zlib.crc32(np.fromiter(crcs, "<u4").data)


def row_major(by_feature: Codes) -> Codes:
    """Return the codes (columns, rows) row after row, (rows * columns,)."""
    by_row = np.empty(by_feature.size, by_feature.dtype)
    interleave(by_feature, 0, by_feature.shape[1], by_row)
    return by_row


def choose_encodings(codec: str, by_feature: Codes) -> list[Encoding]:
    """Return how to lay down each column and the row-major copy of such blocks."""
    choices = [choose_encoding(codec, column, 1) for column in by_feature]
    return [*choices, choose_encoding(codec, row_major(by_feature), len(by_feature))]


def same_encodings(segments: Sequence[Segment], by_feature: Codes) -> list[Encoding]:
    """Return how to lay down a block as it was, from its segments."""
    runs = [*by_feature, row_major(by_feature)]
    widths = [*([1] * len(by_feature)), len(by_feature)]
    return [
        choose_encoding(segment.codec, run, width)
        for segment, run, width in zip(segments, runs, widths, strict=True)
    ]


def encode_block(
    by_feature: Codes, choices: Sequence[Encoding]
) -> tuple[list[memoryview], list[Segment], int]:
    """Return the pieces of a block's file, what is where in it, and its `crc_of`.

    A run that has become too large for nibbles is laid down raw.
    """
    pieces: list[memoryview] = []
    segments: list[Segment] = []
    crcs: list[int] = []
    offset = 0
    for run, choice in zip([*by_feature, row_major(by_feature)], choices, strict=True):
        if choice.codec == "nibble" and not fits_nibble(run):
            choice = Encoding("raw")
        piece = encode(choice, run)
        pieces.append(piece)
        crc = zlib.crc32(piece)
        segments.append(Segment(choice.codec, offset, piece.nbytes, crc))
        offset += piece.nbytes
        if len(crcs) < len(by_feature):
            is_raw = choice.codec == "raw"
            crcs.append(crc if is_raw else zlib.crc32(encode(Encoding("raw"), run)))
    return pieces, segments, _join(crcs)


class BlockReader:
    """Reads the segments of blocks, one after the other, in one thread."""

    def __init__(self) -> None:
        self._stored = np.empty(0, np.uint8)

    def advise(
        self, path: Path, entry: BlockEntry, columns: Sequence[int], by_row: bool
    ) -> None:
        """Have the system read ahead what is asked of a block, if it can."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # whoever reads it will say so
        try:
            for offset, length in _ranges(entry, columns, by_row):
                os.posix_fadvise(file, offset, length, os.POSIX_FADV_WILLNEED)
        except OSError:
            return
        finally:
            os.close(file)

    def read(
        self,
        path: Path,
        entry: BlockEntry,
        columns: Sequence[int],
        by_row: bool,
        by_feature: Codes,
        rows: Codes,
        verified: npt.NDArray[np.bool_],
    ) -> None:
        """Read one block.

        Parameters
        ----------
        path
            Its file.
        entry
            What should be in it.
        columns
            The columns to read, ascending.
        by_row
            Whether to read the row-major copy too.
        by_feature
            (columns, rows), C-contiguous, out.
        rows
            (rows * columns,), out.
        verified
            (segments,) bool: whose checksums are known to be right; updated.
        """
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise DamagedBlockError("it is not there") from None
        try:
            size = os.fstat(file).st_size
            if size != entry.n_bytes:
                raise DamagedBlockError(f"it has {size} bytes, not {entry.n_bytes}")
            waiting: list[tuple[Segment, Bytes, int]] = []
            for place in _places(entry, columns, by_row):
                segment = entry.segments[place]
                is_row = place == len(entry.segments) - 1
                out = rows if is_row else by_feature[place]
                if segment.codec == "raw":
                    waiting.append((segment, out.view(np.uint8), place))
                    continue
                stored = self._scratch(segment.length)
                _read_at(file, segment.offset, [stored])
                _verify(segment, stored, place, verified)
                try:
                    decode(segment.codec, stored, out)
                except (ValueError, RuntimeError) as error:
                    raise DamagedBlockError(f"segment {place}: {error}") from None
            _read_raw(file, waiting, verified)
        finally:
            os.close(file)

    def _scratch(self, size: int) -> Bytes:
        if self._stored.size < size:
            self._stored = np.empty(size, np.uint8)
        return self._stored[:size]


def _places(entry: BlockEntry, columns: Sequence[int], by_row: bool) -> list[int]:
    return [*columns, *([len(entry.segments) - 1] if by_row else [])]


def _ranges(
    entry: BlockEntry, columns: Sequence[int], by_row: bool
) -> list[tuple[int, int]]:
    """Return the (offset, length) of what is read, neighbours as one."""
    ranges: list[tuple[int, int]] = []
    for place in _places(entry, columns, by_row):
        _, offset, length, _ = entry.segments[place]
        if ranges and sum(ranges[-1]) == offset:
            ranges[-1] = ranges[-1][0], ranges[-1][1] + length
        else:
            ranges.append((offset, length))
    return ranges


def _read_raw(
    file: int,
    waiting: Sequence[tuple[Segment, Bytes, int]],
    verified: npt.NDArray[np.bool_],
) -> None:
    """Read raw segments to where they belong, neighbours in one call."""
    begin = 0
    for i in range(1, len(waiting) + 1):
        if i < len(waiting) and i - begin < _MOST_BUFFERS:
            before = waiting[i - 1][0]
            if waiting[i][0].offset == before.offset + before.length:
                continue
        group = waiting[begin:i]
        if group:
            _read_at(file, group[0][0].offset, [view for _, view, _ in group])
        begin = i
    for segment, view, place in waiting:
        _verify(segment, view, place, verified)


def _read_at(file: int, offset: int, views: Sequence[Bytes]) -> None:
    """Fill the views from `offset` on."""
    left = sum(view.size for view in views)
    parts = [view.data for view in views]
    while left:
        count = os.preadv(file, parts, offset)
        if count == 0:
            raise DamagedBlockError(f"it ends at byte {offset}")
        left -= count
        offset += count
        while parts and count >= parts[0].nbytes:
            count -= parts[0].nbytes
            parts = parts[1:]
        if count:
            parts = [parts[0][count:], *parts[1:]]


def _verify(
    segment: Segment, stored: Bytes, place: int, verified: npt.NDArray[np.bool_]
) -> None:
    if verified[place]:
        return
    if zlib.crc32(stored.data) != segment.crc:
        raise DamagedBlockError(f"the checksum of its segment {place} does not fit")
    verified[place] = True
