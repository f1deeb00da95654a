"""Values a second from a float32 array to bin codes, beside XGBoost's QuantileDMatrix.

python -m benchmarks.binning
"""

from __future__ import annotations

import dataclasses

import numpy as np
import xgboost

from benchmarks.data import made
from benchmarks.libraries import BINS
from benchmarks.stage import Report, parse_arguments, seconds_of
from hornbeam.binning.codes import BinnedMatrix, bin_table, bin_with_cuts
from hornbeam.data.adapters import as_table


def prepare(x: np.ndarray, threads: int) -> None:
    """Do all that a fit needs: cuts, codes by column, codes by row."""
    bin_table(as_table(x), BINS, n_threads=threads).by_row(threads)


def interleave(matrix: BinnedMatrix, threads: int) -> None:
    """Turn codes from columns into rows, in a new matrix that has not done it yet."""
    fresh = dataclasses.replace(matrix, _by_row=None)
    fresh.by_row(threads)


def prepare_with_xgboost(x: np.ndarray, threads: int) -> None:
    """Do what XGBoost's fit needs."""
    xgboost.QuantileDMatrix(x, max_bin=BINS, nthread=threads)


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments("Time binning.")
    report = Report("binning", "values", arguments)
    x, _ = made(arguments.rows, arguments.columns, seed=0)
    table = as_table(x)
    matrix = bin_table(table, BINS)
    for threads in arguments.threads:
        for what, work, *inputs in (
            ("all: cuts, codes, by row", prepare, x),
            ("codes by known cuts", bin_with_cuts, table, matrix.cuts),
            ("column-major to row-major", interleave, matrix),
            ("xgboost.QuantileDMatrix", prepare_with_xgboost, x),
        ):
            seconds = seconds_of(arguments.repeats, work, *inputs, threads)
            report.add(what, threads, x.size, seconds)
    report.finish()


if __name__ == "__main__":
    main()
