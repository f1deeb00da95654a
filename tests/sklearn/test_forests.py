"""Random forests: sampling, out-of-bag results, and independence of threads."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from hornbeam import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from hornbeam.cart.bagging import BootstrapSampler

KINDS = [RandomForestRegressor, RandomForestClassifier]
DRAWN = "a bag draws rows, whatever they weigh; scikit-learn's own forests do, too"


def checks_of(kind):
    return parametrize_with_checks(
        [kind(n_estimators=5)],
        expected_failed_checks=lambda _: {
            "check_sample_weight_equivalence_on_dense_data": DRAWN,
            "check_sample_weight_equivalence_on_sparse_data": DRAWN,
        },
    )


@checks_of(RandomForestClassifier)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of(RandomForestRegressor)
def test_scikit_learn_checks_of_regressors(estimator, check):
    check(estimator)


def mixed(n_classes=0, rows=300, seed=0):
    """Return a frame with numbers, categories and missing values; targets; weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    kind = rng.integers(12, size=rows)
    y = X[:, 0] * X[:, 1] + kind % 4 + rng.normal(scale=0.2, size=rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = pd.Categorical.from_codes(kind, [f"k{i}" for i in range(12)])
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    return frame, y, rng.uniform(0.5, 2, size=rows)


MANY = {
    "forest": {"oob_score": True, "oob_importances": True},
    "extra-trees": {"splitter": "random", "bootstrap": False},
    "best first, cut back": {"max_leaf_nodes": 20, "ccp_alpha": 0.01},
}


@pytest.mark.parametrize("case", MANY)
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_forests_do_not_depend_on_the_number_of_threads(n_classes, case, thread_counts):
    X, y, weights = mixed(n_classes)
    kind = RandomForestClassifier if n_classes else RandomForestRegressor
    models = [
        kind(15, random_state=4, n_jobs=n_jobs, **MANY[case]).fit(X, y, weights)
        for n_jobs in thread_counts
    ]
    assert len({model.get_booster().digest() for model in models}) == 1
    for name in ("oob_error_curve_", "oob_importances_", "feature_importances_"):
        if hasattr(models[0], name):
            for model in models[1:]:
                expected = getattr(models[0], name)
                np.testing.assert_array_equal(getattr(model, name), expected)
    other = kind(15, random_state=5, **MANY[case]).fit(X, y, weights)
    assert other.get_booster().digest() != models[0].get_booster().digest()


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, DecisionTreeClassifier])
def test_pruned_forests_do_not_depend_on_the_number_of_threads(kind):
    X, y, weights = mixed(3 if kind is DecisionTreeClassifier else 0)
    models = [
        kind(ccp_alpha="cv", n_jobs=n_jobs, random_state=1).fit(X, y, weights)
        for n_jobs in (1, 2, 3, 7)
    ]
    assert len({model.get_booster().digest() for model in models}) == 1
    assert len({model.ccp_path_.cv_errors.tobytes() for model in models}) == 1


# --- Accuracy -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    ["breast cancer", pytest.param("digits", marks=pytest.mark.slow), "iris"],
)
def test_accuracy_is_that_of_scikit_learn(data, iris):
    loads = {"breast cancer": load_breast_cancer, "digits": load_digits}
    X, y = loads[data](return_X_y=True) if data in loads else iris
    params = {"n_estimators": 40, "random_state": 0}
    own = cross_val_score(RandomForestClassifier(**params), X, y, cv=4)
    theirs = sklearn.ensemble.RandomForestClassifier(**params)
    assert own.mean() > cross_val_score(theirs, X, y, cv=4).mean() - 0.015


def test_regression_error_is_that_of_scikit_learn(diabetes):
    params = {"n_estimators": 60, "random_state": 0, "max_features": 1 / 3}
    own = cross_val_score(RandomForestRegressor(**params), *diabetes, cv=4)
    theirs = sklearn.ensemble.RandomForestRegressor(**params)
    assert own.mean() > cross_val_score(theirs, *diabetes, cv=4).mean() - 0.02


