"""Actors with the rows of a matrix, placed on workers as for training."""

from hornbeam.dask.cluster import DaskCluster, this_worker
from hornbeam.dask.rpc import ReducingActor
from hornbeam.distributed.shard import Shard
from hornbeam.distributed.transport import Share


class RowsActor(ReducingActor, Shard):
    """An actor that returns its rows, fields and bins."""

    def __init__(self, numbers, partitions, reader):
        ReducingActor.__init__(self)
        Shard.__init__(self, numbers, partitions, reader, this_worker())

    def bins(self):
        return self.spans, self.binned

    def block(self, start, stop):
        return self.rows(start, stop)

    def fields(self):
        return self.spans, self.info.fields()


def place(matrix, n_actors=2):
    """Return a cluster, and actors with the partitions in turn."""
    cluster = DaskCluster(matrix.client, RowsActor)
    places = cluster.alive()
    shares = []
    for i in range(min(n_actors, len(matrix.together))):
        chains = matrix.together[i::n_actors]
        numbers = tuple(sorted(number for chain in chains for number in chain))
        parts = tuple(matrix.parts[number] for number in numbers)
        shares.append(Share(numbers, places[i % len(places)], parts))
    actors = cluster.place(shares, matrix.reader)
    cluster.call(actors, "prepare", matrix.schema, matrix.first_rows)
    return cluster, actors
