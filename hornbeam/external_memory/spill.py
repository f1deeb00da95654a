"""Arrays with one value per row that do not fit in memory, in unnamed files.

The files are unlinked as soon as they are open, so that the system frees them when the
process ends, however it ends.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode
from hornbeam.external_memory.folders import writing
from hornbeam.files import create_temporary
from hornbeam.system import REPLACES_OPEN_FILES, read_at, write_at

__all__ = ["SpillFiles"]


class SpillFiles:
    """Stores arrays on disk by name and block. It is thread-safe.

    Parameters
    ----------
    folders
        The folders, which exist. Blocks are stored in them in turn.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)
        self._files: list[int] = []
        self._ends = [0] * len(folders)
        #: Folder, offset, size in bytes and reserved bytes of each array.
        self._places: dict[tuple[str, int], tuple[int, int, int, int]] = {}
        self._lock = Lock()
        # What cannot be deleted while it is open is deleted at the end.
        self._paths: list[Path] = []
        self._free = weakref.finalize(self, _close, self._files, self._paths)
        for folder in folders:
            with writing(folder, 0):
                file, path = create_temporary(folder)
                self._files.append(file)
                if REPLACES_OPEN_FILES:
                    path.unlink()
                else:
                    self._paths.append(path)

    def save(self, name: str, block: int, array: npt.NDArray[Any]) -> None:
        """Store an array; it replaces the one of this name and block."""
        stored = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        with self._lock:
            place = self._places.get((name, block))
            if place is None or place[3] < stored.size:
                folder = block % len(self._files)
                place = folder, self._ends[folder], stored.size, stored.size
                self._ends[folder] += stored.size
            folder, offset, _, reserved = place
            self._places[name, block] = folder, offset, stored.size, reserved
        rest = stored.data
        with writing(self._folders[folder], stored.size):
            while rest:
                count = write_at(self._files[folder], rest, offset)
                rest, offset = rest[count:], offset + count

    def load(self, name: str, block: int, out: npt.NDArray[Any]) -> None:
        """Read the array that was last saved into `out` (C-contiguous, same size)."""
        folder, offset, size, _ = self._places[name, block]
        rest = out.reshape(-1).view(np.uint8).data
        if not out.flags.c_contiguous or rest.nbytes != size:
            raise ValueError(f"{name} of block {block} has {size} bytes")
        while rest:
            try:
                count = read_at(self._files[folder], [rest], offset)
            except OSError as error:
                count, why = 0, error.strerror
            else:
                why = "the file is shorter than it was"
            if count == 0:
                folder_name = str(self._folders[folder])
                raise DataError(
                    f"the state of rows in {folder_name!r} cannot be read again "
                    f"({why}); the disk may be failing: train again, from the last "
                    "checkpoint if there is one",
                    code=ErrorCode.CACHE_DAMAGED,
                )
            rest, offset = rest[count:], offset + count

    def close(self) -> None:
        """Free the disk space."""
        self._free()


def _close(files: list[int], paths: list[Path]) -> None:
    while files:
        os.close(files.pop())
    while paths:
        paths.pop().unlink(missing_ok=True)
