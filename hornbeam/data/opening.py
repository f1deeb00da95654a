"""Turns the data that a caller passes into a table and fields of its rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table, known_frame
from hornbeam.data.containers.frame import pop_columns
from hornbeam.data.meta_info import GROUPINGS
from hornbeam.data.saved import is_saved, load_table
from hornbeam.data.sources.dispatch import open_source
from hornbeam.data.sources.files import as_path, split_uri
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.external_memory.codecs import check_codec
from hornbeam.external_memory.folders import as_folders
from hornbeam.memory import as_bytes

__all__ = ["CacheOptions", "Folders", "cache_options", "named_cache", "open_features"]

#: What may be the name of a column of the data in place of its values.
NAMEABLE = (
    "label",
    "weight",
    "qid",
    "base_margin",
    "label_lower_bound",
    "label_upper_bound",
)


def open_features(
    data: Any,
    beside: Mapping[str, Any],
    *,
    missing: float | None = None,
    names: Sequence[str] | None = None,
    types: Sequence[str] | Categories | None = None,
    enable_categorical: bool = True,
    content: bool = False,
) -> tuple[Table, dict[str, Any]]:
    """Return the features, and the fields that go beside them.

    Parameters
    ----------
    data, missing, names, types, enable_categorical
        As `DMatrix` takes them.
    content
        Whether the table is asked for its `content` later.
    beside
        Fields by their names. A string as one of `NAMEABLE` names a column of `data`:
        its values are the field's, and the column is no feature. A field that comes
        with the data is taken if none is given.
    """
    given = {name: value for name, value in beside.items() if value is not None}
    field_columns = {
        name: given.pop(name) for name in NAMEABLE if _is_name(given.get(name))
    }
    columns = None if isinstance(types, Categories) else types
    table: Table | None
    if is_saved(data):
        if field_columns:
            field, name = next(iter(field_columns.items()))
            raise DataError(
                f"{field}={name!r} is the name of a column, but a saved DMatrix stores "
                "its labels and other fields separately; leave it out, or pass the "
                "values",
                code=ErrorCode.COLUMN_NOT_FOUND,
            )
        table = load_table(data, missing, names, columns)
    else:
        table = open_source(
            data,
            missing=missing,
            names=names,
            types=columns,
            enable_categorical=enable_categorical,
            field_columns=field_columns,
            content=content,
        )
    if table is None:
        frame = known_frame(data) if field_columns else None
        rest, fields = pop_columns(data if frame is None else frame, field_columns)
        given |= fields
        table = as_table(rest, missing, names, columns, enable_categorical)
    if isinstance(types, Categories):
        table = _coded_by(types, table)
    return table, _with_own(table.info, given)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _with_own(own: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that came with the data, and in their place those given."""
    if not given.keys().isdisjoint(GROUPINGS):
        own = {name: value for name, value in own.items() if name not in GROUPINGS}
    return {**own, **given}


def _coded_by(categories: Categories, table: Table) -> Table:
    """Return the table with the codes that `categories` has for its categories."""
    if categories.empty():
        return table
    if len(categories.names) != table.n_features:
        raise DataError(
            f"feature_types holds the categories of {len(categories.names)} columns, "
            f"but the data has {table.n_features}; pass data with the same columns",
            code=ErrorCode.FEATURE_COUNT_MISMATCH,
        )
    schema = table.schema
    types = list(schema.types or ["float"] * table.n_features)
    for feature, levels in enumerate(categories.names):
        if levels is not None:
            types[feature] = "c"
    return align(table, replace(schema, types=types, categories=categories))


Folder = str | os.PathLike[str]
Folders = Folder | Sequence[Folder]


@dataclass(frozen=True, slots=True)
class CacheOptions:
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


def cache_options(
    data: Any, cache: Folders | None, memory_limit: Any, codec: str
) -> tuple[Any, CacheOptions | None]:
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
    return data, CacheOptions(cache, limit, codec)


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
