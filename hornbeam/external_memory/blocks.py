"""The file of one block of rows: its columns, then a row-major copy."""

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
from hornbeam.system import FLAGS, advise_reading, read_at

__all__ = [
    "BLOCK_ROWS",
    "BlockReader",
    "DamagedBlockError",
    "choose_encodings",
    "encode_block",
]

#: Rows of a block. A column of uint8 is then 256 KiB, a good size for one read.
BLOCK_ROWS = 1 << 18
#: Most buffers of one call of preadv (IOV_MAX of Linux).
_MAX_BUFFERS = 1024

Bins = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


class DamagedBlockError(Exception):
    """The file of a block is missing, truncated, or fails its checksum."""


def crc_of(by_feature: Bins) -> int:
    """Return the CRC-32 of the CRC-32s of the columns; it does not depend on codecs."""
    raw = Encoding("raw")
    return _join(zlib.crc32(encode(raw, column)) for column in by_feature)


def _join(crcs: Iterable[int]) -> int:
    return zlib.crc32(np.fromiter(crcs, "<u4").data)


def row_major(by_feature: Bins) -> Bins:
    """Return column-major bins (columns, rows) as row-major ones, (rows * columns,)."""
    by_row = np.empty(by_feature.size, by_feature.dtype)
    interleave(by_feature, 0, by_feature.shape[1], by_row)
    return by_row


def choose_encodings(codec: str, by_feature: Bins) -> list[Encoding]:
    """Return the encoding of each column and of the row-major copy."""
    encodings = [choose_encoding(codec, column, 1) for column in by_feature]
    return [*encodings, choose_encoding(codec, row_major(by_feature), len(by_feature))]


def same_encodings(segments: Sequence[Segment], by_feature: Bins) -> list[Encoding]:
    """Return encodings with the codecs of existing segments, to rewrite their block."""
    runs = [*by_feature, row_major(by_feature)]
    widths = [*([1] * len(by_feature)), len(by_feature)]
    return [
        choose_encoding(segment.codec, run, width)
        for segment, run, width in zip(segments, runs, widths, strict=True)
    ]


def encode_block(
    by_feature: Bins, encodings: Sequence[Encoding]
) -> tuple[list[memoryview], list[Segment], int]:
    """Return the encoded segments of a block, their places, and its `crc_of`.

    A segment with bins of 16 or more is stored raw instead of as nibbles.
    """
    pieces: list[memoryview] = []
    segments: list[Segment] = []
    crcs: list[int] = []
    offset = 0
    runs = [*by_feature, row_major(by_feature)]
    for run, encoding in zip(runs, encodings, strict=True):
        if encoding.codec == "nibble" and not fits_nibble(run):
            encoding = Encoding("raw")
        piece = encode(encoding, run)
        pieces.append(piece)
        crc = zlib.crc32(piece)
        segments.append(Segment(encoding.codec, offset, piece.nbytes, crc))
        offset += piece.nbytes
        if len(crcs) < len(by_feature):
            is_raw = encoding.codec == "raw"
            crcs.append(crc if is_raw else zlib.crc32(encode(Encoding("raw"), run)))
    return pieces, segments, _join(crcs)


class BlockReader:
    """Reads and decodes segments of blocks, in one thread."""

    def __init__(self) -> None:
        self._stored = np.empty(0, np.uint8)

    def advise(
        self, path: Path, entry: BlockEntry, columns: Sequence[int], by_row: bool
    ) -> None:
        """Tell the system which segments of a block will be read next (fadvise)."""
        try:
            file = os.open(path, os.O_RDONLY | FLAGS)
        except OSError:
            return  # `read` raises the error
        try:
            for offset, length in _ranges(entry, columns, by_row):
                advise_reading(file, offset, length)
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
        by_feature: Bins,
        rows: Bins,
        verified: npt.NDArray[np.bool_],
    ) -> None:
        """Read one block. Raises `DamagedBlockError` if its file is damaged.

        Parameters
        ----------
        path
            Its file.
        entry
            Its entry of the manifest.
        columns
            The columns to read, ascending.
        by_row
            Whether to read the row-major copy, too.
        by_feature
            (columns, rows), C-contiguous; output.
        rows
            (rows * columns,); output.
        verified
            (segments,) bool: segments whose checksums were verified; updated.
        """
        try:
            file = os.open(path, os.O_RDONLY | FLAGS)
        except FileNotFoundError:
            raise DamagedBlockError("the file is missing") from None
        try:
            size = os.fstat(file).st_size
            if size != entry.n_bytes:
                raise DamagedBlockError(
                    f"the file has {size} bytes, not {entry.n_bytes}"
                )
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
    """Return the (offset, length) to read; adjacent segments are one range."""
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
    """Read raw segments into their arrays; adjacent ones in one call of preadv."""
    begin = 0
    for i in range(1, len(waiting) + 1):
        if i < len(waiting) and i - begin < _MAX_BUFFERS:
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
    """Fill the arrays with the bytes of the file from `offset` on."""
    left = sum(view.size for view in views)
    parts = [view.data for view in views]
    while left:
        count = read_at(file, parts, offset)
        if count == 0:
            raise DamagedBlockError(f"the file ends at byte {offset}")
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
        raise DamagedBlockError(f"segment {place} has a wrong checksum")
    verified[place] = True
