"""Trees, predictions and results are equal to those of the real XGBoost.

Columns with few distinct values have the same cuts in both libraries, so the trees must
be equal. Hornbeam follows versions after 3.2, which is installed here, in two points:
min_child_weight only restricts splits, and max_delta_step with reg_alpha has the full
gain.
"""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values, ranked, softmax_gradients, squared_gradients

import hornbeam
from hornbeam.forest import decode

LIBRARIES = (hornbeam, xgboost)
NAMES = list("abcdef")


def walk(tree):
    """Return the nodes of a tree in pre-order."""
    nodes, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if tree.left[node] >= 0:
            waiting += [tree.right[node], tree.left[node]]
    return np.array(nodes)


def categories_of(tree, node):
    """Return the categories that go right at a node."""
    first, last = tree.category_starts[node : node + 2]
    return tree.categories[first:last].tolist()


def assert_same_tree(ours, theirs, reg_lambda=1.0, atol=5e-7):
    i, j = walk(ours), walk(theirs)
    inner = ours.left[i] >= 0
    np.testing.assert_array_equal(inner, theirs.left[j] >= 0)
    np.testing.assert_array_equal(ours.feature[i], theirs.feature[j])
    np.testing.assert_array_equal(ours.threshold[i], theirs.threshold[j])
    np.testing.assert_array_equal(ours.default_left[i], theirs.default_left[j])
    np.testing.assert_array_equal(ours.split_type[i], theirs.split_type[j])
    for node, other in zip(i, j, strict=True):
        assert categories_of(ours, node) == categories_of(theirs, other)
    np.testing.assert_allclose(ours.value[i], theirs.value[j], rtol=2e-6, atol=atol)
    if inner[0]:  # XGBoost does not shrink the weight of a lonely root
        np.testing.assert_allclose(
            ours.weight[i], theirs.weight[j], rtol=2e-6, atol=atol
        )
    np.testing.assert_allclose(ours.cover[i], theirs.cover[j], rtol=2e-6)
    # A gain is a difference of similarities. XGBoost computes it in float32, Hornbeam
    # from quantised gradients.
    scores = np.square(ours.weight[i]) * (ours.cover[i] + reg_lambda)
    error = np.abs(ours.gain[i] - theirs.gain[j])[inner]
    assert (error <= (2e-4 * ours.gain[i] + 5e-5 * scores + 2e-5)[inner]).all()


def assert_same_model(ours, theirs, reg_lambda=1.0, atol=5e-7):
    ours, theirs = ours.model, decode(bytes(theirs.save_raw("ubj")))
    np.testing.assert_allclose(ours.base_score, theirs.base_score, rtol=2e-6, atol=1e-6)
    assert ours.round_starts == theirs.round_starts
    assert ours.tree_output == theirs.tree_output
    for tree, other in zip(ours.trees, theirs.trees, strict=True):
        assert_same_tree(tree, other, reg_lambda, atol)


def both(params, rows, labels, rounds=3, *, info=None, evals=None, **arguments):
    """Return the boosters of Hornbeam and XGBoost, and their evaluation results."""
    boosters, reports = [], []
    for library in LIBRARIES:
        data = library.DMatrix(rows, labels, **(info or {}))
        watched = [(data, "train")]
        if evals is not None:
            watched.append((library.DMatrix(*evals), "valid"))
        report = {}
        booster = library.train(
            {"nthread": 1, **params},
            data,
            rounds,
            evals=watched,
            evals_result=report,
            verbose_eval=False,
            **arguments,
        )
        boosters.append(booster)
        reports.append(report)
    return (*boosters, *reports)


def assert_same_reports(ours, theirs):
    assert {name: list(of) for name, of in ours.items()} == {
        name: list(of) for name, of in theirs.items()
    }
    for name, metrics in ours.items():
        for metric, values in metrics.items():
            np.testing.assert_allclose(
                values, theirs[name][metric], rtol=2e-6, atol=2e-7, err_msg=metric
            )


# --- Trees ----------------------------------------------------------------------------

