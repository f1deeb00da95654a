"""The comparison of cuts compares cuts, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

import hornbeam
from benchmarks.cuts import CHOICES, bins_of, fresh_loss, xgboost_cuts
from benchmarks.data import made_score

ROUNDS = 20


@pytest.fixture(scope="module")
def rows():
    """Return features and target of training rows and of fresh ones."""
    x, y = made_score(8_000, 12, seed=0)
    return x[:4_000], y[:4_000], x[4_000:], y[4_000:]


def binned(rows, cuts):
    """Return `rows` with bins in place of values."""
    x, y, x_fresh, y_fresh = rows
    return bins_of(x, cuts), y, bins_of(x_fresh, cuts), y_fresh


def test_bins_of_exact_cuts_train_the_model_of_the_values(rows):
    rng = np.random.default_rng(0)
    cuts = [CHOICES["exact"](column, rng) for column in rows[0].T]
    loss = fresh_loss(hornbeam, binned(rows, cuts), ROUNDS)
    assert loss == fresh_loss(hornbeam, rows, ROUNDS)


def test_the_loss_with_xgboosts_cuts_is_xgboosts(rows):
    loss = fresh_loss(hornbeam, binned(rows, xgboost_cuts(rows[0])), ROUNDS)
    assert loss == pytest.approx(fresh_loss(xgboost, rows, ROUNDS), rel=1e-3)
    assert loss != fresh_loss(hornbeam, rows, ROUNDS)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("has_missing", [False, True])
def test_cuts_are_ascending_and_make_nearly_all_bins(choice, has_missing):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(4_000).astype(np.float32)
    if has_missing:
        values[:100] = np.nan
    cuts = CHOICES[choice](values, rng)
    assert (np.diff(cuts) > 0).all()
    assert 250 - has_missing <= cuts.size <= 255 - has_missing
    few = np.round(values)
    assert CHOICES[choice](few, rng).size == np.unique(few[~np.isnan(few)]).size - 1
