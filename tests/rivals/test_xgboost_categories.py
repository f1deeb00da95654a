"""Categorical splits are equal to those of the real XGBoost."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from test_xgboost import LIBRARIES, assert_same_model, both

import hornbeam
from hornbeam.forest import decode

TYPES = ["c", "q", "c", "c", "q"]
LEVELS = [12, 6, 3, 90, 8]


def table(n_rows=900, missing=0.0, seed=0):
    """Return categorical and numerical columns, and labels that depend on both."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, n, n_rows) for n in LEVELS])
    effects = [rng.normal(size=n) for n in LEVELS]
    labels = sum(effect[column] for effect, column in zip(effects, rows.T, strict=True))
    labels += effects[0][rows[:, 0]] * (rows[:, 1] - 3) + rng.normal(size=n_rows)
    rows = rows.astype(np.float32)
    rows[rng.random(rows.shape) < missing] = np.nan
    # Hornbeam's labels are float64.
    return rows, labels.astype(np.float32)


INFO = {"feature_types": TYPES, "enable_categorical": True}
GROWTH = {
    "defaults": {},
    "one-hot": {"max_cat_to_onehot": 100},
    "groups": {"max_cat_to_onehot": 1},
    "some of both": {"max_cat_to_onehot": 13},
    "few cuts": {"max_cat_threshold": 5},
    "two cuts": {"max_cat_threshold": 2, "max_cat_to_onehot": 1},
    "no cuts": {"max_cat_threshold": 1, "max_depth": 3},
    "no lambda": {"lambda": 0},
    "alpha": {"alpha": 5},
    "gamma": {"gamma": 20},
    "max_delta_step": {"max_delta_step": 0.3},
    "light children": {"min_child_weight": 0},
    "without limit": {"max_depth": 0, "min_child_weight": 4},
    "best first": {"grow_policy": "lossguide", "max_leaves": 11, "max_depth": 0},
    "parallel": {"num_parallel_tree": 2},
}


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", GROWTH)
def test_squared_error_trees_equal_xgboosts(case, missing):
    params = GROWTH[case]
    rows, labels = table(missing=missing)
    ours, theirs, *_ = both(params, rows, labels, info=INFO)
    assert sum(tree.split_type.sum() for tree in ours.model.trees) > (case != "no cuts")
    assert_same_model(ours, theirs, params.get("lambda", 1))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    "params", [{}, {"max_cat_to_onehot": 100}, {"max_cat_threshold": 6}], ids=str
)
def test_logistic_trees_equal_xgboosts(params, missing):
    rows, labels = table(missing=missing)
    labels = (labels > 0).astype(float)
    params = {"objective": "binary:logistic", "min_child_weight": 0, **params}
    ours, theirs, *_ = both(params, rows, labels, info=INFO)
    assert_same_model(ours, theirs)


@pytest.mark.parametrize("least", [1.0, 5.0])
def test_categories_below_min_child_weight_are_placed_as_in_xgboost(least):
    """XGBoost 3.2 gives a category below min_child_weight the weight 0."""
    rows, labels = table()
    labels = (labels > 0).astype(float)
    params = {"objective": "binary:logistic", "min_child_weight": least, "max_depth": 1}
    ours, theirs, *_ = both(
        params, rows[:, [3]], labels, info={**INFO, "feature_types": ["c"]}
    )
    tree, other = ours.model.trees[0], decode(bytes(theirs.save_raw("ubj"))).trees[0]
    assert tree.categories.size > 3
    np.testing.assert_array_equal(tree.categories, other.categories)


def test_multiclass_trees_with_weights_equal_xgboosts():
    rows, labels = table(missing=0.1)
    weights = np.random.default_rng(0).integers(1, 5, len(rows))
    classes = np.digitize(labels, [-1.0, 1.0])
    params = {"objective": "multi:softprob", "num_class": 3, "min_child_weight": 0}
    ours, theirs, *_ = both(params, rows, classes, info={**INFO, "weight": weights})
    assert_same_model(ours, theirs)


