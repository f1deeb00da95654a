"""Speed of the partition kernel at each level of a tree.

python -m benchmarks.partition
"""

from __future__ import annotations

import numpy as np

from benchmarks.libraries import BINS
from benchmarks.stage import Report, binned, parse_arguments, seconds_of
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.layout import FEATURE_DTYPE, NODE_DTYPE, SPLIT_DTYPE
from hornbeam.kernels.partition import partition_rows
from hornbeam.kernels.plan import enter_splits, plan_partition
from hornbeam.kernels.team import lease

DEPTH = 6


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments("Time the splitting of rows, level by level.")
    report = Report("partition", "rows", arguments)
    matrix = binned(arguments.rows, arguments.columns)
    n_rows = matrix.n_rows
    rng = np.random.default_rng(0)
    features = np.zeros(matrix.n_features, FEATURE_DTYPE)
    features["column"] = np.arange(matrix.n_features)
    features["bins"] = matrix.cuts.n_bins
    for threads in arguments.threads:
        for level in range(DEPTH):
            count = 1 << level
            # The rows of a node are ascending and spread over all rows.
            owner = rng.integers(0, count, n_rows)
            rows = np.empty((2, n_rows), np.uint32)
            rows[:] = np.argsort(owner, kind="stable")
            batch = np.arange(count)
            nodes = np.zeros(3 * count, NODE_DTYPE)
            nodes["end"][:count] = np.cumsum(np.bincount(owner, minlength=count))
            nodes["begin"][1:count] = nodes["end"][: count - 1]
            splits = np.zeros(count, SPLIT_DTYPE)
            splits["feature"] = rng.integers(0, matrix.n_features, count)
            splits["bin"] = rng.integers(BINS // 8, BINS * 7 // 8, count)
            tasks = np.empty((count + 5 * threads, 5), np.int64)
            no_sets = np.empty((nodes.size, 0), np.uint64)
            left = count + 2 * batch
            enter_splits(batch, splits, no_sets[:count], left, features, nodes, no_sets)
            n_tasks, actors = plan_partition(batch, nodes, threads, False, tasks)
            tasks = tasks[:n_tasks]
            counts = np.empty(n_tasks, np.int64)
            bins = Bins.of(matrix.by_feature)
            inputs = (tasks, nodes, no_sets, bins, rows, counts)
            with lease(threads) as team:
                seconds = seconds_of(
                    arguments.repeats, team.run, partition_rows, actors, *inputs
                )
            report.add(f"level {level}", threads, n_rows, seconds)
    report.finish()


if __name__ == "__main__":
    main()
