"""DaskDMatrix and DaskQuantileDMatrix: matrices whose rows are on Dask workers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from dask.base import is_dask_collection
from distributed import Client, Future

from hornbeam.dask.client import check_workers, client_of, run_sync
from hornbeam.dask.partitions import partition
from hornbeam.dask.workers import Workers
from hornbeam.data.categories import Categories
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.data.opening import Folders, cache_options
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
from hornbeam.errors import DataError, ErrorCode, HornbeamError
from hornbeam.params import Parameters

__all__ = ["DaskDMatrix", "DaskQuantileDMatrix"]

Floats = npt.NDArray[np.float64]


class DaskDMatrix(MetaInfoAccessors):
    """Features with labels, weights and margins, in partitions on Dask workers.

    The constructor computes the collections and reads every partition on its worker:
    its columns, its categories and its fields. Only this description is sent to the
    client. The rows stay where Dask has them, and Dask computes them again if their
    worker dies. With an asynchronous client the matrix has to be awaited before it is
    used. A worker that does not respond meanwhile is removed from the cluster after
    ``hornbeam.patience`` seconds (a setting of Dask, 10 by default), and Dask computes
    its part elsewhere. Labels, weights and so on, such as `get_label` returns, are
    gathered on first access.

    Partitions may be empty, though not all of them. They need the same columns, in any
    order. The categories of a column are the union of those of all partitions.

    Parameters
    ----------
    client
        The client of the cluster; None for Dask's default client.
    data
        The features: a dask.array with any chunks, a dask.dataframe, or a list of
        delayed objects or futures, one for each partition. A partition is any container
        that `hornbeam.DMatrix` takes: arrays, data frames of pandas, polars and
        pyarrow, SciPy matrices, or the path of a file that every worker can read.
    label, weight, base_margin, qid, label_lower_bound, label_upper_bound
        As for `hornbeam.DMatrix`, as collections with the same partitions as `data`
        (arrays are rechunked like an array), or as the name of a column of data frames.
    group
        The sizes of the query groups, in partitions that contain whole groups.
    qid
        The query group of each row: integers that never decrease, within partitions and
        from one to the next. Partitions that share a group stay on one worker.
    missing
        The number that represents a missing value, in addition to NaN and null.
    silent
        Ignored; for compatibility with XGBoost.
    feature_names, feature_types
        As for `hornbeam.DMatrix`, for every partition.
    feature_weights
        The probability weight of each column in column sampling: numbers, or a
        collection of them.
    enable_categorical
        Whether categorical columns are accepted; else they are an error.
    cache
        A folder that every worker can write to, or several on several disks (external
        memory): the bins of training rows are stored there instead of in the workers'
        memory, and deleted after training. The partitions themselves stay in Dask, so
        pass paths of files if memory is short.
    memory_limit
        With `cache`, the memory limit of each worker's process: bytes, or a string such
        as ``"700MB"``.
    codec
        With `cache`, the compression of the bins, as for `hornbeam.DMatrix`.
    dates
        As for `hornbeam.DMatrix`; the parts that vary are those of all partitions.

    Attributes
    ----------
    n_rows, n_features, schema, dtype
        Those of all partitions together.
    parts
        Futures of the partitions, in the order of rows.
    facts
        The `PartitionInfo` of each partition with rows, by its number.
    first_rows
        (partitions + 1,): the index of each partition's first row among all rows.
    together
        Numbers of the partitions with rows, grouped so that partitions which share a
        query group are together.
    """

    def __init__(
        self,
        client: Client | None,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = True,
        cache: Folders | None = None,
        memory_limit: int | str | None = None,
        codec: str = "auto",
        dates: str = "error",
    ) -> None:
        self.client = client_of(client)
        _, caching = cache_options(None, cache, memory_limit, codec)
        if group is not None and qid is not None:
            raise DataError(
                "group and qid are both given, and both define the groups; pass one "
                "of them",
                code=ErrorCode.GROUP_AND_QID,
            )
        self.reader = PartitionReader(
            missing, feature_names, feature_types, enable_categorical, caching, dates
        )
        fields = {
            "label": label,
            "weight": weight,
            "base_margin": base_margin,
            "group": group,
            "qid": qid,
            "label_lower_bound": label_lower_bound,
            "label_upper_bound": label_upper_bound,
        }
        describe_all = partial(self._describe, data, fields, feature_weights)
        self._awaited: Any = run_sync(self.client, describe_all)

    def __await__(self) -> Generator[Any, Any, Self]:
        """Wait until the matrix is complete, if its client is asynchronous."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            yield from awaited.__await__()
        return self

    def _describe(
        self, data: Any, fields: Mapping[str, Any], feature_weights: Any
    ) -> None:
        check_workers(self.client, Workers(self.client).alive())
        self.parts: list[Future] = partition(self.client, data, fields)
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
        #: The columns of the partitions; `schema` has the parts of times, too.
        self.raw_schema: Schema = merge_schemas(self.facts)
        self.derived = merge_parts(self.facts, self.raw_schema)
        self.schema: Schema = self.raw_schema
        if self.derived is not None:
            self.schema = self.derived.schema(self.raw_schema)
        self.n_features = self.schema.n_features
        self.dtype = merge_dtypes(self.facts)
        check_fields(self.facts)
        self.together = _group_partitions(self.facts)
        self._feature_weights = self._read_feature_weights(feature_weights)

    def _map(self, task: Any, *args: Any) -> list[Any]:
        """Return a task's result for each partition, or raise the first error."""
        futures = [
            self.client.submit(_return_errors, task, part, *args, pure=False)
            for part in self.parts
        ]
        found = Workers(self.client).results(futures)
        for result in found:
            if isinstance(result, HornbeamError):
                raise result
        return found

    def _read_feature_weights(self, weights: Any) -> Floats | None:
        if weights is None:
            return None
        if is_dask_collection(weights):
            computed = self.client.compute(weights)
            (weights,) = Workers(self.client).results([computed])
        info = MetaInfo(self.n_rows, self.raw_schema.n_features)
        info.set({"feature_weights": weights})
        given = info["feature_weights"]
        assert given is not None
        return np.append(given, np.ones(self.n_features - given.size))

    # For training and prediction

    @cached_property
    def info(self) -> MetaInfo:  # type: ignore[override]
        """Labels, weights and so on of all rows, gathered from the workers."""
        fields = FieldCollector()
        for number, part in enumerate(self._map(_fields_of, self.reader)):
            if part is not None:
                fields.add(part, self.facts[number].n_rows)
        info = _FrozenMetaInfo(self.n_rows, self.n_features)
        info.fill(fields.whole() | {"feature_weights": self._feature_weights})
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

    def has_field(self, name: str) -> bool:
        """Return whether a field, such as ``"label"``, was given."""
        return name in next(iter(self.facts.values())).widths

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

    def set_info(self, **fields: Any) -> None:
        """Raise an error: labels, weights and so on cannot be changed later."""
        raise DataError(_IMMUTABLE, code=ErrorCode.META_INFO_SETTLED)


