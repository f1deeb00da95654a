"""A model of a training on a cluster: seconds of a round, memory and traffic.

The seconds come from measured rates (docs/scale.md). The model ignores slow workers,
shared links, and overlap of the steps of a round, except of reading with building
histograms and of receiving with adding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hornbeam.distributed.reduction_tree import TREE_FROM, TREE_WIDTH

__all__ = [
    "ENGINES",
    "EXCHANGES",
    "MEASURED",
    "Cluster",
    "Job",
    "Memory",
    "Rates",
    "Round",
    "estimate",
    "exchange_of",
    "is_paged",
    "least_workers",
    "memory_of",
    "traffic_of",
]

#: Sums of gradients and of hessians, int64 each.
_BYTES_PER_CELL = 16
#: A row's label, margin, gradient, hessian, packed pair, two row numbers and a leaf.
_BYTES_PER_ROW = 48
#: Bytes of a bin index in memory, in two orders.
_CODES_PER_CELL = 2
#: Bytes of Python, packages and loaded kernels.
_PROCESS_BYTES = 300e6


@dataclass(frozen=True)
class Rates:
    """Costs in seconds; kernels on one thread."""

    cell: float
    """One row and feature in a histogram."""
    move: float
    """One row sent to a child."""
    row: float
    """One row in a round beside that: gradient, rounding, leaf, margin."""
    bin: float
    """One bin in the search for splits."""
    call: float
    """A call to one actor by the driver, and its answer, both small."""
    actor: float
    """Each further actor that is called at once."""
    hop: float
    """A call from one actor to another."""
    byte: float
    """A byte of an answer: packed, sent within one machine, unpacked, added up."""
    group_hop: float = 0.06e-3
    """A message from one process of a group to another."""


#: Measured by ``python -m benchmarks.scale`` (docs/scale.md).
MEASURED = Rates(
    cell=0.67e-9,
    move=2.0e-9,
    row=18e-9,
    bin=4.0e-9,
    call=1.0e-3,
    actor=0.24e-3,
    hop=2.4e-3,
    byte=0.70e-9,
)


@dataclass(frozen=True)
class Job:
    """The training: one tree per round."""

    rows: float
    features: int
    bins: int = 256
    depth: int = 6

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in memory while trees are grown: its bins and its state."""
        cell_bytes = _CODES_PER_CELL * (1 if self.bins <= 256 else 2)
        return cell_bytes * self.features + _BYTES_PER_ROW

    @property
    def histograms(self) -> float:
        """Bytes of the histograms of a level and of the level above it."""
        return 1.5 * 2**self.depth * self.features * self.bins * _BYTES_PER_CELL

    @property
    def exchanged(self) -> float:
        """Bytes of the histograms that each worker builds for a tree.

        Only one of two siblings is built: 1 + 1 + 2 + 4 + ... over the levels.
        """
        counted = 2 ** (self.depth - 1)
        return counted * self.features * self.bins * _BYTES_PER_CELL

    @property
    def searched(self) -> float:
        """Number of histogram bins searched for a tree."""
        return (2**self.depth - 1) * self.features * self.bins


@dataclass(frozen=True)
class Cluster:
    """Equal workers, and a driver on the same kind of machine."""

    workers: int
    threads: int = 16
    efficiency: float = 0.75
    """The share of `threads` times one thread's speed that all of them reach."""
    network: float = 10e9 / 8
    """Bytes a second of every link."""
    memory: float = 256e9
    """Bytes of memory a worker."""
    disk: float = 3e9
    """Bytes a second read by a worker, where codes do not fit in memory."""

    @property
    def speed(self) -> float:
        """Speed of a machine relative to one thread."""
        return 1.0 if self.threads == 1 else self.threads * self.efficiency


