"""Models of categories: the same bits on any number of threads, and no worse a loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from selection import IS_WHOLE

from hornbeam import Booster, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix, train
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


SHRINKAGE = {"cat_smooth": 5.0, "cat_l2": 4.0, "min_data_per_group": 300}


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
@pytest.mark.parametrize(
    "growth",
    [{"grow_policy": "depthwise"}, {"grow_policy": "lossguide"}, SHRINKAGE],
    ids="-".join,
)
@pytest.mark.parametrize("levels", [[20, 3, 200], [3, 4000, 30, 5]], ids=str)
def test_the_number_of_threads_does_not_matter(levels, growth):
    rows, labels, types = table(np.random.default_rng(0), 60_000, levels, 0.05)
    found = set()
    for threads in (1, 2, 3, 7):
        data = DMatrix(rows, labels, feature_types=types)
        params = {"nthread": threads, "subsample": 0.8, **growth}
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
        "cat_smooth": st.sampled_from([0.0, 0.0, 3.0]),
        "cat_l2": st.sampled_from([0.0, 0.0, 5.0]),
        "min_data_per_group": st.sampled_from([0, 0, 20]),
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


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "binary:logistic", "tree_method": "approx"},
        {"objective": "multi:softprob", "num_class": 3},
        {"monotone_constraints": [0, 0, 0, 1], "path_smooth": 3.0},
        {"monotone_constraints": [0, 0, 0, -1], "min_samples_leaf": 9},
        {"multi_strategy": "multi_output_tree"},
        {"multi_strategy": "multi_output_tree", "path_smooth": 3.0},
        {"subsample": 0.5, "sampling_method": "gradient_based"},
        {"booster": "dart", "rate_drop": 0.5},
    ],
    ids=lambda params: "-".join(map(str, params.values())),
)
def test_shrinkage_gives_one_model_wherever_the_rows_are(
    params, tmp_path, thread_counts
):
    # Kernels of multi-output trees of bins of two bytes take seconds to compile.
    narrow = "multi_strategy" in params and not IS_WHOLE
    levels = [40, 9, 200 if narrow else 300]
    rows, labels, types = table(np.random.default_rng(3), 4000, levels, 0.05)
    if params.get("multi_strategy"):
        labels = np.stack([labels, labels**2], axis=1)
    elif "objective" in params:
        labels = np.digitize(labels, [0.0, 2.0][: params.get("num_class", 2) - 1])
    plain = {"max_depth": 4, **params}
    params = {**plain, **SHRINKAGE, "min_data_per_group": 60}
    info = {"feature_types": types}
    data = DMatrix(rows, labels, **info)
    booster = train({**params, "nthread": 1}, data, 3)
    assert booster.digest() != train(plain, data, 3).digest()
    for threads in thread_counts[1:]:
        again = train({**params, "nthread": threads}, data, 3)
        assert again.digest() == booster.digest()
    if params.get("tree_method") != "approx":  # which needs the values
        paged = ExtMemQuantileDMatrix(rows, labels, cache=tmp_path, **info)
        assert train(params, paged, 3).digest() == booster.digest()


def single_split(codes, labels, cat_smooth=0.0, **params):
    """Return a tree of one split between sorted categories."""
    data = DMatrix(codes[:, None].astype(float), labels, feature_types=["c"])
    fixed = {"max_depth": 1, "learning_rate": 1.0, "base_score": 0.0}
    fixed |= {"max_cat_to_onehot": 1, "min_child_weight": 0.0, "cat_smooth": cat_smooth}
    return train({**fixed, **params}, data, 1).model.trees[0]


def test_leaves_of_sorted_categories_have_a_penalty_of_their_own():
    codes = np.arange(600) % 6
    labels = np.where(codes < 2, 3.0, -1.0)
    tree = single_split(codes, labels, cat_l2=50.0, reg_lambda=2.0)
    assert tree.categories.tolist() == [2, 3, 4, 5]  # the lowest weights go right
    expected = [200 * 3 / (200 + 52), -400 / (400 + 52)]
    np.testing.assert_allclose(tree.value[1:], expected, rtol=1e-6)
    gains = [600**2 / 252, 400**2 / 452, -(200**2) / 602]
    assert tree.gain[0] == pytest.approx(sum(gains), rel=1e-6)
    one_hot = single_split(codes, labels, cat_l2=50.0, max_cat_to_onehot=7)
    assert one_hot.value[1:].max() == pytest.approx(300 / 101, rel=1e-6)


@pytest.mark.parametrize("smooth", [9.0, 9.5])
def test_categories_of_few_rows_are_on_the_side_of_the_missing_values(smooth):
    rows, means = [100, 100, 9, 10], [1.0, -1.0, -500.0, 60.0]
    tree = single_split(np.repeat(range(4), rows), np.repeat(means, rows), smooth)
    goes_left = 2 not in tree.categories
    assert (goes_left == tree.default_left[0]) == (smooth > 9)


@pytest.mark.parametrize(
    ("params", "least"),
    [
        ({}, [100, 101, 201]),
        ({"objective": "binary:logistic", "base_score": 0.5}, [100, 101, 201]),
        ({"subsample": 0.5}, [30, 70, 130]),
    ],
    ids=str,
)
def test_groups_count_rows(params, least):
    """Levels of 100 rows, or 50 drawn ones: groups of one, two and three levels."""
    codes = np.repeat(np.arange(7), 100)
    labels = (codes >= 1).astype(float)
    sizes = []
    for rows in least:
        tree = single_split(codes, labels, **params, min_data_per_group=rows)
        right = tree.category_counts[0]
        sizes.append(min(right, 7 - right))
    assert sizes == [1, 2, 3]


def test_a_feature_of_noise_alone_does_less_harm():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 300, (4000, 1)).astype(float)
    rows = np.hstack([codes, rng.normal(size=(4000, 1))])
    labels = rows[:, 1] + rng.normal(size=4000)
    types = ["c", "q"]
    data = DMatrix(rows[:2000], labels[:2000], feature_types=types)
    test = DMatrix(rows[2000:], feature_types=types)
    losses = [
        np.mean((train(params, data, 30).predict(test) - labels[2000:]) ** 2)
        for params in ({}, {"cat_smooth": 10.0, "cat_l2": 10.0})
    ]
    assert losses[1] < 0.95 * losses[0]
