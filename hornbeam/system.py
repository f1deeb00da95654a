"""Calls of the system that not every platform has, each with what stands in for it.

Linux has all of them. macOS lacks the advice on reading and huge pages; Windows lacks
locks that are shared, reading and writing at an offset, and replacing an open file.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "FLAGS",
    "FLAGS_OF_FOLDERS",
    "FLAGS_OF_STRANGERS",
    "REPLACES_OPEN_FILES",
    "advise_reading",
    "copy_mode",
    "lock",
    "map_memory",
    "read_at",
    "write_at",
]

#: Flags of all files: no child process has them open, and no line ends are changed.
FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Flags of a file that another program may have put there: no link, no waiting.
FLAGS_OF_STRANGERS = FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
FLAGS_OF_FOLDERS = FLAGS | getattr(os, "O_DIRECTORY", 0)
#: Whether a file can be renamed or deleted while it is open.
REPLACES_OPEN_FILES = os.name != "nt"

#: The position of a file is shared, so one thread at a time seeks and reads.
_SEEKING = Lock()


def lock(file: int, *, exclusive: bool, wait: bool) -> None:
    """Lock a file until it is closed.

    Raises a `BlockingIOError` if another process has locked it and `wait` is false, and
    an `OSError` with the number ENOLCK if the system has no such locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, "this system has no shared locks on files")
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)


def copy_mode(file: int, path: str | os.PathLike[str]) -> None:
    """Give an open file the permissions of another, where files have any."""
    if hasattr(os, "fchmod"):
        os.fchmod(file, os.stat(path).st_mode & 0o7777)


def read_at(file: int, buffers: Sequence[Any], offset: int) -> int:
    """Read bytes from an offset into buffers; return how many were read."""
    if hasattr(os, "preadv"):
        return os.preadv(file, buffers, offset)
    with _SEEKING:
        os.lseek(file, offset, os.SEEK_SET)
        found = os.read(file, len(buffers[0]))
    buffers[0][: len(found)] = found
    return len(found)


def write_at(file: int, data: Any, offset: int) -> int:
    """Write bytes at an offset; return how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(file, data, offset)
    with _SEEKING:
        os.lseek(file, offset, os.SEEK_SET)
        return os.write(file, data)


def advise_reading(file: int, offset: int, length: int) -> None:
    """Tell the system that a part of a file will be read soon."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, offset, length, os.POSIX_FADV_WILLNEED)


def map_memory(size: int) -> mmap.mmap:
    """Return memory in pages of its own, huge ones if the system has them."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
