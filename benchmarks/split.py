"""Speed of the split search over the histograms of a level.

python -m benchmarks.split

Of rows in memory, nodes of at most BLOCK_ROWS rows have packed histograms, and larger
ones wide sums of coarse gradients, whose cuts are screened; both are searched with one
thread here. With missing values every bin is scored twice, in
both directions.
"""

from __future__ import annotations

import numpy as np

from benchmarks.libraries import BINS
from benchmarks.stage import Report, parse_arguments, seconds_of
from hornbeam.kernels.jit import kernel
from hornbeam.kernels.layout import FEATURE_DTYPE, SPLIT_DTYPE, SplitRules
from hornbeam.kernels.packed_split import PackedSums, SplitBuffers, search_packed_node
from hornbeam.kernels.split import (
    CandidateFeatures,
    NodeHistograms,
    find_splits,
    search_node,
)
from hornbeam.kernels.team import lease

NODES = 64


@kernel
def search_packed_nodes(
    histograms, totals, candidates, features, scales, rules, buffers, splits, sets
):
    """Search the best split of each packed histogram."""
    for node in range(totals.size):
        search_packed_node(
            PackedSums(histograms[node], totals[node], False),
            node,
            candidates,
            features,
            scales,
            rules,
            None,
            buffers,
            splits[node, 0],
            sets[node, 0],
        )


@kernel
def search_coarse_nodes(
    histograms, every_row, candidates, features, scales, rules, buffers, splits, sets
):
    """Search the best split of each wide histogram of coarse gradients."""
    for node in range(histograms.shape[0]):
        search_node(
            histograms[node],
            True,
            node,
            candidates,
            features,
            every_row,
            scales,
            rules,
            None,
            buffers.values,
            splits[node, 0],
            sets[node, 0],
        )


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments("Time the search for the best splits of a level.")
    report = Report("split", "bins", arguments)
    rng = np.random.default_rng(0)
    n_features = arguments.columns
    rules = SplitRules(1.0, 0.0, 0.0, 1.0)
    no_sets = np.empty((NODES, 1, 0), np.uint8)
    steps = np.array([2.0**-17, 2.0**-18])
    no_limits = np.empty((0, 0), np.uint8)
    columns = np.arange(n_features, dtype=np.uint64)
    features = np.zeros(n_features, FEATURE_DTYPE)
    features["bins"] = BINS
    slots, none = np.arange(NODES), np.empty(0, np.int64)
    for what, missing in (("no missing", 0), ("missing in every feature", 1)):
        offsets = np.arange(n_features + 1) * (BINS + missing)
        one_feature = np.empty((NODES, 2, 1, BINS + missing), np.int64)
        one_feature[:, 0] = rng.integers(-(1 << 20), 1 << 20, one_feature[:, 0].shape)
        one_feature[:, 1] = rng.integers(1 << 18, 1 << 20, one_feature[:, 1].shape)
        # All features of a node have equal sums, as with real rows.
        histograms = rng.permuted(one_feature.repeat(n_features, axis=2), axis=3)
        histograms = histograms.reshape(NODES, 2, -1)
        units = NODES * n_features * BINS * (1 + missing)
        for threads in arguments.threads:
            scratch = np.empty((threads, 6, BINS + 1))
            splits = np.zeros((NODES, 1), SPLIT_DTYPE)
            features["cell"] = offsets[:-1]
            inputs = (
                NodeHistograms(histograms, slots, none, none, features, offsets[:2]),
                CandidateFeatures(columns, no_limits, n_features),
                steps,
                rules,
                None,
                scratch,
                splits,
                no_sets,
            )
            with lease(threads) as team:
                seconds = seconds_of(
                    arguments.repeats, team.run, find_splits, threads, *inputs
                )
            report.add(what, threads, units, seconds)
        packed = (histograms[:, 0] << 32) + histograms[:, 1]
        buffers = SplitBuffers(
            np.empty((8, BINS + missing + 1)),
            np.arange(BINS + missing + 1),
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
        )
        own = (
            CandidateFeatures(columns, no_limits, n_features),
            features,
            steps,
            rules,
            buffers,
            splits,
            no_sets,
        )
        totals = packed[:, : offsets[1]].sum(axis=1)
        for kind, search, sums in (
            ("packed", search_packed_nodes, (packed, totals)),
            ("screened", search_coarse_nodes, (histograms, offsets[:2])),
        ):
            seconds = seconds_of(arguments.repeats, search, *sums, *own)
            report.add(f"{what}, {kind}", 1, units, seconds)
    report.finish()


if __name__ == "__main__":
    main()
