"""From a partition to a table, where it lies, and what the client is told of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.dask.partitions import Partition
from hornbeam.data.categories import Categories
from hornbeam.data.labels import read_whole
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.opening import CacheOptions, open_features
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector, without_values
from hornbeam.data.table import Table
from hornbeam.errors import DataError

__all__ = ["Facts", "Opened", "Opening", "describe", "named"]


@dataclass(frozen=True, slots=True)
class Opening:
    """How partitions become tables, and where their codes go.

    The arguments are those of `DMatrix`; without `caching` codes stay in memory.
    """

    missing: float | None = None
    names: Sequence[str] | None = None
    types: Sequence[str] | Categories | None = None
    enable_categorical: bool = True
    caching: CacheOptions | None = None

    def open(self, partition: Partition) -> Opened | None:
        """Return the rows of a partition; None if it has none.

        Without rows a container may not even know its columns.
        """
        if _is_empty(partition.data):
            return None
        with named(partition.number):
            table, fields = open_features(
                partition.data,
                partition.fields,
                missing=self.missing,
                names=self.names,
                types=self.types,
                enable_categorical=self.enable_categorical,
            )
            if table.n_rows == 0:
                return None
            parts = FieldCollector()
            parts.add(fields, table.n_rows)
        return Opened(table, parts.whole())


@dataclass(slots=True)
class Opened:
    """The features of a partition, and the fields beside them as arrays."""

    table: Table
    fields: dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the client knows of a partition with rows.

    Attributes
    ----------
    n_rows
        How many there are.
    schema
        The columns as they are here.
    dtype
        float32 if all its values fit into it.
    valueless
        Columns without a value here, which may be of any type elsewhere.
    widths
        The fields beside the features, each with the numbers that a row has of it.
    group_ends
        The first and the last qid, None without.
    by_group
        Whether there is a weight for each group, not for each row.
    largest_weight
        None without weights.
    """

    n_rows: int
    schema: Schema
    dtype: np.dtype[Any]
    valueless: frozenset[int]
    widths: dict[str, tuple[int, ...]]
    group_ends: tuple[int, int] | None
    by_group: bool
    largest_weight: float | None


def describe(partition: Partition, opening: Opening) -> Facts | None:
    """Return what is to be known of a partition, None if it has no rows.

    Raises a `DataError` that names the partition if a field is wrong.
    """
    opened = opening.open(partition)
    if opened is None:
        return None
    table, fields = opened.table, opened.fields
    info = MetaInfo(table.n_rows, table.n_features)
    with named(partition.number):
        info.set(fields, whole=False)
    weights, qid = info["weight"], fields.get("qid")
    if qid is not None:
        qid = read_whole(qid, "qid")
    return Facts(
        table.n_rows,
        table.schema,
        np.dtype(table.dtype),
        _valueless(table),
        {name: values.shape[1:] for name, values in fields.items()},
        None if qid is None else (int(qid[0]), int(qid[-1])),
        weights is not None and len(weights) != table.n_rows,
        None if weights is None else float(weights.max()),
    )


@contextmanager
def named(number: int) -> Iterator[None]:
    """Say which partition it was in whatever `DataError` comes out of the block."""
    try:
        yield
    except DataError as error:
        text = str(error)
        if text.startswith(f"partition {number}: "):
            raise
        raise DataError(
            f"partition {number}: {text}", code=error.code, **error.details
        ) from error


def _is_empty(data: Any) -> bool:
    """Return whether a container surely has no rows, whatever it is."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape:
        return shape[0] == 0
    return isinstance(data, list | tuple) and not data


def _valueless(table: Table) -> frozenset[int]:
    if table.is_stream:  # all that its first reading found
        return table.typeless
    return table.typeless | without_values(table, set(range(table.n_features)))
