"""Parameters compared with XGBoost: which are used, and their resolved values."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from comparison import BINARY, THREE, X, Y, assert_close, both, ours, theirs, train

BOUNDS = {"label_lower_bound": Y, "label_upper_bound": Y + 1.0}
CONFIGURATIONS = {
    "nothing": ({}, Y, {}),
    "trees": (
        {
            "max_depth": 4,
            "eta": 0.1,
            "subsample": 0.7,
            "max_bin": 64,
            "num_parallel_tree": 2,
            "monotone_constraints": (1, 0, 0, -1),
            "interaction_constraints": "[[0,1],[2,3]]",
            "seed": 7,
            "n_jobs": 2,
            "sparse_threshold": 0.3,
            "seed_per_iteration": True,
        },
        Y,
        {},
    ),
    "approx": ({"tree_method": "approx", "max_cached_hist_node": 9}, Y, {}),
    "exact": (
        {"tree_method": "exact", "opt_dense_col": 0.5, "default_direction": "right"},
        Y,
        {},
    ),
    "dart": ({"booster": "dart", "rate_drop": 0.1, "one_drop": 1}, Y, {}),
    "linear": ({"booster": "gblinear", "updater": "coord_descent"}, Y, {}),
    "shotgun": ({"booster": "gblinear", "tolerance": 0.5}, Y, {}),
    "logistic": ({"objective": "binary:logistic", "base_score": 0.3}, BINARY, {}),
    "poisson": ({"objective": "count:poisson"}, Y, {}),
    "tweedie": ({"objective": "reg:tweedie", "tweedie_variance_power": 1.3}, Y, {}),
    "quantiles": (
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
        Y,
        {},
    ),
    "classes": (
        {"objective": "multi:softprob", "num_class": 3, "eval_metric": ["merror"]},
        THREE,
        {},
    ),
    "ranking": (
        {"objective": "rank:ndcg", "lambdarank_pair_method": "mean"},
        THREE,
        {"group": [40, 40]},
    ),
    "survival": (
        {"objective": "survival:aft", "aft_loss_distribution": "extreme"},
        None,
        BOUNDS,
    ),
    "metrics": (
        {"eval_metric": ["ndcg@3", "map@2-", "error@0.3", "mphe", "aft-nloglik"]},
        Y,
        BOUNDS,
    ),
    "of the machine": ({"nthread": 2, "random_state": 3, "verbosity": 0}, Y, {}),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_save_config_has_equal_names_and_values(case):
    params, label, beside = CONFIGURATIONS[case]

    def run(xgb):
        with xgb.config_context(verbosity=0):
            data = xgb.DMatrix(X, label, **beside)
            booster = xgb.train(params, data, 1)
        tree = json.loads(booster.save_config())
        score = tree["learner"]["learner_model_param"].pop("base_score")
        return tree, np.array(json.loads(score))

    (mine, score), (other, their_score) = both(run)
    assert mine == other
    if case != "quantiles":  # XGBoost computes quantiles in another way
        np.testing.assert_allclose(score, their_score, 1e-5, 1e-6)


def test_save_config_has_equal_text():
    mine, other = both(lambda xgb: train(xgb, {"base_score": 0.5}).save_config())
    assert mine == other


UNUSED = [
    {"foo": 1},
    {"foo": 1, "bar": "x", "max_depth": 2},
    {"booster": "gblinear", "max_depth": 3},
    {"booster": "gblinear", "num_parallel_tree": 2},
    {"booster": "gblinear", "tree_method": "approx"},
    {"booster": "gblinear", "multi_strategy": "multi_output_tree"},
    {"booster": "gblinear", "process_type": "update"},
    {"rate_drop": 0.1},
    {"top_k": 2},
    {"tweedie_variance_power": 1.2},
    {"objective": "multi:softmax", "num_class": 3, "scale_pos_weight": 2},
    {"tree_method": "exact", "max_cached_hist_node": 4},
    {"default_direction": "left"},
    {"n_estimators": 10, "early_stopping_rounds": 3},
    {"foo": 1, "validate_parameters": False},
    {"foo": 1, "verbosity": 0},
    {"refresh_leaf": 0, "sparse_threshold": 0.1, "debug_synchronize": 1},
    {"num_feature": 4, "use_rmm": True, "eval_metric": "mae"},
    {"objective": "reg:linear"},
    {"device": "cuda"},
    {"sketch_eps": 0.1, "tree_method": "approx"},
    {"subsample": None, "eval_metric": None},
]


@pytest.mark.parametrize("params", UNUSED, ids=str)
def test_unused_parameters_warn(params, recwarn):
    def run(xgb):
        with xgb.config_context(verbosity=1):
            xgb.train(params, xgb.DMatrix(X, THREE), 1)
        told = {str(w.message).rstrip().splitlines()[-1] for w in recwarn}
        recwarn.clear()
        return (
            {line[line.find("Parameters:") :].strip() for line in told}
            if any("Parameters:" in line for line in told)
            else {line.rpartition(": ")[2].rpartition("  ")[2][-60:] for line in told}
        )

    mine, other = both(run)
    assert mine == other


PAIRS = [
    {"eta": 0.1, "learning_rate": 0.7},
    {"lambda": 2, "reg_lambda": 3},
    {"learning_rate": 0.1, "max_depth": "2"},
    {"gamma": 1, "min_split_loss": 0.01},
]


@pytest.mark.parametrize("params", PAIRS, ids=str)
def test_precedence_of_aliases(params):
    def run(xgb):
        tree = json.loads(train(xgb, params).save_config())
        return tree["learner"]["gradient_booster"]["tree_train_param"]

    mine, other = both(run)
    assert mine == other


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "updater",
    [
        "grow_colmaker",
        "grow_colmaker,sync",
        "grow_colmaker,refresh",
        "grow_colmaker,prune,refresh",
        "grow_histmaker,sync",
        "grow_histmaker,prune,refresh",
        "grow_quantile_histmaker,refresh",
    ],
)
def test_updaters_after_one_that_grows(updater):
    """Without prune, gamma has no effect on the trees of grow_colmaker."""

    def run(xgb):
        booster = train(xgb, {"updater": updater, "gamma": 0.7, "lambda": 0})
        return booster.predict(xgb.DMatrix(X))

    assert_close(*both(run))


def test_a_named_updater_gives_one_warning(recwarn):
    booster = train(ours)
    update = {"process_type": "update", "updater": "prune", "gamma": 0.1}
    schedule = ours.callback.LearningRateScheduler([0.1, 0.2, 0.3])
    train(ours, update, xgb_model=booster, callbacks=[schedule])
    (warning,) = recwarn
    assert "manually specified the `updater` parameter" in str(warning.message)
    train(ours, {**update, "verbosity": 0}, xgb_model=booster)
    linear = {"booster": "gblinear", "updater": "coord_descent"}
    ours.train(linear, ours.DMatrix(X, Y), 1)
    assert len(recwarn) == 1


def test_set_param_needs_a_value():
    for xgb in (ours, theirs):
        with pytest.raises(ValueError):
            xgb.Booster().set_param("eta")
    with pytest.raises(ours.core.XGBoostError, match="no value of the parameter 'eta'"):
        ours.Booster().set_param("eta")


def test_the_order_of_set_param_does_not_matter():
    def run(xgb):
        data = xgb.DMatrix(X, THREE)
        booster = xgb.Booster({"num_class": 3}, [data])
        booster.set_param("objective", "multi:softprob")
        booster.set_param([("eval_metric", "merror"), ("eval_metric", "mlogloss")])
        booster.update(data, 0)
        booster.set_param("eval_metric", "auc")
        line = booster.eval(data, "x", 4)
        return [part.partition(":")[0] for part in line.split("\t")]

    mine, other = both(run)
    assert mine == other == ["[4]", "x-merror", "x-mlogloss", "x-auc"]


def test_parameters_of_hornbeam_do_not_warn():
    booster = train(ours, {"min_samples_leaf": 20, "max_depth": 6}, rounds=1)
    counts = np.unique(booster.predict(ours.DMatrix(X)), return_counts=True)[1]
    assert counts.min() >= 20


def test_the_length_of_base_score_sets_the_number_of_targets():
    label = np.stack([Y, -Y], axis=1)
    booster = train(ours, {"base_score": [0.5, -0.5]}, label, rounds=0)
    np.testing.assert_array_equal(
        booster.predict(ours.DMatrix(X))[0], np.float32([0.5, -0.5])
    )
    with pytest.raises(ValueError, match="1 column"):
        train(ours, {"num_target": 2})


def test_global_configuration():
    def run(xgb):
        before = xgb.get_config()
        with xgb.config_context(verbosity=2):
            inside = xgb.get_config()
            with xgb.config_context(verbosity=0):
                silent = xgb.get_config()
        with pytest.raises(xgb.core.XGBoostError, match="Unknown global parameters"):
            xgb.set_config(foo=1)
        with pytest.raises(xgb.core.XGBoostError, match="exceed bound"):
            xgb.set_config(verbosity=9)
        with pytest.raises(xgb.core.XGBoostError, match="expect int"):
            xgb.set_config(verbosity=1.5)
        xgb.set_config(verbosity=None, use_rmm="false")
        return before, inside, silent, xgb.get_config()

    mine, other = both(run)
    assert mine == other
    with ours.config_context(nthread=2):
        assert train(ours).params.nthread == 2
    assert theirs.get_config() == ours.get_config()


def test_each_thread_has_its_own_global_configuration():
    barrier = threading.Barrier(4)

    def run(xgb, number):
        seen = [xgb.get_config()["verbosity"]]
        xgb.set_config(verbosity=number)
        barrier.wait()
        with xgb.config_context(verbosity=3 - number):
            barrier.wait()
            seen.append(xgb.get_config()["verbosity"])
            with xgb.config_context(verbosity=None, use_rmm=True):
                barrier.wait()
                seen.append(xgb.get_config()["verbosity"])
            barrier.wait()
        barrier.wait()
        return [*seen, xgb.get_config()["verbosity"]]

    def in_threads(xgb):
        with xgb.config_context(verbosity=2), ThreadPoolExecutor(4) as pool:
            return list(pool.map(run, [xgb] * 4, range(4)))

    mine, other = both(in_threads)
    assert mine == other == [[1, 3 - n, 3 - n, n] for n in range(4)]


def test_folds_have_the_configuration_of_the_caller():
    seen = []

    class Note(ours.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            seen.extend(fold.bst.params.verbosity for fold in model.cvfolds)

    with ours.config_context(verbosity=2):
        ours.cv({"nthread": 2}, ours.DMatrix(X, Y), 1, nfold=4, callbacks=[Note()])
    assert seen == [2, 2, 2, 2]


def test_sampling_rates_of_zero():
    """Without sampled rows leaves are 0; without sampled columns one column is used."""

    def run(xgb):
        config = None
        for name in ("subsample", "colsample_bytree"):
            for method in ("hist", "exact"):
                booster = train(xgb, {name: 0, "tree_method": method})
                config = json.loads(booster.save_config())["learner"]
                for tree in booster.get_dump():
                    features = set(re.findall("f[0-9]", tree))
                    assert len(features) == (name != "subsample")
                    assert features or tree.startswith("0:leaf=0\n")
        return config["gradient_booster"]["tree_train_param"]["colsample_bytree"]

    mine, other = both(run)
    assert mine == other == "0"


def test_quantile_levels_in_any_order():
    params = {"objective": "reg:quantileerror", "max_depth": 2}
    up, down = (
        train(ours, {**params, "quantile_alpha": levels})
        for levels in ([0.1, 0.5, 0.9], "[0.5,0.9,0.1]")
    )
    found = down.predict(ours.DMatrix(X))
    apart = up.predict(ours.DMatrix(X), output_margin=True)
    np.testing.assert_array_equal(found, apart[:, [1, 2, 0]])
    again = ours.Booster(model_file=down.save_raw("json"))
    np.testing.assert_array_equal(again.predict(ours.DMatrix(X)), found)
