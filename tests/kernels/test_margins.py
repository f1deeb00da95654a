"""Leaf values added to margins."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_calls import N_THREADS, call

from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.margins import add_leaf_values


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("single", [False, True])
def test_leaf_values_are_added(n_threads, single):
    rng = np.random.default_rng(0)
    n_rows = 2 * TASK_ROWS + 50 if n_threads > 1 else 150
    leaf_of = rng.integers(0, 4, n_rows).astype(np.uint32)
    values = rng.normal(size=4).astype(np.float32)
    margins = rng.normal(size=n_rows)
    exact = margins + values[leaf_of].astype(np.float64)
    if single:
        exact = exact.astype(np.float32).astype(np.float64)
    call(add_leaf_values, leaf_of, values, margins, single, n_threads=n_threads)
    np.testing.assert_array_equal(margins, exact)
