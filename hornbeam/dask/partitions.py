"""From the collections of Dask to partitions: what one worker holds of a matrix."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
from dask.delayed import Delayed
from distributed import Client, Future

from hornbeam.data.containers.dispatch import words
from hornbeam.errors import DataError, ErrorCode

__all__ = ["Partition", "is_frame", "one_block_wide", "partition", "pieces_of"]

WHAT_IS_TAKEN = (
    "pass a dask.array, a dask.dataframe, or a list of delayed objects or futures, one "
    "for each partition"
)


@dataclass(slots=True)
class Partition:
    """Some rows of a matrix as the caller gave them, on one worker.

    Attributes
    ----------
    number
        Its place among the partitions: they follow each other in the order of rows.
    data
        The features, or all columns: anything that `DMatrix` takes.
    fields
        What goes beside them, or the name of a column of `data`, by its name.
    """

    number: int
    data: Any
    fields: dict[str, Any]


@dataclass(slots=True)
class _Pieces:
    """A collection, piece by piece, and how many rows each has if that is known."""

    items: list[Any]
    rows: tuple[int, ...] | None = None


def partition(client: Client, data: Any, fields: Mapping[str, Any]) -> list[Future]:
    """Return futures of the `Partition` objects of a matrix, in the order of rows.

    Parameters
    ----------
    client
        Of the cluster that is to hold them.
    data
        A dask.array of any chunks, a dask.dataframe, or a list of delayed objects or
        futures.
    fields
        What goes beside it by rows: collections with the same partitions, or names of
        columns; None where there is nothing. Arrays are given the chunks of `data`.
    """
    features = _pieces(data, "data", None)
    beside: dict[str, str | _Pieces] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            beside[name] = value
        elif value is not None:
            beside[name] = _beside(value, name, features)
    everything = [features, *(v for v in beside.values() if isinstance(v, _Pieces))]
    # All at once, so that what several of them come from is made once.
    computed = iter(_as_futures(client, [item for p in everything for item in p.items]))
    for pieces in everything:
        pieces.items = [next(computed) for _ in pieces.items]
    return [
        client.submit(
            Partition,
            number,
            item,
            {
                name: value if isinstance(value, str) else value.items[number]
                for name, value in beside.items()
            },
            pure=False,
        )
        for number, item in enumerate(features.items)
    ]


def pieces_of(collection: Any, what: str) -> list[Any]:
    """Return a delayed object or future for each piece of a collection of rows."""
    return _pieces(collection, what, None).items


def is_frame(collection: Any) -> bool:
    """Return whether it is a dask.dataframe of columns."""
    return _is(collection, "DataFrame")


def one_block_wide(array: da.Array) -> da.Array:
    """Return the array with all columns of its rows in one chunk."""
    if array.ndim == 2 and array.numblocks[1] > 1:
        return array.rechunk({1: -1})
    return array


def _beside(value: Any, name: str, features: _Pieces) -> _Pieces:
    pieces = _pieces(value, name, features.rows)
    if len(pieces.items) != len(features.items):
        raise DataError(
            f"{name} has {len(pieces.items)} partitions and the data has "
            f"{len(features.items)}; give both the same, with repartition or rechunk",
            code=ErrorCode.PARTITION_SIZE_MISMATCH,
        )
    return pieces


def _pieces(collection: Any, what: str, rows: tuple[int, ...] | None) -> _Pieces:
    """Return the pieces of a collection; those of an array with so many `rows` each."""
    if isinstance(collection, da.Array):
        return _pieces_of_array(collection, what, rows)
    if _is(collection, "DataFrame", "Series"):
        return _Pieces(list(collection.to_delayed()))
    if isinstance(collection, Delayed | Future):
        return _Pieces([collection])
    if isinstance(collection, Sequence) and not isinstance(collection, str | bytes):
        for number, item in enumerate(collection):
            if not isinstance(item, Delayed | Future):
                raise DataError(
                    f"item {number} of {what} is {words(item)}, neither a delayed "
                    f"object nor a future; {WHAT_IS_TAKEN}",
                    code=ErrorCode.UNSUPPORTED_COLLECTION,
                )
        if not collection:
            raise DataError(
                f"{what} is an empty list; {WHAT_IS_TAKEN}", code=ErrorCode.EMPTY_DATA
            )
        return _Pieces(list(collection))
    raise DataError(
        f"{what} is {words(collection)}; {WHAT_IS_TAKEN}",
        code=ErrorCode.UNSUPPORTED_COLLECTION,
    )


def _pieces_of_array(
    array: da.Array, what: str, rows: tuple[int, ...] | None
) -> _Pieces:
    if array.ndim not in ((2,) if what == "data" else (1, 2)):
        raise DataError(
            f"{what} has {array.ndim} dimensions; pass rows x columns"
            + ("" if what == "data" else ", or one value for each row"),
            code=ErrorCode.WRONG_DIMENSIONS,
        )
    chunks = _known(array)
    if rows is not None and chunks is not None and rows != chunks:
        if sum(rows) != sum(chunks):
            raise DataError(
                f"{what} has {sum(chunks)} rows and the data has {sum(rows)}; pass one "
                "for each row",
                code=ErrorCode.PARTITION_SIZE_MISMATCH,
            )
        array, chunks = array.rechunk({0: rows}), rows
    return _Pieces(list(one_block_wide(array).to_delayed().ravel()), chunks)


def _known(array: da.Array) -> tuple[int, ...] | None:
    """Return how many rows each chunk has, None if that is not known yet."""
    rows: tuple[int, ...] = array.chunks[0]
    return None if any(count != count for count in rows) else rows


def _as_futures(client: Client, items: list[Any]) -> list[Future]:
    delayed = [item for item in items if isinstance(item, Delayed)]
    computed = iter(client.compute(delayed))
    return [next(computed) if isinstance(item, Delayed) else item for item in items]


def _is(collection: Any, *classes: str) -> bool:
    """Return whether it is of a class of dask.dataframe, which is not imported here."""
    loaded = sys.modules.get("dask.dataframe")
    return isinstance(
        collection, tuple(getattr(loaded, name) for name in classes if loaded)
    )
