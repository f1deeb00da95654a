"""Opening a cache: the one that is there, if it fits, or a new one."""

from __future__ import annotations

import os
import sys
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

__all__ = ["open_or_build", "open_store"]

#: Seconds to wait for others that only look whether a cache is theirs.
_GLANCE = 2.0
#: Blocks that are made again one by one; for more the source had better be read anew.
_FEW = 4

#: Gets a maker of PageWriters (n_rows, n_columns, dtype, codec=, block_rows=), writes
#: all rows, and returns what the writer's `finish` returns. Another writer may be made
#: before that, to begin anew.
Build = Callable[[Callable[..., BlockWriter]], Manifest]


def open_store(
    folders: Folder | Sequence[Folder], fingerprint: str, mend: Rebuild | None = None
) -> BlockStore | None:
    """Return the pages in these folders if they were made of this source.

    None otherwise; what is half-made is deleted then. Waits while another process
    builds there, and says so on stderr after a second.

    Parameters
    ----------
    folders
        The folder of the cache, or several, in the order in which it was made.
    fingerprint
        Of the source.
    mend
        Makes a damaged block anew; without it such a block is a DataError.
    """
    places = as_folders(folders)
    if not all(place.is_dir() for place in places):
        return None
    lock = FolderLock(places)
    try:
        while True:
            lock.wait()
            manifest, _ = _find(places, fingerprint, mend is not None)
            if manifest is None:
                if lock.is_exclusive:
                    if _is_rubbish(places):
                        clean_folders(places)
                    lock.remove()
                lock.close()
                return None
            if lock.try_lock(exclusive=False):
                return BlockStore(places, manifest, lock, mend)
    except BaseException:
        lock.close()
        raise


def open_or_build(
    folders: Folder | Sequence[Folder],
    fingerprint: str,
    build: Build,
    mend: Rebuild | None = None,
) -> BlockStore:
    """Return the pages in these folders, made by `build` if they are not there.

    Of two that want to build, one does, and the other waits and then uses the same
    pages. Whatever stops the building, nothing is left of it; after a kill, the next
    opening deletes what is.

    Parameters
    ----------
    folders, fingerprint, mend
        As for `open_store`. Folders are made where they do not exist.
    build
        Called with a function that makes the BlockWriter of this cache; it writes all
        rows and returns what the writer's `finish` returns:
        ``lambda new: fill(new(n_rows, n_columns, np.uint8, codec="auto"))``.
    """
    places = as_folders(folders)
    made = make_folders(places)
    lock = FolderLock(places)
    begin, is_building = time.monotonic(), False
    writers: list[BlockWriter] = []
    try:
        while True:
            lock.wait()
            manifest, why = _find(places, fingerprint, mend is not None)
            if manifest is None and lock.is_exclusive:
                if why:
                    sys.stderr.write(f"hornbeam: {why}; the cache is made again\n")
                is_building = True
                clean_folders(places)
                manifest = build(partial(_new_writer, writers, places, fingerprint))
            if manifest is not None and lock.try_lock(exclusive=False):
                return BlockStore(places, manifest, lock, mend)
            is_building = False
            lock.close()
            if manifest is None and time.monotonic() - begin > _GLANCE:
                raise DataError(
                    f"the cache folder {str(places[0])!r} is in use, for other data; "
                    "name another folder, or delete the matrix that uses it",
                    code=ErrorCode.CACHE_FOLDER_IN_USE,
                )
            time.sleep(_GLANCE / 40)
    except BaseException:
        _abandon(writers)
        if is_building:
            clean_folders(places)
            lock.remove()
        lock.close()
        remove_empty(made)
        raise


def _new_writer(
    writers: list[BlockWriter],
    places: Sequence[Path],
    fingerprint: str,
    *shape: Any,
    **options: Any,
) -> BlockWriter:
    if writers:
        _abandon(writers)
        clean_folders(places)
    writers.append(BlockWriter(places, fingerprint, *shape, **options))
    return writers[-1]


def _abandon(writers: list[BlockWriter]) -> None:
    while writers:
        writers.pop().abandon()


def _find(
    places: Sequence[Path], fingerprint: str, can_mend: bool
) -> tuple[Manifest | None, str]:
    """Return the manifest of this source, or None and what is wrong with another."""
    try:
        manifest = read_manifest(places)
    except DataError as error:
        return None, str(error)
    if manifest is None:
        return None, ""
    if manifest.fingerprint != fingerprint:
        return None, f"what is in {str(places[0])!r} was made of other data"
    for codec in {s.codec for entry in manifest.blocks for s in entry.segments}:
        check_codec(codec)
    paths = [(places[entry.folder] / entry.file, entry) for entry in manifest.blocks]
    damaged = [path for path, entry in paths if _size_of(path) != entry.n_bytes]
    if len(damaged) > (_FEW if can_mend else 0):
        return None, f"{str(damaged[0])!r} is damaged ({len(damaged)} files in all)"
    return manifest, ""


def _size_of(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _is_rubbish(places: Sequence[Path]) -> bool:
    """Return whether the folders hold blocks that no manifest speaks of."""
    try:
        return read_manifest(places) is None
    except DataError:
        return True
