"""Collections of Dask, which the client splits into partitions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
from dask.delayed import Delayed
from distributed import Client, Future

from hornbeam.dask.client import task_key
from hornbeam.data.containers.dispatch import words
from hornbeam.distributed.partitions import Partition
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "delayed_parts",
    "is_dataframe",
    "is_series",
    "merge_column_chunks",
    "partition",
]

_ACCEPTED = (
    "pass a dask.array, a dask.dataframe, or a list of delayed objects or futures, one "
    "for each partition"
)


@dataclass(slots=True)
class _Parts:
    """The delayed objects or futures of a collection, and their row counts if known."""

    items: list[Any]
    rows: tuple[int, ...] | None = None


def partition(client: Client, data: Any, fields: Mapping[str, Any]) -> list[Future]:
    """Return futures of the `Partition` objects of a matrix, in the order of rows.

    Parameters
    ----------
    client
        The client of the cluster that computes them.
    data
        A dask.array with any chunks, a dask.dataframe, or a list of delayed objects or
        futures.
    fields
        Labels, weights and so on: collections with the same partitions, or names of
        columns; None for a field that is absent. Arrays are rechunked like `data`.
    """
    features = _parts_of(data, "data", None)
    columns: dict[str, str | _Parts] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            columns[name] = value
        elif value is not None:
            columns[name] = _field_parts(value, name, features)
    everything = [features, *(v for v in columns.values() if isinstance(v, _Parts))]
    # In one call, so that Dask computes shared inputs once.
    computed = iter(_as_futures(client, [item for p in everything for item in p.items]))
    for parts in everything:
        parts.items = [next(computed) for _ in parts.items]
    return [
        client.submit(
            Partition,
            number,
            item,
            {
                name: value if isinstance(value, str) else value.items[number]
                for name, value in columns.items()
            },
            key=task_key("partition"),
        )
        for number, item in enumerate(features.items)
    ]


def delayed_parts(collection: Any, name: str) -> list[Any]:
    """Return a delayed object or future for each partition of a collection.

    Error messages call the collection `name`.
    """
    return _parts_of(collection, name, None).items


def is_dataframe(collection: Any) -> bool:
    """Return whether an object is a dask.dataframe."""
    return _is(collection, "DataFrame")


def is_series(collection: Any) -> bool:
    """Return whether an object is a series of dask.dataframe."""
    return _is(collection, "Series")


def merge_column_chunks(array: da.Array) -> da.Array:
    """Return the array with all columns of its rows in one chunk."""
    if array.ndim == 2 and array.numblocks[1] > 1:
        return array.rechunk({1: -1})
    return array


def _field_parts(value: Any, name: str, features: _Parts) -> _Parts:
    parts = _parts_of(value, name, features.rows)
    if len(parts.items) != len(features.items):
        raise DataError(
            f"{name} has {len(parts.items)} partitions and the data has "
            f"{len(features.items)}; give both the same, with repartition or rechunk",
            code=ErrorCode.PARTITION_SIZE_MISMATCH,
        )
    return parts


def _parts_of(collection: Any, name: str, rows: tuple[int, ...] | None) -> _Parts:
    """Return the parts of a collection; an array is rechunked to `rows` if known."""
    if isinstance(collection, da.Array):
        return _parts_of_array(collection, name, rows)
    if is_dataframe(collection) or is_series(collection):
        return _Parts(list(collection.to_delayed()))
    if isinstance(collection, Delayed | Future):
        return _Parts([collection])
    if isinstance(collection, Sequence) and not isinstance(collection, str | bytes):
        for number, item in enumerate(collection):
            if not isinstance(item, Delayed | Future):
                raise DataError(
                    f"item {number} of {name} is {words(item)}, neither a delayed "
                    f"object nor a future; {_ACCEPTED}",
                    code=ErrorCode.UNSUPPORTED_COLLECTION,
                )
        if not collection:
            raise DataError(
                f"{name} is an empty list; {_ACCEPTED}", code=ErrorCode.EMPTY_DATA
            )
        return _Parts(list(collection))
    raise DataError(
        f"{name} is {words(collection)}; {_ACCEPTED}",
        code=ErrorCode.UNSUPPORTED_COLLECTION,
    )


def _parts_of_array(array: da.Array, name: str, rows: tuple[int, ...] | None) -> _Parts:
    if array.ndim not in ((2,) if name == "data" else (1, 2)):
        raise DataError(
            f"{name} has {array.ndim} dimensions; pass rows x columns"
            + ("" if name == "data" else ", or one value for each row"),
            code=ErrorCode.WRONG_DIMENSIONS,
        )
    chunks = _known_chunks(array)
    if rows is not None and chunks is not None and rows != chunks:
        if sum(rows) != sum(chunks):
            raise DataError(
                f"{name} has {sum(chunks)} rows and the data has {sum(rows)}; pass one "
                "for each row",
                code=ErrorCode.PARTITION_SIZE_MISMATCH,
            )
        array, chunks = array.rechunk({0: rows}), rows
    return _Parts(list(merge_column_chunks(array).to_delayed().ravel()), chunks)


def _known_chunks(array: da.Array) -> tuple[int, ...] | None:
    """Return the number of rows of each chunk, None if Dask does not know it."""
    rows: tuple[int, ...] = array.chunks[0]
    return None if any(count != count for count in rows) else rows


def _as_futures(client: Client, items: list[Any]) -> list[Future]:
    delayed = [item for item in items if isinstance(item, Delayed)]
    computed = iter(client.compute(delayed))
    return [next(computed) if isinstance(item, Delayed) else item for item in items]


def _is(collection: Any, name: str) -> bool:
    """Return whether an object is of a class of dask.dataframe, not imported here."""
    loaded = sys.modules.get("dask.dataframe")
    return loaded is not None and isinstance(collection, getattr(loaded, name))
