"""Partitions of the rows, which workers read as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.data.categories import Categories
from hornbeam.data.labels import read_whole
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.opening import CacheOptions, open_features
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.data.table import LocatedTable, Table
from hornbeam.distributed.partition_schema import PartitionInfo, describe
from hornbeam.errors import DataError

__all__ = [
    "Partition",
    "PartitionData",
    "PartitionReader",
    "PartitionTable",
    "describe_partition",
    "partition_errors",
]


@dataclass(slots=True)
class Partition:
    """Consecutive rows of a matrix as given by the caller, on one worker.

    Attributes
    ----------
    number
        Index of the partition; partitions are in the order of rows.
    data
        The features, or all columns: any container that `DMatrix` takes.
    fields
        Labels, weights and so on by field name, each as values or as the name of a
        column of `data`.
    """

    number: int
    data: Any
    fields: dict[str, Any]


@dataclass(slots=True)
class PartitionData:
    """The features of a partition as a table, and its fields as arrays."""

    table: Table
    fields: dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """Options by which partitions are read as tables.

    The attributes are those of `DMatrix`. With `caching` the bins of training rows are
    written to disk, else they stay in memory.
    """

    missing: float | None = None
    names: Sequence[str] | None = None
    types: Sequence[str] | Categories | None = None
    enable_categorical: bool = True
    caching: CacheOptions | None = None
    dates: str = "error"

    def read(self, partition: Partition) -> PartitionData | None:
        """Return the rows of a partition; None if it has none.

        A container without rows is not read: it may not have all columns.
        """
        if _is_empty(partition.data):
            return None
        with partition_errors(partition.number):
            table, fields = open_features(
                partition.data,
                partition.fields,
                missing=self.missing,
                names=self.names,
                types=self.types,
                enable_categorical=self.enable_categorical,
                dates=self.dates,
            )
            if table.n_rows == 0:
                return None
            collector = FieldCollector()
            collector.add(fields, table.n_rows)
        return PartitionData(table, collector.whole())


def describe_partition(
    partition: Partition, reader: PartitionReader
) -> PartitionInfo | None:
    """Return the description of a partition, None if it has no rows.

    Raises a `DataError` that names the partition if a field is invalid.
    """
    data = reader.read(partition)
    if data is None:
        return None
    info = MetaInfo(data.table.n_rows, data.table.n_features)
    with partition_errors(partition.number):
        info.set(data.fields, whole=False)
    qid = data.fields.get("qid")
    if qid is not None:
        qid = read_whole(qid, "qid")
    widths = {name: values.shape[1:] for name, values in data.fields.items()}
    return describe(data.table, info, widths, qid)


@contextmanager
def partition_errors(number: int) -> Iterator[None]:
    """Prefix the message of a `DataError` in the block with the partition's number."""
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
    """Return whether a container certainly has no rows."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape:
        return shape[0] == 0
    return isinstance(data, list | tuple) and not data


class PartitionTable(LocatedTable):
    """The table of a partition, whose errors name the partition.

    Parameters
    ----------
    table
        The rows, with the columns of all partitions.
    number
        The partition's number.
    """

    def __init__(self, table: Table, number: int) -> None:
        super().__init__(table, lambda: partition_errors(number))
        self.is_stream, self.has_rows = table.is_stream, table.has_rows
        self._number = number

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        if not self.is_stream:
            yield from super().batches(features)
            return
        with self._located():
            for batch in self._table.batches(features):
                yield PartitionTable(batch, self._number)

    def select(self, features: Sequence[int]) -> Table:
        return PartitionTable(self._table.select(features), self._number)

    def take(self, rows: np.ndarray) -> Table:
        return PartitionTable(super().take(rows), self._number)

    def label(self, feature: int) -> str:
        return f"{super().label(feature)} of partition {self._number}"