class DaskQuantileDMatrix(DaskDMatrix):
    """A `DaskDMatrix` for training with one number of bins.

    Workers keep only the bins of any matrix that is trained on. This class exists for
    compatibility with XGBoost, and refuses to be trained with another number of bins.

    Parameters
    ----------
    max_bin
        Maximum number of bins of a column, 256 by default; training must use the same
        number.
    ref
        The matrix whose cuts a validation set uses in XGBoost. It only provides
        `max_bin` here, as rows for evaluation are not binned.
    max_quantile_batches
        Ignored; for compatibility with XGBoost. Only one batch is read at a time.
    client, data, label, weight, base_margin, missing, silent, feature_names, \
feature_types, group, qid, label_lower_bound, label_upper_bound, feature_weights, \
enable_categorical, cache, memory_limit, codec, dates
        As for `DaskDMatrix`.
    """

    def __init__(
        self,
        client: Client | None,
        data: Any,
        label: Any = None,
        *,
        max_bin: int | None = None,
        ref: DaskDMatrix | None = None,
        max_quantile_batches: int | None = None,
        **others: Any,
    ) -> None:
        if ref is not None and not isinstance(ref, DaskDMatrix):
            raise DataError(
                f"ref must be a DaskDMatrix or DaskQuantileDMatrix, not "
                f"{type(ref).__name__}",
                code=ErrorCode.INVALID_REF,
            )
        if max_bin is None and isinstance(ref, DaskQuantileDMatrix):
            max_bin = ref.max_bin
        self.max_bin: int = Parameters.resolve({"max_bin": max_bin}).max_bin
        if isinstance(ref, DaskQuantileDMatrix) and ref.max_bin != self.max_bin:
            raise DataError(
                f"max_bin={self.max_bin} differs from that of ref, {ref.max_bin}; "
                "leave max_bin out",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        super().__init__(client, data, label, **others)


_IMMUTABLE = (
    "labels, weights and so on of a DaskDMatrix cannot be changed after it is made; "
    "make another one with label=, weight= and so on"
)


class _FrozenMetaInfo(MetaInfo):
    """Fields gathered from workers, which cannot be changed."""

    def fill(self, fields: Mapping[str, Any]) -> None:
        """Set the fields, once."""
        super().set(fields)

    def set(self, given: Mapping[str, Any], *, whole: bool = True) -> None:
        """Raise an error."""
        raise DataError(_IMMUTABLE, code=ErrorCode.META_INFO_SETTLED)


def _return_errors(task: Any, part: Partition, *args: Any) -> Any:
    """Return a task's result, or its error: Dask would log an error that is raised."""
    try:
        return task(part, *args)
    except HornbeamError as error:
        return error


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
