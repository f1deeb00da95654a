"""A round on little data costs little Python: a count, which no machine changes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import hornbeam
from hornbeam import xgboost

#: Calls of Python functions in one round of 1,000 rows by 10 features, depth 6. It was
#: 1,370 when parameters were compared with their defaults in every round, and 160 when
#: what does not change between rounds was made in each.
MOST_CALLS = 98
#: Of rounds that nobody looks at between them.
MOST_CALLS_AT_ONCE = 16
#: Of the drop-in, which looks for other parameters and another group in each round.
MOST_CALLS_OF_DROP_IN = 110
#: More of them for a matrix of `evals`.
MOST_CALLS_OF_EVALUATION = 140


def calls_of(rounds, data, train=hornbeam.train, **options):
    """Return the number of Python calls of a training."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        train({"nthread": 1}, data, rounds, verbose_eval=False, **options)
    finally:
        sys.setprofile(None)
    return count


def one_by_one(library):
    """Return a function that trains round by round."""

    def train(parameters, data, rounds, **options):
        booster = library.Booster(parameters, [data])
        for number in range(rounds):
            booster.update(data, number)

    return train


def calls_of_a_round(*args, **options):
    calls_of(3, *args, **options)  # imports and binning
    more, fewer = (calls_of(rounds, *args, **options) for rounds in (20, 10))
    return (more - fewer) / 10


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 10)).astype(np.float32)
    return rows, rows[:, 0] + rows[:, 1]


def test_a_round_has_few_python_calls(table):
    data = hornbeam.DMatrix(*table)
    assert calls_of_a_round(data, train=one_by_one(hornbeam)) <= MOST_CALLS


def test_a_round_of_the_drop_in_has_few_python_calls(table):
    data = xgboost.DMatrix(*table)
    calls = calls_of_a_round(data, train=one_by_one(xgboost))
    assert calls <= MOST_CALLS_OF_DROP_IN


@pytest.mark.parametrize("library", [hornbeam, xgboost])
def test_rounds_at_once_have_fewer(table, library):
    data = library.DMatrix(*table)
    assert calls_of_a_round(data, train=library.train) <= MOST_CALLS_AT_ONCE


def test_an_evaluation_has_few_python_calls(table):
    held_out = hornbeam.DMatrix(*table)
    calls = calls_of_a_round(hornbeam.DMatrix(*table), evals=[(held_out, "held out")])
    assert calls <= MOST_CALLS + MOST_CALLS_OF_EVALUATION
