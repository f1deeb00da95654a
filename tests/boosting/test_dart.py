"""DART: dropout, tree weights and cached margins."""

from __future__ import annotations

import numpy as np
import pytest
from samples import few_values, squared_gradients

import hornbeam
from hornbeam import Booster, DMatrix
from hornbeam.boosting.dart import Dropout, MarginScale
from hornbeam.forest import Model
from hornbeam.forest.layout import weighted_leaf_values
from hornbeam.params import Parameters

ROWS, LABELS = few_values(400, 5, missing=0.1)
DART = {"booster": "dart", "rate_drop": 0.3, "max_depth": 3}


def train(params, rounds=12, data=None, **arguments):
    data = DMatrix(ROWS, LABELS) if data is None else data
    return hornbeam.train(
        {**DART, **params}, data, rounds, verbose_eval=False, **arguments
    )


def dropouts(n_rounds=800, weights=(1.0, 2.0, 3.0, 2.0), **params):
    """Return the dropped trees of many rounds for these tree weights."""
    parameters = Parameters.resolve({**DART, **params})
    weights = np.array(weights, np.float32)
    found = []
    for number in range(n_rounds):
        model = Model(trees=[None] * weights.size, tree_weights=weights)
        model.round_starts = list(range(number + 1))
        found.append(Dropout.of_round(parameters, model))
    return found


def rates(found):
    """Return the share of rounds that dropped each of four trees."""
    counts = np.zeros(4)
    for dropout in found:
        counts[dropout.dropped] += 1
    return counts / len(found)


# --- Draws ----------------------------------------------------------------------------


def test_each_tree_is_dropped_with_probability_rate_drop():
    np.testing.assert_allclose(rates(dropouts()), 0.3, atol=0.06)


def test_weighted_sampling_drops_heavy_trees_more_often():
    weighted = rates(dropouts(sample_type="weighted"))
    np.testing.assert_allclose(weighted, 0.3 * np.array([1, 2, 3, 2]) / 2, atol=0.06)


def test_skip_drop_skips_rounds():
    found = dropouts(rate_drop=1.0, skip_drop=0.25)
    skipped = [dropout.dropped.size == 0 for dropout in found]
    assert np.mean(skipped) == pytest.approx(0.25, abs=0.04)
    assert {dropout.dropped.size for dropout in found} == {0, 4}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("uniform", [0.25] * 4), ("weighted", [0.125, 0.25, 0.375, 0.25])],
)
def test_one_drop_drops_at_least_one_tree(kind, expected):
    found = dropouts(rate_drop=0, one_drop=True, sample_type=kind)
    assert {dropout.dropped.size for dropout in found} == {1}
    np.testing.assert_allclose(rates(found), expected, atol=0.06)
    found = dropouts(rate_drop=0, one_drop=True, skip_drop=0.5)
    assert {dropout.dropped.size for dropout in found} == {0, 1}


def test_dropout_depends_on_the_seed_only():
    first, again, other = (
        [dropout.dropped.tolist() for dropout in dropouts(50, seed=seed)]
        for seed in (7, 7, 8)
    )
    assert first == again != other


def test_no_dropout_without_trees():
    found = dropouts(5, (), rate_drop=1.0, one_drop=True)
    assert all(dropout.dropped.size == 0 for dropout in found)


# --- Margins --------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_training_margins_exclude_dropped_trees(objective):
    """A custom objective gets the margins of `predict(training=True)`."""
    classes = 3 if objective == "multi:softprob" else 0
    data = DMatrix(ROWS, np.arange(len(ROWS)) % 3 if classes else LABELS)
    booster = Booster({**DART, "objective": objective, "num_class": classes})

    def check(margins, _):
        expected = booster.predict(data, output_margin=True, training=True)
        np.testing.assert_allclose(margins, expected, rtol=1e-5, atol=1e-5)
        if booster.num_boosted_rounds() > 5:
            dropped = np.abs(expected - booster.predict(data, output_margin=True))
            seen.append(dropped.max() > 1e-3)
        return np.sin(margins + 1) + 1, np.ones_like(margins)

    seen = []
    for number in range(12):
        booster.update(data, number, fobj=check)
    assert any(seen)


def test_evaluation_equals_the_metric_of_predictions():
    data, result = DMatrix(ROWS, LABELS), {}
    valid = DMatrix(ROWS[:99], LABELS[:99])
    booster = train(
        {}, data=data, evals=[(data, "a"), (valid, "b")], evals_result=result
    )
    for name, matrix in (("a", data), ("b", valid)):
        error = booster.predict(matrix) - matrix.get_label()
        expected = np.sqrt(np.mean(error**2))
        assert result[name]["rmse"][-1] == pytest.approx(expected, rel=1e-5)


