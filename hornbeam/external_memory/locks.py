"""Who may use the folders of a cache: many readers, or one builder alone.

The locks are the kernel's own (flock), so that they end with the process that holds
them, however it ends. A lock is given up by closing its file, never by unlocking it: a
child made by fork may hold the same file.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hornbeam.errors import DataError, ErrorCode
from hornbeam.external_memory.folders import LOCK

__all__ = ["FolderLock"]

#: Seconds between two looks at a lock that another process holds, and until the user
#: is told what is waited for.
_PAUSE = 0.05
_PATIENCE = 1.0


class FolderLock:
    """A hold on all folders of a cache.

    Parameters
    ----------
    folders
        They exist.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        # In one order for all, so that no two wait for each other.
        self._paths = sorted(folder / LOCK for folder in folders)
        self._files: list[int] = []
        self.is_alone = False

    def wait(self) -> None:
        """Hold the folders alone, or else together with others that read.

        Waits while another builds, and says so on stderr after a second.
        """
        begin, told = time.monotonic(), False
        while not (self.try_hold(alone=True) or self.try_hold(alone=False)):
            if not told and time.monotonic() - begin > _PATIENCE:
                told = True
                place = str(self._paths[0].parent)
                sys.stderr.write(
                    f"hornbeam: waiting for another process (or matrix) that makes "
                    f"the cache in {place!r}\n"
                )
                sys.stderr.flush()
            time.sleep(_PAUSE)

    def try_hold(self, *, alone: bool) -> bool:
        """Hold the folders alone, or shared, if that can be at once.

        Otherwise what was held is held no more.
        """
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        if not self._files:
            self._files = [_open(path) for path in self._paths]
        try:
            for path, file in zip(self._paths, self._files, strict=True):
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                if not _is_same(path, file):  # it was deleted before we had it
                    self.close()
                    return False
        except BlockingIOError:
            self.close()
            return False
        self.is_alone = alone
        return True

    def remove(self) -> None:
        """Delete the files of the lock, which must be held alone, and give it up."""
        for path in self._paths:
            path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Give the folders up."""
        files, self._files, self.is_alone = self._files, [], False
        for file in files:
            os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise DataError(
            f"the cache folder {str(path.parent)!r} is not writable "
            f"({error.strerror or error}); name another, or change its permissions",
            code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
        ) from None


def _is_same(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
