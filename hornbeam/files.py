"""Files are replaced as a whole, or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(
    path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]
) -> None:
    """Put a file of these pieces in the place of `path` in one step.

    Whatever happens on the way, `path` holds either what it held before or all the
    pieces. A link stays one, and what it points to is replaced.
    """
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(place.parent)!r} to save {place.name!r} in; "
            "make it, or name another"
        )
    if place.is_dir():
        raise IsADirectoryError(f"{str(place)!r} is a folder; name a file in it")
    temporary = place.with_name(f".hornbeam-{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise type(error)(
            f"cannot save {place.name!r} in {str(place.parent)!r}: {error.strerror}; "
            "choose a folder that may be written to"
        ) from error
    try:
        with open(descriptor, "wb") as file:
            if place.exists():
                os.fchmod(descriptor, stat.S_IMODE(place.stat().st_mode))
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
