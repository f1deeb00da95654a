"""Compute what a GPU would save by binning values that the host bins now.

    python -m benchmarks.gpu_binning

Measures the host, in CPU seconds of one thread: finding the cuts of a column, and
mapping its values to bins. Then computes, for 10,000,000 rows of 28 features and the
links of `benchmarks.gpu_model`, what it saves once to copy float32 values to the
device and to bin them there, in place of copying bins of one byte.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import made
from benchmarks.gpu_model import CARDS
from hornbeam.binning.value_counts import cut_column

VALUES = 10_000_000 * 28
THREADS = (8, 16, 32, 64)


def nanoseconds(call: Callable[[], Any], values: int, repeats: int) -> float:
    """Return the least CPU nanoseconds for each value."""
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return 1e9 * min(found) / values


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    x, _ = made(given.rows, 4, seed=0)
    own: list[list[float]] = []
    for column in np.ascontiguousarray(x.T, np.float32):
        cuts, bins = cut_column(column, 256, None), np.empty(given.rows, np.uint8)
        calls = (
            lambda c=column: cut_column(c, 256, None),
            lambda c=column, k=cuts, b=bins: k.map_to_bins(c, b),
        )
        own.append([nanoseconds(call, given.rows, given.repeats) for call in calls])
    cutting, binning = np.mean(own, axis=0)
    print(f"ns a value and thread: cuts {cutting:.1f}, bins {binning:.1f}")
    table = Table(title=f"ms once for {VALUES:,} values: computed")
    for title in ("threads", "cuts", "bins on the host"):
        table.add_column(title, justify="right")
    for card in CARDS:
        table.add_column(f"saved, {card.name}", justify="right")
    for threads in THREADS:
        host = [ns * VALUES / threads * 1e-6 for ns in (cutting, binning)]
        # Three bytes more for each value; then the device reads four and writes one.
        device = [
            3e3 * VALUES / card.link + 5e3 * VALUES / card.bandwidth for card in CARDS
        ]
        saved = (f"{host[1] - more:.0f}" for more in device)
        table.add_row(str(threads), *(f"{own:.0f}" for own in host), *saved)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
