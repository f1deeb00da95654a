"""CPU time of binning, compared with XGBoost's QuantileDMatrix.

python -m benchmarks.binning

The data are a float32 array, and the same as a polars data frame and an Arrow table. A
Parquet file is read in batches in a separate process, to measure its peak memory.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow
import pyarrow.parquet
import xgboost

from benchmarks.data import made
from benchmarks.libraries import BINS
from benchmarks.stage import Report, cpu_seconds_of, parse_arguments
from hornbeam.binning.bin_table import bin_table, bin_with_cuts
from hornbeam.binning.dense import DenseMatrix
from hornbeam.data.containers.dispatch import as_table

#: Rows of the Parquet file per row of the array, and rows of a row group.
PARQUET_TIMES = 3
GROUP_ROWS = 100_000


def prepare(data: Any, threads: int, sketch: str = "exact") -> None:
    """Do what a fit needs: cuts, bin indices by column, bin indices by row."""
    bin_table(as_table(data), BINS, n_threads=threads, sketch=sketch).by_row(threads)


def prepare_roughly(data: Any, threads: int) -> None:
    """Do the same with approximate cuts from a sketch."""
    prepare(data, threads, "approximate")


def interleave(matrix: DenseMatrix, threads: int) -> None:
    """Transpose the bin indices in a copy of the matrix without the cached result."""
    fresh = dataclasses.replace(matrix, _by_row=None)
    fresh.by_row(threads)


def prepare_with_xgboost(x: np.ndarray, threads: int) -> None:
    """Do what a fit of XGBoost needs."""
    xgboost.QuantileDMatrix(x, max_bin=BINS, nthread=threads)


def arrow_table(x: np.ndarray) -> pyarrow.Table:
    """Return the array as an Arrow table."""
    columns = [np.ascontiguousarray(column) for column in x.T]
    return pyarrow.table({f"f{i}": column for i, column in enumerate(columns)})


def write_parquet(path: Path, rows: int, columns: int) -> None:
    """Write a file of many row groups, group by group."""
    writer = None
    for seed, start in enumerate(range(0, rows, GROUP_ROWS)):
        x, _ = made(min(GROUP_ROWS, rows - start), columns, seed)
        table = arrow_table(x)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def read_parquet(path: Path, sketch: str, threads: int) -> dict[str, float]:
    """Return the CPU seconds and the megabytes of reading the file in batches."""
    command = [sys.executable, "-m", "benchmarks.binning_one"]
    command += [str(path), sketch, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments("Time binning.")
    report = Report("binning", "values", arguments, "CPU time")
    x, _ = made(arguments.rows, arguments.columns, seed=0)
    table = as_table(x)
    arrow, frame = arrow_table(x), polars.from_numpy(x)
    matrix = bin_table(table, BINS)
    assert isinstance(matrix, DenseMatrix)
    for threads in arguments.threads:
        for what, work, *inputs in (
            ("all: cuts, codes, by row", prepare, x),
            ("all, from polars", prepare, frame),
            ("all, from Arrow", prepare, arrow),
            ("all, approximate cuts", prepare_roughly, x),
            ("codes by known cuts", bin_with_cuts, table, matrix.cuts),
            ("column-major to row-major", interleave, matrix),
            ("xgboost.QuantileDMatrix", prepare_with_xgboost, x),
        ):
            seconds = cpu_seconds_of(arguments.repeats, work, *inputs, threads)
            report.add(what, threads, x.size, seconds)
    rows = PARQUET_TIMES * arguments.rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, rows, arguments.columns)
        for threads in arguments.threads:
            for sketch in ("exact", "approximate"):
                found = read_parquet(path, sketch, threads)
                beyond = found["megabytes_added"] - found["megabytes_codes"]
                what = f"Parquet, {sketch}, codes + {beyond:.0f} MB"
                units = rows * arguments.columns
                report.add(what, threads, units, found["cpu_seconds"])
    report.finish()


if __name__ == "__main__":
    main()