GROWTH = {
    "defaults": {},
    "no lambda": {"lambda": 0},
    "alpha": {"alpha": 5},
    "gamma": {"gamma": 20},
    "min_child_weight": {"min_child_weight": 30},
    "max_delta_step": {"max_delta_step": 0.3},
    "stumps": {"max_depth": 1, "eta": 1},
    "without limit": {"max_depth": 0, "min_child_weight": 4},
    "few leaves": {"max_leaves": 11},
    "best first": {"grow_policy": "lossguide", "max_leaves": 11, "max_depth": 0},
    "best first, deep": {"grow_policy": "lossguide", "gamma": 5, "max_depth": 5},
    "parallel": {"num_parallel_tree": 3},
    "base score": {"base_score": 2.5},
    "few bins": {"max_bin": 64},
    "groups": {"interaction_constraints": "[[0, 1], [1, 2], [5]]", "max_depth": 5},
    "groups, best first": {
        "interaction_constraints": "[[0, 1], [2, 3, 4]]",
        "grow_policy": "lossguide",
        "max_leaves": 11,
    },
}


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", GROWTH)
def test_squared_error_trees_equal_xgboosts(case, missing):
    params = GROWTH[case]
    ours, theirs, *reports = both(params, *few_values(missing=missing))
    assert_same_model(ours, theirs, params.get("lambda", 1))
    assert_same_reports(*reports)


DIRECTIONS = {
    "rising and falling": {"monotone_constraints": "(1,1,-1)"},
    "by name": {"monotone_constraints": {"c": -1, "f": 1}},
    "best first": {
        "monotone_constraints": "(1,0,1,-1)",
        "grow_policy": "lossguide",
        "max_leaves": 25,
    },
    "all falling": {"monotone_constraints": (-1,) * 6, "max_delta_step": 0.5},
}


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", DIRECTIONS)
def test_trees_with_monotone_constraints_equal_xgboosts(case, missing):
    rows, labels = few_values(missing=missing)
    params = {"max_depth": 5, **DIRECTIONS[case]}
    ours, theirs, *_ = both(params, rows, labels, info={"feature_names": NAMES})
    # A bound is the mean of two weights, which come from quantised gradients.
    assert_same_model(ours, theirs, atol=2e-5)


OBJECTIVES = {
    "binary:logistic": {"eval_metric": ["logloss", "error", "error@0.7", "auc"]},
    "binary:logistic, imbalanced": {"scale_pos_weight": 3, "eval_metric": "aucpr"},
    "binary:logistic, base score": {"base_score": 0.2},
    "binary:logistic, min_child_weight": {"min_child_weight": 20},
    "binary:logitraw": {},
    "reg:logistic": {"eval_metric": ["rmse", "mae"]},
    "reg:squarederror, imbalanced": {"scale_pos_weight": 2},
    "multi:softprob": {"eval_metric": ["mlogloss", "merror", "auc"]},
    "multi:softprob, base score": {"base_score": [0.2, 0.3, 0.5]},
    "multi:softmax": {"num_parallel_tree": 2},
}


def labels_for(objective, labels):
    if objective.startswith("multi"):
        return ranked(labels, 3)
    return ranked(labels, 2) * (0.7 if objective == "reg:logistic" else 1.0)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", OBJECTIVES)
def test_trees_of_every_objective_equal_xgboosts(case, missing):
    rows, labels = few_values(missing=missing)
    objective = case.partition(",")[0]
    params = {"objective": objective, **OBJECTIVES[case]}
    if objective.startswith("multi"):
        params["num_class"] = 3
    ours, theirs, *reports = both(params, rows, labels_for(objective, labels))
    assert_same_model(ours, theirs)
    assert_same_reports(*reports)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
@pytest.mark.parametrize("what", ["weight", "base_margin"])
def test_trees_with_weights_and_base_margins_equal_xgboosts(objective, what):
    rows, labels = few_values(missing=0.1)
    info = {"weight": 1 + ranked(rows[:, 3], 4), "base_margin": labels / 4}[what]
    if objective == "binary:logistic":
        labels = ranked(labels, 2)
    params = {"objective": objective, "max_depth": 4}
    ours, theirs, *reports = both(params, rows, labels, info={what: info})
    assert_same_model(ours, theirs)
    assert_same_reports(*reports)
    predicted = [
        booster.predict(library.DMatrix(rows, **{what: info}))
        for booster, library in zip((ours, theirs), LIBRARIES, strict=True)
    ]
    np.testing.assert_allclose(*predicted, rtol=1e-5, atol=1e-6)


