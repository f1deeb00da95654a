"""Helpers that call kernels in a team of threads, as the package does."""

from __future__ import annotations

import pytest

from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.team import lease

#: Numbers of threads. As plain Python, kernels run in one thread.
N_THREADS = [1, 2, 3, 4] if COMPILED else [1]

needs_compiler = pytest.mark.skipif(not COMPILED, reason="kernels are plain Python")


def call(kernel, *arguments, n_threads=1):
    """Call `kernel` in so many threads of a team."""
    with lease(n_threads) as team:
        team.run(kernel, n_threads, *arguments)


def split_rules(*values):
    """Return `SplitRules` of these fields, the others by default."""
    return SplitRules(*map(float, values))
