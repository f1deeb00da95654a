"""Smoothed splits by category are equal to those of the real LightGBM.

LightGBM cuts its order of categories in the middle at the latest. The limit of the
categories on one side, `max_cat_threshold`, is set so that Hornbeam does, too.
"""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import hornbeam

LEVELS = 40
GROWTH = {
    "nothing": {},
    "smooth": {"cat_smooth": 30.0},
    "penalty": {"cat_l2": 25.0},
    "groups": {"min_data_per_group": 230},
    "rare levels": {"cat_smooth": 60.0},
    "LightGBM's defaults": {
        "cat_smooth": 10.0,
        "cat_l2": 10.0,
        "min_data_per_group": 100,
    },
    "all": {"cat_smooth": 65.0, "cat_l2": 5.5, "min_data_per_group": 150},
}
OBJECTIVES = {"reg:squarederror": "regression", "binary:logistic": "binary"}


def table(seed):
    """Return codes of categories of 40 to 120 rows, and noisy numbers."""
    rng = np.random.default_rng(seed)
    # LightGBM merges the rarest categories, a hundredth of the rows; here are none.
    share = rng.dirichlet(np.full(LEVELS, 30.0))
    codes = rng.choice(LEVELS, 3000, p=share)
    return codes, rng.normal(size=LEVELS)[codes] + 3 * rng.normal(size=3000)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("case", GROWTH)
@pytest.mark.parametrize("seed", range(3))
def test_single_splits_equal_lightgbms(case, objective, seed):
    shrinkage = {"cat_smooth": 0.0, "cat_l2": 0.0, **GROWTH[case]}
    codes, labels = table(seed)
    rows = codes[:, None].astype(float)
    if objective == "binary:logistic":
        labels = (labels > 0).astype(float)
    counts = np.bincount(codes, minlength=LEVELS)
    kept = counts >= shrinkage["cat_smooth"]
    # Hessians of the first round are equal, so that they count the rows in both.
    params = {
        "objective": objective,
        "base_score": 0.5 if objective == "binary:logistic" else 0.0,
        "max_depth": 1,
        "max_cat_to_onehot": 1,
        "max_cat_threshold": (np.count_nonzero(kept) + 1) // 2 + 1,
        "reg_lambda": 0.0,
        "learning_rate": 1.0,
        **shrinkage,
    }
    data = hornbeam.DMatrix(rows, labels, feature_types=["c"])
    ours = hornbeam.train(params, data, 1)
    settings = {
        "objective": OBJECTIVES[objective],
        "boost_from_average": False,
        "num_leaves": 2,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 1.0,
        "max_cat_threshold": LEVELS,
        "max_cat_to_onehot": 1,
        "min_data_in_bin": 1,
        "learning_rate": 1.0,
        "min_data_per_group": 1,
        "verbosity": -1,
        "num_threads": 1,
        **shrinkage,
    }
    theirs = lightgbm.train(
        settings, lightgbm.Dataset(rows, labels, categorical_feature=[0]), 1
    )
    gain = theirs.trees_to_dataframe()["split_gain"][0]
    assert ours.model.trees[0].gain[0] == pytest.approx(gain, rel=1e-5)
    np.testing.assert_allclose(
        ours.predict(data, output_margin=True),
        theirs.predict(rows, raw_score=True),
        rtol=1e-5,
        atol=1e-6,
    )
