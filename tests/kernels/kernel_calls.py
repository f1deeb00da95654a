"""Helpers that call kernels in a team of threads, as the package does."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from hornbeam.kernels.gradients import NewGradients
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.team import lease

#: Numbers of threads. As plain Python, kernels run in one thread.
N_THREADS = [1, 2, 3, 4] if COMPILED else [1]

#: Rows that kernels of objectives process at once.
LANE = 5
#: The type of the bits of floats of 4 and 8 bytes.
BITS = {4: np.int32, 8: np.int64}

needs_compiler = pytest.mark.skipif(not COMPILED, reason="kernels are plain Python")


def run_with(package, script, text="", **environment):
    """Return the finished process of a script, with this copy of the package.

    It may read a text from its standard input.
    """
    unset = {"NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"}
    unset |= {"HORNBEAM_KERNELS", "HORNBEAM_CPU_LEVEL"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [sys.executable, "-c", script],
        input=text,
        env={**kept, "PYTHONPATH": str(package.parent), **environment},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )


def call(kernel, *arguments, n_threads=1):
    """Call `kernel` in so many threads of a team."""
    with lease(n_threads) as team:
        team.run(kernel, n_threads, *arguments)


def new_gradients(kernel, rows, numbers, n_threads=1):
    """Return g and h of `LossRows`, and the largest; float64 for rows with weights."""
    dtype = np.float64 if rows.weights.size > 0 else np.float32
    g, h = np.full((2, *rows.margins.shape), np.nan, dtype)
    new = NewGradients.of(g, h, n_threads)
    scratch = np.empty((n_threads, 6 + len(g), LANE))
    numbers = np.array(numbers, np.float64)
    call(kernel, rows, numbers, new, scratch, n_threads=n_threads)
    bits = np.maximum.reduce([*new.single.largest, *new.double.largest])
    return g, h, bits.view(dtype).astype(np.float64)


def split_rules(*values):
    """Return `SplitRules` of these fields, the others by default."""
    return SplitRules(*map(float, values))
