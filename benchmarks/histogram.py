"""Speed of the histogram kernel at each level of a tree.

python -m benchmarks.histogram

The unit is one feature of one row: one addition to a histogram bin. One node of each
pair of siblings is built, so that a level reads half of the rows once, scattered over
memory: a single small node, built again and again, would stay in the cache.
Figures of what was tried are in docs/decisions/0024-scattered-rows-in-histograms.md.
"""

from __future__ import annotations

import numpy as np

from benchmarks.stage import Report, binned, parse_arguments, seconds_of, shares
from hornbeam.binning.layout import RowColumns
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.histogram import (
    BinColumns,
    HistogramBuffers,
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

LEVELS = (0, 1, 2, 3, 4, 5, 7, 9, 11)


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
    starts = np.cumsum(packed_cells) - packed_cells
    wide = np.empty((2, 0), np.int64)
    for threads in arguments.threads:
        turned = n_features * is_byte
        buffers = HistogramBuffers.of(threads, packed_cells.sum(), turned)
        for level in LEVELS:
            # As after splits: the rows of a node are ascending and spread over all.
            owner = rng.integers(0, 1 << level, n_rows)
            rows = np.zeros((2, n_rows), np.uint32)
            rows[0] = np.argsort(owner, kind="stable")
            ends = np.cumsum(np.bincount(owner, minlength=1 << level))
            n_nodes = max(ends.size // 2, 1)
            bounds = np.column_stack([np.append(0, ends[:-1]), ends])[:n_nodes]
            joins = np.empty((0, 6), np.int64)
            if level == 0:
                bounds = shares(0, n_rows, threads)
                joins = np.array([[0, 1, threads, 0, offsets[-1], 2]], np.int64)
            tasks = np.zeros((len(bounds), 7), np.int64)
            tasks[:, 0] = np.arange(len(bounds))
            tasks[:, 2:4] = bounds
            tasks[:, 5] = n_features
            slots = np.zeros((len(bounds), 2, int(offsets[-1])), np.int64)
            inputs = (
                tasks,
                joins,
                BinColumns(
                    *Bins.of(codes),
                    columns,
                    starts,
                    stored.table["cell"][columns],
                    stored.table,
                    stored.histogram_bins,
                    *Bins.of(dense.by_feature),
                ),
                rows,
                QuantisedGradients(packed, wide),
                buffers,
                HistogramSlots(slots[:n_nodes], slots[n_nodes:], 0),
            )
            with lease(threads) as team:
                seconds = seconds_of(
                    arguments.repeats, team.run, build_histograms, threads, *inputs
                )
            n_cells = (bounds[:, 1] - bounds[:, 0]).sum() * n_features
            what = f"level {level}, {n_rows >> level:,} rows a node"
            report.add(what, threads, int(n_cells), seconds)
    report.finish()


if __name__ == "__main__":
    main()
