"""Models of categories: the same bits on any number of threads, and no worse a loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam import Booster, DMatrix, QuantileDMatrix, train
from hornbeam.kernels.jit import COMPILED


def table(rng, n_rows, levels, missing):
    """Return columns of so many categories each, one of numbers, and labels."""
    rows = np.column_stack([rng.integers(0, n, n_rows) for n in levels]).astype(float)
    labels = sum(
        rng.normal(size=n)[c.astype(int)] for n, c in zip(levels, rows.T, strict=True)
    )
    rows = np.column_stack([rows, rng.normal(size=n_rows).round(1)])
    labels = labels + rows[:, -1] + rng.normal(size=n_rows)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, labels, ["c"] * len(levels) + ["q"]


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("levels", [[20, 3, 200], [3, 4000, 30, 5]], ids=str)
def test_the_number_of_threads_does_not_matter(levels, policy):
    rows, labels, types = table(np.random.default_rng(0), 60_000, levels, 0.05)
    found = set()
    for threads in (1, 2, 3, 7):
        data = DMatrix(rows, labels, feature_types=types)
        params = {"nthread": threads, "grow_policy": policy, "subsample": 0.8}
        booster = train({**params, "colsample_bytree": 0.8, "seed": 3}, data, 4)
        predictions = booster.predict(data)
        found.add((booster.digest(), predictions.tobytes()))
    assert len(found) == 1
    assert sum(tree.split_type.sum() for tree in booster.model.trees) > 20


PARAMS = st.fixed_dictionaries(
    {
        "objective": st.sampled_from(["reg:squarederror", "binary:logistic"]),
        "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        "max_depth": st.integers(0, 5),
        "max_leaves": st.integers(0, 9),
        "max_bin": st.sampled_from([2, 16, 256, 1000]),
        "max_cat_to_onehot": st.sampled_from([1, 4, 100]),
        "max_cat_threshold": st.sampled_from([1, 2, 9, 64, 100_000]),
        "eta": st.sampled_from([0.3, 1.0]),
        "lambda": st.sampled_from([0.0, 1.0, 20.0]),
        "min_child_weight": st.sampled_from([0.0, 1.0, 5.0]),
        "max_delta_step": st.sampled_from([0.0, 0.3]),
        "subsample": st.sampled_from([0.5, 1.0]),
        "colsample_bytree": st.sampled_from([0.4, 1.0]),
        "colsample_bynode": st.sampled_from([0.4, 1.0]),
    }
)


@examples(50)
@given(
    params=PARAMS,
    levels=st.lists(st.sampled_from([1, 2, 3, 5, 40, 300]), min_size=1, max_size=4),
    n_rows=st.integers(1, 150),
    missing=st.sampled_from([0.0, 0.2, 0.95]),
    seed=st.integers(0, 2**32),
)
def test_any_configuration(params, levels, n_rows, missing, seed):
    rng = np.random.default_rng(seed)
    rows, labels, types = table(rng, n_rows, levels, missing)
    if params["objective"] == "binary:logistic":
        labels = (labels > 0).astype(float)
    data = DMatrix(rows, labels, feature_types=types)
    booster = train({**params, "nthread": 1}, data, 3)
    digest = booster.digest()
    assert (
        train({**params, "nthread": 3}, data, 3, evals=[(data, "a")]).digest() == digest
    )
    expected = booster.predict(data)
    assert np.isfinite(expected).all()

    # Codes instead of the rows.
    quantile = QuantileDMatrix(
        rows, labels, feature_types=types, max_bin=params["max_bin"]
    )
    assert train(params, quantile, 3).digest() == digest
    np.testing.assert_array_equal(booster.predict(quantile), expected)

    # Scores of training are those of prediction.
    begun = train({**params, "nthread": 1}, data, 1)
    again = train({**params, "nthread": 1}, data, 2, xgb_model=begun)
    if params["subsample"] == 1.0:
        assert again.digest() == digest
    for kind in ("json", "ubj"):
        loaded = Booster(model_file=booster.save_raw(kind))
        assert loaded.digest() == digest
        np.testing.assert_array_equal(loaded.predict(data), expected)


@pytest.mark.parametrize("params", [{}, {"max_cat_to_onehot": 1000}], ids=str)
def test_the_loss_falls_in_every_round(params):
    rows, labels, types = table(np.random.default_rng(1), 400, [30, 3, 8], 0.1)
    data = DMatrix(rows, labels, feature_types=types)
    report = {}
    train(
        params, data, 15, evals=[(data, "a")], evals_result=report, verbose_eval=False
    )
    assert (np.diff(report["a"]["rmse"]) < 0).all()


def test_training_and_prediction_send_rows_to_the_same_leaves():
    rng = np.random.default_rng(2)
    rows, labels, types = table(rng, 500, [70, 300, 4], 0.1)
    data = DMatrix(rows, labels, feature_types=types)
    booster = train({"max_depth": 4, "base_score": 0.0}, data, 1)
    tree = booster.model.trees[0]
    leaves = booster.predict(data, pred_leaf=True).astype(int).ravel()
    for leaf in np.unique(leaves):
        own = labels[leaves == leaf]
        assert tree.cover[leaf] == len(own)
        assert tree.value[leaf] == pytest.approx(
            0.3 * own.sum() / (len(own) + 1), rel=1e-5
        )
