"""Speed of the histogram kernel for nodes of all rows and of few rows.

python -m benchmarks.histogram

The unit is one feature of one row: one addition to a histogram bin.
"""

from __future__ import annotations

import numpy as np

from benchmarks.stage import Report, binned, parse_arguments, seconds_of, shares
from hornbeam.binning.layout import RowColumns
from hornbeam.kernels.histogram import (
    BinColumns,
    HistogramSlots,
    QuantisedGradients,
    build_histograms,
)
from hornbeam.kernels.layout import (
    BYTE_BINS,
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
)
from hornbeam.kernels.team import lease

#: One node has one of this many rows.
THINNING = (1, 2, 4, 16, 64, 256)


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments("Time the histograms of nodes of many sizes.")
    report = Report("histogram", "cells", arguments)
    matrix = binned(arguments.rows, arguments.columns)
    dense = matrix.as_bins()
    codes, offsets = dense.by_row, matrix.offsets
    stored = RowColumns.unpacked(dense.layout)
    n_rows, n_features = matrix.n_rows, matrix.n_features
    rng = np.random.default_rng(0)
    gradients = rng.integers(
        -(1 << COARSE_GRADIENT_BITS), 1 << COARSE_GRADIENT_BITS, n_rows
    )
    hessians = rng.integers(0, 1 << COARSE_HESSIAN_BITS, n_rows)
    packed = (gradients << 32) + hessians
    columns = np.arange(n_features, dtype=np.uint64)
    is_byte = codes.dtype.itemsize == 1
    packed_cells = np.full(n_features, BYTE_BINS) if is_byte else np.diff(offsets)
    starts = (np.cumsum(packed_cells) - packed_cells).astype(np.uint64)
    wide = np.empty((2, 0), np.int64)
    for threads in arguments.threads:
        scratch = np.zeros((threads, packed_cells.sum()), np.int64)
        slabs = np.zeros((threads, 2, int(offsets[-1])), np.int64)
        for thin in THINNING:
            # As after splits: a subset of the rows in ascending order.
            node = np.flatnonzero(rng.random(n_rows) < 1 / thin).astype(np.uint32)
            rows = np.zeros((2, n_rows), np.uint32)
            rows[0, : node.size] = node
            tasks = np.zeros((threads, 7), np.int64)
            tasks[:, 0] = np.arange(threads)
            tasks[:, 2:4] = shares(0, node.size, threads)
            tasks[:, 5] = n_features
            joins = np.array([[0, 1, threads, 0, offsets[-1]]], np.int64)
            inputs = (
                tasks,
                joins,
                BinColumns(
                    codes,
                    columns,
                    starts,
                    stored.table["cell"][columns],
                    stored.table,
                    stored.histogram_bins,
                ),
                rows,
                QuantisedGradients(packed, wide),
                scratch,
                HistogramSlots(slabs[:1], slabs[1:], 0),
            )
            with lease(threads) as team:
                seconds = seconds_of(
                    arguments.repeats, team.run, build_histograms, threads, *inputs
                )
            what = "all rows" if thin == 1 else f"one row in {thin}"
            report.add(what, threads, node.size * n_features, seconds)
    report.finish()


if __name__ == "__main__":
    main()
