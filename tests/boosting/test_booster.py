"""Booster: prediction, slices, copies, files, attributes and importances."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from samples import few_values, ranked, squared_gradients

import hornbeam
from hornbeam import Booster, DataError, DMatrix, NotTrainedError, ParameterError

NAMES = list("abcde")
ROWS, LABELS = few_values(400, 5, missing=0.1)


def train(params=None, rounds=6, labels=LABELS, **info):
    data = DMatrix(ROWS, labels, **info)
    return hornbeam.train(params or {}, data, rounds)


@pytest.fixture(scope="module")
def booster():
    return train({"max_depth": 4}, feature_names=NAMES)


@pytest.fixture(scope="module")
def classes():
    params = {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2}
    return train(params, labels=ranked(LABELS, 3))


def named(rows=ROWS, names=NAMES, **info):
    return DMatrix(rows, feature_names=names, **info)


# --- Prediction -----------------------------------------------------------------------


def walk(tree, row):
    node = 0
    while tree.left[node] >= 0:
        value = row[tree.feature[node]]
        left = (
            tree.default_left[node]
            if np.isnan(value)
            else (value < tree.threshold[node])
        )
        node = tree.left[node] if left else tree.right[node]
    return node


def test_margins_are_sums_of_leaf_values(booster):
    """Margins are float32 sums in the order of the trees."""
    model = booster.model
    leaves = booster.predict(named(), pred_leaf=True)
    expected = np.full(len(ROWS), model.base_score[0], np.float32)
    for number, tree in enumerate(model.trees):
        nodes = np.array([walk(tree, row) for row in ROWS])
        np.testing.assert_array_equal(leaves[:, number], nodes)
        expected += tree.value[nodes]
    np.testing.assert_array_equal(booster.predict(named()), expected)


def test_margins_are_transformed_to_predictions(classes):
    data = DMatrix(ROWS)
    margins = classes.predict(data, output_margin=True).astype(np.float64)
    odds = np.exp(margins - margins.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        classes.predict(data), odds / odds.sum(axis=1, keepdims=True), rtol=1e-6
    )
    hard = classes.copy()
    hard.set_param("objective", "multi:softmax")
    np.testing.assert_array_equal(hard.predict(data), margins.argmax(axis=1))
    np.testing.assert_array_equal(
        hard.predict(data, output_margin=True), margins.astype(np.float32)
    )
    logistic = train({"objective": "binary:logistic"}, labels=ranked(LABELS, 2))
    margins = logistic.predict(data, output_margin=True).astype(np.float64)
    np.testing.assert_allclose(
        logistic.predict(data), 1 / (1 + np.exp(-margins)), rtol=1e-6
    )


def test_margins_of_iteration_ranges_add_up(booster, classes):
    for model, data in ((booster, named()), (classes, DMatrix(ROWS))):
        base = model[:1].model.copy()
        start = model.objective.to_margin(base.base_score)
        parts = [
            model.predict(data, output_margin=True, iteration_range=(begin, begin + 2))
            - start
            for begin in (0, 2, 4)
        ]
        np.testing.assert_allclose(
            sum(parts) + start, model.predict(data, output_margin=True), atol=1e-5
        )
        np.testing.assert_array_equal(
            model.predict(data, iteration_range=(0, 0)), model.predict(data)
        )
        leaves = model.predict(data, pred_leaf=True, iteration_range=(2, 4))
        per_round = leaves.shape[1] // 2
        np.testing.assert_array_equal(
            leaves,
            model.predict(data, pred_leaf=True)[:, 2 * per_round : 4 * per_round],
        )


def test_pred_leaf_with_strict_shape(classes):
    leaves = classes.predict(DMatrix(ROWS), pred_leaf=True)
    strict = classes.predict(DMatrix(ROWS), pred_leaf=True, strict_shape=True)
    assert leaves.shape == (400, 36)
    assert strict.shape == (400, 6, 3, 2)
    np.testing.assert_array_equal(strict.reshape(400, 36), leaves)


def test_prediction_of_zero_rows(booster, classes):
    nothing = DMatrix(np.empty((0, 5)))
    shapes = {}
    for strict in (False, True):
        shapes[strict] = [
            model.predict(nothing, strict_shape=strict, pred_leaf=leaf).shape
            for model in (booster, classes)
            for leaf in (False, True)
        ]
    assert shapes[False] == [(0,), (0, 6), (0, 3), (0, 36)]
    assert shapes[True] == [(0, 1), (0, 6, 1, 1), (0, 3), (0, 6, 3, 2)]
    assert booster.inplace_predict(np.empty((0, 5))).shape == (0,)
    assert classes.inplace_predict(np.empty((0, 5))).shape == (0, 3)


IN_PLACE = {
    "array": lambda x: x,
    "column by column": np.asfortranarray,
    "doubles": lambda x: x.astype(np.float64),
    "big-endian": lambda x: x.astype(">f4"),
    "list": lambda x: x.tolist(),
    "frame": lambda x: pd.DataFrame(x, columns=NAMES),
    "one row": lambda x: x[:1],
}


@pytest.mark.parametrize("container", IN_PLACE)
def test_inplace_predict_equals_predict(booster, container):
    rows = IN_PLACE[container](ROWS)
    data = DMatrix(rows) if container == "frame" else named(rows)
    np.testing.assert_array_equal(booster.inplace_predict(rows), booster.predict(data))


def test_inplace_predict_has_the_options_of_predict(classes):
    data = DMatrix(ROWS)
    np.testing.assert_array_equal(
        classes.inplace_predict(
            ROWS, predict_type="margin", iteration_range=(1, 4), strict_shape=True
        ),
        classes.predict(data, output_margin=True, iteration_range=(1, 4)),
    )
    margins = np.random.default_rng(0).normal(size=(400, 3))
    np.testing.assert_array_equal(
        classes.inplace_predict(ROWS, base_margin=margins),
        classes.predict(DMatrix(ROWS, base_margin=margins)),
    )
    filled = np.nan_to_num(ROWS, nan=-999.0)
    np.testing.assert_array_equal(
        classes.inplace_predict(filled, missing=-999.0), classes.inplace_predict(ROWS)
    )


def test_predictions_of_sparse_rows(booster):
    present = np.nan_to_num(ROWS)
    sparse = scipy.sparse.csr_array(present)
    np.testing.assert_array_equal(
        booster.inplace_predict(sparse), booster.inplace_predict(present, missing=0.0)
    )


def test_a_base_margin_replaces_the_base_score(booster):
    without = booster.predict(named(base_margin=np.zeros(400)))
    np.testing.assert_allclose(
        without + booster.model.base_score[0], booster.predict(named()), atol=1e-5
    )


def test_predictions_do_not_depend_on_blocks_and_threads():
    """Predictions are equal for all numbers of rows and threads."""
    rows, labels = few_values(70_000, 4)
    model = hornbeam.train({"max_depth": 4}, DMatrix(rows, labels), 8)
    whole = model.inplace_predict(rows)
    for threads in (1, 3):
        model.set_param({"nthread": threads})
        np.testing.assert_array_equal(model.inplace_predict(rows), whole)
    parts = [model.inplace_predict(rows[i : i + 999]) for i in range(0, 70_000, 999)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    leaves = model.predict(DMatrix(rows), pred_leaf=True)
    part = model.predict(DMatrix(rows[:999]), pred_leaf=True)
    np.testing.assert_array_equal(leaves[:999], part)


# --- Names of columns -----------------------------------------------------------------


def test_columns_are_matched_by_name(booster):
    expected = booster.predict(named())
    data = named(names=list("abcdx"))
    frame = pd.DataFrame(ROWS, columns=list("abcdx"))
    message = "not in training: 'x'; missing: 'e'"
    with pytest.raises(DataError, match=message):
        booster.predict(data)
    with pytest.raises(DataError, match=message):
        booster.inplace_predict(frame)
    np.testing.assert_array_equal(
        booster.predict(data, validate_features=False), expected
    )
    np.testing.assert_array_equal(
        booster.inplace_predict(frame, validate_features=False), expected
    )
    for validate in (True, False):
        with pytest.raises(DataError, match=r"5 columns.* has 4"):
            booster.predict(DMatrix(ROWS[:, :4]), validate_features=validate)
        with pytest.raises(DataError, match=r"5 columns.* has 4"):
            booster.inplace_predict(ROWS[:, :4], validate_features=validate)


def test_columns_may_come_in_any_order(booster):
    expected = booster.predict(named())
    order = [3, 0, 4, 2, 1]
    names = ["abcde"[k] for k in order]
    data = DMatrix(ROWS[:, order], feature_names=names)
    np.testing.assert_array_equal(booster.predict(data), expected)
    frame = pd.DataFrame(ROWS[:, order], columns=names)
    np.testing.assert_array_equal(booster.inplace_predict(frame), expected)
    for leaves in (True, False):
        np.testing.assert_array_equal(
            booster.predict(data, pred_leaf=leaves),
            booster.predict(named(), pred_leaf=leaves),
        )


def test_feature_names_and_types_are_those_of_training():
    frame = pd.DataFrame({"n": np.arange(50), "x": np.linspace(0, 1, 50)})
    model = hornbeam.train({}, DMatrix(frame, np.arange(50.0)), 2)
    assert model.feature_names == ["n", "x"]
    assert model.feature_types == ["int", "float"]
    assert model.num_features() == 2
    again = Booster(model_file=model.save_raw())
    assert (again.feature_names, again.feature_types) == (["n", "x"], ["int", "float"])
    model.feature_names = ["first", "second"]
    assert set(model.get_score()) <= {"first", "second"}
    with pytest.raises(DataError, match="1 entries for 2"):
        model.feature_names = ["first"]


# --- Parts and copies -----------------------------------------------------------------


def test_slices(booster):
    assert booster[2].num_boosted_rounds() == 1
    assert booster[-1].digest() == booster[5].digest()
    assert booster[-2:].digest() == booster[4:6].digest()
    assert booster[::2].num_boosted_rounds() == 3
    assert booster[1:99].digest() == booster[1:].digest()
    assert booster[:].digest() == booster.digest()
    assert [part.digest() for part in booster] == [
        booster[number].digest() for number in range(6)
    ]
    np.testing.assert_array_equal(
        booster[:4].predict(named()), booster.predict(named(), iteration_range=(0, 4))
    )


@pytest.mark.parametrize(
    ("rounds", "error"),
    [
        (6, IndexError),
        (-7, IndexError),
        (slice(3, 3), IndexError),
        (slice(None, None, -1), IndexError),
        ("a", TypeError),
        (1.5, TypeError),
    ],
)
def test_invalid_slices_raise_an_error(booster, rounds, error):
    with pytest.raises(error):
        booster[rounds]


def test_a_slice_can_be_trained_further():
    data = DMatrix(ROWS, LABELS)
    whole = hornbeam.train({}, data, 5)
    part = whole[:3]
    for number in range(2):
        part.update(data, number)
    assert part.digest() == whole.digest()
    assert whole.num_boosted_rounds() == 5


COPIES = {
    "copy": Booster.copy,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("way", COPIES)
def test_copies_are_independent(way):
    params = {"max_depth": 3, "eta": 0.2, "subsample": 0.8, "eval_metric": "mae"}
    data = DMatrix(ROWS, LABELS, feature_names=NAMES)
    original = hornbeam.train(params, data, 3)
    original.set_attr(note="first")
    digest = original.digest()
    other = COPIES[way](original)
    assert other.digest() == digest
    assert other.attributes() == {"note": "first"}
    assert other.params == original.params
    assert other.feature_names == NAMES
    other.update(data, 3)
    other.set_attr(note="second")
    assert original.digest() == digest
    original.update(data, 3)
    original.set_attr(note="second")
    assert original.digest() == other.digest()
    assert original.eval(data) == other.eval(data)
    assert "eval-mae" in other.eval(data)


def test_a_booster_in_training_can_be_pickled():
    data = DMatrix(ROWS, LABELS)
    model = Booster({"max_depth": 3}, [data])
    model.update(data, 0)
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        each.update(data, 1)
    assert model.digest() == other.digest()


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_model_files_round_trip(tmp_path, classes, kind):
    path = tmp_path / f"model.{kind}"
    classes.save_model(path)
    for source in (path, path.read_bytes(), bytearray(path.read_bytes())):
        loaded = Booster({"nthread": 1}, model_file=source)
        assert loaded.digest() == classes.digest()
        assert loaded.params.objective == "multi:softprob"
        assert loaded.params.num_class == 3
        assert loaded.params.num_parallel_tree == 2
        np.testing.assert_array_equal(
            loaded.predict(DMatrix(ROWS)), classes.predict(DMatrix(ROWS))
        )
        assert bytes(loaded.save_raw(kind)) == path.read_bytes()


def test_load_model_replaces_the_model(booster, classes):
    model = booster.copy()
    before = model.eval(DMatrix(ROWS, LABELS))
    model.load_model(classes.save_raw())
    assert model.digest() == classes.digest()
    assert model.predict(DMatrix(ROWS)).shape == (400, 3)
    assert before.startswith("[0]\teval-rmse:")
    assert "mlogloss" in model.eval(DMatrix(ROWS, ranked(LABELS, 3)))


def test_an_invalid_file_does_not_change_the_model(booster):
    model = booster.copy()
    with pytest.raises(hornbeam.ModelFileError):
        model.load_model(b"{}")
    assert model.digest() == booster.digest()


def test_a_booster_without_a_model_raises_errors():
    model = Booster()
    assert model.num_boosted_rounds() == model.num_features() == 0
    assert model.feature_names is model.feature_types is None
    assert model.get_score() == model.attributes() == {}
    for predict in (
        lambda: model.predict(DMatrix(ROWS)),
        lambda: model.inplace_predict(ROWS),
    ):
        with pytest.raises(NotTrainedError, match="train it, or use load_model"):
            predict()
    assert pickle.loads(pickle.dumps(model)).digest() == model.digest()


# --- Training by hand -----------------------------------------------------------------


def test_update_and_boost_equal_rounds_of_train():
    data = DMatrix(ROWS, LABELS)
    params = {"base_score": 0.5, "max_depth": 3}
    trained = hornbeam.train(params, data, 3)
    updated, given, boosted, both = (Booster(params, [data]) for _ in range(4))
    for number in range(3):
        updated.update(data, number)
        given.update(data, number, squared_gradients)
        margins = boosted.predict(data, output_margin=True)
        gradients, hessians = squared_gradients(margins, data)
        boosted.boost(data, number, grad=gradients, hess=hessians)
        both.boost(data, number, fobj=squared_gradients)
    assert updated.digest() == given.digest() == both.digest() == trained.digest()
    # Predicted margins are rounded to float32, training margins are not.
    np.testing.assert_allclose(boosted.predict(data), trained.predict(data), atol=1e-4)


def test_gradients_of_every_shape_and_type():
    data = DMatrix(ROWS)
    gradients = LABELS.astype(np.float32)
    digests = set()
    for convert in (np.asarray, list, pd.Series, lambda g: g[:, np.newaxis]):
        model = Booster({}, [data])
        model.boost(data, 0, grad=convert(gradients), hess=convert(np.ones(400)))
        digests.add(model.digest())
    assert len(digests) == 1


def test_alternating_training_matrices():
    """Rounds may use different matrices; margins are cached for each of them."""
    first, second = DMatrix(ROWS[:200], LABELS[:200]), DMatrix(ROWS[200:], LABELS[200:])
    kept = Booster({}, [first, second])
    fresh = Booster({}, [first, second])
    for number in range(4):
        data = (first, second)[number % 2]
        kept.update(data, number)
        fresh.update(data, number)
        fresh.reset()
    assert kept.digest() == fresh.digest()
    for data in (first, second):
        assert kept.eval(data) == fresh.eval(data)


def test_a_failed_round_does_not_change_the_model():
    """Growing fails at the tree of the second class."""
    params = {"objective": "multi:softprob", "num_class": 2, "eta": 1}
    data = DMatrix(ROWS, ranked(LABELS, 2))
    model, fresh = Booster(params, [data]), Booster(params, [data])
    gradients = np.stack([LABELS, LABELS], axis=1).astype(np.float64)
    for each in (model, fresh):
        each.boost(data, 0, grad=gradients, hess=np.ones((400, 2)))
    with pytest.raises(DataError, match="float32"):
        model.boost(data, 1, grad=gradients * [1, 1e300], hess=np.ones((400, 2)))
    assert model.eval(data) == fresh.eval(data)
    for each in (model, fresh):
        each.update(data, 1)
    assert model.digest() == fresh.digest()


def test_parameters_change_between_rounds():
    data = DMatrix(ROWS, LABELS)
    model = Booster({"eta": 1.0}, [data])
    model.update(data, 0)
    model.set_param("eta", 0.0)
    model.update(data, 1)
    model.set_param({"max_depth": 1, "eta": 0.5, "max_bin": 8})
    model.update(data, 2)
    trees = model.model.trees
    assert not trees[1].value.any() and trees[0].value.any()
    assert trees[2].n_nodes == 3
    assert model.params.max_bin == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"objective": "multi:softprob", "num_class": 3},
        {"objective": "reg:nothing"},
        {"num_parallel_tree": 2},
        {"base_score": 7.0},
        {"booster": "gblinear"},
        {"booster": "gblinear", "process_type": "update"},
        {"updater": "refresh"},
        {"rate_drop": 0.5},
        {"eval_metric": "nothing"},
        {"feature_selector": "greedy"},
        {"sketch_outputs": 2},
    ],
    ids=str,
)
def test_rejected_parameters_do_not_change_the_booster(wrong):
    data = DMatrix(ROWS, LABELS)
    model, twin = (Booster({"max_depth": 3}, [data]) for _ in range(2))
    for round_ in range(3):
        model.update(data, round_)
        twin.update(data, round_)
        before, line = model.save_raw(), model.eval(data)
        with pytest.raises(ParameterError):
            model.set_param({"learning_rate": 0.9, "max_depth": 1, **wrong})
        assert model.params == twin.params
        assert model.save_raw() == before
        assert model.eval(data) == line
    model.set_param("learning_rate", 0.2)
    twin.set_param("learning_rate", 0.2)
    model.update(data, 3)
    twin.update(data, 3)
    assert model.digest() == twin.digest()


def test_a_rejected_model_does_not_change_the_booster():
    data = DMatrix(ROWS, LABELS)
    linear = hornbeam.train({"booster": "gblinear"}, data, 1).save_raw()
    model = Booster({"process_type": "update"}, model_file=train().save_raw())
    model.update(data, 0)
    before = model.digest()
    with pytest.raises(ParameterError, match="has none"):
        model.load_model(linear)
    assert model.digest() == before
    model.update(data, 1)
    assert model.num_boosted_rounds() == 2


def test_sketch_outputs_with_one_output_continues_from_a_file():
    params = {"multi_strategy": "multi_output_tree", "sketch_outputs": 2}
    half = train(params, rounds=3).save_raw()
    whole = train(params, rounds=6)
    again = hornbeam.train(params, DMatrix(ROWS, LABELS), 3, xgb_model=half)
    assert again.digest() == whole.digest()


# --- Attributes and importances -------------------------------------------------------


def test_attributes(tmp_path, booster):
    model = booster.copy()
    model.set_attr(author="someone", note="ä")
    assert model.attr("author") == "someone"
    assert model.attr("none") is None
    model.save_model(tmp_path / "model.json")
    loaded = Booster(model_file=tmp_path / "model.json")
    assert loaded.attributes() == {"author": "someone", "note": "ä"}
    loaded.set_attr(author=None)
    assert loaded.attributes() == {"note": "ä"}
    with pytest.raises(ParameterError, match="must be a string, not int"):
        loaded.set_attr(number=3)
    with pytest.raises(AttributeError, match="early_stopping_rounds"):
        _ = loaded.best_iteration


def test_feature_importances(booster):
    weight = booster.get_score()
    assert weight == booster.get_score(importance_type="weight")
    assert sum(weight.values()) == sum(
        tree.n_leaves - 1 for tree in booster.model.trees
    )
    for kind in ("gain", "cover"):
        means = booster.get_score(importance_type=kind)
        totals = booster.get_score(importance_type=f"total_{kind}")
        assert set(means) == set(totals) == set(weight) <= set(NAMES)
        for name, mean in means.items():
            assert mean * weight[name] == pytest.approx(totals[name])
    unnamed = train().get_score()
    assert set(unnamed) <= {f"f{i}" for i in range(5)}
    assert train(rounds=0).get_score() == {}
    with pytest.raises(ParameterError, match="importance_type must be one of weight"):
        booster.get_score(importance_type="gian")


def test_verbosity(capsys):
    rng = np.random.default_rng(0)
    data = hornbeam.DMatrix(rng.normal(size=(50, 2)), np.zeros(50))
    params = {"objective": "binary:logistic", "eval_metric": "auc", "max_depth": 2}
    with pytest.warns(UserWarning, match="auc is nan"):
        hornbeam.train(params, data, 1, evals=[(data, "data")], verbose_eval=False)
    assert capsys.readouterr() == ("", "")
    quiet = {**params, "verbosity": 0}
    hornbeam.train(quiet, data, 1, evals=[(data, "data")], verbose_eval=False)
    hornbeam.train({**quiet, "verbosity": 2}, data, 2, verbose_eval=False)
    assert capsys.readouterr() == (
        "",
        "round 1: 1 leaves deep 0\nround 2: 1 leaves deep 0\n",
    )
