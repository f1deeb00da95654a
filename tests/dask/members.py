"""Rows of a matrix on members of a cluster, as training places them."""

from hornbeam.backends.cluster import Share
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.rowset import Rowset
from hornbeam.dask.rpc import Answering


class Holder(Answering, Rowset):
    """A member that only holds rows."""

    def __init__(self, numbers, partitions, opening):
        Answering.__init__(self)
        Rowset.__init__(self, partitions, opening)

    def codes(self):
        return self.spans, self.binned

    def block(self, start, stop):
        return self.rows(start, stop)

    def fields(self):
        return self.spans, self.info.fields()


def place(matrix, n_members=2):
    """Return a cluster, and members that hold the partitions in turn."""
    cluster = DaskCluster(matrix.client, Holder)
    places = cluster.alive()
    shares = []
    for i in range(min(n_members, len(matrix.together))):
        chains = matrix.together[i::n_members]
        numbers = tuple(sorted(number for chain in chains for number in chain))
        parts = tuple(matrix.parts[number] for number in numbers)
        shares.append(Share(numbers, places[i % len(places)], parts))
    members = cluster.place(shares, matrix.opening)
    cluster.call(members, "prepare", matrix.schema, matrix.first_rows)
    return cluster, members