def test_bagging_beats_a_tree_and_is_the_mean_of_its_trees(diabetes):
    X, y = diabetes
    half = slice(0, None, 2)
    params = {"max_features": None, "random_state": 2}
    forest = RandomForestRegressor(30, **params).fit(X[half], y[half])
    tree = DecisionTreeRegressor().fit(X[half], y[half])
    assert forest.score(X[1::2], y[1::2]) > tree.score(X[1::2], y[1::2]) + 0.3
    assert len(forest.get_booster().model.trees) == 30
    # With all rows and all features all trees are equal.
    same = RandomForestRegressor(3, bootstrap=False, max_features=None)
    same.fit(X[half], y[half])
    np.testing.assert_allclose(same.predict(X), tree.predict(X), rtol=1e-6)


# --- Out-of-bag -----------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_out_of_bag_predictions_use_the_trees_not_trained_on_a_row(n_classes):
    X, y, weights = mixed(n_classes, rows=150)
    kind = RandomForestClassifier if n_classes else RandomForestRegressor
    n_trees, seed, n_draws = 25, 11, 100
    forest = kind(
        n_trees, oob_score=True, random_state=seed, max_samples=n_draws, n_jobs=2
    )
    forest.fit(X, y, weights)
    sampler = BootstrapSampler(np.arange(150, dtype=np.int32), 150, n_draws, seed)
    # The expected leaf values: weighted means with the bootstrap counts.
    targets = np.eye(n_classes)[y] if n_classes else y[:, None]
    leaves = forest.apply(X).astype(int)
    sums = np.zeros(targets.shape)
    counts = np.zeros(150)
    for number in range(n_trees):
        sample = sampler.sample(number)
        assert sample.counts.sum() == n_draws
        assert sorted([*sample.rows, *sample.held_out]) == list(range(150))
        w = sample.counts * weights
        for row in sample.held_out:
            here = leaves[:, number] == leaves[row, number]
            sums[row] += (w[here] @ targets[here]) / w[here].sum()
            counts[row] += 1
    expected = sums / counts[:, None]
    assert (counts > 0).all()
    assert forest.oob_error_curve_.shape == (n_trees,)
    if n_classes:
        np.testing.assert_allclose(forest.oob_decision_function_, expected, atol=1e-9)
        wrong = np.average(expected.argmax(axis=1) != y, weights=weights)
        assert forest.oob_error_curve_[-1] == pytest.approx(wrong)
        assert forest.oob_score_ == pytest.approx(1 - wrong)
        return
    np.testing.assert_allclose(forest.oob_prediction_, expected[:, 0], rtol=1e-9)
    error = np.average((expected[:, 0] - y) ** 2, weights=weights)
    assert forest.oob_error_curve_[-1] == pytest.approx(error)
    variance = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    assert forest.oob_score_ == pytest.approx(1 - error / variance)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_every_bootstrap_sample_have_no_out_of_bag_prediction(kind):
    X, y, _ = mixed(2, rows=60)
    with pytest.warns(
        UserWarning, match=r"\d+ of 60 rows were in the bootstrap sample.*more trees"
    ):
        forest = kind(2, oob_score=True, random_state=0).fit(X, y)
    names = ("oob_prediction_", "oob_decision_function_")
    (found,) = [getattr(forest, name) for name in names if hasattr(forest, name)]
    sampler = BootstrapSampler(np.arange(60, dtype=np.int32), 60, 60, 0)
    everywhere = (sampler.sample(0).counts > 0) & (sampler.sample(1).counts > 0)
    np.testing.assert_array_equal(np.isnan(found.reshape(60, -1)[:, 0]), everywhere)
    assert np.isfinite(forest.oob_score_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(40, oob_score=True, random_state=0).fit(X, y)


def test_out_of_bag_score_estimates_the_test_score(diabetes):
    X, y = diabetes
    forest = RandomForestRegressor(100, oob_score=True, random_state=0)
    forest.fit(X[::2], y[::2])
    assert forest.oob_score_ == pytest.approx(forest.score(X[1::2], y[1::2]), abs=0.1)
    curve = forest.oob_error_curve_
    assert curve[-1] < curve[5] < curve[0]


@pytest.mark.parametrize("kind", KINDS)
def test_permutation_importances_find_the_relevant_feature(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = (X[:, 2] > 0) * 1
    forest = kind(30, oob_importances=True, random_state=0, max_features=2).fit(X, y)
    increases = forest.oob_importances_
    assert increases.argmax() == 2
    assert increases[2] > 0.2
    assert np.abs(np.delete(increases, 2)).max() < 0.05 * increases[2]
    assert forest.oob_importances_std_.shape == (4,)
    assert forest.feature_importances_.sum() == pytest.approx(1)
    assert forest.feature_importances_.argmax() == 2


# --- Parameters -----------------------------------------------------------------------


def test_hard_voting_predicts_fractions_of_trees(iris):
    X, y = iris
    params = {"n_estimators": 8, "random_state": 0, "min_samples_leaf": 20}
    hard = RandomForestClassifier(voting="hard", **params).fit(X, y)
    soft = RandomForestClassifier(**params).fit(X, y)
    votes = hard.predict_proba(X) * 8
    np.testing.assert_allclose(votes, votes.round(), atol=1e-5)
    assert not np.allclose(soft.predict_proba(X), votes / 8)
    assert (hard.apply(X) == soft.apply(X)).all()


def test_max_samples(diabetes):
    X, y = diabetes
    for max_samples, n_draws in ((50, 50), (0.5, 221), (1.0, 442), (None, 442)):
        forest = RandomForestRegressor(2, max_samples=max_samples).fit(X, y)
        covers = [tree.cover[0] for tree in forest.get_booster().model.trees]
        assert covers == [n_draws, n_draws]


def test_random_thresholds_are_uniform_over_the_range_of_a_node():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 1)) ** 4
    y = rng.normal(size=200)
    params = {"splitter": "random", "bootstrap": False, "max_depth": 1}
    forest = RandomForestRegressor(400, random_state=0, **params).fit(X, y)
    cuts = np.array([tree.threshold[0] for tree in forest.get_booster().model.trees])
    assert X.min() < cuts.min() and cuts.max() <= X.max()
    # They are uniform over the range of values, not over the rows.
    low, high = X.min(), X.max()
    counts = np.histogram(cuts, 8, (low, high))[0]
    assert ((counts - 50) ** 2 / 50).sum() < 24.3  # the 0.1 % critical value
    best = RandomForestRegressor(2, bootstrap=False, max_depth=1).fit(X, y)
    assert best.get_booster().model.trees[0].threshold[0] not in cuts


