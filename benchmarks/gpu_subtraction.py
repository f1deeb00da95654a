"""Compare where the histogram of the larger sibling is computed, host or device.

    python -m benchmarks.gpu_subtraction --device opencl:0:0

One level of a tree, from histograms of the smaller siblings that are on the device to
the best split of each node. On the host: the histograms of half of the nodes are read,
and the split search subtracts them from the parents' as it begins. On the device: a
kernel subtracts, and the histograms of all nodes are read. Prints the milliseconds of a
level, the least of many alternating repeats, and the CPU time of the process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hornbeam.backends.interface import EVERY_FEATURE, SplitParams
from hornbeam.backends.opencl.devices import find_device, opencl
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import Team, lease

SUBTRACT = """
__kernel void subtract(
    __global const long* parents, __global const long* built, __global long* others)
{
    size_t i = get_global_id(0);
    others[i] = parents[i] - built[i];
}
"""
_NO_SLOTS = np.empty(0, np.int64)


class Level:
    """The histograms of a level of pairs of siblings, on the host and on the device."""

    def __init__(self, device: str, pairs: int, features: int, bins: int) -> None:
        rng, cl = np.random.default_rng(0), opencl()
        n_bins = np.full(features, bins)
        offsets = np.append(0, np.cumsum(n_bins))
        self.layout = HistogramLayout.unbundled(n_bins, offsets)
        shape = pairs, 2, features * bins
        self.parents = rng.integers(1000, 2000, shape)
        built = rng.integers(1, 900, shape)
        #: The slots of the parents, which become the larger siblings', and the others.
        self.slots = np.arange(2 * pairs)
        self.sums = np.empty((2 * pairs, *shape[1:]), np.int64)
        context = cl.Context([find_device(device).handle])
        self._cl, self._queue = cl, cl.CommandQueue(context)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        every = np.stack([built, built])
        self._parents = cl.Buffer(context, flags, hostbuf=self.parents)
        self._all = cl.Buffer(context, flags, hostbuf=every)
        # The larger siblings follow, in the same buffer: the first half is aligned.
        self._others = self._all.get_sub_region(built.nbytes, built.nbytes)
        self._built = self._all.get_sub_region(0, built.nbytes)
        self._subtract = cl.Kernel(cl.Program(context, SUBTRACT).build(), "subtract")
        self._half, self._whole = np.empty_like(built), np.empty_like(every)

    def on_host(self, team: Team) -> Any:
        """Read half of the histograms, and subtract in the split search."""
        pairs = len(self._half)
        self._cl.enqueue_copy(self._queue, self._half, self._all)
        self.sums[pairs:] = self._half
        return self._search(team, self.slots[pairs:], self.slots[:pairs])

    def on_device(self, team: Team) -> Any:
        """Subtract, and read all histograms."""
        pairs, size = len(self._half), self.parents.size
        buffers = self._parents, self._built, self._others
        self._subtract(self._queue, (size,), None, *buffers)
        self._cl.enqueue_copy(self._queue, self._whole, self._all)
        self.sums[pairs:], self.sums[:pairs] = self._whole
        return self._search(team, _NO_SLOTS, _NO_SLOTS)

    def reset(self) -> None:
        """Put the parents in their slots, which a search has changed."""
        self.sums[: len(self.parents)] = self.parents

    def _search(self, team: Team, built: Any, parents: Any) -> Any:
        features, nodes = self.layout.n_features, self.slots.size
        widest = int(self.layout.n_bins.max()) + 1
        splits = np.empty((nodes, features), SPLIT_DTYPE)
        table = self.layout.feature_table
        totals = self.layout.offsets[:2]
        team.run(
            find_splits,
            team.size,
            NodeHistograms(self.sums, self.slots, built, parents, table, totals),
            CandidateFeatures(np.arange(features, dtype=np.uint64), EVERY_FEATURE, 1),
            np.ones(2),
            SplitParams(1.0, 0.0, 0.0, 1.0).rules,
            None,
            np.empty((team.size, 6, widest)),
            splits,
            np.empty((nodes, features, 0), np.uint8),
        )
        return splits


def measure(
    level: Level, way: Callable[[Team], Any], team: Team
) -> tuple[float, float, bytes]:
    """Return wall and CPU seconds of a level, and its splits."""
    level.reset()
    wall, cpu = perf_counter(), process_time()
    splits = way(team)
    return perf_counter() - wall, process_time() - cpu, splits.tobytes()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--features", type=int, nargs="+", default=[28, 1000])
    parser.add_argument("--bins", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    table = Table(title=f"{given.pairs} pairs of siblings, {given.bins} bins: ms")
    for column in ("features", "host", "device", "host, CPU", "device, CPU", "ratio"):
        table.add_column(column, justify="right")
    for features in given.features:
        level = Level(given.device, given.pairs, features, given.bins)
        ways = level.on_host, level.on_device
        with lease(given.threads) as team:
            found = [
                [measure(level, way, team) for way in ways]
                for _ in range(given.repeats)
            ]
        splits = {own[2] for pair in found for own in pair}
        assert len(splits) == 1, "the splits differ"
        host, device = (
            np.array([own[:2] for own in way]) for way in zip(*found, strict=True)
        )
        walls = host[1:, 0].min(), device[1:, 0].min()
        cpus = host[1:, 1].min(), device[1:, 1].min()
        times = (f"{1e3 * own:.2f}" for own in (*walls, *cpus))
        table.add_row(f"{features:,}", *times, f"{walls[1] / walls[0]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
