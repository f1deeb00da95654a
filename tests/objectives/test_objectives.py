"""Objectives: gradients next to plain formulas, links, base scores, labels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ParameterError
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows
from hornbeam.kernels.team import lease
from hornbeam.objectives.registry import create, names
from hornbeam.objectives.totals import as_totals, largest_of, sum_steps, totals_of
from hornbeam.params import Parameters

CLASSES = 3


def objective(name, **params):
    own = LOSSES[name][2] if name in LOSSES else {}
    return create(Parameters.resolve({"objective": name, **own, **params}))


def gradients(of, scores, labels, weights=None, threads=1):
    """Return the gradients and hessians at `scores`, (outputs, rows)."""
    dtype = np.float32 if weights is None else np.float64
    g, h = (np.empty(scores.shape, dtype) for _ in range(2))
    with lease(threads) as team:
        rows = LossRows.of(scores, np.atleast_2d(labels), weights)
        of.write_gradients(rows, GradientWriter(team, g, h))
    return g, h


def _sigmoid(scores):
    return 1 / (1 + np.exp(-scores))


def squared_error(scores, labels):
    return scores - labels, np.ones_like(scores)


def squared_log_error(scores, labels):
    above = np.maximum(1 + scores, 1e-6)
    gradients = (np.log(above) - np.log(1 + labels)) / above
    return gradients, gradients / (above - 1 - labels)


def pseudo_huber(scores, labels):
    z, slope = scores - labels, 0.7
    root = np.sqrt(1 + z**2 / slope**2)
    return z / root, 1 / root


def logistic(scores, labels):
    p = _sigmoid(scores)
    return p - labels, np.maximum(p * (1 - p), 1e-16)


def focal(scores, labels, gamma=1.5):
    t = (2 * labels - 1) * scores
    p, q, log_p = _sigmoid(t), _sigmoid(-t), -np.logaddexp(0, -t)
    pull = q**gamma * (q - gamma * p * log_p)
    slope = gamma * ((q - gamma * p) * log_p + q) + (gamma + 1) * q
    return (1 - 2 * labels) * pull, np.maximum(
        p * q**gamma * np.maximum(slope, q), 1e-16
    )


def hinge(scores, labels):
    y = 2 * labels - 1
    is_short = scores * y < 1
    return np.where(is_short, -y, 0), np.where(is_short, 1, 1.2e-38)


def poisson(scores, labels):
    means = np.exp(scores)
    return means - labels, (3 * means + labels) / 2


def gamma(scores, labels):
    ratios = labels / np.exp(scores)
    return 1 - ratios, (2 * ratios + 1) / 3


def tweedie(scores, labels):
    below, above = labels * np.exp(-0.2 * scores), np.exp(0.8 * scores)
    return above - below, 0.2 * below + 0.8 * above


def softmax(scores, labels):
    odds = np.exp(scores - scores.max(axis=0))
    shares = odds / odds.sum(axis=0)
    hits = labels == np.arange(CLASSES)[:, np.newaxis]
    return shares - hits, np.maximum(2 * shares * (1 - shares), 1e-16)


def normals(rng, n_rows):
    return rng.normal(size=n_rows)


def shares(rng, n_rows):
    return rng.random(n_rows)


def two_classes(rng, n_rows):
    return rng.integers(2, size=n_rows).astype(float)


def classes(rng, n_rows):
    return rng.integers(CLASSES, size=n_rows).astype(float)


def counts(rng, n_rows):
    return rng.poisson(2, n_rows).astype(float)


def amounts(rng, n_rows):
    return rng.gamma(2, 3, n_rows)


#: Of each objective whose rows stand alone its labels, gradients and parameters.
LOSSES = {
    "binary:focal": (two_classes, focal, {"focal_gamma": 1.5}),
    "binary:hinge": (two_classes, hinge, {}),
    "binary:logistic": (two_classes, logistic, {}),
    "binary:logitraw": (two_classes, logistic, {}),
    "count:poisson": (counts, poisson, {}),
    "multi:softmax": (classes, softmax, {"num_class": CLASSES}),
    "multi:softprob": (classes, softmax, {"num_class": CLASSES}),
    "reg:gamma": (amounts, gamma, {}),
    "reg:logistic": (shares, logistic, {}),
    "reg:pseudohubererror": (normals, pseudo_huber, {"huber_slope": 0.7}),
    "reg:squarederror": (normals, squared_error, {}),
    "reg:squaredlogerror": (amounts, squared_log_error, {}),
    "reg:tweedie": (counts, tweedie, {"tweedie_variance_power": 1.2}),
}


def draw(name, n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    outputs = CLASSES if name.startswith("multi") else 1
    scores = rng.normal(scale=3, size=(outputs, n_rows))
    return scores, LOSSES[name][0](rng, n_rows)


def plain(name, scores, labels):
    """Return gradients and hessians by their formulas."""
    return LOSSES[name][1](scores, labels)


def test_objective_names():
    assert set(LOSSES) <= set(names())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_agree_with_plain_formulas(name, weighted):
    scores, labels = draw(name)
    weights = np.random.default_rng(1).random(500) if weighted else None
    g, h = plain(name, scores, labels)
    if weighted:
        g, h = g * weights, h * weights
    found = gradients(objective(name), scores, labels, weights)
    np.testing.assert_allclose(found[0], g, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[1], h, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["binary:logistic", "reg:squarederror"])
def test_scale_pos_weight_scales_gradients(name):
    scores, labels = draw(name)
    labels = (labels > 0.5).astype(float)
    weights = np.where(labels == 1, 4.0, 1.0)
    np.testing.assert_array_equal(
        gradients(objective(name, scale_pos_weight=4), scores, labels),
        gradients(objective(name), scores, labels, weights),
    )


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_everywhere(name):
    scores, labels = draw(name)
    for scale in (0.0, 100.0, 1e4, 1e30):
        g, h = gradients(objective(name), scores * scale, labels)
        assert np.isfinite(g).all()
        assert (h > 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_do_not_depend_on_threads(name):
    scores, labels = draw(name, 300_000)
    one = gradients(objective(name), scores, labels)
    many = gradients(objective(name), scores, labels, threads=5)
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("name", LOSSES)
def test_to_margin_is_the_inverse_of_transform_up_to_rounding(name):
    of = objective(name)
    rng = np.random.default_rng(2)
    margins = rng.normal(size=(50, of.n_outputs))
    with lease(1) as team:
        predictions = of.transform(team, margins.copy())
    if name.startswith("multi"):
        odds = np.exp(margins)
        expected = odds / odds.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(predictions, expected, rtol=1e-12)
        assert (of.to_margin(margins[0]) == margins[0]).all()
    elif name == "binary:hinge":
        np.testing.assert_array_equal(predictions, margins > 0)
    else:
        back = of.to_margin(predictions[:, 0])
        np.testing.assert_allclose(back, margins[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["binary:logistic", "reg:logistic"])
def test_base_scores_of_0_and_1_have_finite_margins(name):
    margins = objective(name).to_margin(np.array([0.0, 1e-30, 0.5, 1.0]))
    assert np.isfinite(margins).all() and margins[2] == 0.0
    np.testing.assert_allclose(margins[0], np.log(1e-6), rtol=1e-6)


def test_focal_gradients_are_derivatives_of_the_loss():
    margins = np.linspace(-2, 12, 57)
    labels, step = np.ones(57), 1e-5
    for gamma in (0.5, 2.0, 5.0):

        def loss(t, gamma=gamma):
            return np.logaddexp(0, -t) * _sigmoid(-t) ** gamma

        def first(t, gamma=gamma):
            return focal(t, labels, gamma)[0]

        # The twin's formulas first, in float64, and then ours, in float32.
        slopes = (loss(margins + step) - loss(margins - step)) / (2 * step)
        np.testing.assert_allclose(first(margins), slopes, atol=1e-9)
        bends = (first(margins + step) - first(margins - step)) / (2 * step)
        np.testing.assert_allclose(focal(margins, labels, gamma)[1], bends, atol=1e-9)
        of = objective("binary:focal", focal_gamma=gamma)
        g, h = gradients(of, margins[np.newaxis], labels)
        np.testing.assert_allclose(g[0], slopes, atol=1e-6)
        np.testing.assert_allclose(h[0], bends, atol=1e-6)


def test_focal_loss_of_gamma_0_is_the_logistic_loss():
    scores, labels = draw("binary:focal")
    of = objective("binary:focal", focal_gamma=0)
    for own, logistics in zip(
        gradients(of, scores, labels),
        gradients(objective("binary:logistic"), scores, labels),
        strict=True,
    ):
        np.testing.assert_allclose(own, logistics, rtol=1e-6, atol=1e-12)
    with lease(1) as team:
        shares = of.transform(team, scores.copy())
    np.testing.assert_allclose(shares, _sigmoid(scores), rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 2.0, 10.0])
def test_focal_predictions_are_the_fractions_with_zero_gradient(gamma):
    labels = (np.random.default_rng(0).random(500) < 0.03).astype(float)
    of = objective("binary:focal", focal_gamma=gamma)
    start = of.estimate_base_score(labels[np.newaxis], None)
    scores = np.full((1, 500), of.to_margin(start)[0])
    g, _ = gradients(of, scores, labels)
    assert abs(g.sum(dtype=float)) < 1e-5 * np.abs(g).sum(dtype=float)


NEWTON_STARTS = {"binary:hinge", "reg:pseudohubererror"}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_base_scores_agree_with_plain_formulas(name, weighted):
    _, labels = draw(name)
    weights = np.random.default_rng(1).random(500) if weighted else None
    found = objective(name).estimate_base_score(labels[np.newaxis], weights)
    if name.startswith("multi"):
        shares = [np.average(labels == k, weights=weights) for k in range(CLASSES)]
        margins = np.log(np.array(shares) + 1e-6)
        np.testing.assert_allclose(found, margins - margins.mean(), rtol=1e-10)
    elif name in NEWTON_STARTS:
        g, h = plain(name, np.zeros(500), labels)
        step = -np.average(g, weights=weights) / np.average(h, weights=weights)
        expected = float(step > 0) if name == "binary:hinge" else step
        np.testing.assert_allclose(found, [expected], rtol=1e-6)
    elif name == "reg:squaredlogerror":
        mean = np.average(np.log1p(labels), weights=weights)
        np.testing.assert_allclose(found, [np.expm1(mean)], rtol=1e-12)
    else:
        np.testing.assert_allclose(
            found, [np.average(labels, weights=weights)], rtol=1e-12
        )


def test_the_base_score_of_weighted_positives_is_a_newton_step():
    labels = (np.random.default_rng(0).random(500) < 0.3).astype(float)
    ones, zeros = labels.sum(), 500 - labels.sum()
    params = {"scale_pos_weight": 3}
    of = objective("reg:squarederror", **params)
    step = 3 * ones / (3 * ones + zeros)
    np.testing.assert_allclose(
        of.estimate_base_score(labels[np.newaxis], None), [step], rtol=1e-6
    )
    of = objective("binary:logistic", **params)
    step = (1.5 * ones - 0.5 * zeros) / (0.75 * ones + 0.25 * zeros)
    np.testing.assert_allclose(
        of.estimate_base_score(labels[np.newaxis], None),
        [1 / (1 + np.exp(-step))],
        rtol=1e-6,
    )


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_base_scores_do_not_depend_on_row_order(labels, random):
    shuffled = random.sample(labels, len(labels))
    of = objective("reg:squarederror")
    found = [
        of.estimate_base_score(np.array([each]), None) for each in (labels, shuffled)
    ]
    np.testing.assert_array_equal(*found)
    largest = max(map(abs, labels))
    np.testing.assert_allclose(
        found[0], np.mean(labels), rtol=1e-12, atol=1e-12 * largest
    )


@given(
    st.sampled_from(list(LOSSES)),
    st.booleans(),
    st.sampled_from([1.0, 3.0]),
    st.lists(st.integers(0, 500), max_size=4),
)
def test_base_scores_do_not_depend_on_partitions(name, weighted, positives, ends):
    _, labels = draw(name)
    weights = np.random.default_rng(1).random(500) if weighted else None
    of = objective(name, scale_pos_weight=positives)
    ends = sorted({0, *ends, 500})
    columns = [
        list(
            of.start_columns(
                labels[np.newaxis, i:j], None if weights is None else weights[i:j]
            )
        )
        for i, j in itertools.pairwise(ends)
    ]
    largest = np.max([largest_of(part) for part in columns], axis=0)
    steps = np.sum([sum_steps(part, largest, 500) for part in columns], axis=0)
    found = of.start_from(as_totals(steps, largest, 500))
    np.testing.assert_array_equal(
        found, of.estimate_base_score(labels[np.newaxis], weights)
    )


@pytest.mark.parametrize("rows", [0, 16_384, 40_000])
def test_totals_are_of_all_rows(rows):
    values = np.arange(rows) - 5.0
    columns = [values, np.broadcast_to(1.0, rows)]
    assert totals_of(columns, rows).tolist() == [values.sum(), rows]
    assert largest_of(columns).tolist() == [max(rows - 6.0, 0.0), float(rows > 0)]


@pytest.mark.parametrize("name", ["count:poisson", "reg:tweedie"])
def test_labels_of_zero_give_a_finite_margin(name):
    of = objective(name)
    start = of.estimate_base_score(np.zeros((2, 9)), None)
    np.testing.assert_allclose(of.to_margin(start), np.log([1e-16, 1e-16]), rtol=1e-6)


def test_a_poisson_newton_step_is_at_most_five_eighths():
    rng = np.random.default_rng(0)
    for _ in range(200):
        labels = rng.poisson(10.0 ** rng.integers(-2, 3), 20).astype(float)
        scores = np.full((1, 20), rng.normal(scale=4))
        g, h = gradients(objective("count:poisson"), scores, labels)
        step = -g.sum(dtype=float) / h.sum(dtype=float)
        best = np.log(max(labels.sum(), 1e-300)) - np.log(np.exp(scores).sum())
        assert abs(step) <= abs(best) * 5 / 8 and step * best >= 0


def test_a_quantile_newton_step_does_not_increase_the_loss():
    """By the loss that is smoothed, with nothing that holds the step back."""
    rng = np.random.default_rng(0)
    levels = np.array(LEVELS)[:, np.newaxis]
    of = objective("reg:quantileerror", quantile_alpha=LEVELS)
    for _ in range(200):
        labels = rng.standard_t(2, 20) * 10.0 ** rng.integers(-2, 3)
        scores = np.repeat(rng.normal(scale=9, size=(3, 1)), 20, axis=1)
        with lease(1) as team:
            g, h = of.gradients(
                team, scores, DMatrix(np.zeros((20, 1)), labels).info, 0
            )
        step = -(g.sum(axis=1, dtype=float) / h.sum(axis=1, dtype=float))
        size = np.sqrt(np.abs(scores - labels)).mean(axis=1, keepdims=True) ** 2
        losses = []
        for margins in (scores, scores + step[:, np.newaxis]):
            x = (margins - labels) / (0.3 * size)
            bend = np.logaddexp(x, -x)  # log(2 cosh(x)), whose slope is tanh(x)
            losses.append((bend + (1 - 2 * levels) * x).sum(axis=1))
        assert (losses[1] <= losses[0] * (1 + 1e-5)).all()


def test_model_files_have_the_objective_parameters():
    assert objective("binary:logistic", scale_pos_weight=2.5).config() == {
        "reg_loss_param": {"scale_pos_weight": "2.5"}
    }
    assert objective("binary:hinge").config() == {}
    assert objective("binary:focal").config() == {
        "focal_loss_param": {"scale_pos_weight": "1", "focal_gamma": "1.5"}
    }
    assert objective("reg:tweedie").config() == {
        "tweedie_regression_param": {"tweedie_variance_power": "1.2"}
    }
    assert objective("multi:softmax").config() == {
        "softmax_multiclass_param": {"num_class": "3"}
    }


# --- Losses on the scale of all residuals, and of several levels ----------------------

LEVELS = [0.1, 0.5, 0.9]
SIZED = {
    "reg:absoluteerror": {},
    "reg:quantileerror": {"quantile_alpha": LEVELS},
    "reg:expectileerror": {"expectile_alpha": LEVELS},
}


def sized(name, residuals, weights):
    """Return gradients and hessians of (levels, rows) residuals, by their formulas."""
    levels = np.array(LEVELS if name != "reg:absoluteerror" else [0.5])[:, np.newaxis]
    roots = (weights * np.sqrt(np.abs(residuals))).sum(axis=1) / weights.sum()
    size = roots[:, np.newaxis] ** 2
    if name == "reg:absoluteerror":
        curvature = size / np.hypot(size, residuals)
        return residuals * curvature, curvature
    tanh = np.tanh(residuals / (0.3 * size))
    above = tanh / (residuals / (0.3 * size))
    curvature = (above + 1 - tanh**2) / 2
    return size / 2 * (tanh + 1 - 2 * levels), curvature / 0.6


def stepped(scores, labels):
    """Return gradients and hessians of three expectiles."""
    steps = 1e-6 + np.log1p(np.exp(scores[1:]))
    errors = np.cumsum([scores[0], *steps], axis=0) - labels
    levels = np.array(LEVELS)[:, np.newaxis]
    sides = np.where(errors >= 0, 1 - levels, levels)
    slopes = np.vstack([np.ones_like(scores[:1]), _sigmoid(scores[1:])])
    units = np.sqrt(levels * (1 - levels))
    pulls = sides * errors
    pulls[1:] -= units[1:] / units[:-1] * (sides * errors)[:-1]
    return slopes * pulls, slopes**2 * (sides + units) / 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SIZED)
def test_gradients_of_each_level_agree_with_plain_formulas(name, weighted):
    of = objective(name, **SIZED[name])
    rng = np.random.default_rng(0)
    labels, scores = rng.normal(size=700), rng.normal(size=(of.n_outputs, 700))
    weights = rng.random(700) if weighted else None
    each = np.ones(700) if weights is None else weights
    if of.by_row:
        found = gradients(of, scores, labels, weights)
        expected = stepped(scores, labels)
    else:
        info = DMatrix(np.zeros((700, 1)), labels, weight=weights).info
        with lease(1) as team:
            found = of.gradients(team, scores, info, 0)
        expected = sized(name, scores - labels, each)
    for ours, plainly in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, each * plainly, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["reg:absoluteerror", "reg:quantileerror"])
def test_the_smoothing_scale_does_not_depend_on_row_order_or_threads(name):
    of = objective(name, **SIZED[name])
    rng = np.random.default_rng(0)
    rows = 60_000
    labels, scores = rng.standard_cauchy(rows), rng.normal(size=(of.n_outputs, rows))
    weights = rng.random(rows)
    order = rng.permutation(rows)
    found = []
    for threads, chosen in ((1, np.arange(rows)), (3, np.arange(rows)), (1, order)):
        matrix = DMatrix(np.zeros((rows, 1)), labels[chosen], weight=weights[chosen])
        with lease(threads) as team:
            pair = of.gradients(team, scores[:, chosen], matrix.info, 0)
        found.append(np.array(pair)[:, :, np.argsort(chosen)])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("name", SIZED)
def test_constant_labels_have_zero_gradients(name):
    of = objective(name, **SIZED[name])
    start = of.estimate_base_score(np.full((1, 9), 3.0), None)
    np.testing.assert_allclose(start, 3.0)
    assert np.isfinite(of.to_margin(start)).all()
    info = DMatrix(np.zeros((9, 1)), np.full(9, 3.0)).info
    scores = np.full((of.n_outputs, 9), 3.0)
    if not of.by_row:
        with lease(1) as team:
            g, h = of.gradients(team, scores, info, 0)
        assert (g == 0).all() and np.isfinite(h).all()


def test_to_margin_of_expectiles_is_the_inverse_of_transform():
    of = objective("reg:expectileerror", **SIZED["reg:expectileerror"])
    expectiles = np.array([-2.0, -1.999, 50.0])
    with lease(1) as team:
        back = of.transform(team, of.to_margin(expectiles)[np.newaxis])
    np.testing.assert_allclose(back[0], expectiles, atol=3e-6)


def test_levels_are_required_and_increasing():
    for name, params, message in (
        ("reg:quantileerror", {}, "requires quantile_alpha: a level between 0 and 1"),
        ("reg:expectileerror", {}, "requires expectile_alpha"),
        (
            "reg:expectileerror",
            {"expectile_alpha": [0.5, 0.1]},
            "must be strictly increasing",
        ),
        (
            "reg:expectileerror",
            {"expectile_alpha": [0.5, 0.5]},
            "must be strictly increasing",
        ),
        ("reg:quantileerror", {"quantile_alpha": [0.5, 1]}, "below 1, not 1"),
    ):
        with pytest.raises(ParameterError, match=message):
            objective(name, **params)


LABELS = {
    "binary:logistic": ([0, 1, 2], "label 2 in row 2 is outside [0, 1]"),
    "binary:logitraw": ([0, -1], "label -1 in row 1"),
    "reg:logistic": ([0.5, 1.5], "label 1.5 in row 1"),
    "binary:focal": ([0, 1, 0.5], "label 0.5 in row 2 is not a class"),
    "binary:hinge": ([0, 1, 0.5], "label 0.5 in row 2 is not a class"),
    "reg:squaredlogerror": ([0, -1], "label -1 in row 1 is not above -1"),
    "count:poisson": ([0, 1, -2], "label -2 in row 2 is negative"),
    "reg:tweedie": ([-0.5], "label -0.5 in row 0 is negative"),
    "reg:gamma": ([1, 0], "label 0 in row 1 is not above 0"),
    "multi:softprob": ([0, 2, 3], "label 3 in row 2 is not a class"),
    "multi:softmax": ([0, 0.5], "label 0.5 in row 1 is not a class"),
    "rank:ndcg": ([0, 32], "label 32 in row 1: rank:ndcg needs whole grades"),
    "rank:xendcg": ([0, 0.5], "label 0.5 in row 1: rank:xendcg needs whole grades"),
    "rank:map": ([1, 0, 2], "label 2 in row 2: rank:map needs labels of 1"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_outside_the_domain_are_an_error(name):
    labels, message = LABELS[name]
    with pytest.raises(DataError) as error:
        objective(name).check_labels(np.array(labels, float))
    assert message in str(error.value)
    objective(name).check_labels(np.array([0.5, 1.0] if "gamma" in name else [0.0, 1]))


MISTAKES = {
    "misspelt": ({"objective": "binary:logistc"}, "did you mean 'binary:logistic'"),
    "unheard of": ({"objective": "x"}, "the objectives are binary:focal, binary:hinge"),
    "no classes": ({"objective": "multi:softprob"}, "requires num_class"),
    "one class": ({"objective": "multi:softmax", "num_class": 1}, "it is 1"),
    "a certain base score": (
        {"objective": "binary:logistic", "base_score": 1.0},
        "above 0 and below 1",
    ),
    "a mean of nothing": (
        {"objective": "count:poisson", "base_score": 0},
        "base_score=0 must be above 0",
    ),
    "no slope": (
        {"objective": "reg:pseudohubererror", "huber_slope": 0},
        "huber_slope must be above 0",
    ),
    "a power of two": (
        {"objective": "reg:tweedie", "tweedie_variance_power": 2},
        "tweedie_variance_power must be at least 1 and below 2, not 2",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_invalid_parameters_are_an_error(case):
    params, message = MISTAKES[case]
    with pytest.raises(ParameterError, match=message):
        create(Parameters.resolve(params))


def test_num_class_requires_a_softmax_objective():
    with pytest.raises(ParameterError, match="is for the objectives multi:softmax"):
        objective("reg:squarederror", num_class=3).check_labels(np.zeros(3))