def test_custom_objective_and_metric_equal_xgboosts():
    def furthest(predictions, data):
        return "furthest", float(np.abs(predictions - data.get_label()).max())

    rows, labels = few_values()
    ours, theirs, *reports = both(
        {"max_depth": 4}, rows, labels, obj=squared_gradients, custom_metric=furthest
    )
    assert_same_model(ours, theirs)
    assert_same_reports(*reports)
    assert list(reports[0]["train"]) == ["rmse", "furthest"]


def test_custom_multiclass_objective_equals_xgboosts():
    rows, labels = few_values()
    params = {"num_class": 3, "objective": "multi:softprob", "max_depth": 3}
    ours, theirs, *reports = both(
        params, rows, ranked(labels, 3), obj=softmax_gradients
    )
    assert_same_model(ours, theirs)
    assert_same_reports(*reports)


@examples(40)
@given(
    st.fixed_dictionaries(
        {
            "max_depth": st.integers(1, 5),
            "eta": st.sampled_from([0.1, 0.3, 1.0]),
            "lambda": st.sampled_from([0.0, 0.5, 1.0, 10.0]),
            "alpha": st.sampled_from([0.0, 0.5, 3.0]),
            "gamma": st.sampled_from([0.01, 1.0, 10.0]),
            "min_child_weight": st.sampled_from([0.0, 1.0, 7.5]),
            "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
            "max_leaves": st.sampled_from([0, 2, 5, 12]),
            "num_parallel_tree": st.sampled_from([1, 2]),
        }
    ),
    st.sampled_from(["reg:squarederror", "binary:logistic", "multi:softprob"]),
    st.sampled_from([0.0, 0.1, 0.7]),
    st.integers(0, 2**31),
)
def test_trees_of_random_configurations_equal_xgboosts(
    params, objective, missing, seed
):
    rows, labels = few_values(300, 4, missing, seed)
    if objective == "multi:softprob":
        labels, params = ranked(labels, 3), {**params, "num_class": 3}
    elif objective == "binary:logistic":
        labels = ranked(labels, 2)
    # With unequal weights no two splits have the same gain by chance.
    weights = 1 + np.random.default_rng(seed).random(len(rows))
    params = {**params, "objective": objective}
    ours, theirs, *reports = both(params, rows, labels, 2, info={"weight": weights})
    assert_same_model(ours, theirs, params["lambda"])
    assert_same_reports(*reports)


def test_continued_training_equals_xgboosts():
    rows, labels = few_values(missing=0.1)
    boosters = []
    for library in LIBRARIES:
        data = library.DMatrix(rows, labels)
        first = library.train({"nthread": 1}, data, 2)
        boosters.append(
            library.train({"nthread": 1, "eta": 0.1}, data, 2, xgb_model=first)
        )
        assert first.num_boosted_rounds() == 2
    assert_same_model(*boosters)


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_training_continues_from_xgboosts_models(objective):
    rows, labels = few_values(missing=0.1)
    params = {"objective": objective, "nthread": 1, "max_depth": 3}
    if objective == "multi:softprob":
        labels, params = ranked(labels, 3), {**params, "num_class": 3}
    theirs = xgboost.DMatrix(rows, labels)
    first = xgboost.train(params, theirs, 2)
    data = hornbeam.DMatrix(rows, labels)
    ours = hornbeam.train(params, data, 2, xgb_model=first.save_raw())
    assert_same_model(ours, xgboost.train(params, theirs, 2, xgb_model=first))


