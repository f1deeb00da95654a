"""Writing files: regular files are replaced atomically, other files are written to.

A regular file is written under a temporary name in its folder, then renamed. The
process that writes it has locked it (flock), so that a later one recognises and removes
the files of processes that were killed.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from hornbeam.system import (
    FLAGS,
    FLAGS_OF_FOLDERS,
    FLAGS_OF_STRANGERS,
    REPLACES_OPEN_FILES,
    copy_mode,
    lock,
)

__all__ = [
    "check_place",
    "create_temporary",
    "naming",
    "remove_abandoned",
    "replace_file",
    "replacing",
]

#: Paths that stand for an open file descriptor of this process.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}

_TEMPORARY_NAME = re.compile(r"\.hornbeam-[0-9a-f]{16}\.tmp")

#: How to correct an error of saving; a read-only folder has none of these.
_ADVICE = {
    errno.ENOSPC: "free some space, or choose a folder on a larger disk",
    errno.EDQUOT: "free some space, or choose a folder on another disk",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EIO: "the disk may be failing; choose a folder on another one",
    errno.EBUSY: "a mount point cannot be replaced; choose a file in a folder",
    errno.EPIPE: "its reader has closed it",
}


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise an error if `path` is a folder, or in a folder that does not exist."""
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(place.parent)!r} to save {place.name!r} in; "
            "create it, or choose another"
        )
    if place.is_dir():
        raise IsADirectoryError(f"{str(place)!r} is a folder; name a file in it")


def replace_file(
    path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]
) -> None:
    """Write `pieces` to the file `path`, as `replacing` does."""
    with replacing(path) as file:
        file.writelines(pieces)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open `path` for writing; a regular file is replaced atomically afterwards.

    Whatever fails on the way, a regular file has either its old content or all that was
    written. A symbolic link stays, and its target is replaced. A device, a FIFO or a
    path of an open descriptor, such as ``/dev/stdout``, is written to in place: it gets
    what was written before an error.

    An error of writing is an OSError that names the file.
    """
    descriptor = _open_special(path)
    if descriptor is not None:
        with _output(descriptor, Path(path)) as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    check_place(target)
    with _saving(target):
        descriptor, temporary = create_temporary(target.parent)
    try:
        with _output(descriptor, target) as file:
            yield file
            file.flush()
            with _saving(target):
                with suppress(FileNotFoundError):
                    copy_mode(descriptor, target)
                os.fsync(descriptor)
                if REPLACES_OPEN_FILES:  # nobody removes it before it is in its place
                    os.replace(temporary, target)
        if not REPLACES_OPEN_FILES:
            with _saving(target):
                os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with _saving(target):
        _sync_folder(target.parent)


def create_temporary(folder: Path) -> tuple[int, Path]:
    """Create a locked file in a folder; return its descriptor and its path.

    Temporary files of processes that have ended are removed first.
    """
    remove_abandoned(folder)
    while True:
        path = folder / f".hornbeam-{os.urandom(8).hex()}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS
        descriptor = os.open(path, flags, 0o666)
        # Where files cannot be locked, nobody removes them either.
        with suppress(OSError):
            lock(descriptor, exclusive=True, wait=True)
        if path.exists():
            return descriptor, path
        os.close(descriptor)  # removed by another process before it was locked


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files that no process has locked."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not _TEMPORARY_NAME.fullmatch(entry.name):
                continue
            with suppress(OSError):
                descriptor = os.open(entry.path, os.O_WRONLY | FLAGS_OF_STRANGERS)
                try:
                    lock(descriptor, exclusive=True, wait=False)
                    os.unlink(entry.path)
                finally:
                    os.close(descriptor)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the name of the file to an OSError of reading it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def _open_special(path: str | os.PathLike[str]) -> int | None:
    """Return a descriptor for writing to a special file; None if it is not one.

    Special files are devices, FIFOs and the paths of open descriptors.
    """
    name = os.path.abspath(path)
    found = _DESCRIPTOR.fullmatch(name)
    descriptor = int(found[1]) if found else _STANDARD_STREAMS.get(name)
    with _saving(Path(path)):
        if descriptor is not None:
            # A duplicate shares the offset: output redirected to a regular file is
            # appended to what the process has written there.
            return os.dup(descriptor)
        try:
            mode = os.stat(path).st_mode
        except OSError:
            return None
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return None
        return os.open(path, os.O_WRONLY | FLAGS)


class _Output(io.FileIO):
    """A descriptor whose errors of writing name a file."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any) -> int:
        with _saving(self._path):
            return super().write(data)


def _output(descriptor: int, path: Path) -> BinaryIO:
    return io.BufferedWriter(_Output(descriptor, path))


@contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Turn an OSError into one that names the file that could not be saved."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "choose a folder that is writable")
        named = type(error)(
            f"cannot save {path.name!r} in {str(path.parent)!r}: {error.strerror}; "
            f"{advice}"
        )
        named.errno = error.errno
        raise named from error


def _sync_folder(folder: Path) -> None:
    """Make a new entry of a folder survive a crash."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | FLAGS_OF_FOLDERS)
    except PermissionError:  # not listed by us, or by nobody, as on Windows
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(descriptor)
