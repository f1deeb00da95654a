"""Metrics next to those of XGBoost and scikit-learn, and to plain formulas."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pytest
import sklearn.metrics
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from profiles import examples

from hornbeam.errors import DataError, ParameterError
from hornbeam.metrics import create, names
from hornbeam.metrics.registry import maximize_of
from hornbeam.params import Parameters

TWO_CLASSES = ["logloss", "error", "error@0.7", "auc", "aucpr", "ams@0"]
NUMBERS = ["rmse", "mae", "rmsle", "mphe"]
AMOUNTS = [
    "mape",
    "poisson-nloglik",
    "gamma-deviance",
    "gamma-nloglik",
    "tweedie-nloglik@1.3",
]
ONE_OUTPUT = [*TWO_CLASSES, *NUMBERS]
CLASSES = ["merror", "mlogloss", "auc", "aucpr"]


def xgboost_metric(name, margins, labels, weights=None):
    """Return what XGBoost calls the metric, its value, and the predictions it saw."""
    n_outputs = 1 if margins.ndim == 1 else margins.shape[1]
    objective = (
        {"objective": "reg:squarederror"}
        if n_outputs == 1
        else {"objective": "multi:softprob", "num_class": n_outputs}
    )
    data = xgboost.DMatrix(
        np.zeros((len(labels), 1)),
        label=labels,
        weight=weights,
        base_margin=margins.astype(np.float32),
    )
    booster = xgboost.Booster(
        {**objective, "eval_metric": name, "base_score": 0.5, "nthread": 1}, [data]
    )
    printed = booster.eval_set([(data, "d")]).partition("\td-")[2]
    printed_name, _, value = printed.rpartition(":")
    return printed_name, float(value), booster.predict(data).astype(np.float64)


def check_like_xgboost(name, margins, labels, weights=None):
    with warnings.catch_warnings(record=True) as of_xgboost:
        warnings.simplefilter("always")
        theirs = xgboost_metric(name, margins, labels, weights)
    printed_name, value, predictions = theirs
    metric = create(name, 1 if predictions.ndim == 1 else predictions.shape[1])
    assert metric.name == printed_name
    with warnings.catch_warnings(record=True) as of_hornbeam:
        warnings.simplefilter("always")
        ours = metric(predictions, labels, weights)
    assert type(ours) is float
    assert ours == pytest.approx(value, rel=1e-6, abs=1e-7, nan_ok=True)
    assert [w.category for w in of_hornbeam] == [w.category for w in of_xgboost]


def draw(rng, n_rows, n_outputs, *, ties, weighted):
    shape = n_rows if n_outputs == 1 else (n_rows, n_outputs)
    margins = rng.random(shape)
    if ties:
        margins = np.round(margins * 8) / 8
    labels = rng.integers(0, max(2, n_outputs), n_rows).astype(np.float64)
    # Weights that float32 holds, as XGBoost does.
    weights = rng.integers(0, 9, n_rows) / 8.0 if weighted else None
    return margins, labels, weights


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_metrics_of_one_output_agree_with_xgboost(name, ties, weighted):
    rng = np.random.default_rng(3)
    for n_rows in (7, 500):
        margins, labels, weights = draw(rng, n_rows, 1, ties=ties, weighted=weighted)
        check_like_xgboost(name, margins, labels, weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("name", CLASSES)
def test_metrics_of_classes_agree_with_xgboost(name, n_classes, ties, weighted):
    rng = np.random.default_rng(4)
    for n_rows in (9, 400):
        drawn = draw(rng, n_rows, n_classes, ties=ties, weighted=weighted)
        check_like_xgboost(name, *drawn)


@pytest.mark.parametrize("name", ["rmse", "mae"])
def test_metrics_of_large_and_small_numbers_agree_with_xgboost(name):
    rng = np.random.default_rng(5)
    labels = np.ldexp(
        rng.integers(-99, 99, 300).astype(float), rng.integers(-9, 9, 300)
    )
    check_like_xgboost(name, labels[::-1].copy(), labels)


@pytest.mark.parametrize("name", ["ams@0.3", "ams@0.999", "ams@1"])
def test_ams_agrees_with_xgboost(name):
    # Without ties, of which XGBoost takes any first.
    check_like_xgboost(
        name, *draw(np.random.default_rng(6), 500, 1, ties=False, weighted=True)
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", AMOUNTS)
def test_metrics_of_amounts_agree_with_xgboost(name, weighted):
    rng = np.random.default_rng(6)
    labels, means = rng.integers(1, 40, 300) / 4.0, rng.gamma(2, 2, 300)
    weights = rng.integers(0, 9, 300) / 8.0 if weighted else None
    check_like_xgboost(name, means, labels, weights)


@pytest.mark.parametrize("name", AMOUNTS[1:])
def test_metrics_of_amounts_accept_zero(name):
    means = np.array([0.0, 1e-9, 0.5, 2.0])
    labels = np.array([0.0, 0.0, 0.0, 1.0])
    if name.startswith("tweedie"):  # of which XGBoost says NaN where means are 0
        assert math.isfinite(create(name)(means, labels))
    else:
        check_like_xgboost(name, means, labels)


def test_tweedie_loss_of_power_one_is_the_limit():
    rng = np.random.default_rng(7)
    labels, means = rng.poisson(2, 50).astype(float), rng.gamma(2, 1, 50)
    of_one = create("tweedie-nloglik@1")(means, labels)
    # Near 1 there is labels / (1 - power) besides, which no prediction changes.
    near = create("tweedie-nloglik@1.000001")(means, labels) - labels.mean() / (
        1.000001 - 1
    )
    assert of_one == pytest.approx(near, abs=1e-4)
    theirs = create("poisson-nloglik")(means, labels)
    constant = np.mean([math.lgamma(label + 1) for label in labels])
    assert of_one == pytest.approx(theirs - constant, abs=1e-12)


def test_mphe_uses_huber_slope():
    slope = Parameters.resolve({"huber_slope": 3.0})
    predictions, labels = np.array([0.0, 1.0]), np.array([4.0, 1.0])
    found = create("mphe", 1, slope)(predictions, labels)
    assert found == 9 * (math.sqrt(1 + 16 / 9) - 1) / 2


@pytest.mark.parametrize("weighted", [False, True])
def test_quantile_and_expectile_losses_agree_with_plain_formulas(weighted):
    rng = np.random.default_rng(8)
    labels, predictions = rng.normal(size=60), np.sort(rng.normal(size=(60, 2)))
    weights = rng.random(60) if weighted else None
    params = {"quantile_alpha": [0.2, 0.7], "expectile_alpha": [0.2, 0.7]}
    settings = Parameters.resolve(params)
    losses, squares = [], []
    for level, column in zip((0.2, 0.7), predictions.T, strict=True):
        losses.append(
            sklearn.metrics.mean_pinball_loss(
                labels, column, alpha=level, sample_weight=weights
            )
        )
        sides = np.where(column >= labels, 1 - level, level)
        errors = sides * (column - labels) ** 2
        squares.append(np.average(errors, weights=weights))
    for name, expected in (("quantile", losses), ("expectile", squares)):
        found = create(name, 2, settings)(predictions, labels, weights)
        assert found == pytest.approx(np.mean(expected))
        # One prediction a row is one for every level.
        assert create(name, 1, settings)(predictions[:, 0], labels, weights) > 0.0
        with pytest.raises(DataError, match="3 predictions per row for levels"):
            create(name, 3, settings)(np.zeros((60, 3)), labels)
        with pytest.raises(ParameterError, match=f"needs {name}_alpha"):
            create(name)(predictions[:, 0], labels)


@pytest.mark.parametrize("name", ["auc", "aucpr"])
@pytest.mark.parametrize("labels", [[0, 0, 0], [1, 1, 1]])
def test_the_area_of_one_class_is_nan_with_a_warning(name, labels):
    check_like_xgboost(name, np.array([0.1, 0.2, 0.3]), np.array(labels, float))


@pytest.mark.parametrize("name", ["auc", "aucpr"])
def test_the_area_without_rows_of_a_class_is_nan_with_a_warning(name):
    margins = np.random.default_rng(6).random((20, 3))
    check_like_xgboost(name, margins, np.arange(20.0) % 2)


@pytest.mark.parametrize("name", ["auc", "aucpr"])
def test_areas_of_fractional_labels_agree_with_xgboost(name):
    rng = np.random.default_rng(7)
    check_like_xgboost(name, rng.random(60), rng.integers(0, 5, 60) / 4.0)


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_constant_predictions_agree_with_xgboost(name):
    labels = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    for constant in (0.0, 0.5, 1.0):
        check_like_xgboost(name, np.full(5, constant), labels)


def test_logloss_of_margins_agrees_with_xgboost():
    margins = np.array([-3.0, 0.25, 1.5, 7.0])
    check_like_xgboost("logloss", margins, np.array([0.0, 1.0, 0.0, 1.0]))


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("error@0.5", "error"),
        ("error@1e-3", "error@0.001"),
        ("error@0.3333333333", "error@0.333333"),
        ("error@10000000", "error@1e+07"),
    ],
)
def test_the_name_of_error_has_its_threshold_like_xgboost(name, printed):
    assert create(name).name == printed
    check_like_xgboost(name, np.array([0.25, 0.75]), np.array([0.0, 1.0]))


def test_error_counts_a_prediction_at_the_threshold_as_negative():
    assert create("error@0.7")(np.array([0.7]), np.array([0.0])) == 0.0


@examples(60)
@given(data=st.data())
def test_areas_agree_with_scikit_learn(data):
    n_rows = data.draw(st.integers(2, 40))
    unit = st.integers(0, 6).map(lambda x: x / 6)
    scores = data.draw(arrays.arrays(np.float64, n_rows, elements=unit))
    labels = data.draw(
        arrays.arrays(np.float64, n_rows, elements=st.sampled_from([0, 1]))
    )
    weights = data.draw(
        st.none() | arrays.arrays(np.float64, n_rows, elements=st.floats(0.125, 8))
    )
    if len(set(labels)) < 2:
        return
    expected = sklearn.metrics.roc_auc_score(labels, scores, sample_weight=weights)
    assert create("auc")(scores, labels, weights) == pytest.approx(expected, abs=1e-12)
    # The curve of aucpr is not scikit-learn's steps, but lies in the same bounds.
    area = create("aucpr")(scores, labels, weights)
    assert 0.0 < area <= 1.0 + 1e-12
    order = data.draw(st.permutations(range(n_rows)))
    shuffled = None if weights is None else weights[order]
    for name, before in (
        ("auc", create("auc")(scores, labels, weights)),
        ("aucpr", area),
    ):
        after = create(name)(scores[order], labels[order], shuffled)
        assert after == pytest.approx(before, abs=1e-12)


@examples(40)
@given(data=st.data())
def test_means_agree_with_scikit_learn(data):
    n_rows = data.draw(st.integers(1, 40))
    inside = st.floats(0.01, 0.99)
    predictions = data.draw(arrays.arrays(np.float64, n_rows, elements=inside))
    labels = data.draw(
        arrays.arrays(np.float64, n_rows, elements=st.sampled_from([0, 1]))
    )
    weights = data.draw(
        st.none() | arrays.arrays(np.float64, n_rows, elements=st.floats(0.125, 8))
    )
    options = {"sample_weight": weights}
    expected = {
        "rmse": sklearn.metrics.root_mean_squared_error(labels, predictions, **options),
        "mae": sklearn.metrics.mean_absolute_error(labels, predictions, **options),
        "logloss": sklearn.metrics.log_loss(
            labels, predictions, labels=[0, 1], **options
        ),
        "error": sklearn.metrics.zero_one_loss(labels, predictions > 0.5, **options),
    }
    for name, value in expected.items():
        ours = create(name)(predictions, labels, weights)
        assert ours == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_means_of_classes_agree_with_scikit_learn():
    rng = np.random.default_rng(8)
    predictions = rng.dirichlet(np.ones(4), 200)
    labels = rng.integers(0, 4, 200).astype(float)
    weights = rng.random(200)
    options = {"sample_weight": weights}
    expected = sklearn.metrics.log_loss(labels, predictions, **options)
    assert create("mlogloss", 4)(predictions, labels, weights) == pytest.approx(
        expected
    )
    expected = sklearn.metrics.zero_one_loss(labels, predictions.argmax(1), **options)
    assert create("merror", 4)(predictions, labels, weights) == pytest.approx(expected)


def test_maximised_metrics():
    needed = {"ams": "ams@0.1", "tweedie-nloglik": "tweedie-nloglik@1.1"}
    higher = [n for n in names() if create(needed.get(n, n), 3).maximize]
    accuracy = "interval-regression-accuracy"
    assert higher == ["ams", "auc", "aucpr", accuracy, "map", "ndcg", "pre"]


@pytest.mark.parametrize("name", names())
def test_maximize_is_found_by_every_reported_name(name):
    settings = Parameters.resolve({"quantile_alpha": 0.5, "expectile_alpha": 0.5})
    found = 0
    for spelt, n_outputs in product((name, f"{name}@1.5", f"{name}@2-"), (1, 3)):
        try:
            metric = create(spelt, n_outputs, settings)
        except ParameterError:
            continue  # of one output, or of several; with a number, or without
        found += 1
        assert maximize_of(metric.name) is metric.maximize
    assert found > 0


@pytest.mark.parametrize(
    ("name", "maximize"),
    [
        ("aucpr_at_1", True),
        ("precision", True),
        ("mapped", True),
        ("mape", False),
        ("accuracy", False),
        ("my-auc", False),
    ],
)
def test_maximize_of_custom_metrics_is_that_of_xgboost(name, maximize):
    assert maximize_of(name) is maximize


def test_weights_of_one_are_no_weights():
    rng = np.random.default_rng(9)
    margins, labels, _ = draw(rng, 50, 1, ties=True, weighted=False)
    for name in ONE_OUTPUT:
        metric = create(name)
        assert metric(margins, labels) == metric(margins, labels, np.ones(50))


@pytest.mark.parametrize("name", ["rmse", "mae", "logloss", "error"])
def test_metrics_of_rows_of_weight_zero_are_zero(name):
    assert create(name)(np.array([0.5]), np.array([1.0]), np.array([0.0])) == 0.0


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_nan_predictions_give_nan(name):
    predictions = np.array([0.2, math.nan, 0.7])
    labels = np.array([0.0, 1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert math.isnan(create(name)(predictions, labels))


def test_nan_predictions_of_classes_are_errors_or_give_nan():
    predictions = np.array([[0.9, 0.1], [math.nan, math.nan]])
    labels = np.array([0.0, 0.0])
    assert create("merror", 2)(predictions, labels) == 0.5
    assert math.isnan(create("mlogloss", 2)(predictions, labels))


@pytest.mark.parametrize(
    ("name", "n_outputs", "message"),
    [
        ("logless", 1, "did you mean 'logloss'"),
        ("rmse@3", 1, "takes no parameter"),
        ("ams", 1, "'ams' needs a number after the '@', such as 'ams@0.15'"),
        ("tweedie-nloglik@2", 1, "a power of at least 1 and below 2"),
        ("tweedie-nloglik@x", 1, "such as 'tweedie-nloglik@1.5'"),
        ("error@", 1, "a number after the '@'"),
        ("error@much", 1, "a number after the '@'"),
        ("error@nan", 1, "a number after the '@'"),
        ("merror", 1, "use 'error' or 'logloss'"),
        ("", 1, "unknown"),
    ],
)
def test_errors_of_wrong_names(name, n_outputs, message):
    with pytest.raises(ParameterError, match=message):
        create(name, n_outputs)


@pytest.mark.parametrize(
    ("name", "shape", "labels", "weights", "message"),
    [
        ("rmse", (3,), [0.0, 1.0], None, "3 predictions for 2 labels"),
        ("rmse", (2,), [0.0, 1.0], [1.0], "1 weights for 2 labels"),
        ("rmse", (0,), [], None, "not defined for 0 rows"),
        ("rmse", (2, 3), [0.0, 1.0], None, "use 'merror' or 'mlogloss'"),
        ("logloss", (2,), [0.0, 2.0], None, "label of row 1 is 2"),
        ("error", (2,), [-1.0, 1.0], None, "label of row 0 is -1"),
        ("rmsle", (2,), [0.0, -1.0], None, "labels above -1, but the label of row 1"),
        ("poisson-nloglik", (2,), [-2.0, 1.0], None, "row 0 is -2"),
        ("tweedie-nloglik@1.5", (2,), [0.0, -1.0], None, "of at least 0, but"),
        ("gamma-deviance", (2,), [0.0, -1.0], None, "row 1 is -1"),
        ("auc", (2,), [0.0, 7.0], None, "label of row 1 is 7"),
        ("auc", (2, 3), [0.0, 3.0], None, "integer labels from 0 to 2"),
        ("mlogloss", (2, 3), [0.0, 1.5], None, "label of row 1 is 1.5"),
        ("merror", (2, 3), [-1.0, 1.0], None, "label of row 0 is -1"),
    ],
)
def test_errors_of_wrong_data(name, shape, labels, weights, message):
    metric = create(name, 1 if len(shape) == 1 else shape[1])
    weights = None if weights is None else np.array(weights)
    with pytest.raises(DataError, match=message):
        metric(np.full(shape, 0.5), np.array(labels), weights)