@dataclass(frozen=True)
class Round:
    """Seconds of the parts of one round."""

    counting: float
    """Histograms, partition and the other loops over rows, on the workers."""
    reading: float
    """Reading codes from disk beyond the time of counting."""
    messages: float
    """Waiting for messages, however small."""
    bytes: float
    """Sending histograms and adding them up."""
    searching: float
    """The search for splits."""

    @property
    def seconds(self) -> float:
        """The sum of all parts."""
        return sum(vars(self).values())

    @property
    def bound(self) -> str:
        """The longest part."""
        return max(vars(self), key=lambda part: vars(self)[part])


@dataclass(frozen=True)
class Memory:
    """Bytes of memory of a worker."""

    values: float
    """The values of its rows, which the engine holds; until they are binned."""
    rows: float
    """Bins, and the state of its rows."""
    histograms: float
    """Histograms of a tree's nodes."""
    process: float = _PROCESS_BYTES
    """Python, packages and loaded kernels."""

    @property
    def most(self) -> float:
        """The sum, which is reached while the rows are binned."""
        return sum(vars(self).values())


def memory_of(job: Job, workers: int, value_bytes: int = 4) -> Memory:
    """Return the memory of a worker; `value_bytes` is that of a feature's value."""
    rows = job.rows / workers
    return Memory(
        rows * job.features * value_bytes, rows * job.row_bytes, job.histograms
    )


def least_workers(job: Job, cluster: Cluster, value_bytes: int = 4) -> int:
    """Return how many workers have the memory for the job."""
    per_row = job.row_bytes + job.features * value_bytes
    room = cluster.memory - job.histograms - _PROCESS_BYTES
    return max(1, math.ceil(job.rows * per_row / room)) if room > 0 else 0


def is_paged(job: Job, cluster: Cluster) -> bool:
    """Whether the bins do not fit into the memory of the workers."""
    return job.rows / cluster.workers * job.row_bytes > cluster.memory


def _counting(job: Job, cluster: Cluster, rates: Rates) -> tuple[float, float]:
    """Return the seconds of kernels over rows, and of additional reading."""
    rows = job.rows / cluster.workers
    # At most half of the rows are in the smaller siblings of a level.
    counted = 1 + (job.depth - 1) / 2
    cells = rows * job.features * counted * rates.cell
    others = rows * (job.depth * rates.move + rates.row)
    counting = (cells + others) / cluster.speed
    if not is_paged(job, cluster):
        return counting, 0.0
    per_row = job.features * (1 if job.bins <= 256 else 2)
    if rows * _BYTES_PER_ROW > cluster.memory:
        per_row += _BYTES_PER_ROW
    reading = rows * job.depth * per_row / cluster.disk
    return counting, max(0.0, reading - counting)


def _tree_depth(workers: int, width: int = TREE_WIDTH) -> int:
    """Return the number of hops of a message in a tree of this width."""
    depth = reached = 0
    while reached < workers:
        depth += 1
        reached += width**depth
    return depth


def _star_call(cluster: Cluster, rates: Rates) -> float:
    return rates.call + (cluster.workers - 1) * rates.actor


def _tree_call(cluster: Cluster, rates: Rates) -> float:
    below = min(TREE_WIDTH, cluster.workers)
    beyond = (_tree_depth(cluster.workers) - 1) * (
        rates.hop + (TREE_WIDTH - 1) * rates.actor
    )
    return rates.call + (below - 1) * rates.actor + beyond


def _per_byte(cluster: Cluster, rates: Rates) -> float:
    """Return the seconds per byte of receiving and adding, which overlap."""
    return max(rates.byte, 1.0 / cluster.network)


Parts = tuple[float, float, float]
"""Seconds of messages, bytes and the search for splits."""


def _star(job: Job, cluster: Cluster, rates: Rates) -> Parts:
    """The driver receives and adds all histograms."""
    messages = (job.depth + 1) * _star_call(cluster, rates)
    received = cluster.workers * job.exchanged
    searching = job.searched * rates.bin / cluster.speed
    return messages, received * _per_byte(cluster, rates), searching


