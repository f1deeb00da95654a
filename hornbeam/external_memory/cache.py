"""Opens the cache of a data source, or builds it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hornbeam.errors import DataError, ErrorCode
from hornbeam.external_memory.codecs import check_codec
from hornbeam.external_memory.folders import (
    Folder,
    FolderLock,
    as_folders,
    clean_folders,
    make_folders,
    remove_empty,
)
from hornbeam.external_memory.manifest import Manifest, read_manifest
from hornbeam.external_memory.reader import BlockStore, Rebuild
from hornbeam.external_memory.writer import BlockWriter
from hornbeam.log import LOGGER

__all__ = ["open_or_build", "open_store"]

#: Seconds to wait for processes that hold a lock only to check the fingerprint.
_CHECK_SECONDS = 2.0
#: Most damaged blocks that are rebuilt one by one. With more, the whole cache is built
#: again.
_MAX_REBUILT = 4

#: Takes a function that makes a BlockWriter (n_rows, n_columns, dtype, codec=,
#: block_rows=), writes all rows, and returns the result of the writer's `finish`. To
#: start again, it makes another writer.
Build = Callable[[Callable[..., BlockWriter]], Manifest]


def open_store(
    folders: Folder | Sequence[Folder], fingerprint: str, rebuild: Rebuild | None = None
) -> BlockStore | None:
    """Return the blocks in a cache if they were built from this source, else None.

    Deletes the blocks of an unfinished build. Waits while another process builds the
    cache, with a notice on stderr after a second.

    Parameters
    ----------
    folders
        The cache folder, or several in the order in which the cache was built.
    fingerprint
        Fingerprint of the source.
    rebuild
        Rebuilds the rows of a damaged block; None: such a block raises a DataError.
    """
    paths = as_folders(folders)
    if not all(path.is_dir() for path in paths):
        return None
    lock = FolderLock(paths)
    try:
        while True:
            lock.wait()
            manifest, _ = _find(paths, fingerprint, rebuild is not None)
            if manifest is None:
                if lock.is_exclusive:
                    if _is_unfinished(paths):
                        clean_folders(paths)
                    lock.remove()
                lock.close()
                return None
            if lock.try_lock(exclusive=False):
                return BlockStore(paths, manifest, lock, rebuild)
    except BaseException:
        lock.close()
        raise


def open_or_build(
    folders: Folder | Sequence[Folder],
    fingerprint: str,
    build: Build,
    rebuild: Rebuild | None = None,
) -> BlockStore:
    """Return the blocks in a cache, built if they are not there.

    Of two processes that build the same cache, one waits and then opens the blocks of
    the other. A build that fails leaves no files; the files of a killed process are
    deleted when the cache is opened again.

    Parameters
    ----------
    folders, fingerprint, rebuild
        As for `open_store`. Folders that do not exist are created.
    build
        Called with a function that makes the BlockWriter of this cache; writes all rows
        and returns the result of the writer's `finish`: ``lambda new: fill(new(n_rows,
        n_columns, np.uint8, codec="auto"))``.
    """
    paths = as_folders(folders)
    made = make_folders(paths)
    lock = FolderLock(paths)
    begin, is_building = time.monotonic(), False
    writers: list[BlockWriter] = []
    try:
        while True:
            lock.wait()
            manifest, why = _find(paths, fingerprint, rebuild is not None)
            if manifest is None and lock.is_exclusive:
                if why:
                    LOGGER.warning("%s; the cache is made again", why)
                is_building = True
                clean_folders(paths)
                manifest = build(partial(_new_writer, writers, paths, fingerprint))
            if manifest is not None and lock.try_lock(exclusive=False):
                return BlockStore(paths, manifest, lock, rebuild)
            is_building = False
            lock.close()
            if manifest is None and time.monotonic() - begin > _CHECK_SECONDS:
                raise DataError(
                    f"the cache folder {str(paths[0])!r} is in use for other data; "
                    "pass another folder, or delete the matrix that uses it",
                    code=ErrorCode.CACHE_FOLDER_IN_USE,
                )
            time.sleep(_CHECK_SECONDS / 40)
    except BaseException:
        _abandon(writers)
        if is_building:
            clean_folders(paths)
            lock.remove()
        lock.close()
        remove_empty(made)
        raise


def _new_writer(
    writers: list[BlockWriter],
    paths: Sequence[Path],
    fingerprint: str,
    *shape: Any,
    **options: Any,
) -> BlockWriter:
    if writers:
        _abandon(writers)
        clean_folders(paths)
    writers.append(BlockWriter(paths, fingerprint, *shape, **options))
    return writers[-1]


def _abandon(writers: list[BlockWriter]) -> None:
    while writers:
        writers.pop().abandon()


def _find(
    folders: Sequence[Path], fingerprint: str, can_rebuild: bool
) -> tuple[Manifest | None, str]:
    """Return the manifest of this source; otherwise None and why it cannot be used."""
    try:
        manifest = read_manifest(folders)
    except DataError as error:
        return None, str(error)
    if manifest is None:
        return None, ""
    if manifest.fingerprint != fingerprint:
        return None, f"the cache in {str(folders[0])!r} was built from other data"
    for codec in {s.codec for entry in manifest.blocks for s in entry.segments}:
        check_codec(codec)
    paths = [(folders[entry.folder] / entry.file, entry) for entry in manifest.blocks]
    damaged = [path for path, entry in paths if _size_of(path) != entry.n_bytes]
    if len(damaged) > (_MAX_REBUILT if can_rebuild else 0):
        return None, f"{str(damaged[0])!r} is damaged ({len(damaged)} files in all)"
    return manifest, ""


def _size_of(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _is_unfinished(folders: Sequence[Path]) -> bool:
    """Return whether the folders have no manifest, as after an unfinished build."""
    try:
        return read_manifest(folders) is None
    except DataError:
        return True
