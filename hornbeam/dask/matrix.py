"""DaskDMatrix and DaskQuantileDMatrix: matrices whose rows are on Dask workers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from dask.base import is_dask_collection
from distributed import Client, Future

from hornbeam.dask.client import client_of, run_sync
from hornbeam.dask.partitions import partition
from hornbeam.dask.workers import Workers
from hornbeam.data.categories import Categories
from hornbeam.data.opening import Folders, cache_options
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.partitions import PartitionReader
from hornbeam.errors import DataError, ErrorCode
from hornbeam.params import Parameters

__all__ = ["DaskDMatrix", "DaskQuantileDMatrix"]


class DaskDMatrix(PartitionedMatrix):
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
    row_key
        A whole number or text for each row by which `subsample` draws it, as for
        `hornbeam.DMatrix`, with the same partitions or as the name of a column: the
        model then does not depend on the order of the rows. Without keys a row is drawn
        by its place.
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
    parts
        Futures of the partitions, in the order of rows.
    n_rows, n_features, schema, raw_schema, derived, dtype, facts, first_rows, together
        As of `PartitionedMatrix`.
    """

    parts: list[Future]

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
        row_key: Any = None,
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
            "row_key": row_key,
        }
        read = partial(self._read, data, fields, feature_weights)
        self._awaited: Any = run_sync(self.client, read)

    def __await__(self) -> Generator[Any, Any, Self]:
        """Wait until the matrix is complete, if its client is asynchronous."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            yield from awaited.__await__()
        return self

    def _read(self, data: Any, fields: Mapping[str, Any], feature_weights: Any) -> None:
        workers = Workers(self.client)
        workers.prepare(workers.alive())
        self.parts = partition(self.client, data, fields)
        if is_dask_collection(feature_weights):
            computed = self.client.compute(feature_weights)
            (feature_weights,) = Workers(self.client).results([computed])
        self._describe(feature_weights)

    def _map(self, task: Any, *args: Any) -> list[Any]:
        return Workers(self.client).map(task, self.parts, *args)


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
row_key, enable_categorical, cache, memory_limit, codec, dates
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
        self.max_bin = Parameters.resolve({"max_bin": max_bin}).max_bin
        if isinstance(ref, DaskQuantileDMatrix) and ref.max_bin != self.max_bin:
            raise DataError(
                f"max_bin={self.max_bin} differs from that of ref, {ref.max_bin}; "
                "leave max_bin out",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        super().__init__(client, data, label, **others)
