"""Matrices whose rows lie on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from dask.base import is_dask_collection
from distributed import Client, Future

from hornbeam.dask.clients import check_workers, client_of
from hornbeam.dask.columns import check_fields, common_dtype, common_schema
from hornbeam.dask.opening import Facts, Opening, describe
from hornbeam.dask.partitions import Partition, partition
from hornbeam.dask.sync import called_by
from hornbeam.dask.workers import Workers
from hornbeam.data.categories import Categories
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.data.opening import Folders, cache_options
from hornbeam.data.schema import Schema
from hornbeam.data.sources.first_pass import FieldCollector
from hornbeam.errors import DataError, ErrorCode, HornbeamError
from hornbeam.params import Parameters

__all__ = ["DaskDMatrix", "DaskQuantileDMatrix"]

Floats = npt.NDArray[np.float64]


class DaskDMatrix(MetaInfoAccessors):
    """Features with their labels, weights and margins, in partitions on workers.

    Making one computes the collections and looks at every partition, where it lies:
    its columns, its categories, and what goes beside them. Only that comes to the
    client; the rows stay where Dask has put them, and Dask makes them anew if their
    worker dies. With an asynchronous client the matrix has to be awaited before it is
    used. A worker that shows no sign of life while partitions are looked at is
    removed from the cluster, so that Dask does its part elsewhere; the setting
    ``hornbeam.patience`` of Dask says when (10 seconds). What the matrix has beside its
    features, such as `get_label` returns, is gathered when it is asked for.

    Partitions may be empty, though not all of them. They need the same columns, in any
    order. Where some know other categories than others, the matrix has all of them.

    Parameters
    ----------
    client
        The client of the cluster; None for the one that Dask has.
    data
        The features: a dask.array in any chunks, a dask.dataframe, or a list of delayed
        objects or futures, one for each partition. A partition is anything that
        `hornbeam.DMatrix` takes: arrays, frames of pandas, polars and pyarrow, SciPy
        matrices, or the path of a file that every worker can read.
    label, weight, base_margin, qid, label_lower_bound, label_upper_bound
        As for `hornbeam.DMatrix`, as collections with the same partitions as `data`:
        arrays are given the chunks of an array. Or the name of a column of frames.
    group
        The number of rows in each group, in partitions that hold whole groups.
    qid
        The group of each row, whole numbers that never fall from one partition to the
        next either. Partitions that a group runs through stay on one worker.
    missing
        The number that stands for missing, besides NaN and null.
    silent
        Taken for XGBoost's sake: nothing is printed either way.
    feature_names, feature_types
        As for `hornbeam.DMatrix`, for every partition.
    feature_weights
        How likely each column is to be drawn: numbers, or a collection of them.
    enable_categorical
        Whether to take categorical columns; else they are an error.
    cache
        A folder that every worker can write to, or several on several disks: the codes
        of rows that are learned from go there, and not into the workers' memory, and
        are deleted after training. The partitions themselves stay where Dask has them,
        so let them be paths of files where memory is short.
    memory_limit
        What each worker's process may use then: bytes, or such as ``"700MB"``.
    codec
        How codes are laid down then, as for `hornbeam.DMatrix`.

    Attributes
    ----------
    n_rows, n_features, schema, dtype
        Those of all partitions together.
    parts
        Futures of the partitions, in the order of rows.
    facts
        What is known of each partition with rows, by its number.
    first_rows
        (partitions + 1,): the number of each partition's first row among all.
    together
        Numbers of the partitions with rows, those together that a group runs through.
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
    ) -> None:
        self.client = client_of(client)
        _, caching = cache_options(None, cache, memory_limit, codec)
        if group is not None and qid is not None:
            raise DataError(
                "group and qid are both given; they say the same, so pass one of them",
                code=ErrorCode.GROUP_AND_QID,
            )
        self.opening = Opening(
            missing, feature_names, feature_types, enable_categorical, caching
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
        look = partial(self._look_at, data, fields, feature_weights)
        self._awaited: Any = called_by(self.client, look)

    def __await__(self) -> Generator[Any, Any, Self]:
        """Wait for the matrix, if its client is asynchronous."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            yield from awaited.__await__()
        return self

    def _look_at(
        self, data: Any, fields: Mapping[str, Any], feature_weights: Any
    ) -> None:
        check_workers(self.client, Workers(self.client).alive())
        self.parts: list[Future] = partition(self.client, data, fields)
        found = self._map(describe, self.opening)
        self.facts = {i: fact for i, fact in enumerate(found) if fact is not None}
        if not self.facts:
            raise DataError(
                f"none of the {len(self.parts)} partitions has rows; pass at least one "
                "row",
                code=ErrorCode.EMPTY_DATA,
            )
        rows = [0 if fact is None else fact.n_rows for fact in found]
        self.first_rows = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self.n_rows = int(self.first_rows[-1])
        self.schema: Schema = common_schema(self.facts)
        self.n_features = self.schema.n_features
        self.dtype = common_dtype(self.facts)
        check_fields(self.facts)
        self.together = _together(self.facts)
        self._feature_weights = self._of_columns(feature_weights)

    def _map(self, task: Any, *args: Any) -> list[Any]:
        """Return what a task says of each partition, or raise the first one's error."""
        futures = [
            self.client.submit(_tried, task, part, *args, pure=False)
            for part in self.parts
        ]
        found = Workers(self.client).results(futures)
        for one in found:
            if isinstance(one, HornbeamError):
                raise one
        return found

    def _of_columns(self, weights: Any) -> Floats | None:
        if weights is None:
            return None
        if is_dask_collection(weights):
            computed = self.client.compute(weights)
            (weights,) = Workers(self.client).results([computed])
        info = MetaInfo(self.n_rows, self.n_features)
        info.set({"feature_weights": weights})
        return info["feature_weights"]

    # For the learner

    @cached_property
    def info(self) -> MetaInfo:  # type: ignore[override]
        """Labels and all that goes with the rows, gathered from the workers."""
        fields = FieldCollector()
        for number, part in enumerate(self._map(_fields_of, self.opening)):
            if part is not None:
                fields.add(part, self.facts[number].n_rows)
        info = _Gathered(self.n_rows, self.n_features)
        info.fill(fields.whole() | {"feature_weights": self._feature_weights})
        return info

    @property
    def feature_weights(self) -> Floats | None:
        """How likely each column is to be drawn, (columns,)."""
        return self._feature_weights

    @property
    def largest_weight(self) -> float | None:
        """The largest weight of all rows; None without weights."""
        largest = [fact.largest_weight for fact in self.facts.values()]
        return max((value for value in largest if value is not None), default=None)

    def has_field(self, name: str) -> bool:
        """Return whether the rows have a field, such as ``"label"``."""
        return name in next(iter(self.facts.values())).widths

    @property
    def n_targets(self) -> int:
        """How many labels each row has; 0 without any."""
        width = next(iter(self.facts.values())).widths.get("label")
        return 0 if width is None else int(np.prod(width))

    # As in XGBoost

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns; None if they have none."""
        return self.schema.names

    @property
    def feature_types(self) -> list[str] | None:
        """Types of the columns; None if they are not known."""
        return self.schema.types

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.n_rows

    def num_col(self) -> int:
        """Return the number of columns."""
        return self.n_features

    def get_categories(self, export_to_arrow: bool = False) -> Categories:
        """Return the names of the categories of each column, those of all partitions.

        `export_to_arrow` is taken for XGBoost's sake: they always can be.
        """
        return self.schema.categories

    def set_info(self, **fields: Any) -> None:
        """Raise an error: what goes with the rows is settled."""
        raise DataError(_SETTLED, code=ErrorCode.META_INFO_SETTLED)


class DaskQuantileDMatrix(DaskDMatrix):
    """A `DaskDMatrix` that is for one number of bins, or for those of another matrix.

    On the workers every matrix that is learned from keeps only codes of its bins; this
    one is there for XGBoost's sake, and refuses to be trained with other bins.

    Parameters
    ----------
    max_bin
        Bins of a column, 256 by default; training must ask for the same number.
    ref
        The matrix whose cuts a validation set would have; the same as without, as rows
        that are only looked at are not binned.
    max_quantile_batches
        Taken for XGBoost's sake: no more than one batch is held at a time.
    client, data, label, weight, base_margin, missing, silent, feature_names, \
feature_types, group, qid, label_lower_bound, label_upper_bound, feature_weights, \
enable_categorical, cache, memory_limit, codec
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
                "leave it out",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        super().__init__(client, data, label, **others)


_SETTLED = (
    "what goes with the rows of a DaskDMatrix is settled when it is made; make it anew "
    "with label=, weight= and so on"
)


class _Gathered(MetaInfo):
    """Fields that came from workers and cannot be changed here."""

    def fill(self, fields: Mapping[str, Any]) -> None:
        """Set the fields, once."""
        super().set(fields)

    def set(self, given: Mapping[str, Any], *, whole: bool = True) -> None:
        """Raise an error."""
        raise DataError(_SETTLED, code=ErrorCode.META_INFO_SETTLED)


def _tried(task: Any, part: Partition, *args: Any) -> Any:
    """Return what a task returns, or its error: Dask would log one that is raised."""
    try:
        return task(part, *args)
    except HornbeamError as error:
        return error


def _fields_of(part: Partition, opening: Opening) -> dict[str, np.ndarray] | None:
    opened = opening.open(part)
    return None if opened is None else opened.fields


def _together(facts: Mapping[int, Facts]) -> list[list[int]]:
    """Return the partitions, those together that share a group, or raise."""
    chains: list[list[int]] = []
    before: int | None = None
    for number, fact in facts.items():
        first, last = fact.group_ends or (None, None)
        if before is not None and first is not None and first < before:
            raise DataError(
                f"qid is not sorted: partition {chains[-1][-1]} ends with {before}, "
                f"and partition {number} begins with {first}; sort the rows by qid, "
                "and what goes with them",
                code=ErrorCode.QID_NOT_SORTED,
            )
        if before is not None and first == before:
            if fact.by_group:
                raise DataError(
                    f"there is a weight for each group, and the group {first} runs "
                    f"from partition {chains[-1][-1]} into partition {number}; give "
                    "one weight for each row",
                    code=ErrorCode.WEIGHT_NOT_BY_GROUP,
                )
            chains[-1].append(number)
        else:
            chains.append([number])
        before = last
    return chains