def test_dart_without_dropout_equals_gbtree():
    trees = hornbeam.train({"max_depth": 3}, DMatrix(ROWS, LABELS), 8)
    dart = train({"rate_drop": 0}, 8)
    np.testing.assert_array_equal(dart.model.tree_weights, np.ones(8, np.float32))
    np.testing.assert_allclose(
        dart.inplace_predict(ROWS), trees.inplace_predict(ROWS), rtol=1e-5
    )


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e9])
def test_margins_are_restored_exactly(size):
    """Adding and subtracting trees in any order restores the margins exactly."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(50, 1)) * size * 1000
    values = (rng.normal(size=(400, 50)) * size).astype(np.float32)
    trees = [type("Leaves", (), {"value": own}) for own in values]
    scale = MarginScale.of(base, trees)
    weights = rng.random(400).astype(np.float32)
    parts = [
        weighted_leaf_values(own, weight, scale.step).astype(np.float64)
        for own, weight in zip(values, weights, strict=True)
    ]
    margins = scale.rounded(base[:, 0])
    there = margins.copy()
    for part in parts:
        there += part
    back = there.copy()
    for number in rng.permutation(400):
        back -= parts[number]
    np.testing.assert_array_equal(back, margins)
    assert np.abs(parts - values * weights[:, None]).max() < size * 1e-6


def test_larger_leaf_values_change_the_quantisation_of_margins():
    """The labels have small gradients at first, so leaf values grow by round."""
    data = DMatrix(ROWS, LABELS)

    def growing(margins, data):
        factor = 30.0 ** booster.num_boosted_rounds()
        gradients, hessians = squared_gradients(margins, data)
        return gradients * factor, hessians

    booster = Booster(DART)
    for number in range(6):
        booster.update(data, number, fobj=growing)
        if number % 2:
            booster = Booster(DART, model_file=booster.save_raw())
    again, booster = booster, Booster(DART)
    for number in range(6):
        booster.update(data, number, fobj=growing)
    assert booster.digest() == again.digest()


# --- Models ---------------------------------------------------------------------------


def test_early_stopping_keeps_the_weights_of_the_best_round():
    train_data = DMatrix(ROWS[:300], LABELS[:300])
    valid, result = DMatrix(ROWS[300:], LABELS[300:]), {}
    stop = hornbeam.EarlyStopping(rounds=5, save_best=True)
    booster = train(
        {"eta": 0.9, "max_depth": 6},
        60,
        train_data,
        evals=[(valid, "v")],
        evals_result=result,
        callbacks=[stop],
    )
    assert booster.num_boosted_rounds() < len(result["v"]["rmse"])
    error = np.sqrt(np.mean((booster.predict(valid) - LABELS[300:]) ** 2))
    assert error == pytest.approx(min(result["v"]["rmse"]), rel=1e-5)


def test_slices_have_the_current_tree_weights():
    booster, data = train({}), DMatrix(ROWS)
    np.testing.assert_array_equal(
        booster[3:9].model.tree_weights, booster.model.tree_weights[3:9]
    )
    np.testing.assert_array_equal(
        booster[3:9].predict(data), booster.predict(data, iteration_range=(3, 9))
    )
    base = booster.model.base_score[0]
    rounds = [part.predict(data).astype(np.float64) - base for part in booster]
    np.testing.assert_allclose(sum(rounds) + base, booster.predict(data), rtol=1e-5)


def test_gbtree_models_can_be_continued_with_dart():
    data = DMatrix(ROWS, LABELS)
    trees = hornbeam.train({"max_depth": 3}, data, 6)
    whole = train({}, 6, data, xgb_model=trees)
    assert whole.num_boosted_rounds() == 12
    assert (whole.model.tree_weights[:6] < 1).any()
    assert trees.model.tree_weights is None
    halves = train({}, 3, data, xgb_model=train({}, 3, data, xgb_model=trees))
    assert halves.digest() == whole.digest()
    trees.set_param({"booster": "dart", "rate_drop": 0.3})
    for number in range(6):
        trees.update(data, number)
    assert trees.digest() == whole.digest()


def test_custom_gradients_use_training_predictions():
    data = DMatrix(ROWS, LABELS)
    booster = Booster(DART)
    booster.boost(data, 0, grad=-LABELS, hess=np.ones(len(ROWS)))
    for number in range(1, 6):
        margins = booster.predict(data, training=True)
        booster.boost(data, number, grad=margins - LABELS, hess=np.ones(len(ROWS)))
    other = Booster(DART)
    for number in range(6):
        other.update(data, number, fobj=squared_gradients)
    np.testing.assert_allclose(
        booster.model.tree_weights, other.model.tree_weights, rtol=1e-6
    )
