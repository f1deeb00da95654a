"""Rows a second of the partition kernel, at each level of a tree.

python -m benchmarks.partition
"""

from __future__ import annotations

import numpy as np

from benchmarks.libraries import BINS
from benchmarks.stage import Report, binned, parse_arguments, seconds_of, shares
from hornbeam.kernels.partition import partition_rows
from hornbeam.kernels.team import lease

DEPTH = 6


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments("Time the splitting of rows, level by level.")
    report = Report("partition", "rows", arguments)
    matrix = binned(arguments.rows, arguments.columns)
    n_rows = matrix.n_rows
    rng = np.random.default_rng(0)
    for threads in arguments.threads:
        for level in range(DEPTH):
            nodes = 1 << level
            # Rows of a node are ascending, and scattered over all the data.
            owner = rng.integers(0, nodes, n_rows)
            rows = np.empty((2, n_rows), np.uint32)
            rows[:] = np.argsort(owner, kind="stable")
            ends = np.cumsum(np.bincount(owner, minlength=nodes))
            parts = max(1, threads // nodes)
            tasks = np.zeros((nodes * parts, 6), np.int64)
            tasks[:, 0] = np.repeat(np.arange(nodes), parts)
            for node, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
                own = slice(node * parts, (node + 1) * parts)
                tasks[own, 2:4] = shares(begin, end, parts)
                tasks[own, 4:6] = own.start, own.stop
            splits = np.empty((nodes, 3), np.int32)
            splits[:, 0] = rng.integers(0, matrix.n_features, nodes)
            splits[:, 1] = rng.integers(BINS // 8, BINS * 7 // 8, nodes)
            splits[:, 2] = -1
            counts = np.empty(len(tasks), np.int64)
            inputs = (tasks, splits, matrix.by_feature, rows, counts)
            with lease(threads) as team:
                seconds = seconds_of(
                    arguments.repeats, team.run, partition_rows, threads, *inputs
                )
            report.add(f"{nodes} nodes", threads, n_rows, seconds)
    report.finish()


if __name__ == "__main__":
    main()
