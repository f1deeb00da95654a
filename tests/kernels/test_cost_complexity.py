"""Weakest links, against a reference that sums every branch again."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.kernels.cost_complexity import link_strengths


def tree_of(parents):
    """Return the left children and the parents of a tree with these inner nodes."""
    left, parent = [-1], [-1]
    for place in parents:
        leaves = [node for node, child in enumerate(left) if child < 0]
        node = leaves[place % len(leaves)]
        left[node] = len(left)
        left += [-1, -1]
        parent += [node, node]
    return np.array(left, np.int32), np.array(parent, np.int32)


@given(st.lists(st.integers(0, 99), max_size=20), st.integers(0, 2**32))
def test_the_weakest_link_is_cut_each_time(parents, seed):
    left, parent = tree_of(parents)
    n = left.size
    rng = np.random.default_rng(seed)
    gains = rng.integers(6, size=n) * rng.choice([1.0, 0.37])
    gains[left < 0] = 0
    strengths, lost_gains = np.empty(n), np.empty(n)
    cut, lost_splits = np.empty(n, np.int32), np.empty(n, np.int64)
    n_cuts = link_strengths(
        left,
        parent,
        gains,
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        strengths,
        cut,
        lost_gains,
        lost_splits,
    )
    here, least = left.copy(), 0.0
    for place in range(n_cuts):
        links = naive_cart.links(here, gains)
        weakest = min(total / count for total, count in links.values())
        total, count = links[cut[place]]
        assert total / count == pytest.approx(weakest, abs=1e-12)
        assert lost_splits[place] == count
        assert lost_gains[place] == pytest.approx(total, abs=1e-12)
        least = max(least, weakest)
        assert strengths[cut[place]] == pytest.approx(least, abs=1e-12)
        here[cut[place]] = -1
    assert not naive_cart.links(here, gains)
