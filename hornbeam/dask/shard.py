"""The rows of some partitions as an actor of Dask."""

from __future__ import annotations

from collections.abc import Sequence

from distributed import get_worker

from hornbeam.dask.rpc import ReducingActor
from hornbeam.distributed.partition_rows import Worker
from hornbeam.distributed.partitions import Partition, PartitionReader
from hornbeam.distributed.shard import Shard

__all__ = ["DaskShard", "this_worker"]


class DaskShard(ReducingActor, Shard):
    """A `Shard` on a Dask worker; the parameters are the same, but for the worker."""

    def __init__(
        self,
        numbers: Sequence[int],
        partitions: Sequence[Partition],
        reader: PartitionReader,
    ) -> None:
        ReducingActor.__init__(self)
        Shard.__init__(self, numbers, partitions, reader, this_worker())


def this_worker() -> Worker:
    """Return the Dask worker whose task or actor calls this."""
    worker = get_worker()
    return Worker(str(worker.address), int(worker.state.nthreads))
