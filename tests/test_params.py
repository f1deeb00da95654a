"""Parameters: aliases, conversions, ranges and error messages."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from hornbeam import Booster
from hornbeam.errors import ParameterError
from hornbeam.params import Parameters, parameter_table


def test_no_parameters_are_all_defaults():
    for empty in (None, {}, [], {"eta": None}):
        assert Parameters.resolve(empty) == Parameters()
    assert Parameters().changed() == {}


def test_every_default_is_valid():
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
        ({"sketch_eps": "0.05"}, "sketch_eps", 0.05),
    ],
)
def test_values_are_converted(given, name, value):
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
        ({"tree_method": "gpu_hist"}, "'gpu_hist' of XGBoost is not in Hornbeam yet"),
        ({"rate_drop": 1.5}, "rate_drop must be from 0 to 1, not 1.5"),
        ({"sample_type": "trees"}, "'uniform' or 'weighted', not 'trees'"),
        ({"normalize_type": "trees"}, "'tree' or 'forest', not 'trees'"),
        ({"device": "sycl:gpu"}, "device='sycl:gpu' of XGBoost is not in Hornbeam yet"),
        ({"device": "gpu:x"}, "'opencl:P:D' or 'gpu:0+gpu:1', not 'gpu:x'"),
        ({"tree_method": "fast"}, "'hist' or 'exact' or 'approx', not 'fast'"),
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
        ({"sketch_eps": 1}, "and below 1, not 1"),
        ({"sketch_eps": 0}, "sketch_eps must be above"),
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
def test_errors_state_the_remedy(given, message):
    with pytest.raises(ParameterError) as caught:
        Parameters.resolve(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_updated_returns_a_changed_copy():
    first = Parameters.resolve({"eta": 0.1, "eval_metric": "auc"})
    second = first.updated({"learning_rate": 0.2, "eval_metric": "rmse"})
    assert (first.learning_rate, second.learning_rate) == (0.1, 0.2)
    assert (first.eval_metric, second.eval_metric) == (("auc",), ("rmse",))
    assert second.updated(None) is second


def test_plain_values_round_trip():
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


def test_changed_is_computed_once_and_returns_copies():
    parameters = Parameters.resolve({"eta": 0.1})
    parameters.changed()["seed"] = 1
    assert parameters.changed() == {"learning_rate": 0.1}
    assert parameters._changed is parameters._changed
    assert parameters.updated({"seed": 1}).changed() == {
        "learning_rate": 0.1,
        "seed": 1,
    }
    assert pickle.loads(pickle.dumps(parameters)) == parameters


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
def test_a_value_and_its_string_are_equivalent(params):
    as_text = {name: str(value) for name, value in params.items()}
    assert Parameters.resolve(as_text) == Parameters.resolve(params)


def test_parameter_names_are_unique():
    names = [n for row in parameter_table() for n in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


def test_every_parameter_of_xgboost_is_known():
    """No parameter of XGBoost is reported as misspelled."""
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


# --- XGBoost's parameters -------------------------------------------------------------

#: Name: (aliases, default, other valid values, invalid values).
ROWS = {
    "booster": ((), "gbtree", ["dart", "gblinear"], ["tree", ""]),
    "device": (
        (),
        "cpu",
        ["cuda", "cuda:1", "gpu", "gpu:0", "opencl:0:12", "gpu:0+gpu:1"],
        [
            *("tpu", "gpu:", "cuda:-1", "opencl:0", "opencl:0:1:2", "cpu:0"),
            *("gpu:0+", "gpu+gpu", "cpu+gpu:0"),
        ],
    ),
    "nthread": (("n_jobs",), 0, [1, -1, 64], [1.5, "many"]),
    "seed": (("random_state",), 0, [-3, 2**62], [0.5, "x"]),
    "validate_parameters": ((), True, [], [False]),
    "verbosity": ((), 1, [0, 2, 3], [-1, 4]),
    "disable_default_eval_metric": ((), False, [True, 1], [2]),
    "multi_strategy": ((), "one_output_per_tree", ["multi_output_tree"], ["vector"]),
    "num_class": ((), 0, [3], [-1, 2.5]),
    "num_target": ((), 1, [4], [0]),
    "base_score": ((), None, [0.5, [0.2, 0.3]], ["half", math.nan]),
    "learning_rate": (("eta",), 0.3, [0, 7], [-0.1, math.inf]),
    "gamma": (("min_split_loss",), 0.0, [1e9], [-1]),
    "max_depth": ((), 6, [0, 99], [-1]),
    "max_leaves": ((), 0, [31], [-1]),
    "max_bin": ((), 256, [2, 65535], [1, 65536]),
    "grow_policy": ((), "depthwise", ["lossguide"], ["widest"]),
    "min_child_weight": ((), 1.0, [0, 1e9], [-1]),
    "reg_lambda": (("lambda",), 1.0, [0], [-1]),
    "reg_alpha": (("alpha",), 0.0, [2], [-1]),
    "max_delta_step": ((), 0.0, [0.7], [-1]),
    "subsample": ((), 1.0, [0.1], [0, 1.1]),
    "sampling_method": ((), "uniform", ["gradient_based"], ["mvs"]),
    "colsample_bytree": ((), 1.0, [0.1], [0, 1.1]),
    "colsample_bylevel": ((), 1.0, [0.1], [0, 1.1]),
    "colsample_bynode": ((), 1.0, [0.1], [0, 1.1]),
    "tree_method": ((), "auto", ["hist", "exact", "approx"], ["best"]),
    "updater": (
        ("updater_seq",),
        "auto",
        [
            *("grow_quantile_histmaker", "grow_colmaker", "grow_histmaker"),
            *("refresh", "prune", "refresh,prune", "shotgun"),
        ],
        ["sync", "grow"],
    ),
    "default_direction": ((), "learn", ["left", "right"], ["up", 1]),
    "opt_dense_col": ((), 1.0, [0, 0.5], [-0.1, 1.1]),
    "process_type": ((), "default", ["update"], ["refresh"]),
    "refresh_leaf": ((), True, [False, 0], ["often"]),
    "num_parallel_tree": ((), 1, [9], [0]),
    "monotone_constraints": ((), (), ["(1,0,-1)", {"a": 1}, [1]], [[2], "up"]),
    "interaction_constraints": ((), (), ["[[0,1],[2]]", [["a", "b"]]], [[1], "ab"]),
    "max_cat_to_onehot": ((), 4, [1], [0]),
    "max_cat_threshold": ((), 64, [1], [0]),
    "cat_smooth": ((), 0.0, [10, 0.5], [-1]),
    "cat_l2": ((), 0.0, [10, 0.5], [-1]),
    "min_data_per_group": ((), 0, [100], [-1, 0.5]),
    "scale_pos_weight": ((), 1.0, [0, 9], [-1]),
    "max_cached_hist_node": ((), None, [1], [0]),
    "sample_type": ((), "uniform", ["weighted"], ["all"]),
    "normalize_type": ((), "tree", ["forest"], ["wood"]),
    "rate_drop": ((), 0.0, [1], [-0.1, 1.1]),
    "one_drop": ((), False, [True], [2]),
    "skip_drop": ((), 0.0, [1], [-0.1, 1.1]),
    "feature_selector": (
        (),
        "cyclic",
        ["shuffle", "random", "greedy", "thrifty"],
        ["best"],
    ),
    "top_k": ((), 0, [5], [-1]),
    "tolerance": ((), 0.0, [0.1], [-0.1]),
    "huber_slope": ((), 1.0, [0.1], [0]),
    "quantile_alpha": ((), None, [0.5, [0.1, 0.9]], [0, 1, [0.5, 1.5]]),
    "expectile_alpha": ((), None, [0.5, [0.1, 0.9]], [0, 1, [0.5, 1.5]]),
    "tweedie_variance_power": ((), 1.5, [1, 1.9], [0.9, 2]),
    "aft_loss_distribution": ((), "normal", ["logistic", "extreme"], ["weibull"]),
    "aft_loss_distribution_scale": ((), 1.0, [0.1], [0]),
    "lambdarank_pair_method": ((), "topk", ["mean"], ["all"]),
    "lambdarank_num_pair_per_sample": ((), None, [1, 32], [0]),
    "lambdarank_normalization": ((), True, [False], ["no way"]),
    "lambdarank_score_normalization": ((), True, [False], ["no way"]),
    "lambdarank_unbiased": ((), False, [True], [3]),
    "lambdarank_bias_norm": ((), 1.0, [0, 2], [-1]),
    "ndcg_exp_gain": ((), True, [False], ["no way"]),
}

#: Parameters and values of XGBoost that Hornbeam does not support.
LATER_NAMES = """
    seed_per_iteration fail_on_invalid_gpu_id boost_from_average debug_synchronize
    sparse_threshold max_row_perbatch
