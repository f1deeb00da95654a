"""Binning a data frame does not copy its numbers as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Use the peak of the process: Python does not trace memory of Arrow and polars.
PROGRAM = """
import json, os, sys
import numpy as np
import polars as pl
import pyarrow as pa
from hornbeam import QuantileDMatrix

N_ROWS, N_COLUMNS = 150_000, 32


def column(container, rows, i):
    values = np.random.default_rng(i).normal(size=rows).astype(np.float32)
    null = values > 1.5 if container.endswith("nulls") else None
    return pa.array(values, mask=null)


def frame(container, rows):
    columns = {f"x{i}": column(container, rows, i) for i in range(N_COLUMNS)}
    table = pa.table(columns)
    if "chunks" in container:
        table = pa.concat_tables(
            [table.slice(row, rows // 5 + 1) for row in range(0, rows, rows // 5 + 1)]
        )
    return pl.from_arrow(table, rechunk=False) if "polars" in container else table


def peak():
    with open("/proc/self/status") as status:
        return next(int(x.split()[1]) for x in status if x.startswith("VmHWM")) << 10


def taken(container):
    QuantileDMatrix(frame(container, 40_000), nthread=1)  # loads what is needed
    data = frame(container, N_ROWS)
    with open("/proc/self/clear_refs", "w") as forget:
        forget.write("5")
    before = peak()
    QuantileDMatrix(data, nthread=1)
    return peak() - before


values = np.random.default_rng(0).normal(size=(40_000, 2)).astype(np.float32)
QuantileDMatrix(values, nthread=1)  # compiles
found = {}
for container in sys.argv[1:]:
    # Each in a process of its own, which has no memory that the others have freed.
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(taken(container)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    found[container] = int(os.read(read, 100))
cells = N_ROWS * N_COLUMNS
print(json.dumps([found, cells, 4 * cells]))
"""
CONTAINERS = (
    "arrow",
    "arrow chunks",
    "arrow chunks with nulls",
    "polars",
    "polars chunks with nulls",
)


@pytest.fixture(scope="module")
def figures():
    """Return the peak of each container, the bytes of the codes and of the floats."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *CONTAINERS],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset"
)
@pytest.mark.parametrize("container", CONTAINERS)
def test_binning_a_frame_needs_memory_for_bins_and_one_batch(figures, container):
    peaks, codes, floats = figures
    peak = peaks[container]
    # A batch is four columns and the memory to sort one: 6/32 of the floats.
    assert peak < codes + floats * 6 / 32 + (8 << 20), (peak, codes, floats)
