"""What is XGBoost 3.4's, and 3.2 lacks: model files, configuration, explanations."""

from __future__ import annotations

import json
from pathlib import Path

import newest
import numpy as np
import pytest
from comparison import BINARY, X, Y, ours, train

FOLDER = Path(__file__).parent / "newest"


@pytest.fixture(scope="module")
def read_back():
    return newest.differences(ours, FOLDER)


@pytest.mark.parametrize("model", newest.MODELS)
def test_models_of_the_newest_version_are_read(read_back, model):
    assert read_back[model] < 1e-5


@pytest.mark.parametrize("model", newest.MODELS)
def test_models_of_the_newest_version_go_on(model):
    """A DART model, which is one of gbtree with weights there, goes on as DART."""
    before = ours.Booster(model_file=FOLDER / f"{model}.json")
    assert (before.params.booster == "dart") == ("dart" in model)
    after = newest.train(ours, model, xgb_model=before)
    assert after.num_boosted_rounds() == before.num_boosted_rounds() + 2


def newest_config(params, **dropout):
    """Return a configuration in the form of XGBoost 3.4."""
    config = json.loads(train(ours, params).save_config())
    learner = config["learner"]
    learner["generic_param"]["rng_state"] = "0 1 1812433255"
    learner["gradient_booster"]["dart_train_param"] = {
        "normalize_type": "tree",
        "one_drop": "0",
        "rate_drop": "0",
        "sample_type": "uniform",
        "skip_drop": "0",
        **dropout,
    }
    return json.dumps(config | {"version": [3, 4, 1]})


def test_configurations_of_the_newest_version_are_read(recwarn):
    booster = ours.Booster()
    booster.load_config(newest_config({"eta": 0.125}))
    booster.update(ours.DMatrix(X, Y), 0)
    assert (booster.params.booster, booster.params.learning_rate) == ("gbtree", 0.125)
    booster = ours.Booster()
    booster.load_config(newest_config({}, rate_drop="0.5"))
    booster.update(ours.DMatrix(X, Y), 0)
    assert (booster.params.booster, booster.params.rate_drop) == ("dart", 0.5)
    assert not recwarn


def test_the_metric_expectile_has_its_levels_in_the_configuration():
    params = {"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8]}
    metrics = json.loads(train(ours, params).save_config())["learner"]["metrics"]
    assert metrics[0]["name"] == "expectile"
    levels = metrics[0]["expectile_loss_param"]["expectile_alpha"]
    assert json.loads(levels) == pytest.approx([0.2, 0.8])


def test_shap_values():
    estimator = ours.XGBClassifier(n_estimators=4, early_stopping_rounds=1)
    estimator.fit(X, BINARY, eval_set=[(X, 1 - BINARY)], verbose=False)
    booster, data = estimator.get_booster(), ours.DMatrix(X)
    values, bias = ours.interpret.shap_values(estimator, X)
    best = booster.best_iteration + 1
    assert best < booster.num_boosted_rounds()
    own = booster.predict(data, pred_contribs=True, iteration_range=(0, best))
    np.testing.assert_array_equal(np.column_stack([values, bias]), own)
    assert values.dtype == np.float32
    values, bias = ours.interpret.shap_values(booster, data, X_background=X[:9])
    margins = booster.predict(data, output_margin=True)
    np.testing.assert_allclose(values.sum(axis=1) + bias, margins, 1e-4, 1e-5)
    with pytest.raises(ValueError, match="`missing` must not be specified"):
        ours.interpret.shap_values(booster, data, missing=0.0)
    with pytest.raises(TypeError, match="get_booster"):
        ours.interpret.shap_values(X, X)


def test_the_port_of_a_worker_is_a_setting():
    for port in (9091, lambda: 9091):
        config = ours.collective.Config(retry=2, worker_port=port)
        args = config.update_worker_args(config.get_comm_config({}))
        assert args == {"dmlc_retry": 2, "dmlc_worker_port": 9091}
    assert ours.collective.Config().update_worker_args({}) == {}


def test_an_estimator_takes_an_objective_of_rounds():
    rounds = []

    class Squares(ours.objective.Objective):
        def __call__(self, iteration, y_pred, dtrain):
            rounds.append(iteration)
            grad = y_pred - dtrain.get_label().reshape(y_pred.shape)
            return grad, np.ones_like(grad)

    params = {"n_estimators": 3, "max_depth": 2, "base_score": 0.5}
    found = ours.XGBRegressor(objective=Squares(), **params).fit(X, Y).predict(X)
    expected = ours.XGBRegressor(**params).fit(X, Y).predict(X)
    assert rounds == [0, 1, 2]
    np.testing.assert_allclose(found, expected, 1e-5)


def test_a_data_frame_of_vector_leaves_has_the_column_target():
    booster = ours.Booster(model_file=FOLDER / "vectors.json")
    columns = list(train(ours).trees_to_dataframe().columns)
    assert list(booster.trees_to_dataframe().columns) == [
        "Tree",
        "Target",
        *columns[1:],
    ]
