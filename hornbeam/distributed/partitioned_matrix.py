"""A matrix whose rows are in partitions on the workers of a cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.categories import Categories
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.distributed.partition_schema import (
    PartitionInfo,
    check_fields,
    merge_dtypes,
    merge_parts,
    merge_schemas,
)
from hornbeam.distributed.partitions import (
    Partition,
    PartitionReader,
    describe_partition,
)
from hornbeam.errors import DataError, ErrorCode

__all__ = ["PartitionedMatrix"]

Floats = npt.NDArray[np.float64]


class PartitionedMatrix(MetaInfoAccessors):
    """Features with labels, weights and margins, in partitions that workers read.

    Only a description of each partition is sent to the client; the rows stay where the
    engine has them.

    Attributes
    ----------
    n_rows, n_features, schema, dtype
        Those of all partitions together, with the parts of times as columns.
    raw_schema, derived
        The columns of the partitions, and the parts of times; None: there are no times.
    parts
        The partitions as the engine names them, in the order of rows.
    reader
        Reads them on their workers.
    facts
        The `PartitionInfo` of each partition with rows, by its number.
    first_rows
        (partitions + 1,): the index of each partition's first row among all rows.
    together
        Numbers of the partitions with rows, grouped so that partitions which share a
        query group are together.
    max_bin
        The maximum number of bins that training must use; None: any.
    """

    parts: Sequence[Any]
    reader: PartitionReader
    max_bin: int | None = None

    @abstractmethod
    def _map(self, task: Any, *args: Any) -> list[Any]:
        """Return a task's result for each partition, or raise the first error."""

    def _describe(self, feature_weights: Any) -> None:
        """Read each partition on a worker, and check that they fit together.

        Parameters
        ----------
        feature_weights
            The probability weight of each column in column sampling, or None.
        """
        found = self._map(describe_partition, self.reader)
        self.facts: dict[int, PartitionInfo] = {
            i: info for i, info in enumerate(found) if info is not None
        }
        if not self.facts:
            raise DataError(
                f"none of the {len(self.parts)} partitions has rows; pass at least one "
                "row",
                code=ErrorCode.EMPTY_DATA,
            )
        rows = [0 if info is None else info.n_rows for info in found]
        self.first_rows = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self.n_rows = int(self.first_rows[-1])
        self.raw_schema: Schema = merge_schemas(self.facts)
        self.derived = merge_parts(self.facts, self.raw_schema)
        self.schema: Schema = self.raw_schema
        if self.derived is not None:
            self.schema = self.derived.schema(self.raw_schema)
        self.n_features = self.schema.n_features
        self.dtype = merge_dtypes(self.facts)
        check_fields(self.facts)
        self.together = _group_partitions(self.facts)
        self._feature_weights: Floats | None = None
        if feature_weights is not None:
            info = MetaInfo(self.n_rows, self.raw_schema.n_features)
            info.set({"feature_weights": feature_weights})
            given = info["feature_weights"]
            assert given is not None
            of_parts = np.ones(self.n_features - given.size)
            self._feature_weights = np.append(given, of_parts)

    # For training and prediction

    @cached_property
    def info(self) -> MetaInfo:  # type: ignore[override]
        """Labels, weights and so on of all rows, gathered from the workers."""
        fields = FieldCollector()
        for number, part in enumerate(self._map(_fields_of, self.reader)):
            if part is not None:
                fields.add(part, self.facts[number].n_rows)
        info = MetaInfo(self.n_rows, self.n_features)
        info.set(fields.whole() | {"feature_weights": self._feature_weights})
        return info

    @property
    def feature_weights(self) -> Floats | None:
        """The probability weight of each column in column sampling, (columns,)."""
        return self._feature_weights

    @property
    def largest_weight(self) -> float | None:
        """The largest weight of all rows; None without weights."""
        largest = [info.largest_weight for info in self.facts.values()]
        return max((value for value in largest if value is not None), default=None)

    @property
    def n_targets(self) -> int:
        """Number of labels of each row; 0 without labels."""
        width = next(iter(self.facts.values())).widths.get("label")
        return 0 if width is None else int(np.prod(width))

    # As in XGBoost

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns; None without names."""
        return self.schema.names

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns; None if they are unknown."""
        return self.schema.types

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_col(self) -> int:
        """Return the number of columns."""
        return self.n_features

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the categories of each column, the union over all partitions.

        `export_to_arrow` is ignored, for compatibility with XGBoost: the result can
        always be exported.
        """
        return self.schema.categories

    def set_info(self, *_: Any, **__: Any) -> None:
        """Raise an error: labels, weights and so on cannot be changed later."""
        raise DataError(
            f"labels, weights and so on of a {type(self).__name__} cannot be changed "
            "after it is made; make another one with label=, weight= and so on",
            code=ErrorCode.META_INFO_SETTLED,
        )

    set_float_info = set_uint_info = set_info


def _fields_of(
    part: Partition, reader: PartitionReader
) -> dict[str, np.ndarray] | None:
    data = reader.read(part)
    return None if data is None else data.fields


def _group_partitions(infos: Mapping[int, PartitionInfo]) -> list[list[int]]:
    """Return the partitions, with those together that share a query group.

    Raises a `DataError` if qid decreases from one partition to the next.
    """
    chains: list[list[int]] = []
    previous: int | None = None
    for number, info in infos.items():
        first, last = info.qid_range or (None, None)
        if previous is not None and first is not None and first < previous:
            raise DataError(
                f"qid is not sorted: partition {chains[-1][-1]} ends with {previous}, "
                f"and partition {number} begins with {first}; sort the rows by qid, "
                "with their labels and weights",
                code=ErrorCode.QID_NOT_SORTED,
            )
        if previous is not None and first == previous:
            if info.weights_by_group:
                raise DataError(
                    f"there is a weight for each group, and the group {first} spans "
                    f"the partitions {chains[-1][-1]} and {number}; give one weight "
                    "for each row",
                    code=ErrorCode.WEIGHT_NOT_BY_GROUP,
                )
            chains[-1].append(number)
        else:
            chains.append([number])
        previous = last
    return chains
