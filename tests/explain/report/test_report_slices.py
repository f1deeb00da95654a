"""Worst slices: what was planted is found, and noise is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from report_cases import rows_of, trained

from hornbeam.explain.report.importances import importances_of
from hornbeam.explain.report.slices import slices_of


def slices(frame, labels, params, model=None, seed=0, **info):
    model = model or trained(frame, labels, params, 20)
    rows, task = rows_of(model, frame, labels, **info)
    importances = importances_of(model, rows, task, seed, repeats=1)
    return slices_of(rows, task, importances, seed), rows, task


def noisy(n_rows=6000, seed=0):
    rng = np.random.default_rng(seed)
    return (
        pd.DataFrame(
            {
                "a": rng.random(n_rows),
                "b": rng.random(n_rows),
                "c": pd.Categorical(rng.choice(["x", "y", "z"], n_rows)),
            }
        ),
        rng,
    )


SQUARES = {"objective": "reg:squarederror"}


def test_a_planted_slice_is_the_worst():
    frame, rng = noisy()
    labels = frame["a"] + rng.normal(size=6000) * np.where(frame["c"] == "y", 2.0, 0.5)
    found, rows, task = slices(frame, labels.to_numpy(), SQUARES)
    worst = found.found[0]
    assert "c is y" in worst.words
    losses = task.losses(rows)
    inside = (frame["c"] == "y").to_numpy()
    assert worst.low < losses[inside].mean() < worst.high
    assert worst.low > losses.mean()
    assert worst.share == pytest.approx(inside.mean(), abs=0.03)
    assert found.loss == pytest.approx(losses.mean(), rel=0.1)
    assert "square" in found.metric


def test_a_planted_pair_is_found_as_a_pair():
    frame, rng = noisy(12_000)
    worse = (frame["c"] == "z") & (frame["a"] > 0.75)
    labels = rng.normal(size=12_000) * np.where(worse, 3.0, 0.5)
    found, _, _ = slices(frame, labels, SQUARES)
    words = found.found[0].words
    assert "c is z" in words and "a ≥ 0.7" in words
    assert found.found[0].share == pytest.approx(1 / 12, abs=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_noise_is_not_reported(seed):
    frame, rng = noisy(seed=seed)
    labels = rng.normal(size=6000)
    fresh, rng = noisy(seed=seed + 100)
    model = trained(frame, labels, SQUARES, 5)
    found, _, _ = slices(fresh, rng.normal(size=6000), SQUARES, model, seed)
    assert found.found == []
    assert found.tried > 30


def test_rows_count_as_they_weigh():
    frame, rng = noisy()
    worse = (frame["c"] == "y").to_numpy()
    labels = rng.normal(size=6000) * np.where(worse, 3.0, 0.5)
    model = trained(frame, labels, SQUARES, 5)
    weights = np.where(worse, 0.0, 1.0)
    found, _, _ = slices(frame, labels, SQUARES, model, weight=weights)
    assert found.found == []


def test_losses_of_rows_are_the_metric_of_each():
    frame, rng = noisy(300)
    labels = (frame["a"] + rng.random(300) > 1).to_numpy(float)
    model = trained(frame, labels)
    rows, task = rows_of(model, frame, labels)
    p = rows.predictions
    expected = -np.log(np.where(labels == 1, p, 1 - p))
    np.testing.assert_allclose(task.losses(rows), expected, rtol=1e-6)


def test_missing_values_are_a_slice():
    frame, rng = noisy()
    frame.loc[rng.random(6000) < 0.1, "b"] = np.nan
    labels = rng.normal(size=6000) * np.where(frame["b"].isna(), 3.0, 0.5)
    found, _, _ = slices(frame, labels, SQUARES)
    assert found.found[0].words == "b is missing"
