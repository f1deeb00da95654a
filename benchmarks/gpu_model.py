"""Compute how long a round should take on a GPU from its data sheet.

    python -m benchmarks.gpu_model

Counts the bytes that each kernel moves and the additions to local memory, and divides
them by what a device can do. Nothing is measured here: `benchmarks.gpu` does that.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

#: Bytes of one access to memory that shares none with its neighbours.
SECTOR = 32
#: Local memory of a work-group.
LOCAL_BYTES = 48 << 10
#: Of 32 work-items that add to random bins, so many hit the same of 32 banks: the mean
#: of the largest number (balls in bins).
CONFLICT = 3.5
#: Kernel launches of a level and of the rest of a round, waits of a round, and the
#: seconds of each.
LAUNCHES, OTHER_LAUNCHES, LAUNCH_SECONDS = 7, 9, 5e-6
WAITS, WAIT_SECONDS = 3, 15e-6
#: Seconds of the host for one bin of the split search on one thread, and under
#: constraints.
SEARCH_SECONDS, LIMITED_SECONDS = 2.2e-9, 5.8e-9
#: Operations in float64 for one bin of the search on the device, of which each may have
#: two cuts: a division counts as eight.
SEARCH_OPERATIONS, LIMITED_OPERATIONS = 120, 200
#: Bytes of the best split of a node.
SPLIT_BYTES = 96


@dataclass(frozen=True)
class Card:
    """A device, by its data sheet.

    Attributes
    ----------
    bandwidth
        Bytes a second of its memory.
    units, clock
        Multiprocessors, and their clock in Hz.
    link
        Bytes a second between host and device, as measured by others on such links.
    doubles
        Operations a second in float64.
    """

    name: str
    bandwidth: float
    units: int
    clock: float
    link: float
    doubles: float


CARDS = [
    Card("H100 SXM", 3.35e12, 132, 1.83e9, 50e9, 34e12),
    Card("A100 SXM 40 GB", 1.555e12, 108, 1.41e9, 24e9, 9.7e12),
    Card("L4", 0.30e12, 58, 2.04e9, 24e9, 0.47e12),
    Card("RTX 4090", 1.008e12, 128, 2.52e9, 24e9, 1.29e12),
    Card("RX 7900 XTX", 0.96e12, 96, 2.5e9, 24e9, 1.92e12),
    Card("integrated, 96 execution units", 0.0768e12, 12, 1.3e9, 20e9, 0.06e12),
]


@dataclass(frozen=True)
class Work:
    """A round: one tree of a binary objective without weights."""

    rows: int
    features: int
    depth: int
    bins: int = 256

    def _spread(self, size: int, level: int) -> float:
        """Return the bytes that are read for one value of a row of a node.

        At level k the rows of a node are 2**-k of all, in ascending order, so that
        fewer of them share a sector.
        """
        return min(SECTOR, size * 2.0**level)

    def bytes_moved(self) -> dict[str, float]:
        """Return the bytes of memory that each kernel moves."""
        rows, features, depth = self.rows, self.features, self.depth
        row_bytes = -(-features // 4) * 4
        # Each group of columns reads the rows' numbers and gradients, and its words.
        groups = -(-features * self.bins * 8 // LOCAL_BYTES)
        histograms = rows * (groups * (4 + 8) + row_bytes)
        # Below the root, the smaller one of two siblings: at most half of the rows.
        for level in range(1, depth):
            words = min(row_bytes + SECTOR - 4, row_bytes * 2.0**level)
            of_row = groups * (4 + self._spread(8, level)) + words
            histograms += rows / 2 * of_row
        # Row numbers, bins and sides; then sides and row numbers, both ways.
        moves = sum(
            rows * (4 + self._spread(1, level) + 1 + 1 + 4 + 4)
            for level in range(depth - 1)
        )
        last = depth - 1
        leaves = 4 + self._spread(1, last) + 3 * self._spread(4, last)
        return {
            "gradients": rows * (8 + 8 + 4 + 4),
            "quantise": rows * (4 + 4 + 8),
            "histograms": histograms,
            "partition": moves,
            "leaves": rows * leaves,
            "margins": rows * (4 + 8 + 8),
        }

    def additions(self) -> float:
        """Return the pairs of numbers that are added to bins in local memory."""
        return self.rows * self.features * (1 + (self.depth - 1) / 2)

    def streamed(self) -> float:
        """Return the bytes of bins that go to the device from external memory.

        Each level needs the bins by row, and the columns of the splits above it; the
        leaves need the columns of the last splits. Each node splits by another feature.
        """
        row_bytes, columns = self.features, range(self.depth)
        split = sum(min(self.features, 2**level) for level in columns)
        return float(self.rows) * (self.depth * row_bytes + split)

    @property
    def nodes(self) -> int:
        """The nodes whose splits are searched."""
        return int(2**self.depth) - 1

    def search_bytes(self) -> float:
        """Return the bytes of histograms that are cleared, subtracted and searched."""
        built = 2 ** (self.depth - 1)
        bins = self.features * self.bins
        return 16.0 * bins * (2 * built + 3 * (self.nodes - built))

    def histograms_read(self) -> float:
        """Return the bytes that the host reads if it searches: of smaller siblings."""
        return 16.0 * 2 ** (self.depth - 1) * self.features * self.bins


def search_seconds(card: Card, work: Work, of_bin: float = SEARCH_OPERATIONS) -> float:
    """Return the seconds of the split search on the device, splits to the host."""
    operations = work.nodes * work.features * work.bins * of_bin
    search = max(work.search_bytes() / card.bandwidth, operations / card.doubles)
    return search + work.nodes * SPLIT_BYTES / card.link


def seconds(card: Card, work: Work) -> dict[str, float]:
    """Return the seconds of each part of a round."""
    found = {name: own / card.bandwidth for name, own in work.bytes_moved().items()}
    # A pair takes two additions of 32 bits; a multiprocessor does 32 a cycle.
    pairs = card.units * card.clock * 32 / 2 / CONFLICT
    found["histograms"] = max(found["histograms"], work.additions() / pairs)
    found["split search"] = search_seconds(card, work)
    launches = work.depth * LAUNCHES + OTHER_LAUNCHES
    found["launches and waits"] = launches * LAUNCH_SECONDS + WAITS * WAIT_SECONDS
    return found


def host_search_seconds(
    card: Card, work: Work, threads: int, of_bin: float = SEARCH_SECONDS
) -> float:
    """Return the seconds of the split search on the host, histograms to the host."""
    bins = work.nodes * work.features * work.bins
    return bins * of_bin / threads + work.histograms_read() / card.link


def main() -> None:
    """Print a table of the parts of a round on each device."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--depths", type=int, nargs="+", default=[6, 8])
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    for depth in given.depths:
        work = Work(given.rows, given.features, depth)
        table = Table(
            title=f"{work.rows:,} x {work.features}, depth {depth}: computed ms a round"
        )
        found = [seconds(card, work) for card in CARDS]
        table.add_column("part")
        for card in CARDS:
            table.add_column(card.name, justify="right")
        for part in found[0]:
            table.add_row(part, *(f"{own[part] * 1e3:.2f}" for own in found))
        table.add_row("all", *(f"{sum(own.values()) * 1e3:.1f}" for own in found))
        more = {
            "the split search, if it were on the host": [
                host_search_seconds(card, work, given.threads) for card in CARDS
            ],
            "the same under constraints": [
                host_search_seconds(card, work, given.threads, LIMITED_SECONDS)
                for card in CARDS
            ],
            "and on the device": [
                search_seconds(card, work, LIMITED_OPERATIONS) for card in CARDS
            ],
            "histograms of a second device to the first": [
                2 * work.histograms_read() / card.link for card in CARDS
            ],
        }
        for name, each in more.items():
            table.add_row(name, *(f"{one * 1e3:.2f}" for one in each))
        streamed = (f"{work.streamed() / card.link * 1e3:.0f}" for card in CARDS)
        table.add_row("bins from external memory, meanwhile", *streamed)
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
