"""The manifest of a cache: its blocks, their files and their checksums.

It has two lines of JSON. The first has the format, its version and the SHA-256 of the
second line, which has the content. All of it is checked before files are opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hornbeam.errors import DataError, ErrorCode
from hornbeam.external_memory.codecs import STORED, stored_sizes
from hornbeam.external_memory.folders import BLOCK_NAME, MANIFEST, writing
from hornbeam.files import replace_file

__all__ = ["BlockEntry", "Manifest", "Segment", "read_manifest", "write_manifest"]

VERSION = 1
#: First bytes of every manifest.
FORMAT = b'{"format": "hornbeam pages"'


class Segment(NamedTuple):
    """The bytes of one column of a block, or of its row-major copy, in its file.

    Attributes
    ----------
    codec
        "raw", "nibble" or "lz4".
    offset, length
        Where the bytes are in the file.
    crc
        CRC-32 of the bytes.
    """

    codec: str
    offset: int
    length: int
    crc: int


@dataclass(slots=True)
class BlockEntry:
    """A block: its file, its rows, and its segments.

    Attributes
    ----------
    folder
        Index of its folder.
    file
        Name of its file.
    begin, end
        Its first row, and the row after its last.
    crc
        CRC-32 of its bins, which does not depend on codecs (`blocks.crc_of`).
    segments
        The columns in order, then the row-major copy.
    """

    folder: int
    file: str
    begin: int
    end: int
    crc: int
    segments: list[Segment]

    @property
    def n_bytes(self) -> int:
        """The length of the file."""
        last = self.segments[-1]
        return last.offset + last.length


@dataclass(slots=True)
class Manifest:
    """The content of a manifest.

    Attributes
    ----------
    fingerprint
        Fingerprint of the source, computed by the caller.
    n_folders, n_rows, n_columns, block_rows
        Number of folders, rows, columns, and rows of a block.
    dtype
        "uint8" or "uint16".
    facts
        JSON object that the caller stores with the blocks.
    blocks
        The blocks in the order of rows.
    """

    fingerprint: str
    n_folders: int
    n_rows: int
    n_columns: int
    block_rows: int
    dtype: str
    facts: dict[str, Any]
    blocks: list[BlockEntry]


def write_manifest(folders: Sequence[Path], manifest: Manifest) -> None:
    """Write the manifest into the first folder, atomically."""
    body = json.dumps(
        {
            "fingerprint": manifest.fingerprint,
            "n_folders": manifest.n_folders,
            "n_rows": manifest.n_rows,
            "n_columns": manifest.n_columns,
            "block_rows": manifest.block_rows,
            "dtype": manifest.dtype,
            "facts": manifest.facts,
            "blocks": [
                [e.folder, e.file, e.begin, e.end, e.crc, e.segments]
                for e in manifest.blocks
            ],
        }
    ).encode("ascii")
    sha = hashlib.sha256(body).hexdigest()
    head = FORMAT + f', "version": {VERSION}, "sha256": "{sha}"}}\n'.encode("ascii")
    path = folders[0] / MANIFEST
    with writing(path, len(head) + len(body) + 1):
        replace_file(path, [head, body, b"\n"])


def read_manifest(folders: Sequence[Path]) -> Manifest | None:
    """Return the manifest in these folders; None if there is none.

    Raises a DataError if the manifest is damaged or of another version.
    """
    path = folders[0] / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(
            f"{str(path)!r} cannot be read: {error}", code=ErrorCode.CACHE_DAMAGED
        ) from None
    try:
        return _parse(content, len(folders))
    except (
        *(ArithmeticError, IndexError, KeyError),
        *(RecursionError, TypeError, ValueError),
    ) as error:
        raise DataError(
            f"{str(path)!r} is not a valid manifest of a cache ({error}); delete it, "
            "or pass another folder",
            code=ErrorCode.CACHE_DAMAGED,
        ) from None


def _parse(content: bytes, n_folders: int) -> Manifest:
    first, _, body = content.partition(b"\n")
    body = body.removesuffix(b"\n")
    head = json.loads(first)
    if not isinstance(head, dict) or not first.startswith(FORMAT):
        raise ValueError("unknown format")
    if head["version"] != VERSION:
        raise ValueError(f"it has version {head['version']}, not {VERSION}")
    if hashlib.sha256(body).hexdigest() != head["sha256"]:
        raise ValueError("wrong checksum")
    data = json.loads(body)
    blocks = [
        BlockEntry(
            int(folder),
            str(file),
            int(begin),
            int(end),
            int(crc),
            [Segment(str(s[0]), int(s[1]), int(s[2]), int(s[3])) for s in segments],
        )
        for folder, file, begin, end, crc, segments in data["blocks"]
    ]
    manifest = Manifest(
        str(data["fingerprint"]),
        int(data["n_folders"]),
        int(data["n_rows"]),
        int(data["n_columns"]),
        int(data["block_rows"]),
        str(data["dtype"]),
        dict(data["facts"]),
        blocks,
    )
    _check(manifest, n_folders)
    return manifest


def _check(manifest: Manifest, n_folders: int) -> None:
    """Raise a ValueError for folders, files, offsets or sizes that are not valid."""
    if manifest.n_folders != n_folders:
        raise ValueError(f"the cache has {manifest.n_folders} folders, not {n_folders}")
    if manifest.dtype not in ("uint8", "uint16"):
        raise ValueError(f"its bins are {manifest.dtype}")
    if min(manifest.n_columns, manifest.block_rows) < 1:
        raise ValueError("it has no columns, or blocks without rows")
    item = np.dtype(manifest.dtype).itemsize
    row = 0
    for number, entry in enumerate(manifest.blocks):
        end = min(row + manifest.block_rows, manifest.n_rows)
        if (entry.begin, entry.end) != (row, end) or end <= row:
            raise ValueError(f"block {number} has rows {entry.begin} to {entry.end}")
        if not 0 <= entry.folder < n_folders:
            raise ValueError(f"block {number} is in folder {entry.folder}")
        if not BLOCK_NAME.fullmatch(entry.file):
            raise ValueError(f"block {number} is in the file {entry.file!r}")
        if len(entry.segments) != manifest.n_columns + 1:
            raise ValueError(f"block {number} has {len(entry.segments)} segments")
        offset = 0
        for place, segment in enumerate(entry.segments):
            width = manifest.n_columns if place == manifest.n_columns else 1
            if segment.codec not in STORED or segment.offset != offset:
                raise ValueError(f"segment {place} of block {number} is {segment}")
            least, most = stored_sizes(segment.codec, width * (end - row), item)
            if not least <= segment.length <= most:
                raise ValueError(f"segment {place} of block {number} is {segment}")
            offset += segment.length
        row = end
    if row != manifest.n_rows:
        raise ValueError(f"its blocks hold {row} of {manifest.n_rows} rows")
