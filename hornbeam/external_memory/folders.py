"""Cache folders: their files, locks and free space.

A cache is locked by many readers, or exclusively by one builder. The locks are those of
the kernel (flock), so that they end with their process, however it ends. A lock is
released by closing its file, never by unlocking it: a child process made by fork may
have the same file open.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.files import remove_abandoned
from hornbeam.log import LOGGER
from hornbeam.memory import in_words
from hornbeam.system import FLAGS, REPLACES_OPEN_FILES, lock

__all__ = [
    "BLOCK_NAME",
    "LOCK",
    "MANIFEST",
    "FolderLock",
    "as_folders",
    "block_name",
    "check_space",
    "clean_folders",
    "make_folders",
    "remove_empty",
    "writing",
]

MANIFEST = "hornbeam-pages.json"
LOCK = "hornbeam-pages.lock"
BLOCK_NAME = re.compile(r"hornbeam-[0-9a-f]{16}-[0-9]{8}\.block")

Folder = str | os.PathLike[str]
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def as_folders(cache: Folder | Sequence[Folder]) -> list[Path]:
    """Return the paths of the folders of a cache; raise if one is given twice."""
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
                f"cache lists the folder {str(folder)!r} twice; list each folder once, "
                "if possible one per disk",
                code=ErrorCode.INVALID_CACHE_FOLDER,
            )
    return folders


def make_folders(folders: Sequence[Path]) -> list[Path]:
    """Create the folders that do not exist, and return these."""
    made: list[Path] = []
    for folder in folders:
        if folder.is_dir():
            continue
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            if folder.is_dir():  # another process has just created it
                continue
            remove_empty(made)
            if folder.exists():
                raise DataError(
                    f"cache lists {str(folder)!r}, which is a file; pass a folder (it "
                    "is created if it does not exist)",
                    code=ErrorCode.INVALID_CACHE_FOLDER,
                ) from None
            raise DataError(
                f"the cache folder {str(folder)!r} cannot be created "
                f"({error.strerror or error}); pass another folder",
                code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
            ) from None
        made.append(folder)
    return made


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that are empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            continue


def block_name(build: str, number: int) -> str:
    """Return the file name of a block; `build` is 16 hexadecimal digits."""
    return f"hornbeam-{build}-{number:08d}.block"


def clean_folders(folders: Sequence[Path]) -> None:
    """Delete the files of a cache, complete or unfinished, from its folders.

    Other files and subfolders stay.
    """
    for folder in folders:
        remove_abandoned(folder)
    # Delete the manifest first: a cache without one counts as unfinished.
    paths = [folder / MANIFEST for folder in folders]
    paths += [path for folder in folders for path in _cache_files(folder)]
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(
                f"{str(path)!r} belongs to an older cache and cannot be deleted "
                f"({error.strerror or error}); pass another folder as cache",
                code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
            ) from None


def _cache_files(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            is_file = entry.is_file(follow_symlinks=False)
            if is_file and BLOCK_NAME.fullmatch(entry.name):
                yield folder / entry.name


def check_space(folders: Sequence[Path], shares: Sequence[int]) -> None:
    """Raise a `DataError` if the disks have too little free space.

    `shares` are the bytes that each folder needs. Folders can be on the same disk.
    """
    needed: dict[int, int] = {}
    for folder, share in zip(folders, shares, strict=True):
        device = folder.stat().st_dev
        needed[device] = needed.get(device, 0) + share
        free = shutil.disk_usage(folder).free
        if needed[device] > free:
            raise DataError(
                f"the cache needs about {in_words(needed[device])} on the disk of "
                f"{str(folder)!r}, which has {in_words(free)} free; free some space, "
                "or pass a folder on a larger disk or folders on several disks",
                code=ErrorCode.DISK_FULL,
            )


@contextmanager
def writing(path: Path, count: int) -> Iterator[None]:
    """Turn an OSError while `count` bytes are written to `path` into a `DataError`."""
    try:
        yield
    except OSError as error:
        assert error.errno is not None
        if error.errno not in _FULL:
            raise DataError(
                f"{str(path)!r} could not be written ({os.strerror(error.errno)}); "
                "pass a cache folder that is writable",
                code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
            ) from None
        limit = "a limit on the size of files" if error.errno == errno.EFBIG else ""
        quota = "the disk quota" if error.errno == errno.EDQUOT else ""
        raise DataError(
            f"{limit or quota or 'a full disk'} stopped the writing of "
            f"{in_words(count)} to {str(path)!r}; free some space, or pass a cache "
            "folder (or several) on larger disks",
            code=ErrorCode.DISK_FULL,
        ) from None


#: Seconds between two attempts to lock, and until a notice is printed.
_RETRY_SECONDS = 0.05
_NOTICE_SECONDS = 1.0


class FolderLock:
    """A lock, shared or exclusive, on all folders of a cache.

    Parameters
    ----------
    folders
        The folders, which exist.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        # Every process locks in the same order, so that there is no deadlock.
        self._paths = sorted(folder / LOCK for folder in folders)
        self._files: list[int] = []
        self.is_exclusive = False

    def wait(self) -> None:
        """Lock the folders exclusively, or shared if other readers have locked them.

        Waits while another process builds the cache, with a notice on stderr after a
        second.
        """
        begin, is_noticed = time.monotonic(), False
        while not (self.try_lock(exclusive=True) or self.try_lock(exclusive=False)):
            if not is_noticed and time.monotonic() - begin > _NOTICE_SECONDS:
                is_noticed = True
                place = str(self._paths[0].parent)
                LOGGER.info(
                    "waiting for another process (or matrix) that makes the cache in "
                    "%r",
                    place,
                )
            time.sleep(_RETRY_SECONDS)

    def try_lock(self, *, exclusive: bool) -> bool:
        """Return whether the folders could be locked without waiting.

        If not, any lock of this object is released.
        """
        if not self._files:
            self._files = [_open(path) for path in self._paths]
        try:
            for path, file in zip(self._paths, self._files, strict=True):
                with _without_locks():
                    lock(file, exclusive=exclusive, wait=False)
                if not _is_same(path, file):  # it was deleted before it was locked
                    self.close()
                    return False
        except BlockingIOError:
            self.close()
            return False
        self.is_exclusive = exclusive
        return True

    def remove(self) -> None:
        """Delete the lock files, which must be locked exclusively, and release them."""
        if not REPLACES_OPEN_FILES:
            self.close()
        for path in self._paths:
            path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Release the lock."""
        files, self._files, self.is_exclusive = self._files, [], False
        for file in files:
            os.close(file)


@contextmanager
def _without_locks() -> Iterator[None]:
    """Pass over the error of a system that has no locks on files."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOLCK:
            raise


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | FLAGS, 0o666)
    except OSError as error:
        raise DataError(
            f"the cache folder {str(path.parent)!r} is not writable "
            f"({error.strerror or error}); pass another, or change its permissions",
            code=ErrorCode.CACHE_FOLDER_NOT_WRITABLE,
        ) from None


def _is_same(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
