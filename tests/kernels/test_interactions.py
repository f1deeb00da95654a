"""Sets of features as bits, against Python's sets."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.kernels.interactions import allow_nodes, enter_paths


def bits(sets, n_features):
    """Return sets of features as words, (sets, words)."""
    words = np.zeros((len(sets), -(-n_features // 64)), np.uint64)
    for own, features in zip(words, sets, strict=True):
        for feature in features:
            own[feature // 64] |= np.uint64(1 << feature % 64)
    return words


@pytest.mark.parametrize("n_features", [1, 6, 64, 65, 200])
def test_paths_and_the_features_that_may_follow(n_features):
    rng = np.random.default_rng(n_features)

    def draw(count):
        return set(rng.integers(0, n_features, count).tolist())

    for _ in range(20):
        groups = [draw(rng.integers(1, 1 + n_features)) for _ in range(4)]
        paths = [set()]
        used = np.full((9, -(-n_features // 64)), 77, np.uint64)
        used[0] = 0
        for level in (range(1), range(1, 3)):
            nodes = np.array(level)
            features = rng.integers(0, n_features, nodes.size).astype(np.int32)
            for node, feature in zip(level, features.tolist(), strict=True):
                paths += [paths[node] | {feature}] * 2
            enter_paths(nodes, features, 2 * nodes + 1, used)
        np.testing.assert_array_equal(used[:7], bits(paths, n_features))
        assert (used[7:] == 77).all()

        drawn = [draw(n_features) for _ in paths]
        allowed = np.zeros((len(paths), n_features), np.uint8)
        for mask, features in zip(allowed, drawn, strict=True):
            mask[list(features)] = 1
        order = np.arange(len(paths))
        allow_nodes(order, used, bits(groups, n_features), allowed)
        for path, features, mask in zip(paths, drawn, allowed, strict=True):
            fitting = (group for group in groups if path <= group)
            expected = features & path.union(*fitting)
            assert set(np.flatnonzero(mask == 1).tolist()) == expected
            assert mask.max(initial=0) <= 1
