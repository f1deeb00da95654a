"""From codes, in pieces of any size, to blocks on disk and their manifest."""

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
    """Writes codes as blocks, in turn to each folder of a cache.

    It is made by `open_or_build`, which holds the folders and cleans them up if
    anything goes wrong here.

    Parameters
    ----------
    folders
        Where to.
    fingerprint
        Of the source.
    n_rows, n_columns
        How many will come.
    dtype
        uint8 or uint16.
    codec
        "auto", "raw", "nibble" (where codes are below 16, else raw) or "lz4". The
        first block decides for each column.
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
            raise ValueError(f"codes are uint8 or uint16, not {dtype}")
        self._codec = codec
        self._build = os.urandom(8).hex()
        self._choices: list[Encoding] = []
        rows = min(block_rows, max(n_rows, 1))
        self._block: npt.NDArray[Any] = np.empty((n_columns, rows), dtype)
        self._other = np.empty_like(self._block)
        self._filled = 0  # rows of the block that is being filled
        self._rows = 0  # rows that came
        # One block is packed and written while the next is filled.
        self._thread = ThreadPoolExecutor(1, "hornbeam-pages")
        self._writing: Future[None] | None = None

    def write(self, codes: npt.NDArray[Any]) -> None:
        """Take the next rows, (columns, rows) in the dtype that was announced."""
        n_columns, rows = codes.shape
        if n_columns != self._manifest.n_columns or codes.dtype != self._block.dtype:
            raise ValueError(
                f"codes are {codes.dtype} in {n_columns} columns, not "
                f"{self._block.dtype} in {self._manifest.n_columns}"
            )
        self._rows += rows
        if self._rows > self._manifest.n_rows:
            self._refuse_change(f"{self._rows} or more")
        begin = 0
        while begin < rows:
            end = min(rows, begin + self._block.shape[1] - self._filled)
            filled = self._filled + end - begin
            self._block[:, self._filled : filled] = codes[:, begin:end]
            self._filled, begin = filled, end
            if filled == self._block.shape[1]:
                self._flush()

    def _refuse_change(self, rows: str) -> None:
        raise DataError(
            f"the source gave {self._manifest.n_rows} rows when its cuts were found, "
            f"and {rows} when its codes were written: it changed in between; leave it "
            "as it is while a matrix is made of it",
            code=ErrorCode.SOURCE_CHANGED,
        )

    def _flush(self) -> None:
        """Write the rows that wait as a block."""
        if self._filled == 0:
            return
        self._wait()
        codes = np.ascontiguousarray(self._block[:, : self._filled])
        self._writing = self._thread.submit(self._write_block, codes)
        self._block, self._other = self._other, self._block
        self._filled = 0

    def _wait(self) -> None:
        """Return when the block before is written; raise what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write_block(self, codes: npt.NDArray[Any]) -> None:
        number = len(self._manifest.blocks)
        if not self._choices:
            self._choices = choose_encodings(self._codec, codes)
        pieces, segments, crc = encode_block(codes, self._choices)
        folder = number % len(self._folders)
        begin = self._manifest.blocks[-1].end if number else 0
        end = begin + codes.shape[1]
        name = block_name(self._build, number)
        entry = BlockEntry(folder, name, begin, end, crc, segments)
        if number == 0:
            self._look_for_space(entry)
        _write_file(self._folders[folder] / name, pieces)
        self._manifest.blocks.append(entry)

    def abandon(self) -> None:
        """Write no more; what was written stays until the folders are cleaned."""
        self._thread.shutdown(cancel_futures=True)

    def _look_for_space(self, first: BlockEntry) -> None:
        """Refuse to begin if blocks like the first do not fit."""
        n_blocks = -(-self._manifest.n_rows // self._block.shape[1])
        shares = [
            first.n_bytes * len(range(place, n_blocks, len(self._folders)))
            for place in range(len(self._folders))
        ]
        check_space(self._folders, shares)

    def finish(self, facts: dict[str, Any]) -> Manifest:
        """Write what waits, and the manifest; `facts` are JSON-able.

        The blocks are not forced to the disk before it, which would take as long as
        reading them: what a power cut takes from them, lengths and checksums tell.
        """
        if self._rows != self._manifest.n_rows:
            self._refuse_change(str(self._rows))
        self._flush()
        self._wait()
        self._thread.shutdown()
        self._manifest.facts = facts
        write_manifest(self._folders, self._manifest)
        return self._manifest


def _write_file(path: Path, pieces: Sequence[memoryview]) -> None:
    """Write the pieces as a new file."""
    count = sum(piece.nbytes for piece in pieces)
    with writing(path, count), open(path, "xb") as file:
        for piece in pieces:
            file.write(piece)


def replace_block(path: Path, pieces: Sequence[memoryview]) -> None:
    """Put a file of these pieces in the place of a block's."""
    count = sum(piece.nbytes for piece in pieces)
    with writing(path, count):
        replace_file(path, pieces)
