"""Turns the data that a caller passes into a table and fields of its rows.

Modules of sources and caches are imported on first use: trainings on an array start
without them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table, known_frame
from hornbeam.data.containers.frame import pop_columns
from hornbeam.data.meta_info import GROUPINGS
from hornbeam.data.saved import is_saved, load_table
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.memory import as_bytes

__all__ = ["CacheOptions", "Folders", "cache_options", "named_cache", "open_features"]

#: Fields that can be the name of a column of the data.
NAMEABLE = (
    "label",
    "weight",
    "qid",
    "base_margin",
    "label_lower_bound",
    "label_upper_bound",
    "row_key",
)


def open_features(
    data: Any,
    fields: Mapping[str, Any],
    *,
    missing: float | None = None,
    names: Sequence[str] | None = None,
    types: Sequence[str] | Categories | None = None,
    enable_categorical: bool = True,
    content: bool = False,
    needs_columns: bool = True,
    dates: str = "error",
) -> tuple[Table, dict[str, Any]]:
    """Return the table of features, and the fields of rows by name.

    Parameters
    ----------
    data, missing, names, types, enable_categorical, needs_columns, dates
        As for `as_table`.
    content
        Whether the checksum of the table (`Table.content`) is needed later.
    fields
        Fields by name. A string as one of `NAMEABLE` is the name of a column of `data`,
        which has the values of the field and is not a feature. Fields that come with
        the data are used unless they are given here.
    """
    given = {name: value for name, value in fields.items() if value is not None}
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
    elif type(data) is np.ndarray:
        table = None
    else:
        from hornbeam.data.sources.dispatch import open_source

        table = open_source(
            data,
            missing=missing,
            names=names,
            types=columns,
            enable_categorical=enable_categorical,
            field_columns=field_columns,
            content=content,
            dates=dates,
        )
    if table is None:
        frame = known_frame(data) if field_columns else None
        rest, popped = pop_columns(data if frame is None else frame, field_columns)
        given |= popped
        table = as_table(
            rest, missing, names, columns, enable_categorical, needs_columns, dates
        )
    if isinstance(types, Categories):
        table = _recoded(types, table)
    return table, _add_own_fields(table.info, given)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _add_own_fields(own: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the given fields, and those of the data that are not given."""
    if not given.keys().isdisjoint(GROUPINGS):
        own = {name: value for name, value in own.items() if name not in GROUPINGS}
    return {**own, **given}


def _recoded(categories: Categories, table: Table) -> Table:
    """Return the table with its categories coded as in `categories`."""
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
    """Options of bins in external memory.

    Attributes
    ----------
    folders
        One folder or several, which store blocks in turn.
    memory_limit
        Maximum memory of the process in bytes; None: no limit.
    codec
        Codec of the blocks.
    """

    folders: Folders
    memory_limit: int | None
    codec: str


def cache_options(
    data: Any, cache: Folders | None, memory_limit: Any, codec: str
) -> tuple[Any, CacheOptions | None]:
    """Return the data without the cache that it names, and the options of the cache.

    The options are None if there is no cache.

    Parameters
    ----------
    data
        As for `DMatrix`: a path can end in ``#cache``, and an iterator can have a
        `cache_prefix`.
    cache, memory_limit, codec
        As for `DMatrix`.
    """
    named = named_cache(data)
    if named is not None:
        if cache is not None:
            raise ParameterError(
                f"the data names the cache {named!r}, and cache= another one; pass one",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        from hornbeam.data.sources.files import as_path, split_uri

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
                    f"{name}={value!r} has no effect without a cache; pass a folder: "
                    "cache=",
                    code=ErrorCode.INEFFECTIVE_PARAMETER,
                )
        return data, None
    from hornbeam.external_memory.codecs import check_codec
    from hornbeam.external_memory.folders import as_folders

    as_folders(cache)
    check_codec(codec)
    limit = None if memory_limit is None else as_bytes(memory_limit, "memory_limit")
    return data, CacheOptions(cache, limit, codec)


def named_cache(data: Any) -> str | None:
    """Return the cache folder that the data names, or None."""
    if type(data) is np.ndarray:
        return None
    from hornbeam.data.sources.files import as_path, split_uri

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
