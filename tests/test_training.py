"""train: parameters, evaluation output, stopping, continuation, unusual data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from samples import few_values, ranked, softmax_gradients, squared_gradients

import hornbeam
from hornbeam import DMatrix, QuantileDMatrix

ROWS, LABELS = few_values(400, 5, missing=0.1)


def fit(params=None, rows=ROWS, labels=LABELS, rounds=4, matrix=DMatrix, **arguments):
    arguments.setdefault("verbose_eval", False)
    return hornbeam.train(params or {}, matrix(rows, labels), rounds, **arguments)


def watching(*names):
    """Return `evals` with the same data under each name."""
    data = DMatrix(ROWS, LABELS)
    return [(data, name) for name in names]


# --- Parameters -----------------------------------------------------------------------

CANONICAL = {
    "learning_rate": 0.1,
    "gamma": 0.5,
    "max_depth": 4,
    "reg_lambda": 2.0,
    "reg_alpha": 0.5,
    "subsample": 0.8,
    "seed": 7,
}
SPELLINGS = {
    "aliases": {
        "eta": 0.1,
        "min_split_loss": 0.5,
        "max_depth": 4,
        "lambda": 2,
        "alpha": 0.5,
        "subsample": 0.8,
        "random_state": 7,
    },
    "strings": {name: str(value) for name, value in CANONICAL.items()},
    "pairs": list(CANONICAL.items()),
    "numpy": {name: np.asarray(value)[()] for name, value in CANONICAL.items()},
    "numpy arrays": {name: np.asarray(value) for name, value in CANONICAL.items()},
    "with defaults": {
        **CANONICAL,
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "device": "cpu",
        "booster": "gbtree",
        "n_jobs": 2,
        "max_bin": "256",
        "min_child_weight": None,
        "validate_parameters": "true",
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_parameter_aliases_are_equivalent(spelling):
    assert fit(SPELLINGS[spelling]).digest() == fit(CANONICAL).digest()
    assert fit(CANONICAL).digest() != fit().digest()


@pytest.mark.parametrize("name", CANONICAL)
def test_every_parameter_changes_the_model(name):
    without = {key: value for key, value in CANONICAL.items() if key != name}
    assert fit(without).digest() != fit(CANONICAL).digest()


OTHERS = {
    "max_leaves": 5,
    "min_child_weight": 40,
    "max_delta_step": 0.1,
    "max_bin": 4,
    "colsample_bytree": 0.5,
    "colsample_bylevel": 0.5,
    "colsample_bynode": 0.5,
    "num_parallel_tree": 2,
    "base_score": 3.0,
    "scale_pos_weight": 5.0,
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_parameter_changes_the_model(name):
    labels = ranked(LABELS, 2)
    changed = fit({name: OTHERS[name]}, labels=labels)
    assert changed.digest() != fit(labels=labels).digest()


def test_grow_policy_determines_which_nodes_are_split():
    by_level = fit({"max_leaves": 6})
    best_first = fit({"max_leaves": 6, "grow_policy": "lossguide"})
    assert by_level.digest() != best_first.digest()


def test_a_small_histogram_cache_gives_the_same_model():
    for policy in ("depthwise", "lossguide"):
        params = {"grow_policy": policy, "max_depth": 7, "min_child_weight": 0}
        assert (
            fit({**params, "max_cached_hist_node": 1}).digest() == fit(params).digest()
        )


# --- Evaluation -----------------------------------------------------------------------


def test_evaluation_lines_have_five_decimals(capsys):
    result = {}
    fit(
        {"eval_metric": ["rmse", "mae"]},
        evals=watching("train", "valid"),
        evals_result=result,
        verbose_eval=True,
    )
    expected = []
    for number in range(4):
        scores = "\t".join(
            f"{data}-{metric}:{result[data][metric][number]:.5f}"
            for data in ("train", "valid")
            for metric in ("rmse", "mae")
        )
        expected.append(f"[{number}]\t{scores}")
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize(
    ("every", "numbers"), [(2, [0, 2, 4, 5]), (False, []), (0, []), (None, [])]
)
def test_verbose_eval_is_an_interval_of_rounds(capsys, every, numbers):
    fit(rounds=6, evals=watching("a"), verbose_eval=every)
    lines = capsys.readouterr().out.splitlines()
    assert [int(line[1 : line.index("]")]) for line in lines] == numbers


def test_evals_result_has_the_metrics_of_the_predictions():
    result = {}
    held_out = DMatrix(ROWS[:100], LABELS[:100])
    booster = fit(
        evals=[(held_out, "held out")], evals_result=result, custom_metric=furthest
    )
    assert list(result["held out"]) == ["rmse", "furthest"]
    for number in range(4):
        errors = (
            booster.predict(held_out, iteration_range=(0, number + 1)) - LABELS[:100]
        )
        values = [result["held out"][name][number] for name in ("rmse", "furthest")]
        expected = [np.sqrt(np.square(errors).mean()), np.abs(errors).max()]
        np.testing.assert_allclose(values, expected, rtol=1e-5)


def furthest(predictions, data):
    return "furthest", np.abs(predictions - data.get_label()).max()


def test_arguments_of_custom_metrics_and_objectives():
    """A custom metric gets predictions, or margins with a custom objective."""
    labels = ranked(LABELS, 3)
    seen = []

    def spy(predictions, data):
        seen.append((predictions.shape, np.allclose(predictions.sum(axis=1), 1)))
        return [("first", 1.0), ("second", 2)]

    params = {"objective": "multi:softprob", "num_class": 3}
    data = DMatrix(ROWS, labels)
    for objective in (None, softmax_gradients):
        result = {}
        hornbeam.train(
            params,
            data,
            1,
            evals=[(data, "a")],
            evals_result=result,
            custom_metric=spy,
            obj=objective,
            verbose_eval=False,
        )
        assert list(result["a"]) == ["mlogloss", "first", "second"]
    assert seen == [((400, 3), True), ((400, 3), False)]


def test_a_metric_cannot_change_the_margins():
    def vandal(predictions, data):
        predictions[:] = 1e6
        return "vandal", 0.0

    plain = fit(evals=watching("a"))
    for objective in (None, squared_gradients):
        spoiled = fit(evals=watching("a"), custom_metric=vandal, obj=objective)
        again = fit(evals=watching("a"), obj=objective)
        assert spoiled.digest() == again.digest()
    assert plain.digest() == fit().digest()


def test_default_metrics_can_be_disabled():
    result = {}
    fit(
        {"disable_default_eval_metric": True},
        evals=watching("a"),
        evals_result=result,
        custom_metric=furthest,
    )
    assert list(result["a"]) == ["furthest"]


# --- Stopping and continuing ----------------------------------------------------------


def test_early_stopping_records_the_best_round():
    rows, labels = few_values(600, 5, seed=3)
    held_out = DMatrix(rows[400:], labels[400:])
    result = {}
    booster = fit(
        {"eta": 1.0},
        rows[:400],
        labels[:400],
        rounds=100,
        evals=[(held_out, "held out")],
        evals_result=result,
        early_stopping_rounds=5,
    )
    scores = result["held out"]["rmse"]
    assert booster.best_iteration == int(np.argmin(scores))
    assert booster.best_score == min(scores)
    assert booster.num_boosted_rounds() == booster.best_iteration + 6 == len(scores)
    assert booster.attr("best_iteration") == str(booster.best_iteration)


def test_early_stopping_may_maximize():
    data = DMatrix(ROWS, LABELS)
    booster = fit(
        rounds=30,
        evals=[(data, "a")],
        custom_metric=lambda predictions, _: ("falling", -float(np.var(predictions))),
        maximize=True,
        early_stopping_rounds=3,
    )
    assert (booster.best_iteration, booster.num_boosted_rounds()) == (0, 4)


def test_xgb_model_accepts_models_files_and_bytes(tmp_path):
    params = {"max_depth": 3, "subsample": 0.7, "colsample_bynode": 0.6, "seed": 3}
    whole = fit(params, rounds=6).digest()
    half = fit(params, rounds=3)
    before = half.digest()
    sources = [half, bytes(half.save_raw("ubj")), half.save_raw("json"), half.copy()]
    for name in ("half.json", "half.ubj"):
        half.save_model(tmp_path / name)
        sources += [tmp_path / name, str(tmp_path / name)]
    for source in sources:
        assert fit(params, rounds=3, xgb_model=source).digest() == whole
    assert half.digest() == before and half.num_boosted_rounds() == 3


def test_a_trained_model_can_be_updated():
    data = DMatrix(ROWS, LABELS)
    booster = hornbeam.train({}, data, 2)
    for number in range(2):
        booster.update(data, number)
    assert booster.digest() == fit().digest()


def test_training_continues_with_other_rows():
    more = DMatrix(*few_values(300, 5, seed=9))
    first = fit(rounds=2)
    both = hornbeam.train({}, more, 2, xgb_model=first)
    assert both[:2].digest() == first.digest()
    data = DMatrix(ROWS, LABELS)
    errors = [np.var(model.predict(more) - more.get_label()) for model in (first, both)]
    assert errors[1] < errors[0]
    assert np.isfinite(both.predict(data)).all()


def test_training_of_zero_rounds():
    booster = fit(rounds=0)
    assert booster.num_boosted_rounds() == 0
    np.testing.assert_array_equal(booster.predict(DMatrix(ROWS)), np.full(400, 0.5))
    # Continued training estimates the base score that is still missing.
    assert fit(rounds=4, xgb_model=booster).digest() == fit().digest()


def test_training_does_not_modify_the_data():
    rows, labels = ROWS.copy(), LABELS.copy()
    data = DMatrix(rows, labels, weight=np.ones(400), base_margin=np.zeros(400))
    hornbeam.train({"subsample": 0.5}, data, 3, evals=[(data, "a")], verbose_eval=False)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_array_equal(data.get_base_margin(), np.zeros(400))
    np.testing.assert_array_equal(data.get_weight(), np.ones(400))


def test_changed_labels_and_margins_are_used():
    data = DMatrix(ROWS, LABELS)
    booster = hornbeam.Booster({"base_score": 0.0}, [data])
    booster.update(data, 0)
    first = booster.eval(data)
    data.set_label(-LABELS)
    booster.update(data, 1)
    data.set_base_margin(LABELS)
    assert booster.eval(data) != first
    expected = booster.predict(data) + LABELS
    line = booster.eval(data)
    assert float(line.rpartition(":")[2]) == pytest.approx(
        np.sqrt(np.square(expected).mean()), rel=1e-6
    )
    data.set_base_margin(3 * LABELS)
    line = booster.eval(data)
    expected = booster.predict(data) + LABELS
    assert float(line.rpartition(":")[2]) == pytest.approx(
        np.sqrt(np.square(expected).mean()), rel=1e-6
    )


# --- Unusual data ---------------------------------------------------------------------


def test_one_row():
    booster = fit(rows=[[1.0, 2.0]], labels=[3.0])
    np.testing.assert_allclose(booster.inplace_predict([[1.0, 2.0], [9, 9]]), 3.0)


def test_one_column():
    column = np.arange(100.0)[:, np.newaxis]
    labels = np.square(column[:, 0])
    booster = fit({"eta": 1, "lambda": 0, "max_depth": 9}, column, labels)
    np.testing.assert_allclose(booster.inplace_predict(column), labels, atol=1e-2)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.25, 1e-30, 1e30, 0.1])
def test_a_constant_label(value):
    booster = fit(labels=np.full(400, value))
    np.testing.assert_allclose(booster.predict(DMatrix(ROWS)), value, rtol=1e-6)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_single_class(label):
    labels = np.full(400, label)
    booster = fit({"objective": "binary:logistic"}, labels=labels, rounds=20)
    np.testing.assert_allclose(booster.predict(DMatrix(ROWS)), label, atol=1e-3)
    params = {"objective": "multi:softprob", "num_class": 3}
    booster = fit(params, labels=labels, rounds=20)
    np.testing.assert_allclose(
        booster.predict(DMatrix(ROWS))[:, int(label)], 1.0, atol=1e-2
    )


def test_an_all_missing_column_is_not_used():
    empty = np.full((400, 1), np.nan, np.float32)
    booster = fit(rows=np.hstack([empty, ROWS, empty]))
    plain = fit()
    assert set(booster.get_score()) == {f"f{i}" for i in range(1, 6)}
    np.testing.assert_array_equal(
        booster.predict(DMatrix(np.hstack([empty, ROWS, empty]))),
        plain.predict(DMatrix(ROWS)),
    )
    # A value in a column without values in training raises no error.
    assert np.isfinite(booster.inplace_predict(np.ones((1, 7)))).all()


def test_only_missing_values():
    booster = fit(rows=np.full((400, 2), np.nan))
    np.testing.assert_allclose(
        booster.inplace_predict([[np.nan, 1.0]]), LABELS.mean(), rtol=1e-5
    )


@pytest.mark.parametrize("low", [1e9, -1e9, 1e12])
def test_labels_that_are_equal_in_float32(low):
    step = 10 * abs(low) / 1e9
    labels = np.where(ROWS[:, 0] > 3, low, low + step)
    booster = fit(labels=labels, rounds=40)
    predicted = booster.predict(DMatrix(ROWS))
    assert predicted.dtype == np.float64
    np.testing.assert_allclose(predicted, labels, rtol=0, atol=0.01 * step)
    loaded = hornbeam.Booster(model_file=booster.save_raw())
    np.testing.assert_array_equal(loaded.predict(DMatrix(ROWS)), predicted)


@pytest.mark.parametrize("scale", [1e38, -1e38, 1e-38, 1e-42, 1e20])
def test_labels_at_the_ends_of_float32(scale):
    labels = ranked(np.nan_to_num(ROWS[:, 1]), 2) * scale
    booster = fit({"eta": 1, "lambda": 0}, labels=labels, rounds=2)
    predicted = booster.predict(DMatrix(ROWS))
    expected = labels if abs(scale) > 1e-6 else np.full(400, labels.mean())
    # As in XGBoost, gains up to 1e-6 make no split.
    np.testing.assert_allclose(predicted, expected, atol=1e-5 * abs(scale))


CONTAINERS = {
    "big-endian": lambda x: x.astype(">f4"),
    "big-endian doubles": lambda x: x.astype(">f8"),
    "column by column": np.asfortranarray,
    "doubles": lambda x: x.astype(np.float64),
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "list": lambda x: x.tolist(),
    "frame": lambda x: pd.DataFrame(x, columns=list("abcde")),
}


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


CONTAINERS["read-only"] = read_only


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("matrix", [DMatrix, QuantileDMatrix])
def test_equal_data_in_any_container_gives_the_same_model(container, matrix):
    rows = CONTAINERS[container](ROWS)
    labels = LABELS.astype(">f8") if "big" in container else read_only(LABELS)
    booster = fit(rows=rows, labels=labels, matrix=matrix)
    plain = fit()
    if container == "frame":
        booster.feature_names = booster.feature_types = None
    assert booster.digest() == plain.digest()
    expected = plain.predict(DMatrix(ROWS))
    np.testing.assert_array_equal(booster.inplace_predict(rows), expected)
    np.testing.assert_array_equal(booster.predict(matrix(rows)), expected)


def test_values_that_are_equal_in_float32_are_distinguished():
    column = 1.0 + np.arange(200)[:, np.newaxis] * 1e-12
    labels = (np.arange(200) % 2).astype(float)
    booster = fit({"eta": 1, "max_depth": 0, "lambda": 0}, column, labels)
    np.testing.assert_allclose(booster.inplace_predict(column), labels, atol=1e-3)
    loaded = hornbeam.Booster(model_file=booster.save_raw("json"))
    np.testing.assert_array_equal(
        loaded.inplace_predict(column), booster.inplace_predict(column)
    )
