"""The bins that go left in CART trees, against the values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.kernels.cart import place_cuts
from hornbeam.kernels.layout import CART_DTYPE


@given(st.integers(0, 2**32))
def test_the_last_left_bin_follows_the_threshold(seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.normal(size=12))
    starts = np.array([0, 4, 12])
    nodes = np.zeros(1, CART_DTYPE)
    last, following = np.sort(rng.choice(8, size=2, replace=False))
    nodes["feature"], nodes["bin"], nodes["next_bin"] = 1, last, following
    own = values[4:]
    threshold = rng.uniform(own[last], own[following], size=1)
    place_cuts(nodes, threshold, values, starts)
    assert nodes["bin"][0] == np.count_nonzero(own < threshold) - 1
