"""Single trees: equality with scikit-learn's trees and pruning paths, and additions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn.tree
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from hornbeam import DecisionTreeClassifier, DecisionTreeRegressor
from hornbeam.explain import plot_tree, tree_text

KINDS = {
    DecisionTreeRegressor: sklearn.tree.DecisionTreeRegressor,
    DecisionTreeClassifier: sklearn.tree.DecisionTreeClassifier,
}


@parametrize_with_checks([DecisionTreeRegressor()])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([DecisionTreeClassifier()])
def test_scikit_learn_checks_of_classifiers(estimator, check):
    check(estimator)


def continuous(kind, dtype=np.float64, rows=400, seed=0):
    """Return distinct rows, and numeric targets or three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4)).astype(dtype)
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + rng.normal(scale=0.3, size=rows)
    return X, np.digitize(y, [-0.5, 0.5]) if kind is DecisionTreeClassifier else y


def uneven(y):
    """Return weights that leave no ties between the splits of a large node."""
    return np.random.default_rng(7).uniform(0.5, 2.0, size=len(y))


def both(kind, X, y, sample_weight=None, **params):
    """Return the fitted trees of Hornbeam and scikit-learn."""
    own = kind(**params).fit(X, y, sample_weight)
    theirs = KINDS[kind](random_state=0, **params).fit(X, y, sample_weight)
    return own, theirs


def outcome(model, X):
    is_classifier = hasattr(model, "predict_proba")
    return model.predict_proba(X) if is_classifier else model.predict(X)


def assert_same_tree(own, theirs, X):
    """Assert equal predictions, and equal splits in any order of nodes."""
    tree, other = own.get_booster().model.trees[0], theirs.tree_
    assert own.get_n_leaves() == theirs.get_n_leaves()
    assert own.get_depth() == theirs.get_depth()

    def splits(left, features, thresholds):
        order = np.lexsort([thresholds[left >= 0], features[left >= 0]])
        return features[left >= 0][order], thresholds[left >= 0][order]

    ours = splits(tree.left, tree.feature, tree.threshold)
    expected = splits(other.children_left, other.feature, other.threshold)
    np.testing.assert_array_equal(ours[0], expected[0])
    np.testing.assert_allclose(ours[1], expected[1], rtol=1e-6, atol=1e-7)
    shifted = X + X.std(axis=0) / 3
    for rows in (X, shifted.astype(X.dtype)):
        np.testing.assert_allclose(outcome(own, rows), outcome(theirs, rows), 1e-5)


# With this many rows in a leaf, no two features split a node alike.
LARGE = {"min_samples_leaf": 15}
RULES = {
    "large leaves": LARGE,
    "a share of the rows": {"min_samples_leaf": 0.04, "min_samples_split": 0.2},
    "splits of 60": {"min_samples_split": 60, "min_samples_leaf": 10},
    "shallow": {"max_depth": 3, **LARGE},
    "best first": {"max_leaf_nodes": 13, **LARGE},
    "what a split gains": {"min_impurity_decrease": 0.012, **LARGE},
    "the weight of leaves": {"min_weight_fraction_leaf": 0.05},
    "cut back": {"ccp_alpha": 0.006, **LARGE},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_trees_equal_those_of_scikit_learn(kind, rules, dtype):
    X, y = continuous(kind, dtype)
    own, theirs = both(kind, X, y, uneven(y), **RULES[rules])
    assert_same_tree(own, theirs, X)


@pytest.mark.parametrize("criterion", ["entropy", "log_loss"])
def test_entropy_is_in_bits(criterion):
    X, y = continuous(DecisionTreeClassifier)
    for rules in (LARGE, {"min_impurity_decrease": 0.02, **LARGE}):
        params = {"criterion": criterion, **rules}
        assert_same_tree(*both(DecisionTreeClassifier, X, y, uneven(y), **params), X)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_do_not_count(kind):
    X, y = continuous(kind)
    weights = uneven(y) * np.random.default_rng(1).integers(2, size=len(y))
    full = weights > 0
    alone = kind(min_samples_leaf=6).fit(X[full], y[full], weights[full])
    again = kind(min_samples_leaf=6).fit(X, y, weights)
    np.testing.assert_array_equal(outcome(again, X), outcome(alone, X))


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 5.0, 2: 0.5}])
def test_class_weight_equals_that_of_scikit_learn(class_weight):
    X, y = continuous(DecisionTreeClassifier)
    y[y == 2] = (X[y == 2, 3] > 0) + 1
    params = {"class_weight": class_weight, **LARGE}
    assert_same_tree(*both(DecisionTreeClassifier, X, y, uneven(y), **params), X)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_equal_those_of_scikit_learn(kind):
    X, y = continuous(kind)
    X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    # Without missing values in a node, Hornbeam sends them to the larger child.
    own, theirs = both(kind, X, y, uneven(y), **LARGE)
    assert own.get_n_leaves() == theirs.get_n_leaves()
    np.testing.assert_allclose(outcome(own, X), outcome(theirs, X), 1e-5)


@pytest.mark.parametrize("criterion", ["gini", "entropy", "error", "squared_error"])
@pytest.mark.parametrize("splitter", ["best", "random"])
def test_an_unlimited_tree_has_no_training_error(criterion, splitter, diabetes):
    X, y = diabetes
    kind = DecisionTreeRegressor
    if criterion != "squared_error":
        kind, y = DecisionTreeClassifier, np.digitize(y, [90, 180]) * 10
    model = kind(criterion=criterion, splitter=splitter, random_state=3).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)


