"""Cache folders: their files, locks and free space."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.memory import in_words

__all__ = [
    "BLOCK_NAME",
    "FORMAT",
    "LOCK",
    "MANIFEST",
    "FolderLock",
    "as_folders",
    "block_name",
    "check_space",
    "clean_folders",
    "make_folders",
    "remove_empty",
    "spill_name",
    "writing",
]

MANIFEST = "hornbeam-pages.json"
LOCK = "hornbeam-pages.lock"
#: How every manifest begins, half-written ones too.
FORMAT = b'{"format": "hornbeam pages"'
BLOCK_NAME = re.compile(r"hornbeam-[0-9a-f]{16}-[0-9]{8}\.block")
_SPILL_NAME = re.compile(r"hornbeam-[0-9a-f]{16}\.spill")
_TEMPORARY_NAME = re.compile(r"\.hornbeam-[0-9a-f]{16}\.tmp")

Folder = str | os.PathLike[str]
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def as_folders(cache: Folder | Sequence[Folder]) -> list[Path]:
    """Return the folders of a cache, none named twice."""
    named = [cache] if isinstance(cache, (str, os.PathLike)) else cache
    if (
        not isinstance(named, (list, tuple))
        or not named
        or not all(isinstance(one, (str, os.PathLike)) for one in named)
    ):
        raise ParameterError(
            f"cache must be a folder or a list of folders, not {cache!r}",
            code=ErrorCode.INVALID_CACHE_FOLDER,
        )
    folders = [Path(os.path.realpath(one)) for one in named]
    for place, folder in enumerate(folders):
        if folder in folders[:place]:
            raise ParameterError(
                f"cache names the folder {str(folder)!r} twice; name each once, "
                "best one of each disk",
                code=ErrorCode.INVALID_CACHE_FOLDER,
            )
    return folders


def make_folders(folders: Sequence[Path]) -> list[Path]:
    """Make the folders that are not there yet, and return these."""
    made: list[Path] = []
    for folder in folders:
        if folder.is_dir():
            continue
        if folder.exists():
            raise DataError(
                f"cache names {str(folder)!r}, which is a file; name a folder, which "
                "is made where it does not exist",
                code=ErrorCode.INVALID_CACHE_FOLDER,
            )
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            if folder.is_dir():  # another process has just made it
                continue
            remove_empty(made)
            raise DataError(
                f"the cache folder {str(folder)!r} cannot be made "
                f"({error.strerror or error}); name another",
                code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
            ) from None
        made.append(folder)
    return made


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of the folders that hold nothing."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            continue


def block_name(build: str, number: int) -> str:
    """Return the name of a block's file; `build` is 16 hexadecimal digits."""
    return f"hornbeam-{build}-{number:08d}.block"


def spill_name() -> str:
    """Return a new name for a file of rows that are set aside."""
    return f"hornbeam-{os.urandom(8).hex()}.spill"


def clean_folders(folders: Sequence[Path]) -> None:
    """Delete what a cache, whole or half-made, left in its folders.

    Files with other names than ours stay as they are, and so do folders.
    """
    # The manifest first: without it, what is left is known to be rubbish.
    paths = [folder / MANIFEST for folder in folders]
    paths += [path for folder in folders for path in _ours(folder)]
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(
                f"{str(path)!r} is left of an older cache and cannot be deleted "
                f"({error.strerror or error}); name another folder as the cache",
                code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
            ) from None


def _ours(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                continue
            name = entry.name
            path = folder / name
            if BLOCK_NAME.fullmatch(name) or _SPILL_NAME.fullmatch(name):
                yield path
            elif _TEMPORARY_NAME.fullmatch(name):
                # Other files are saved through such names too, perhaps just now.
                with open(path, "rb") as file:
                    if file.read(len(FORMAT)) == FORMAT:
                        yield path


def check_space(folders: Sequence[Path], shares: Sequence[int]) -> None:
    """Refuse to begin what the disks do not hold.

    `shares` are the bytes that each folder is to take. Folders on one disk share it.
    """
    needed: dict[int, int] = {}
    for folder, share in zip(folders, shares, strict=True):
        device = folder.stat().st_dev
        needed[device] = needed.get(device, 0) + share
        free = shutil.disk_usage(folder).free
        if needed[device] > free:
            raise DataError(
                f"the cache needs about {in_words(needed[device])} on the disk of "
                f"{str(folder)!r}, which has {in_words(free)} free; free some, name "
                "a folder on a larger disk, or name folders on several disks",
                code=ErrorCode.DISK_FULL,
            )


@contextmanager
def writing(path: Path, count: int) -> Iterator[None]:
    """Turn a failure to write `count` bytes to `path` into an error that says so."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise DataError(
                f"{str(path)!r} could not be written ({error.strerror or error}); "
                "name a cache folder that can be written to",
                code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
            ) from None
        limit = "a limit on the size of files" if error.errno == errno.EFBIG else ""
        quota = "the disk quota" if error.errno == errno.EDQUOT else ""
        raise DataError(
            f"{limit or quota or 'a full disk'} stopped the writing of "
            f"{in_words(count)} to {str(path)!r}; what was written of the cache is "
            "deleted: free some space, or name a folder (or several) on larger disks",
            code=ErrorCode.DISK_FULL,
        ) from None


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
        self.is_exclusive = False

    def wait(self) -> None:
        """Hold the folders alone, or else together with others that read.

        Waits while another builds, and says so on stderr after a second.
        """
        begin, told = time.monotonic(), False
        while not (self.try_lock(exclusive=True) or self.try_lock(exclusive=False)):
            if not told and time.monotonic() - begin > _PATIENCE:
                told = True
                place = str(self._paths[0].parent)
                sys.stderr.write(
                    f"hornbeam: waiting for another process (or matrix) that makes "
                    f"the cache in {place!r}\n"
                )
                sys.stderr.flush()
            time.sleep(_PAUSE)

    def try_lock(self, *, exclusive: bool) -> bool:
        """Hold the folders alone, or shared, if that can be at once.

        Otherwise what was held is held no more.
        """
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
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
        self.is_exclusive = exclusive
        return True

    def remove(self) -> None:
        """Delete the files of the lock, which must be held alone, and give it up."""
        for path in self._paths:
            path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Give the folders up."""
        files, self._files, self.is_exclusive = self._files, [], False
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
