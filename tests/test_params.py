"""The table of parameters: aliases, spellings, ranges and the messages of mistakes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.errors import ParameterError
from hornbeam.params import Parameters, parameter_table


def test_nothing_given_is_all_defaults():
    for empty in (None, {}, [], {"eta": None}):
        assert Parameters.resolve(empty) == Parameters()
    assert Parameters().changed() == {}


def test_every_default_obeys_its_own_rule():
    given = {row.name: row.default for row in parameter_table() if row.default != []}
    assert Parameters.resolve(given) == Parameters()


def test_every_alias_reaches_its_field():
    for row in parameter_table():
        for alias in row.aliases:
            with_alias = Parameters.resolve({alias: row.default})
            assert with_alias == Parameters.resolve({row.name: row.default})


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"eta": "0.5"}, "learning_rate", 0.5),
        ({"eta": 1}, "learning_rate", 1.0),
        ({"lambda": " 2e-1 "}, "reg_lambda", 0.2),
        ({"max_depth": "3"}, "max_depth", 3),
        ({"max_depth": 3.0}, "max_depth", 3),
        ({"max_depth": np.int16(3)}, "max_depth", 3),
        ({"subsample": np.float64(0.5)}, "subsample", 0.5),
        ({"subsample": np.array(0.5)}, "subsample", 0.5),
        ({"seed": str(2**63 - 1)}, "seed", 2**63 - 1),
        ({"disable_default_eval_metric": "true"}, "disable_default_eval_metric", True),
        ({"disable_default_eval_metric": 1}, "disable_default_eval_metric", True),
        ({"validate_parameters": np.True_}, "validate_parameters", True),
        ({"nthread": -1}, "nthread", -1),
        ({"eval_metric": "auc"}, "eval_metric", ("auc",)),
        ({"eval_metric": ["auc", "error@0.7"]}, "eval_metric", ("auc", "error@0.7")),
        ([("eval_metric", "a"), ("eval_metric", "b")], "eval_metric", ("a", "b")),
        ({"base_score": 0.5}, "base_score", 0.5),
        ({"base_score": "4E-1"}, "base_score", 0.4),
        ({"base_score": "[4E-1, 6E-1]"}, "base_score", (0.4, 0.6)),
        ({"base_score": [0.4]}, "base_score", (0.4,)),
        ({"base_score": np.array([1, 2])}, "base_score", (1.0, 2.0)),
        ({"eta": 0.1, "learning_rate": "0.1"}, "learning_rate", 0.1),
        ({"max_cached_hist_node": "7"}, "max_cached_hist_node", 7),
    ],
)
def test_spellings(given, name, value):
    parameters = Parameters.resolve(given)
    read = getattr(parameters, name)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_dept": 3}, "did you mean 'max_depth'"),
        ({"Max_Depth": 3}, "did you mean 'max_depth'"),
        ({"monotone_constraint": "(1)"}, "did you mean 'monotone_constraints'"),
        ({"max_row_perbatch": 9}, "XGBoost is not in Hornbeam yet"),
        ({"zzzzzz": 1}, "unknown parameter 'zzzzzz'; parameter_table()"),
        ({"n_estimators": 10}, "pass num_boost_round to train"),
        ({3: 1}, "name must be a string, not 3"),
        (7, "not int"),
        ([("eta",)], "list of (name, value) pairs"),
        ({"tree_method": "exact"}, "'exact' of XGBoost is not in Hornbeam yet"),
        ({"rate_drop": 1.5}, "rate_drop must be from 0 to 1, not 1.5"),
        ({"sample_type": "trees"}, "'uniform' or 'weighted', not 'trees'"),
        ({"normalize_type": "trees"}, "'tree' or 'forest', not 'trees'"),
        ({"device": "cuda:1"}, "device='cuda:1' of XGBoost is not in Hornbeam yet"),
        ({"tree_method": "exact"}, "must be 'auto' or 'hist'"),
        ({"tree_method": "fast"}, "must be 'auto' or 'hist', not 'fast'"),
        ({"validate_parameters": False}, "an unknown parameter is always an error"),
        ({"eta": math.nan}, "eta must be a finite number, not nan"),
        ({"eta": "nan"}, "eta must be a finite number, not 'nan'"),
        ({"eta": math.inf}, "eta must be a finite number"),
        ({"eta": -0.1}, "eta must be 0 or more, not -0.1"),
        ({"eta": "fast"}, "eta must be a finite number, not 'fast'"),
        ({"eta": True}, "eta must be a finite number, not True"),
        ({"eta": [0.1]}, "eta must be a finite number"),
        ({"eta": 0.1, "learning_rate": 0.2}, "eta=0.1 and learning_rate=0.2"),
        ({"max_depth": 2.5}, "max_depth must be a whole number, not 2.5"),
        ({"max_depth": -1}, "max_depth must be 0 or more"),
        ({"max_bin": 1}, "max_bin must be from 2 to 65535"),
        ({"subsample": 0}, "subsample must be above 0 and at most 1"),
        ({"colsample_bynode": 1.5}, "above 0 and at most 1"),
        ({"disable_default_eval_metric": "perhaps"}, "must be true or false"),
        ({"disable_default_eval_metric": 2}, "must be true or false"),
        ({"disable_default_eval_metric": np.zeros(2)}, "must be true or false"),
        ({"objective": 3}, "objective must be a name"),
        ({"objective": " "}, "objective must be a name"),
        ({"eval_metric": print}, "a function goes to custom_metric"),
        ({"eval_metric": ["auc", print]}, "eval_metric must be a name"),
        ({"base_score": []}, "base_score is an empty list"),
        ({"base_score": "[0.1"}, "base_score must be a number or a list"),
        ({"base_score": [0.1, math.nan]}, "base_score must be a finite number"),
        ({"base_score": "half"}, "base_score must be a finite number"),
        ({"seed": 2**63}, "seed must be from"),
    ],
)
def test_mistakes_name_the_remedy(given, message):
    with pytest.raises(ParameterError) as caught:
        Parameters.resolve(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_updated_overrides_and_leaves_the_old_alone():
    first = Parameters.resolve({"eta": 0.1, "eval_metric": "auc"})
    second = first.updated({"learning_rate": 0.2, "eval_metric": "rmse"})
    assert (first.learning_rate, second.learning_rate) == (0.1, 0.2)
    assert (first.eval_metric, second.eval_metric) == (("auc",), ("rmse",))
    assert second.updated(None) is second


def test_plain_values_lead_back():
    parameters = Parameters.resolve(
        {"eta": 0.1, "eval_metric": ["auc"], "base_score": [0.1, 0.2]}
    )
    assert parameters.changed() == {
        "learning_rate": 0.1,
        "eval_metric": ["auc"],
        "base_score": [0.1, 0.2],
    }
    assert Parameters.resolve(parameters.changed()) == parameters
    assert parameters.to_dict().keys() == {row.name for row in parameter_table()}
    assert Parameters.resolve(parameters.to_dict()) == parameters


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "eta": st.floats(0, 10),
            "max_depth": st.integers(0, 50),
            "gamma": st.floats(0, 1e300),
            "subsample": st.floats(0, 1, exclude_min=True),
            "seed": st.integers(-(2**63), 2**63 - 1),
        },
    )
)
def test_a_value_and_its_text_are_the_same(params):
    as_text = {name: str(value) for name, value in params.items()}
    assert Parameters.resolve(as_text) == Parameters.resolve(params)


def test_names_of_the_table_are_unique():
    names = [n for row in parameter_table() for n in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


def test_parameters_of_xgboost_are_known_or_announced():
    """No name that XGBoost trains trees with is taken for a misspelling."""
    estimator = xgboost.XGBModel()
    booster = xgboost.train(
        {"booster": "dart"}, xgboost.DMatrix(np.eye(2), [0, 1]), num_boost_round=1
    )
    config = json.loads(booster.save_config())["learner"]["gradient_booster"]
    names = {
        *estimator.get_xgb_params(),
        *config["dart_train_param"],
        *config["gbtree"]["tree_train_param"],
    }
    arguments_of_other_calls = {
        "cache_opt",
        "enable_categorical",
        "feature_types",
        "feature_weights",
        "importance_type",
        "missing",
        "n_estimators",
    }
    known = {n for row in parameter_table() for n in (row.name, *row.aliases)}
    for name in names - known - arguments_of_other_calls:
        with pytest.raises(ParameterError, match="XGBoost is not in Hornbeam yet"):
            Parameters.resolve({name: 1})
