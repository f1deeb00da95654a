"""Where the codes of a matrix are to be kept on disk, and how much memory there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam.data.sources.files import as_path, split_uri
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.external_memory.codecs import check_codec
from hornbeam.external_memory.folders import as_folders
from hornbeam.memory import as_bytes

__all__ = ["Caching", "Folders", "caching_of", "named_cache"]

Folder = str | os.PathLike[str]
Folders = Folder | Sequence[Folder]


@dataclass(frozen=True, slots=True)
class Caching:
    """How the codes of a matrix are kept on disk.

    Attributes
    ----------
    folders
        One or several, for blocks in turn.
    memory_limit
        The most bytes of memory that the process may take; None: no limit.
    codec
        How blocks are laid down.
    """

    folders: Folders
    memory_limit: int | None
    codec: str


def caching_of(
    data: Any, cache: Folders | None, memory_limit: Any, codec: str
) -> tuple[Any, Caching | None]:
    """Return the data without its own cache, and how to keep codes on disk, if so.

    Parameters
    ----------
    data
        As a matrix takes it: a path may end in ``#cache``, and an iterator have a
        `cache_prefix`.
    cache, memory_limit, codec
        As a matrix takes them.
    """
    named = named_cache(data)
    if named is not None:
        if cache is not None:
            raise ParameterError(
                f"the data names the cache {named!r}, and cache= another one; name one",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        cache = named
        path = as_path(data)
        data = data if path is None else split_uri(path)[0]
    if cache is None:
        for name, value, default in (
            ("memory_limit", memory_limit, None),
            ("codec", codec, "auto"),
        ):
            if value != default:
                raise ParameterError(
                    f"{name}={value!r} is for a matrix that has its codes on disk; "
                    "name a folder for them: cache=",
                    code=ErrorCode.INEFFECTIVE_PARAMETER,
                )
        return data, None
    as_folders(cache)
    check_codec(codec)
    limit = None if memory_limit is None else as_bytes(memory_limit, "memory_limit")
    return data, Caching(cache, limit, codec)


def named_cache(data: Any) -> str | None:
    """Return the folder that the data itself names for a cache, None if it does not."""
    path = as_path(data)
    if path is not None:
        return split_uri(path)[1]
    prefix = getattr(data, "cache_prefix", None)
    if prefix is None:
        return None
    folder = as_path(prefix)
    if not folder:
        raise DataError(
            f"cache_prefix of the {type(data).__name__} must be the path of a folder, "
            f"not {prefix!r}",
            code=ErrorCode.INVALID_CACHE_FOLDER,
        )
    return folder
