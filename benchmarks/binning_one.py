"""Bin a Parquet file in batches once, and print time and memory as JSON.

`benchmarks.binning` runs it in a separate process. Arguments: file, sketch,
threads.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from benchmarks.libraries import BINS
from benchmarks.machine import clock, memory
from hornbeam.binning.bin_table import bin_table
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.sources.dispatch import open_source


def main() -> None:
    """Load the kernels, measure the binning of the file, print."""
    path, sketch, threads = sys.argv[1:]
    few = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    bin_table(as_table(few), BINS)
    with memory() as megabytes, clock() as seconds:
        table = open_source(path)
        assert table is not None
        binned = bin_table(table, BINS, n_threads=int(threads), sketch=sketch)
    result = {
        "cpu_seconds": seconds.cpu,
        "wall_seconds": seconds.wall,
        "megabytes_added": megabytes.peak - megabytes.before,
        "megabytes_codes": binned.n_rows * binned.n_features / 2**20,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
