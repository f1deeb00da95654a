"""Compare where the best splits of a level are searched, on the host or on the device.

    python -m benchmarks.gpu_split_search --device opencl:0:0

One level of a tree, from histograms of the smaller siblings that are on the device to
the best split of each node, by numerical features, under monotone constraints, or by
sets of categories. On the host: these histograms are read, and the split search
subtracts them from the parents' as it begins. On the device: kernels subtract and
search, and the splits are read. Prints the milliseconds of a level, the least of many
alternating repeats, and the CPU time of the process; the splits have to be equal. The
last columns are the CPU time to read the other siblings' histograms as well, and to
subtract them on the host.
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
from hornbeam.backends.opencl.devices import find_device
from hornbeam.backends.opencl.histograms import DeviceHistograms
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.split_search import DeviceSplitSearch
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import Team, lease

RULES = SplitParams(1.0, 0.0, 0.0, 1.0).rules
_NO_SPLITS = np.empty(0, SPLIT_DTYPE)


class Level:
    """The histograms of a level of pairs of siblings, on the host and on the device."""

    def __init__(
        self, device: str, pairs: int, features: int, bins: int, kind: str
    ) -> None:
        rng = np.random.default_rng(0)
        n_bins = np.full(features, bins)
        offsets = np.append(0, np.cumsum(n_bins))
        self._layout = HistogramLayout.unbundled(n_bins, offsets)
        self._layout.is_categorical[:] = kind == "sets"
        self._pairs = pairs
        self._limits = None
        if kind == "monotone":
            self._limits = NodeConstraints(
                np.tile([-np.inf, np.inf], (2 * pairs, 1)),
                np.full(2 * pairs, np.nan),
                np.ones(features, np.int8),
                np.empty(0),
                np.empty((2 * pairs, 0), np.uint64),
            )
        # Each feature has the same sums, but for its missing values.
        children = rng.integers(-900, 900, (2, pairs, 2, features, bins))
        children[:, :, 1] = 1000 + np.abs(children[:, :, 1])
        children[..., 1:, 0] += children[..., :1, :].sum(-1) - children[..., 1:, :].sum(
            -1
        )
        if kind == "missing":
            children[..., 1:, 0] = 0
        built, others = children.reshape(2, pairs, 2, features * bins)
        #: Of the parents, whose slots become the larger siblings', and of the others.
        self._first = np.concatenate([built + others, built])
        self._sums = self._first.copy()
        self._slots = np.arange(2 * pairs)
        queue = self._queue = DeviceQueue(find_device(device))
        self._on_device = DeviceHistograms(queue, self._layout, np.dtype(np.uint8))
        self._on_device.choose(np.arange(features, dtype=np.uint64))
        self._on_device.begin_in(self._slots)
        own = queue, self._on_device, self._layout
        self._device_search = DeviceSplitSearch(*own)
        self._read = np.empty((2 * pairs, *built.shape[1:]), np.int64)

    def reset(self) -> None:
        """Put the parents in their slots, which a search has changed."""
        self._sums[:] = self._first
        self._queue.write(self._on_device.sums, self._first)
        parents, none = self._slots[: self._pairs], np.full(self._pairs, -1)
        self._search_there(np.stack([none, parents, none]), parents)

    def on_host(self, team: Team) -> Any:
        """Read the histograms of the smaller siblings, and search."""
        pairs, features = self._pairs, self._layout.n_features
        table = self._layout.feature_table
        half = self._read[:pairs]
        self._queue.read(self._on_device.sums, half)  # as many bytes as the others
        self._sums[pairs:] = self._first[pairs:]
        every = np.arange(features, dtype=np.uint64)
        block = max(1, min(features // team.size, 4096 // int(table["bins"][0])))
        parts = -(-features // block)
        splits = np.empty((2 * pairs, parts), SPLIT_DTYPE)
        words = -(-self._layout.max_categories // 64)
        sets = np.empty((*splits.shape, words), np.uint64 if words else np.uint8)
        own = self._slots, self._slots[pairs:], self._slots[:pairs]
        team.run(
            find_splits,
            team.size,
            NodeHistograms(self._sums, *own, table, self._layout.offsets[:2]),
            CandidateFeatures(every, EVERY_FEATURE, block),
            np.ones(2),
            RULES,
            self._limits,
            np.empty((team.size, 6, 2 * int(table["bins"].max()) + 1)),
            splits,
            sets,
        )
        best = splits["gain"].argmax(axis=1)
        return splits[self._slots, best]

    def on_device(self, _: Team) -> Any:
        """Search on the device, and read the splits."""
        pairs = self._pairs
        none = np.full(pairs, -1)
        built = np.stack([none, self._slots[pairs:], self._slots[:pairs]])
        return self._search_there(built, self._slots)

    def read_others(self, _: Team) -> Any:
        """Read the histograms of the other siblings, too, as if they were there."""
        self._queue.read(self._on_device.sums, self._read[: self._pairs])
        return _NO_SPLITS

    def subtract(self, _: Team) -> Any:
        """Subtract on the host, on one thread."""
        own, built = self._sums[: self._pairs], self._sums[self._pairs :]
        np.subtract(own, built, out=own)
        return _NO_SPLITS

    def _search_there(self, built: Any, slots: Any) -> Any:
        every_row = self._layout.offsets[:2]
        own = built, slots, EVERY_FEATURE, every_row, np.ones(2), RULES
        limits = self._limits
        if limits is not None:
            limits = limits.part(0, slots.size)
        splits, _ = self._device_search.find_splits(SplitSearch(*own, limits=limits))
        return splits


def measure(
    level: Level, way: Callable[[Team], Any], team: Team
) -> tuple[float, float, bytes]:
    """Return wall and CPU seconds of a level, and its splits."""
    level.reset()
    wall, cpu = perf_counter(), process_time()
    splits = way(team)
    seconds = perf_counter() - wall, process_time() - cpu
    return *seconds, b"".join(splits[name].tobytes() for name in SPLIT_DTYPE.names)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--features", type=int, nargs="+", default=[28, 1000])
    parser.add_argument("--bins", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=16)
    kinds = "numerical", "missing", "monotone", "sets"
    parser.add_argument("--kind", choices=kinds, default=kinds[0])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    table = Table(title=f"{given.pairs} pairs of siblings, {given.bins} bins: ms")
    columns = "features", "host", "device", "host, CPU", "device, CPU", "ratio"
    for column in (*columns, "read both, CPU", "subtract, CPU"):
        table.add_column(column, justify="right")
    for features in given.features:
        sizes = given.pairs, features, given.bins
        level = Level(given.device, *sizes, given.kind)
        ways = level.on_host, level.on_device, level.read_others, level.subtract
        with lease(given.threads) as team:
            found = [
                [measure(level, way, team) for way in ways]
                for _ in range(given.repeats)
            ]
        splits = {own[2] for each in found for own in each[:2]}
        assert len(splits) == 1, "the splits differ"
        walls, cpus = (
            1e3 * np.array([[own[which] for own in each] for each in found])[1:].min(0)
            for which in range(2)
        )
        times = (f"{own:.2f}" for own in (*walls[:2], *cpus[:2]))
        more = (f"{own:.2f}" for own in cpus[2:])
        ratio = f"{walls[1] / walls[0]:.2f}"
        table.add_row(f"{features:,}", *times, ratio, *more)
    Console().print(table)


if __name__ == "__main__":
    main()