""".split()
LATER_VALUES = {
    "device": ["sycl", "sycl:gpu"],
    "tree_method": ["gpu_hist"],
}


@pytest.mark.parametrize("name", ROWS)
def test_a_parameter_has_xgboosts_aliases_default_and_values(name):
    aliases, default, taken, refused = ROWS[name]
    (row,) = (row for row in parameter_table() if row.name == name)
    assert row.aliases == aliases
    assert getattr(Parameters(), name) == default
    for spelling in (name, *aliases):
        assert Parameters.resolve({spelling: default}) == Parameters()
        for value in taken:
            changed = Parameters.resolve({spelling: value})
            assert changed == Parameters.resolve({name: value}) != Parameters()
        for value in refused:
            with pytest.raises(ParameterError, match=spelling):
                Parameters.resolve({spelling: value})


def test_unsupported_parameters_of_xgboost_are_named():
    given = [{name: 1} for name in LATER_NAMES]
    given += [{name: v} for name, values in LATER_VALUES.items() for v in values]
    for params in given:
        with pytest.raises(ParameterError, match="of XGBoost is not in Hornbeam yet"):
            Parameters.resolve(params)


@pytest.mark.parametrize(
    ("eps", "bins"), [(0.03, 34), (0.1, 10), (1 / 49, 49), (1 / 7, 7), (0.9, 2)]
)
def test_sketch_eps_is_converted_to_max_bin(eps, bins):
    given = {"tree_method": "approx", "sketch_eps": eps}
    assert Parameters.resolve(given).bins() == bins
    assert Parameters.resolve({**given, "max_bin": bins}).bins() == bins


def test_linear_models_have_other_defaults():
    linear = Parameters.resolve({"booster": "gblinear"})
    assert (linear.learning_rate, linear.reg_lambda, linear.reg_alpha) == (0.5, 0, 0)


def test_line_search_has_no_penalty_by_default():
    searched = Parameters.resolve({"leaf_solver": "line_search"})
    assert (searched.reg_lambda, searched.learning_rate) == (0.0, 0.3)
    assert searched.updated({"leaf_solver": "newton"}) == Parameters()
    held = searched.updated({"reg_lambda": 1.0})
    assert held.reg_lambda == 1.0
    assert held.changed() == {"leaf_solver": "line_search", "reg_lambda": 1.0}


#: Parameters that only Hornbeam has.
OURS = """
    objective eval_metric top_rate other_rate extmem_single_page min_samples_leaf
    path_smooth gain_epsilon feature_costs feature_costs_for monotone_constraints_method
    sketch_outputs unseen focal_gamma sketch_scope sketch_eps pruning leaf_solver
    leaf_model linear_lambda linear_max_features
    margin_type