def _tree(job: Job, cluster: Cluster, rates: Rates) -> Parts:
    """Tree reduction: workers add the histograms of workers below them."""
    messages = (job.depth + 1) * _tree_call(cluster, rates)
    width = min(TREE_WIDTH, cluster.workers)
    received = _tree_depth(cluster.workers) * width * job.exchanged
    searching = job.searched * rates.bin / cluster.speed
    return messages, received * _per_byte(cluster, rates), searching


def _sliced(job: Job, cluster: Cluster, rates: Rates, exchange: Parts) -> Parts:
    """Return the parts if owners of features search and the driver selects splits."""
    # Splits are small messages and take the path with the lower latency.
    calls = min(_star_call(cluster, rates), _tree_call(cluster, rates))
    messages, received, _ = exchange
    owners = min(cluster.workers, job.features)
    searching = job.searched * rates.bin / cluster.speed / owners
    return (
        (job.depth + 1) * calls + job.depth * messages,
        received * _per_byte(cluster, rates),
        searching,
    )


def _slices(job: Job, cluster: Cluster, rates: Rates) -> Parts:
    """Reduce-scatter: each worker owns some features and receives their histograms."""
    others = cluster.workers - 1
    messages = rates.hop + (others - 1) * rates.actor if others > 0 else 0.0
    owners = min(cluster.workers, job.features)
    return _sliced(job, cluster, rates, (messages, others * job.exchanged / owners, 0))


def _halving(job: Job, cluster: Cluster, rates: Rates) -> Parts:
    """Recursive halving: pairs of workers exchange halves, then quarters, ..."""
    steps = math.ceil(math.log2(cluster.workers))
    owners = min(cluster.workers, job.features)
    halvings = math.ceil(math.log2(owners))
    received = job.exchanged * (1 - 1 / owners)
    received += (steps - halvings) * job.exchanged / owners
    return _sliced(job, cluster, rates, (steps * rates.hop, received, 0))


def _group(job: Job, cluster: Cluster, rates: Rates) -> Parts:
    """Recursive doubling: pairs of processes exchange sums, pairs of pairs, and so on.

    Processes beyond a power of two send theirs to another one before, and get the
    result after it.
    """
    steps = cluster.workers.bit_length() - 1
    hops = steps + 2 * (cluster.workers > 1 << steps)
    messages = (job.depth + 1) * hops * rates.group_hop
    searching = job.searched * rates.bin / cluster.speed
    exchanged = traffic_of(job, cluster, "group")
    return messages, exchanged * _per_byte(cluster, rates), searching


#: Methods to reduce histograms.
EXCHANGES: dict[str, Callable[[Job, Cluster, Rates], Parts]] = {
    "star": _star,
    "tree": _tree,
    "slices": _slices,
    "halving": _halving,
    "group": _group,
}
#: The engines of `exchange_of`.
ENGINES = ("dask", "ray", "spark", "group")


def exchange_of(engine: str, workers: int) -> str:
    """Return the method by which an engine reduces histograms: of `EXCHANGES`."""
    if engine != "dask":
        return "group"
    return "tree" if workers >= TREE_FROM else "star"


def traffic_of(job: Job, cluster: Cluster, exchange: str) -> float:
    """Return the bytes that pass the busiest link in a round: "star", "tree", "group".

    It is that of the client, of a worker in the tree, or of a process in the group that
    stands in for one beyond a power of two, if any does.
    """
    workers = cluster.workers
    if exchange == "star":
        return workers * job.exchanged
    if exchange == "tree":
        return (min(TREE_WIDTH, workers) + 1) * job.exchanged
    return 2 * (workers - 1).bit_length() * job.exchanged


def estimate(job: Job, cluster: Cluster, rates: Rates, exchange: str) -> Round:
    """Return the seconds of one round with one of `EXCHANGES`."""
    counting, reading = _counting(job, cluster, rates)
    return Round(counting, reading, *EXCHANGES[exchange](job, cluster, rates))