# --- Pruning --------------------------------------------------------------------------


DATA = {
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "digits": load_digits,
}


def assert_same_path(own, theirs):
    """Assert equal paths, with each alpha once: the order of ties is arbitrary."""

    def once(path):
        alphas = np.round(path.ccp_alphas, 9)
        last = np.append(alphas[1:] > alphas[:-1] + 2e-9, True)
        return path.ccp_alphas[last], path.impurities[last]

    for ours, expected in zip(once(own), once(theirs), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("data", DATA)
def test_pruning_paths_of_classifiers_equal_those_of_scikit_learn(data, criterion):
    X, y = DATA[data](return_X_y=True)
    params = {"criterion": criterion, "min_samples_leaf": 10}
    own = DecisionTreeClassifier(**params)
    theirs = sklearn.tree.DecisionTreeClassifier(random_state=0, **params)
    assert_same_path(
        own.cost_complexity_pruning_path(X, y),
        theirs.cost_complexity_pruning_path(X, y),
    )


def test_pruning_paths_of_regressors_equal_those_of_scikit_learn(diabetes):
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(diabetes[1]))
    for params, sample_weight in (({}, None), ({"min_samples_leaf": 4}, weights)):
        own = DecisionTreeRegressor(**params)
        theirs = sklearn.tree.DecisionTreeRegressor(random_state=0, **params)
        assert_same_path(
            own.cost_complexity_pruning_path(*diabetes, sample_weight),
            theirs.cost_complexity_pruning_path(*diabetes, sample_weight),
        )


@pytest.mark.parametrize("kind", KINDS)
def test_each_alpha_gives_its_subtree_of_the_pruning_path(kind):
    X, y = continuous(kind)
    path = kind(min_samples_leaf=12).cost_complexity_pruning_path(X, y)
    assert path.ccp_alphas[0] == 0
    assert path.n_leaves[-1] == 1
    assert (np.diff(path.n_leaves) < 0).all()
    for place in range(0, len(path.ccp_alphas), 7):
        alpha = path.ccp_alphas[place]
        for nearby in (alpha, alpha * (1 + 1e-9)):
            cut = kind(min_samples_leaf=12, ccp_alpha=nearby).fit(X, y)
            assert cut.get_n_leaves() == path.n_leaves[place]


def steps(kind, seed=0):
    """Return a step function of four leaves, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4))
    level = 2 * (X[:, 0] > 0) + (X[:, 1] > 0.5)
    if kind is DecisionTreeRegressor:
        return X, level + rng.normal(size=600)
    return X, np.where(rng.random(600) < 0.25, rng.integers(4, size=600), level)


@pytest.mark.parametrize("kind", KINDS)
def test_cross_validation_finds_ccp_alpha(kind):
    X, y = steps(kind)
    whole, cut = kind().fit(X, y), kind(ccp_alpha="cv", random_state=1).fit(X, y)
    assert 4 <= cut.get_n_leaves() < whole.get_n_leaves() / 5
    fresh = steps(kind, seed=9)
    assert cut.score(*fresh) > whole.score(*fresh) + 0.05
    path = cut.ccp_path_
    best = np.flatnonzero(path.ccp_alphas == cut.ccp_alpha_)[0]
    assert path.n_leaves[best] == cut.get_n_leaves()
    assert path.cv_errors[best] == path.cv_errors.min()
    assert path.cv_errors_std.shape == path.cv_errors.shape == path.ccp_alphas.shape


def test_cv_errors_equal_those_of_pruned_trees():
    X, y = continuous(DecisionTreeRegressor, rows=120)
    numbers = np.arange(120)
    folds = [(numbers[numbers % 3 != k], numbers[numbers % 3 == k]) for k in range(3)]
    params = {"min_samples_leaf": 4}
    model = DecisionTreeRegressor(ccp_alpha="cv", cv=folds, **params).fit(X, y)
    alphas = model.ccp_path_.ccp_alphas
    middles = np.sqrt(alphas[:-1] * alphas[1:])
    for place, alpha in enumerate(middles):
        losses = np.empty(120)
        for train, test in folds:
            part = DecisionTreeRegressor(ccp_alpha=alpha, **params)
            losses[test] = (
                part.fit(X[train], y[train]).predict(X[test]) - y[test]
            ) ** 2
        assert model.ccp_path_.cv_errors[place] == pytest.approx(losses.mean(), 1e-5)


# --- Tools ----------------------------------------------------------------------------


def test_grid_search_over_ccp_alpha(diabetes):
    grid = {"ccp_alpha": [0.0, 100.0, 1e9]}
    search = GridSearchCV(DecisionTreeRegressor(), grid, cv=3).fit(*diabetes)
    assert search.best_params_ == {"ccp_alpha": 100.0}


def test_plots_of_trees_show_class_names(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    model = DecisionTreeClassifier(max_depth=2).fit(frame, y)
    text = tree_text(model)
    assert text.startswith("pl < 2.45")
    assert all(name in text for name in ("setosa", "versicolor", "virginica"))
    labels = {
        shown.get_text()
        for shown in plot_tree(model).findobj()
        if hasattr(shown, "get_text")
    }
    assert any("setosa" in label for label in labels)


@pytest.mark.parametrize("kind", KINDS)
def test_importances_equal_those_of_scikit_learn(kind):
    X, y = continuous(kind)
    own, theirs = both(kind, X, y, uneven(y), **LARGE)
    np.testing.assert_allclose(
        own.feature_importances_, theirs.feature_importances_, atol=1e-6
    )
    assert own.feature_importances_.sum() == pytest.approx(1)
