"""Kernels of linear leaves, against reference implementations."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.kernels.linear_leaves import centre_features, list_path_features


def a_tree(rng, n_splits):
    """Return the features and the parents of nodes, and the leaves."""
    feature, parent, leaves = [-1], [-1], [0]
    for _ in range(n_splits):
        node = leaves.pop(int(rng.integers(len(leaves))))
        feature[node] = int(rng.integers(-1, 6))  # -1: a split by category
        leaves += [len(feature), len(feature) + 1]
        feature += [-1, -1]
        parent += [node, node]
    return np.array(feature), np.array(parent, np.int32), np.array(leaves)


@pytest.mark.parametrize("most", [1, 2, 7])
@pytest.mark.parametrize("n_splits", [0, 1, 5, 30])
def test_path_features_are_those_nearest_to_the_leaf(n_splits, most):
    feature, parent, leaves = a_tree(np.random.default_rng(n_splits), n_splits)
    expected = []
    for leaf in leaves:
        node, own = parent[leaf], []
        while node >= 0:
            own += [feature[node]] if feature[node] not in (-1, *own) else []
            node = parent[node]
        expected.append(own[:most])
    features = np.full((leaves.size, most), 99)
    largest = list_path_features(feature, parent, leaves, features)
    assert largest == max(map(len, expected))
    for own, found in zip(expected, features, strict=True):
        assert found.tolist() == own + [-1] * (most - len(own))


@pytest.mark.parametrize("threads", [1, 3])
def test_centres_and_radii_are_those_of_the_sums(threads):
    rng = np.random.default_rng(threads)
    shape, per_unit = (5, 3), 2.0**20
    columns = rng.integers(0, 4, shape)
    spans = np.stack([rng.normal(size=4), rng.uniform(1, 3, 4), np.zeros(4)], axis=1)
    sums = rng.integers(1, 1000, (threads, *shape, 2))
    sums[..., 1] = sums[..., 0] // 3
    ends = np.sort(rng.uniform(size=(threads, *shape, 2)), axis=-1)
    ranges = spans[columns, 0][..., None] + spans[columns, 1][..., None] * ends
    ranges[:, 1, 1] = 0.75  # a constant
    sums[:, 2, 0], ranges[:, 2, 0] = 0, (np.inf, -np.inf)  # always missing
    centred = np.full((6, *shape), np.nan)
    centre_features(sums, ranges, per_unit, columns, spans, centred)

    hessians, products = sums.sum(axis=0).transpose(2, 0, 1) / per_unit
    low, high = ranges[..., 0].min(axis=0), ranges[..., 1].max(axis=0)
    for place in np.ndindex(shape):
        assert centred[0][place] == hessians[place]
        if place in ((1, 1), (2, 0)):
            assert not centred[1:, *place].any()
            continue
        first, span, _ = spans[columns[place]]
        mean = first + span * (products[place] / hessians[place])
        centre = min(max(mean, low[place]), high[place])
        radius = max(high[place] - centre, centre - low[place])
        expected = [centre, radius, 1 / radius, low[place], high[place]]
        assert centred[1:, *place].tolist() == expected
