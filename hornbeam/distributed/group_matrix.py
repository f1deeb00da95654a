"""Matrices of which each process of a group has a part, and calls for all parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Cluster, RowActor
from hornbeam.backends.cluster_rows import PartialSums
from hornbeam.binning.cuts import Cuts
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.external import ExternalMatrix
from hornbeam.binning.external_build import build_worker_external
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.schema import Schema
from hornbeam.distributed.binned_rows import BinnedRows
from hornbeam.distributed.binning import BinOptions, bin_partitions
from hornbeam.distributed.group import Group
from hornbeam.distributed.partition_schema import (
    align_partition,
    check_fields,
    describe,
    merge_parts,
    merge_schemas,
)
from hornbeam.errors import DataError, ErrorCode
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.expansion import with_parts
from hornbeam.shared_memory import SharedMemory

__all__ = [
    "GroupCluster",
    "GroupPart",
    "OwnRows",
    "align_part",
    "bin_external_part",
    "bin_matrix",
    "bins_of",
    "join_fields",
    "part_of",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupPart:
    """The place of a process's rows among those of all processes.

    Attributes
    ----------
    schema
        The columns, with the categories of all processes.
    derived
        The parts of times that vary in all processes together; None: no times.
    n_rows
        Number of rows of all processes.
    first_row
        The number of the first own row among them: those of rank 0 come first.
    largest_weight
        Of all rows; None without weights.
    """

    schema: Schema
    derived: DerivedFeatures | None
    n_rows: int
    first_row: int
    largest_weight: float | None


def part_of(group: Group, data: DMatrix) -> GroupPart:
    """Return the place of the rows of `data`, which every process has a part of.

    Raises a `DataError` if the parts have different columns or fields.
    """

    def own() -> Any:
        if data.n_rows == 0:
            return None
        fields = data.info.fields()
        widths = {name: values.shape[1:] for name, values in fields.items()}
        return describe(data.table, data.info, widths)

    found = group.gather("describe a matrix", own)
    infos = {rank: info for rank, info in enumerate(found) if info is not None}
    if not infos:
        raise DataError(
            "no process of the group has rows; at least one must have some",
            code=ErrorCode.EMPTY_DATA,
        )
    check_fields(infos)
    rows = [0 if info is None else info.n_rows for info in found]
    weights = [info.largest_weight for info in infos.values()]
    schema = merge_schemas(infos)
    return GroupPart(
        schema,
        merge_parts(infos, schema),
        sum(rows),
        sum(rows[: group.rank]),
        max((weight for weight in weights if weight is not None), default=None),
    )


def align_part(data: DMatrix, part: GroupPart) -> None:
    """Give a matrix the columns and the category codes of all processes."""
    data.table = align_partition(
        data.table, part.schema, "error", "the other processes"
    )
    if part.derived is not None:
        data.use_derived(with_parts(data.table, part.derived), part.derived)


class GroupCluster(Cluster):
    """The processes of a group, each with an object that has a part of the rows.

    There is no client: each process calls the methods of its own object, and all get
    the results of all.

    Parameters
    ----------
    group
        The group.
    own
        The object of this process.
    """

    def __init__(self, group: Group, own: Any) -> None:
        self._group, self._own = group, own
        self.actors = [
            RowActor(rank, name, (rank,)) for rank, name in enumerate(group.names)
        ]
        # A call merges at most once for each bit of the size. Others may still read the
        # sums of a call while those of the next one are computed.
        n_merges = group.size.bit_length()
        self._memories = cycle([SharedMemory() for _ in range(2 * n_merges)])

    def call(self, actors: Sequence[RowActor], operation: str, *args: Any) -> list[Any]:
        return self._group.gather(
            operation, lambda: getattr(self._own, operation)(*args)
        )

    def merge(
        self,
        actors: Sequence[RowActor],
        merge: Callable[[Any, Any], Any],
        operation: str,
        *args: Any,
    ) -> Any:
        return self._group.combine(
            operation, lambda: getattr(self._own, operation)(*args), merge
        )

    def sum(self, actors: Sequence[RowActor], operation: str, *args: Any) -> Any:
        return self.merge(actors, self._add, operation, *args)

    def _add(self, one: PartialSums, other: PartialSums) -> PartialSums:
        return one.added(other, next(self._memories))


class OwnRows(BinnedRows):
    """The rows of this process, among those of all processes.

    Parameters
    ----------
    group, part
        The group, and the place of the rows.
    data
        The matrix, with the columns and the category codes of all processes.
    caching
        As for `BinnedRows`.
    """

    def __init__(
        self, group: Group, part: GroupPart, data: DMatrix, caching: Any
    ) -> None:
        super().__init__(caching)
        self.set_table(data.table, [data.table])
        self.group, self.part = group, part
        self._info, self._weights = data.info, data.row_weights
        self._all_info: MetaInfo | None = None

    @property
    def row_weights(self) -> Floats | None:
        return self._weights

    @property
    def own_bins(self) -> DenseMatrix | ExternalMatrix:
        """The bins, once there are some."""
        assert self.binned is not None
        return self.binned

    def thresholds(self, splits: NDArray[Any], rounded: bool = False) -> Floats:
        """Return the thresholds of splits, by the present cuts (`Cuts.thresholds`)."""
        return self.own_bins.cuts.thresholds(splits, rounded)

    def bin_all(
        self,
        max_bin: int,
        n_threads: int,
        largest_weight: float | None,
        *,
        keep_features: bool = False,
    ) -> None:
        """Bin the rows by the cuts of the rows of all processes.

        `largest_weight` is that of all rows, None without weights. The features are
        kept if the rows will be binned again.
        """
        cluster = GroupCluster(self.group, self)
        options = BinOptions(
            self.table.schema,
            self.part.n_rows,
            max_bin,
            n_threads,
            keep_columns=self.keeps_columns,
            keep_features=keep_features,
        )
        bin_partitions(cluster, cluster.actors, options, largest_weight)

    def all_info(self) -> MetaInfo:
        """Return the fields of the rows of all processes.

        They are gathered by the first call, which all processes make.
        """
        if self._all_info is None:
            own = self._info
            found = self.group.gather(
                "labels and weights", lambda: (own.fields(), own.n_rows)
            )
            parts, sizes = zip(*found, strict=True)
            self._all_info = join_fields(parts, sizes, own.n_features)
        return self._all_info


def bin_matrix(
    group: Group, data: DMatrix, max_bin: int, n_threads: int
) -> DenseMatrix | ExternalMatrix:
    """Return the bins of `data` by the cuts of the rows of all processes.

    The matrix gets the columns and the category codes of all processes.
    """
    part = part_of(group, data)
    align_part(data, part)
    rows = OwnRows(group, part, data, data.cache_options)
    rows.bin_all(max_bin, n_threads, part.largest_weight)
    return rows.own_bins


def bins_of(
    group: Group, data: DMatrix, max_bin: int, nthread: int
) -> DenseMatrix | ExternalMatrix:
    """Return the bins of `data` as `bin_matrix` does, on the first call, and keep them.

    Bins that the matrix has already are returned.
    """
    if not data.has_bins(max_bin):
        data.use_bins(max_bin, bin_matrix(group, data, max_bin, nthread))
    binned = data.binned(max_bin, nthread)
    assert isinstance(binned, DenseMatrix | ExternalMatrix)
    return binned


def join_fields(
    parts: Sequence[Mapping[str, NDArray[Any]]], sizes: Sequence[int], n_features: int
) -> MetaInfo:
    """Return the fields of the rows of all processes, from those of each.

    `sizes` are their numbers of rows. Processes without rows may have no fields.
    """
    info = MetaInfo(sum(sizes), n_features)
    fields: dict[str, NDArray[Any]] = {}
    filled = [
        (part, first)
        for part, size, first in zip(
            parts, sizes, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True
        )
        if size > 0
    ]
    for name in filled[0][0] if filled else ():
        if name == "feature_weights":
            fields[name] = filled[0][0][name]
        elif name == "group_ptr":
            starts = [part[name][:-1] + first for part, first in filled]
            fields[name] = np.append(np.concatenate(starts), info.n_rows)
        else:
            fields[name] = np.concatenate([part[name] for part, _ in filled])
    info.set(fields)
    return info


def bin_external_part(data: DMatrix, cuts: Cuts) -> ExternalMatrix:
    """Return the bins of `data` by the cuts of another matrix, in external memory.

    Processes that share the cache have a folder each.
    """
    options, max_bin = data.cache_options, int(cuts.n_bins.max())
    assert options is not None
    given = data.table, cuts.columns(), max_bin, options, data.nthread
    return build_worker_external(*given, own_cuts=False)
