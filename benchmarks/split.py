"""Speed of the split kernel over the histograms of a level.

python -m benchmarks.split
"""

from __future__ import annotations

import numpy as np

from benchmarks.libraries import BINS
from benchmarks.stage import Report, parse_arguments, seconds_of
from hornbeam.kernels.layout import FEATURE_DTYPE, SPLIT_DTYPE, SplitRules
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import lease

NODES = 64


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
            # With missing values every bin is evaluated twice, in both directions.
            units = NODES * n_features * BINS * (1 + missing)
            report.add(what, threads, units, seconds)
    report.finish()


if __name__ == "__main__":
    main()
