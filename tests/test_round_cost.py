"""A round on little data costs little Python: a count, which no machine changes."""

from __future__ import annotations

import sys

import numpy as np

import hornbeam

#: Calls of Python functions in one round of 1,000 rows by 10 features, depth 6. It was
#: 1,370 when parameters were compared with their defaults in every round.
MOST_CALLS = 110


def calls_of(rounds, data):
    """Return the number of Python calls of a training."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        hornbeam.train({"nthread": 1}, data, rounds, verbose_eval=False)
    finally:
        sys.setprofile(None)
    return count


def test_a_round_has_few_python_calls():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 10)).astype(np.float32)
    data = hornbeam.DMatrix(rows, rows[:, 0] + rows[:, 1])
    calls_of(3, data)  # imports and binning
    assert (calls_of(20, data) - calls_of(10, data)) / 10 <= MOST_CALLS