@examples(40)
@given(
    params=st.fixed_dictionaries(
        {
            "max_depth": st.integers(1, 4),
            "max_cat_to_onehot": st.sampled_from([1, 4, 30, 100]),
            "max_cat_threshold": st.sampled_from([1, 2, 8, 64, 1000]),
            "lambda": st.sampled_from([0.0, 1.0, 20.0]),
            "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        }
    ),
    missing=st.sampled_from([0.0, 0.1, 0.6]),
    n_rows=st.sampled_from([200, 700]),
    seed=st.integers(0, 2**16),
)
def test_the_first_tree_of_random_configurations_equals_xgboosts(
    params, missing, n_rows, seed
):
    rows, labels = table(n_rows, missing, seed)
    # With integer gradients sums and ties are exact in both libraries.
    params = {**params, "base_score": 0.0}
    labels = np.round(3 * labels)
    ours, theirs, *_ = both(params, rows, labels, 1, info=INFO)
    tree, other = ours.model.trees[0], decode(bytes(theirs.save_raw("ubj"))).trees[0]
    pairs = zip(splits_of(tree), splits_of(other), strict=False)
    different = [node for node, (own, their) in enumerate(pairs) if own != their]
    if not different:
        np.testing.assert_array_equal(tree.left, other.left)
        return
    # Two splits have the same gain, and XGBoost selects one by a rounding error of
    # float32, which is smaller than this.
    node = different[0]
    np.testing.assert_allclose(tree.gain[node], other.gain[node], rtol=1.2e-7)


def splits_of(tree):
    """Return the feature and the condition of each split."""
    ends = np.cumsum(tree.category_counts)
    sets = np.split(tree.categories, ends[:-1])
    columns = tree.feature, tree.left < 0, tree.split_type, tree.default_left
    return [
        (*(values[node].item() for values in columns), own.tolist())
        for node, own in enumerate(sets)
    ]


def frame(rows):
    """Return the codes as named pandas categories."""
    columns = {}
    for feature, (kind, levels) in enumerate(zip(TYPES, LEVELS, strict=True)):
        values = rows[:, feature]
        if kind == "c":
            codes = np.where(np.isnan(values), -1, values).astype(int)
            names = [f"level {level * 37 % levels:02}" for level in range(levels)]
            values = pandas.Categorical.from_codes(codes, names)
        columns[f"column {feature}"] = values
    return pandas.DataFrame(columns)


@pytest.mark.parametrize("format", ["json", "ubj"])
@pytest.mark.parametrize("named", [False, True])
def test_models_predict_the_same_in_both_libraries(named, format):
    rows, labels = table(missing=0.1)
    data = frame(rows) if named else rows
    info = {"enable_categorical": True} if named else INFO
    params = {"nthread": 1, "max_depth": 5}
    matrices = [library.DMatrix(data, labels, **info) for library in LIBRARIES]
    ours = hornbeam.train(params, matrices[0], 5)
    in_theirs = xgboost.Booster({"nthread": 1})
    in_theirs.load_model(bytearray(ours.save_raw(format)))
    np.testing.assert_allclose(
        in_theirs.predict(matrices[1]), ours.predict(matrices[0]), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(
        in_theirs.predict(matrices[1], pred_leaf=True).astype(int),
        ours.predict(matrices[0], pred_leaf=True).astype(int),
    )
    theirs = xgboost.train(params, matrices[1], 5)
    in_ours = hornbeam.Booster(model_file=theirs.save_raw(format))
    np.testing.assert_array_equal(
        in_ours.predict(matrices[0]), theirs.predict(matrices[1])
    )
    for kind in ("weight", "gain", "total_cover"):
        assert in_ours.get_score(importance_type=kind) == pytest.approx(
            theirs.get_score(importance_type=kind), rel=1e-6
        )


def test_unseen_and_missing_codes_follow_xgboosts_path():
    rows, labels = table()
    info = INFO
    params = {"nthread": 1, "max_cat_to_onehot": 1}
    theirs = xgboost.train(params, xgboost.DMatrix(rows, labels, **info), 3)
    ours = hornbeam.Booster(model_file=theirs.save_raw())
    strange = rows[:200].copy()
    strange[:100, 3] = 1000  # beyond what training saw
    strange[100:, 0] = np.nan
    np.testing.assert_array_equal(
        ours.predict(hornbeam.DMatrix(strange, **info)),
        theirs.predict(xgboost.DMatrix(strange, **info)),
    )