@pytest.mark.parametrize("wanted", [1, 2, "sqrt", 0.5, "log2"])
def test_max_features_are_drawn_uniformly(wanted):
    rng = np.random.default_rng(0)
    X = rng.permuted(np.tile(np.arange(60.0), (6, 1)), axis=1).T
    y = rng.normal(size=60)
    forest = RandomForestRegressor(
        300, max_features=wanted, max_depth=1, bootstrap=False, random_state=0
    ).fit(X, y)
    n_drawn = {1: 1, 2: 2, "sqrt": 2, 0.5: 3, "log2": 2}[wanted]
    assert forest.max_features_ == n_drawn
    trees = forest.get_booster().model.trees
    counts = np.bincount([tree.feature[0] for tree in trees], minlength=6)
    # The root splits on the best feature drawn: the k-th best with this probability.
    gains = [
        DecisionTreeRegressor(max_depth=1).fit(X[:, [f]], y).score(X[:, [f]], y)
        for f in range(6)
    ]
    order = np.argsort(gains)[::-1]
    missed = np.cumprod([1.0] + [(6 - n_drawn - k) / (6 - k) for k in range(6)])
    missed = np.maximum(missed, 0)
    expected = 300 * (missed[:-1] - missed[1:])
    likely = expected > 0
    assert counts[order][~likely].sum() == 0
    excess = (counts[order] - expected)[likely] ** 2 / expected[likely]
    assert excess.sum() < 20.5  # the 0.1 % critical value
