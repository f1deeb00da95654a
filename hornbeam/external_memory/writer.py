"""Writes bins to blocks on disk, and their manifest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode
from hornbeam.external_memory.blocks import BLOCK_ROWS, choose_encodings, encode_block
from hornbeam.external_memory.codecs import Encoding, check_codec
from hornbeam.external_memory.folders import block_name, check_space, writing
from hornbeam.external_memory.manifest import BlockEntry, Manifest, write_manifest
from hornbeam.files import replace_file

__all__ = ["BlockWriter", "replace_block"]


class BlockWriter:
    """Writes bins as blocks, in turn to each folder of a cache.

    `open_or_build` makes it, locks the folders, and deletes the files if writing fails.

    Parameters
    ----------
    folders
        The folders of the cache.
    fingerprint
        Fingerprint of the source.
    n_rows, n_columns
        Number of rows and columns that will be written.
    dtype
        uint8 or uint16.
    codec
        "auto", "raw", "nibble" (for bins below 16, else raw) or "lz4". The encoding of
        each column is chosen from the first block.
    block_rows
        Rows of a block.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        fingerprint: str,
        n_rows: int,
        n_columns: int,
        dtype: npt.DTypeLike,
        *,
        codec: str = "auto",
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        check_codec(codec)
        self._folders = list(folders)
        self._manifest = Manifest(
            fingerprint,
            len(self._folders),
            n_rows,
            n_columns,
            block_rows,
            np.dtype(dtype).name,
            {},
            [],
        )
        if self._manifest.dtype not in ("uint8", "uint16"):
            raise ValueError(f"bins must be uint8 or uint16, not {dtype}")
        self._codec = codec
        self._build = os.urandom(8).hex()
        self._encodings: list[Encoding] = []
        rows = min(block_rows, max(n_rows, 1))
        self._block: npt.NDArray[Any] = np.empty((n_columns, rows), dtype)
        self._other = np.empty_like(self._block)
        self._block_end = 0  # number of rows in `_block`
        self._rows = 0  # number of rows so far
        # One block is encoded and written while the next is filled.
        self._thread = ThreadPoolExecutor(1, "hornbeam-pages")
        self._writing: Future[None] | None = None

    def write(self, bins: npt.NDArray[Any]) -> None:
        """Write the bins of the next rows, (columns, rows), in the writer's dtype."""
        n_columns, rows = bins.shape
        if n_columns != self._manifest.n_columns or bins.dtype != self._block.dtype:
            raise ValueError(
                f"bins are {bins.dtype} in {n_columns} columns, not "
                f"{self._block.dtype} in {self._manifest.n_columns}"
            )
        self._rows += rows
        if self._rows > self._manifest.n_rows:
            self._raise_changed(f"{self._rows} or more")
        begin = 0
        while begin < rows:
            end = min(rows, begin + self._block.shape[1] - self._block_end)
            block_end = self._block_end + end - begin
            self._block[:, self._block_end : block_end] = bins[:, begin:end]
            self._block_end, begin = block_end, end
            if block_end == self._block.shape[1]:
                self._flush()

    def _raise_changed(self, rows: str) -> None:
        raise DataError(
            f"the source yielded {self._manifest.n_rows} rows when its cuts were "
            f"found, and {rows} when its bins were written; do not change it while a "
            "matrix is made from it",
            code=ErrorCode.SOURCE_CHANGED,
        )

    def _flush(self) -> None:
        """Write the rows in `_block` as a block."""
        if self._block_end == 0:
            return
        self._wait()
        bins = np.ascontiguousarray(self._block[:, : self._block_end])
        self._writing = self._thread.submit(self._write_block, bins)
        self._block, self._other = self._other, self._block
        self._block_end = 0

    def _wait(self) -> None:
        """Wait until the block before is written; raise the error of writing it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write_block(self, bins: npt.NDArray[Any]) -> None:
        number = len(self._manifest.blocks)
        if not self._encodings:
            self._encodings = choose_encodings(self._codec, bins)
        pieces, segments, crc = encode_block(bins, self._encodings)
        folder = number % len(self._folders)
        begin = self._manifest.blocks[-1].end if number else 0
        end = begin + bins.shape[1]
        name = block_name(self._build, number)
        entry = BlockEntry(folder, name, begin, end, crc, segments)
        if number == 0:
            self._check_space(entry)
        _write_file(self._folders[folder] / name, pieces)
        self._manifest.blocks.append(entry)

    def abandon(self) -> None:
        """Stop writing. The files stay until the folders are cleaned."""
        self._thread.shutdown(cancel_futures=True)

    def _check_space(self, first: BlockEntry) -> None:
        """Raise a `DataError` if blocks of the size of the first do not fit."""
        n_blocks = -(-self._manifest.n_rows // self._block.shape[1])
        shares = [
            first.n_bytes * len(range(place, n_blocks, len(self._folders)))
            for place in range(len(self._folders))
        ]
        check_space(self._folders, shares)

    def finish(self, facts: dict[str, Any]) -> Manifest:
        """Write the last block and the manifest; `facts` is a JSON object.

        The blocks are not synced (fsync) before, which would take as long as reading
        them. Blocks that a power failure damages are found by length and checksum.
        """
        if self._rows != self._manifest.n_rows:
            self._raise_changed(str(self._rows))
        self._flush()
        self._wait()
        self._thread.shutdown()
        self._manifest.facts = facts
        write_manifest(self._folders, self._manifest)
        return self._manifest


def _write_file(path: Path, pieces: Sequence[memoryview]) -> None:
    """Write a new file."""
    count = sum(piece.nbytes for piece in pieces)
    with writing(path, count), open(path, "xb") as file:
        for piece in pieces:
            file.write(piece)


def replace_block(path: Path, pieces: Sequence[memoryview]) -> None:
    """Replace the file of a block."""
    count = sum(piece.nbytes for piece in pieces)
    with writing(path, count):
        replace_file(path, pieces)