def test_training_continues_from_xgboosts_models_on_decimals():
    """float32 cannot represent tenths, and XGBoost rounds features and thresholds."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 50, size=(1000, 3)) / 10
    labels = np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2]
    params, theirs = {"nthread": 1}, xgboost.DMatrix(rows, labels)
    first = xgboost.train(params, theirs, 2)
    data = hornbeam.DMatrix(rows, labels)
    ours = hornbeam.train(params, data, 4, xgb_model=first.save_raw())
    np.testing.assert_array_equal(
        ours.predict(data), as_xgboost(ours, "ubj").predict(theirs)
    )
    errors = ours.predict(data) - labels
    reported = float(ours.eval(data).rpartition(":")[2])
    assert reported == pytest.approx(np.sqrt(np.square(errors).mean()), rel=1e-5)
    half = hornbeam.train(params, data, 2, xgb_model=first.save_raw())
    both = hornbeam.train(params, data, 2, xgb_model=half.save_raw())
    assert both.digest() == ours.digest()


# --- Files and predictions ------------------------------------------------------------

MODELS = {
    "reg:squarederror": {},
    "binary:logistic": {},
    "binary:logitraw": {},
    "reg:logistic": {"base_score": 0.3},
    "multi:softprob": {"num_class": 3},
    "multi:softmax": {"num_class": 3, "num_parallel_tree": 2, "subsample": 0.7},
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    """Return a booster trained on many distinct values, and its training rows."""
    rng = np.random.default_rng(1)
    rows, labels = few_values(700, missing=0.1)
    rows += rng.normal(scale=1e-3, size=rows.shape).astype(np.float32)
    objective = request.param
    if objective != "reg:squarederror":
        labels = labels_for(objective, labels)
    params = {"objective": objective, **MODELS[objective]}
    data = hornbeam.DMatrix(rows, labels, feature_names=NAMES)
    return hornbeam.train(params, data, 12), rows


def as_xgboost(booster, kind):
    theirs = xgboost.Booster({"nthread": 1})
    theirs.load_model(bytearray(booster.save_raw(kind)))
    return theirs


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_xgboost_predicts_the_same_from_hornbeams_files(model, kind):
    ours, rows = model
    theirs = as_xgboost(ours, kind)
    data = hornbeam.DMatrix(rows, feature_names=NAMES)
    other = xgboost.DMatrix(rows, feature_names=NAMES)
    for arguments in (
        {"output_margin": True},
        {"pred_leaf": True},
        {"output_margin": True, "iteration_range": (3, 9)},
    ):
        np.testing.assert_array_equal(
            ours.predict(data, **arguments), theirs.predict(other, **arguments)
        )
    # The margins are equal, but the exponential functions differ.
    np.testing.assert_array_max_ulp(ours.predict(data), theirs.predict(other), 4)


def test_hornbeam_predicts_the_same_from_xgboosts_files(model):
    ours, rows = model
    raw = ours.save_raw("json")
    theirs = as_xgboost(ours, "json")
    back = hornbeam.Booster(model_file=bytes(theirs.save_raw("ubj")))
    data = hornbeam.DMatrix(rows, feature_names=NAMES)
    np.testing.assert_array_equal(back.predict(data), ours.predict(data))
    assert bytes(raw) == bytes(ours.save_raw("json"))
    # Values between two neighbouring float32 follow XGBoost's path.
    between = rows.astype(np.float64) * (1 + 2e-8)
    np.testing.assert_array_equal(
        back.predict(
            hornbeam.DMatrix(between, feature_names=NAMES), output_margin=True
        ),
        theirs.predict(
            xgboost.DMatrix(between, feature_names=NAMES), output_margin=True
        ),
    )


@pytest.mark.parametrize("kind", "weight gain cover total_gain total_cover".split())
def test_feature_importances_equal_xgboosts(model, kind):
    ours, _ = model
    scores = ours.get_score(importance_type=kind)
    others = as_xgboost(ours, "ubj").get_score(importance_type=kind)
    assert scores == pytest.approx(others, rel=1e-6)


def test_sliced_models_predict_the_same(model):
    ours, rows = model
    theirs = as_xgboost(ours, "json")
    data = hornbeam.DMatrix(rows, feature_names=NAMES)
    other = xgboost.DMatrix(rows, feature_names=NAMES)
    for part in (slice(None, 5), slice(2, 10, 2), slice(7, None), 3):
        np.testing.assert_array_equal(
            ours[part].predict(data, output_margin=True),
            theirs[part].predict(other, output_margin=True),
        )
    assert [part.num_boosted_rounds() for part in ours] == [1] * 12


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("n_rows", [1, 40])
def test_prediction_shapes_equal_xgboosts(objective, rounds, parallel, n_rows):
    rows, labels = few_values(40, 3)
    params = {"objective": objective, "num_parallel_tree": parallel, "nthread": 1}
    if objective == "multi:softprob":
        labels, params["num_class"] = ranked(labels, 3), 3
    answers = []
    for library in LIBRARIES:
        booster = library.train(params, library.DMatrix(rows, labels), rounds)
        data = library.DMatrix(rows[:n_rows])
        shapes = {}
        for kind in ({}, {"output_margin": True}, {"pred_leaf": True}):
            for strict in (False, True):
                for end in {1, rounds}:
                    found = booster.predict(
                        data, strict_shape=strict, iteration_range=(0, end), **kind
                    )
                    shapes[str(kind), strict, end] = found.shape, found.dtype
        for strict in (False, True):
            found = booster.inplace_predict(rows[:n_rows], strict_shape=strict)
            shapes["in place", strict] = found.shape, found.dtype
        answers.append(shapes)
    assert answers[0] == answers[1]


# --- The loop of training -------------------------------------------------------------


def test_evaluation_lines_equal_xgboosts(capsys):
    rows, labels = few_values()
    lines = []
    for every in (True, 2):
        for library in LIBRARIES:
            data = library.DMatrix(rows, ranked(labels, 2))
            library.train(
                {"objective": "binary:logistic", "eval_metric": ["auc", "error@0.6"]},
                data,
                4,
                evals=[(data, "train"), (data, "again")],
                verbose_eval=every,
            )
            lines.append(capsys.readouterr().out)
    assert lines[0] == lines[1]
    assert lines[2] == lines[3]
    assert lines[0].startswith("[0]\ttrain-auc:0.")
    assert len(lines[0].splitlines()) == 4


def test_early_stopping_equals_xgboosts():
    rows, labels = few_values(600)
    ours, theirs, *reports = both(
        {"eta": 1.0},
        rows[:400],
        labels[:400],
        60,
        evals=(rows[400:], labels[400:]),
        early_stopping_rounds=4,
    )
    assert_same_reports(*reports)
    assert ours.best_iteration == theirs.best_iteration
    assert ours.best_score == pytest.approx(theirs.best_score, rel=1e-6)
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds() < 60
    assert set(ours.attributes()) == set(theirs.attributes())


def test_lines_of_eval_equal_xgboosts():
    rows, labels = few_values()
    lines = []
    for library in LIBRARIES:
        data = library.DMatrix(rows, labels)
        booster = library.Booster({"eval_metric": ["rmse", "mae"]}, [data])
        for number in range(3):
            booster.update(data, number)
        lines.append(booster.eval_set([(data, "a"), (data, "b")], 7))
        lines.append(booster.eval(data, "c", 8))
    for ours, theirs in zip(lines[:2], lines[2:], strict=True):
        for item, other in zip(ours.split("\t"), theirs.split("\t"), strict=True):
            name, _, value = item.rpartition(":")
            other_name, _, other_value = other.rpartition(":")
            assert name == other_name
            if name:
                assert float(value) == pytest.approx(float(other_value), rel=2e-6)
            else:
                assert item == other


def test_predictions_of_zero_rounds_equal_xgboosts():
    rows, labels = few_values(50, 3)
    for params in ({}, {"base_score": 2}):
        predicted = []
        for library in LIBRARIES:
            data = library.DMatrix(rows, labels, feature_names=list("abc"))
            booster = library.train(params, data, 0)
            assert booster.feature_names == list("abc")
            predicted.append(booster.predict(data))
        np.testing.assert_array_equal(*predicted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_decimal_values_follow_the_same_path_in_every_type(dtype):
    """float32 cannot represent most tenths, and the thresholds are tenths."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 300, (3000, 4)) / 10
    labels = rows[:, 0] * np.sin(rows[:, 1]) + rng.normal(size=3000)
    booster = hornbeam.train({}, hornbeam.DMatrix(rows.astype(dtype), labels), 5)
    assert booster.model.exact_features == (dtype is np.float64)
    here = booster.inplace_predict(rows)
    np.testing.assert_array_equal(
        booster.inplace_predict(rows.astype(np.float32)), here
    )
    there = xgboost.Booster(model_file=booster.save_raw())
    np.testing.assert_array_equal(there.inplace_predict(rows), here)
