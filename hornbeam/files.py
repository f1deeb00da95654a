"""Writing files: regular files are replaced atomically, other files are written to."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

__all__ = ["check_place", "open_special", "replace_file"]

#: Paths that stand for an open file descriptor of this process.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def open_special(path: str | os.PathLike[str]) -> BinaryIO | None:
    """Return `path` opened for writing if it is a special file; None if it is not.

    Special files are devices, FIFOs and the paths of open descriptors.
    """
    name = os.path.abspath(path)
    found = _DESCRIPTOR.fullmatch(name)
    descriptor = int(found[1]) if found else _STANDARD_STREAMS.get(name)
    try:
        if descriptor is not None:
            # A duplicate shares the offset: output redirected to a regular file is
            # appended to what the process has written there.
            return open(os.dup(descriptor), "wb")
        try:
            mode = os.stat(path).st_mode
        except OSError:
            return None
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return None
        return open(path, "wb")
    except OSError as error:
        raise _cannot_save(Path(path), error) from error


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
    """Write `pieces` to the file `path`, replacing a regular file atomically.

    Whatever fails on the way, a regular file has either its old content or all the
    pieces. A symbolic link stays, and its target is replaced. A device, a FIFO or a
    path of an open descriptor, such as ``/dev/stdout``, is written to in place: it
    gets the pieces written before an error.
    """
    special = open_special(path)
    if special is None:
        _replace_regular(Path(os.path.realpath(path)), pieces)
        return
    with special as file:
        file.writelines(pieces)


def _replace_regular(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    check_place(path)
    temporary = path.with_name(f".hornbeam-{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise _cannot_save(path, error) from error
    try:
        with open(descriptor, "wb") as file:
            if path.exists():
                os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
            file.writelines(pieces)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # The new directory entry must survive a crash as well.
        os.fsync(directory)
    finally:
        os.close(directory)


def _cannot_save(path: Path, error: OSError) -> OSError:
    return type(error)(
        f"cannot save {path.name!r} in {str(path.parent)!r}: {error.strerror}; "
        "choose a folder that is writable"
    )