""".split()


def test_every_parameter_is_listed_in_this_file():
    assert {row.name for row in parameter_table()} == {*ROWS, *OURS}


# Objective: (default metric, required parameters).
OBJECTIVES = {
    "reg:squarederror": ("rmse", {}),
    "reg:squaredlogerror": ("rmsle", {}),
    "reg:logistic": ("rmse", {}),
    "binary:logistic": ("logloss", {}),
    "binary:logitraw": ("logloss", {}),
    "binary:hinge": ("error", {}),
    "reg:pseudohubererror": ("mphe", {}),
    "reg:absoluteerror": ("mae", {}),
    "reg:quantileerror": ("quantile", {"quantile_alpha": 0.5}),
    "reg:expectileerror": ("expectile", {"expectile_alpha": 0.5}),
    "count:poisson": ("poisson-nloglik", {}),
    "reg:gamma": ("gamma-deviance", {}),
    "reg:tweedie": ("tweedie-nloglik@1.5", {}),
    "survival:cox": ("cox-nloglik", {}),
    "survival:aft": ("aft-nloglik", {}),
    "multi:softmax": ("mlogloss", {"num_class": 3}),
    "multi:softprob": ("mlogloss", {"num_class": 3}),
    "rank:ndcg": ("ndcg@32", {}),
    "rank:map": ("map@32", {}),
    "rank:pairwise": ("ndcg@32", {}),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_of_xgboost_have_its_default_metric(name):
    metric, params = OBJECTIVES[name]
    booster = Booster({"objective": name, **params})
    assert [own.name for own in booster.metrics] == [metric]
    assert booster.params.objective == name


def test_a_deprecated_name_of_xgboost():
    assert Booster({"objective": "reg:linear"}).model.objective == "reg:squarederror"


METRICS = """
    rmse rmsle mae mape mphe logloss error error@0.3 poisson-nloglik gamma-deviance
    gamma-nloglik tweedie-nloglik@1.3 quantile expectile merror mlogloss auc aucpr ndcg
    ndcg- ndcg@3 ndcg@3- map map- map@3 map@3- pre pre@3 ams@0.15 cox-nloglik
    aft-nloglik interval-regression-accuracy
""".split()


@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_xgboost_exist(name):
    params = {"quantile_alpha": 0.5, "expectile_alpha": 0.5, "eval_metric": name}
    if name in ("merror", "mlogloss"):
        params |= {"objective": "multi:softprob", "num_class": 3}
    (metric,) = Booster(params).metrics
    assert metric.name == name
