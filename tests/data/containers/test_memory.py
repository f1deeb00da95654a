"""Binning a data frame does not copy its numbers as a whole."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Use the peak of the process: Python does not trace memory of Arrow and polars.
PROGRAM = """
import sys
import numpy as np
import polars as pl
import pyarrow as pa
from hornbeam import QuantileDMatrix

N_ROWS, N_COLUMNS = 300_000, 32


def column(rows, i):
    values = np.random.default_rng(i).normal(size=rows).astype(np.float32)
    null = values > 1.5 if sys.argv[1].endswith("nulls") else None
    return pa.array(values, mask=null)


def frame(rows):
    table = pa.table({f"x{i}": column(rows, i) for i in range(N_COLUMNS)})
    if "chunks" in sys.argv[1]:
        table = pa.concat_tables(
            [table.slice(row, rows // 5 + 1) for row in range(0, rows, rows // 5 + 1)]
        )
    return pl.from_arrow(table, rechunk=False) if "polars" in sys.argv[1] else table


def peak():
    with open("/proc/self/status") as status:
        return next(int(x.split()[1]) for x in status if x.startswith("VmHWM")) << 10


QuantileDMatrix(frame(2_000), nthread=1)  # compiles, and loads what is needed
data = frame(N_ROWS)
with open("/proc/self/clear_refs", "w") as forget:
    forget.write("5")
before = peak()
QuantileDMatrix(data, nthread=1)
codes, floats = N_ROWS * N_COLUMNS, N_ROWS * N_COLUMNS * 4
print(peak() - before, codes, floats)
"""


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset"
)
@pytest.mark.parametrize(
    "container",
    [
        "arrow",
        "arrow chunks",
        "arrow chunks with nulls",
        "polars",
        "polars chunks with nulls",
    ],
)
def test_binning_a_frame_needs_memory_for_bins_and_one_batch(container):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, container],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ,
    )
    peak, codes, floats = map(int, done.stdout.split())
    # A batch is four columns and the memory to sort one: 6/32 of the floats.
    assert peak < codes + floats * 6 / 32 + (8 << 20), (peak, codes, floats)
