"""Exact and approx trees compared with the real XGBoost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost
from samples import few_values
from test_xgboost import assert_same_model, assert_same_tree, both

import hornbeam
from hornbeam.forest import decode


def continuous(n_rows=900, missing=0.1, seed=0):
    """Return rows and labels for which no two splits have the same gain."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, 5)).astype(np.float32)
    labels = rows[:, 0] * rows[:, 1] + np.sin(2 * rows[:, 2])
    labels = (labels + rng.normal(size=n_rows)).astype(np.float32)
    rows[:, 4] = np.round(2 * rows[:, 4])
    rows[:, 1:][rng.random((n_rows, 4)) < missing] = np.nan
    return rows, labels


def assert_same_exact_model(ours, theirs, params):
    """Compare trees; XGBoost does not scale base_weights of exact trees by eta."""
    model = decode(bytes(theirs.save_raw("ubj")))
    rate = params.get("eta", 0.3) / params.get("num_parallel_tree", 1)
    for tree, other in zip(ours.model.trees, model.trees, strict=True):
        other.weight[other.left < 0] *= np.float32(rate)
        assert_same_tree(tree, other, params.get("lambda", 1.0))


EXACT = {
    "plain": {},
    "shallow": {"max_depth": 2, "eta": 1.0},
    "deep": {"max_depth": 10},
    "gamma": {"gamma": 3.0},
    "more gamma": {"gamma": 12.0, "max_depth": 8},
    "penalties": {"lambda": 5.0, "alpha": 2.0},
    "least": {"min_child_weight": 30.0},
    "step": {"max_delta_step": 0.3},
    # At greater depths, weights at their bounds cause ties.
    "rising": {"monotone_constraints": "(1,0,-1,0,0)", "max_depth": 3},
    "interactions": {"interaction_constraints": "[[0, 1], [2, 3, 4]]"},
    "forest": {"num_parallel_tree": 2},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "logistic": {"objective": "binary:logistic"},
}


@pytest.mark.parametrize("case", EXACT)
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_exact_trees_equal_xgboosts(case, missing):
    rows, labels = continuous(missing=missing)
    params = {"tree_method": "exact", "nthread": 1, **EXACT[case]}
    if "classes" in case:
        labels = np.digitize(labels, [-0.5, 0.5])
    elif "logistic" in case:
        labels = labels > 0
    ours, theirs = both(params, rows, labels)[:2]
    assert_same_exact_model(ours, theirs, params)
    np.testing.assert_allclose(
        ours.predict(hornbeam.DMatrix(rows)),
        theirs.predict(xgboost.DMatrix(rows)),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"default_direction": "left"},
        {"default_direction": "right"},
        {"opt_dense_col": 0.7},
    ],
    ids=str,
)
def test_missing_directions_of_exact_trees_equal_xgboosts(own):
    rows, labels = continuous(missing=0.2)
    rows[:, 3] = np.where(rows[:, 4] > 0, 1.0, np.nan)  # one value, or none
    rows[:450, 2] = np.nan  # a column of fewer cells than 0.7
    labels[rows[:, 3] == 1.0] += 1.0
    params = {"tree_method": "exact", "nthread": 1, "max_depth": 4, **own}
    ours, theirs = both(params, rows, labels)[:2]
    assert_same_exact_model(ours, theirs, params)
    if "default_direction" in own:
        trees = ours.model.trees
        defaults = {d for t in trees for d in t.default_left[t.left >= 0].tolist()}
        assert defaults == {int(own["default_direction"] == "left")}


def test_exact_trees_of_sparse_rows_equal_xgboosts():
    rows, labels = continuous(missing=0.7)
    filled = ~np.isnan(rows)
    at = np.nonzero(filled)
    sparse = scipy.sparse.csr_matrix((rows[filled], at), shape=rows.shape)
    params = {"tree_method": "exact", "nthread": 1}
    ours, theirs = both(params, sparse, labels)[:2]
    assert_same_exact_model(ours, theirs, params)
    dense = hornbeam.train(params, hornbeam.DMatrix(rows, labels), 3)
    assert dense.digest() == ours.digest()


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_approx_trees_of_few_distinct_values_equal_xgboosts(objective):
    rows, labels = few_values(1500, 5, missing=0.1)
    if objective == "binary:logistic":
        labels = labels > 2
    params = {"tree_method": "approx", "objective": objective, "nthread": 1}
    ours, theirs = both(params, rows, labels)[:2]
    assert_same_model(ours, theirs)


def test_approx_trees_of_categories_equal_xgboosts():
    rows, labels = few_values(1500, 3)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    frame["c"] = pd.Categorical.from_codes((rows[:, 2] * 8).astype(int) % 12, range(12))
    params = {"tree_method": "approx", "nthread": 1}
    boosters = [
        library.train(
            params, library.DMatrix(frame, labels, enable_categorical=True), 3
        )
        for library in (hornbeam, xgboost)
    ]
    assert_same_model(*boosters)


@pytest.mark.parametrize("scope", ["global", "local"])
def test_approx_with_few_candidates_is_not_worse(scope):
    rows, labels = continuous(6000, seed=1)
    labels = labels > 0
    train, test = slice(4000), slice(4000, None)
    params = {"tree_method": "approx", "max_bin": 12, "objective": "binary:logistic"}
    params |= {"nthread": 1, "max_depth": 4}
    losses = []
    for library in (hornbeam, xgboost):
        own = {**params, "sketch_scope": scope} if library is hornbeam else params
        booster = library.train(own, library.DMatrix(rows[train], labels[train]), 30)
        margins = booster.predict(library.DMatrix(rows[test]), output_margin=True)
        signs = np.where(labels[test], 1, -1)
        losses.append(np.log1p(np.exp(-signs * margins)).mean())
    assert losses[0] < losses[1] + 0.01
