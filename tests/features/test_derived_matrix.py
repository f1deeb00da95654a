"""Models of matrices with derived features: training, prediction, files, folds."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import xgboost
from derived_data import FORMULAS, frame, matrix
from scipy.sparse import csr_matrix

import hornbeam
from hornbeam.errors import DataError, ErrorCode, ModelFileError, ParameterError
from hornbeam.features.matrix import derive

PARAMS = {"learning_rate": 0.3, "max_depth": 4, "nthread": 2}


@pytest.fixture(scope="module")
def booster():
    return hornbeam.train(PARAMS, derive(matrix(1500), FORMULAS, replaced=["c"]), 12)


def rmse(booster, data):
    return float(np.sqrt(np.mean((booster.predict(data) - data.labels) ** 2)))


def test_formulas_help_where_the_label_has_them(booster):
    test = matrix(800, seed=1)
    without = hornbeam.train(PARAMS, matrix(1500), 12)
    assert rmse(booster, test) < 0.8 * rmse(without, test)
    gains = booster.get_score(importance_type="total_gain")
    assert {"a * b", "mean(label | c)"} <= gains.keys()
    assert "c" not in gains  # it is replaced
    assert "a * b<" in booster.get_dump()[0] + booster.get_dump()[1]


def test_every_way_to_predict_takes_the_columns_of_the_data(booster):
    test = matrix(300, seed=1)
    X, labels = frame(300, seed=1)
    expected = booster.predict(test)
    np.testing.assert_array_equal(booster.inplace_predict(X), expected)
    other = X[["c", "b", "a"]]
    np.testing.assert_array_equal(booster.inplace_predict(other), expected)
    np.testing.assert_array_equal(booster.predict(hornbeam.DMatrix(other)), expected)
    assert booster.predict(test, pred_leaf=True).shape == (300, 12)
    shap = booster.predict(test, pred_contribs=True)
    assert shap.shape == (300, 3 + len(FORMULAS) + 1)
    np.testing.assert_allclose(shap.sum(axis=1), expected, atol=1e-4)
    log = {}
    hornbeam.train(
        PARAMS,
        derive(matrix(1500), FORMULAS, replaced=["c"]),
        12,
        evals=[(hornbeam.DMatrix(X, labels), "test")],
        evals_result=log,
        verbose_eval=False,
    )
    np.testing.assert_allclose(log["test"]["rmse"][-1], rmse(booster, test), rtol=1e-6)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_files_keep_the_formulas_and_xgboost_passes_over_them(
    booster, suffix, tmp_path
):
    test, path = matrix(300, seed=1), tmp_path / f"model.{suffix}"
    booster.save_model(path)
    loaded = hornbeam.Booster(model_file=path)
    np.testing.assert_array_equal(loaded.predict(test), booster.predict(test))
    assert loaded.digest() == booster.digest()
    theirs = xgboost.Booster(model_file=path)
    assert theirs.feature_names == ["a", "b", "c", *FORMULAS]
    aligned = booster.aligned(test)
    data = xgboost.DMatrix(
        aligned.rows(0, 300),
        feature_names=theirs.feature_names,
        feature_types=theirs.feature_types,
        enable_categorical=True,
    )
    np.testing.assert_allclose(theirs.predict(data), booster.predict(test), rtol=1e-5)


def test_copies_and_pickles_predict_the_same(booster):
    test = matrix(300, seed=1)
    expected = booster.predict(test)
    for copy in (booster.copy(), pickle.loads(pickle.dumps(booster)), booster[:12]):
        np.testing.assert_array_equal(copy.predict(test), expected)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_model_does_not_depend_on_the_threads(threads):
    one, many = (
        hornbeam.train(
            {**PARAMS, "nthread": n}, derive(matrix(3000), FORMULAS, seed=5), 4
        )
        for n in (1, threads)
    )
    assert one.digest() == many.digest()


def test_arrays_without_names():
    X, labels = frame(600)
    array = X[["a", "b"]].to_numpy(np.float32)
    model = hornbeam.train(PARAMS, derive(hornbeam.DMatrix(array, labels), ["f0 * f1"]))
    assert model.feature_names == ["f0", "f1", "f0 * f1"]
    named = pd.DataFrame(array, columns=["left", "right"])
    expected = model.inplace_predict(array)
    np.testing.assert_array_equal(model.inplace_predict(named), expected)
    np.testing.assert_array_equal(model.predict(hornbeam.DMatrix(array)), expected)


def test_numbers_are_rounded_as_those_of_training():
    X, labels = frame(600)
    single = X[["a", "b"]].to_numpy(np.float32)
    model = hornbeam.train(
        PARAMS, derive(hornbeam.DMatrix(single, labels), ["f0 - f1"])
    )
    double = single.astype(np.float64) * (1 + 1e-9)
    np.testing.assert_array_equal(
        model.inplace_predict(double), model.inplace_predict(single)
    )


def test_new_categories_have_the_prior_or_are_an_error(booster):
    X, _ = frame(50, seed=1)
    X["c"] = pd.Categorical(["new"] * 50)
    with pytest.raises(DataError, match="'new'"):
        booster.inplace_predict(X)
    data = derive(matrix(1500), ["mean(label | c)"], replaced=["a", "b", "c"])
    lenient = hornbeam.train({**PARAMS, "unseen": "missing"}, data, 5)
    found = lenient.inplace_predict(X)
    missing = X.assign(c=pd.Categorical([None] * 50, ["level 00"]))
    np.testing.assert_array_equal(found, lenient.inplace_predict(missing))


def test_codes_beyond_those_of_training_have_the_prior():
    rng = np.random.default_rng(0)
    codes = rng.integers(6, size=400).astype(float)
    data = hornbeam.DMatrix(
        codes[:, np.newaxis], codes + rng.normal(size=400), feature_types=["c"]
    )
    model = hornbeam.train(
        PARAMS, derive(data, ["mean(label | f0)"], replaced=["f0"]), 5
    )
    test = hornbeam.DMatrix(np.array([[99.0], [2.0]]), feature_types=["c"])
    prior = float(np.mean(data.labels))
    aligned = model.aligned(test)
    assert aligned.rows(0, 2)[0, 1] == pytest.approx(prior, rel=1e-6)


def test_one_row_a_level_is_no_leak():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(np.arange(400)), "x": rng.normal(size=400)})
    labels = rng.normal(size=400)
    data = derive(hornbeam.DMatrix(X, labels), ["mean(label | c)"], replaced=["c"])
    np.testing.assert_allclose(data.table.column(2), labels.mean(), rtol=1e-5)


def test_folds_derive_features_from_their_training_rows_alone():
    rng = np.random.default_rng(0)
    codes = rng.integers(150, size=600)
    X = pd.DataFrame({"c": pd.Categorical(codes)})
    noise = hornbeam.DMatrix(X, rng.normal(size=600))
    data = derive(noise, ["mean(label | c)"], replaced=["c"])
    scores = hornbeam.cv(PARAMS, data, 10, nfold=3, as_pandas=False)
    # Nothing can be learnt; means of all rows would tell a part of the test labels.
    assert scores["test-rmse-mean"][-1] > 0.99 * np.std(noise.labels)


def test_folds_of_exact_trees():
    X, _ = frame(400)
    X = X[["a", "b"]].fillna(0.0)
    data = derive(hornbeam.DMatrix(X, X["a"] * X["b"]), ["a * b"])
    params = {**PARAMS, "tree_method": "exact"}
    scores = hornbeam.cv(params, data, 10, nfold=3, as_pandas=False)
    assert scores["test-rmse-mean"][-1] < 0.3 * np.std(data.labels)


def test_a_slice_has_the_values_of_its_rows():
    data = derive(matrix(200), FORMULAS)
    part = data.slice([5, 3, 100])
    expected = data.rows(0, 200)[[5, 3, 100]]
    np.testing.assert_array_equal(part.rows(0, 3), expected)
    assert part.derived == data.derived


def test_feature_weights_of_derived_columns_are_one():
    data = matrix(300, feature_weights=[1e-12, 1e-12, 1e-12])
    params = {**PARAMS, "colsample_bytree": 0.2}
    model = hornbeam.train(params, derive(data, ["a * b"]), 5)
    assert model.get_score().keys() == {"a * b"}


def test_the_average_of_models_has_the_formulas_of_all():
    parts = [
        hornbeam.train(
            {**PARAMS, "base_score": 0.0}, derive(matrix(500, seed), FORMULAS), 4
        )
        for seed in (1, 2, 3)
    ]
    test = matrix(200, seed=9)
    whole = hornbeam.average(parts)
    mean = np.mean([part.predict(test) for part in parts], axis=0)
    np.testing.assert_allclose(whole.predict(test), mean, rtol=1e-4, atol=1e-5)
    again = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(again.predict(test), whole.predict(test))
    assert "mean(label | c) (3)" in whole.feature_names
    with pytest.raises(ParameterError, match="derived"):
        hornbeam.merge(parts)


def test_the_shares_of_classes():
    X, labels = frame(900)
    classes = np.digitize(labels, [-1.0, 1.0])
    data = hornbeam.DMatrix(X, classes)
    formulas = ["mean(label = 1 | c)", "mean(label = 2 | c)"]
    derived = derive(data, formulas)
    shares = [formula.means.values for formula in derived.derived.formulas]
    last = classes[(X["c"] == "level 11").to_numpy()]
    expected = [
        (np.sum(last == k) + np.mean(classes == k)) / (len(last) + 1) for k in (1, 2)
    ]
    np.testing.assert_allclose([share[11] for share in shares], expected)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: hornbeam.QuantileDMatrix(*frame(60)), "bins"),
        (lambda: hornbeam.DMatrix(csr_matrix(np.eye(60)), np.arange(60)), "sparse"),
        (lambda: derive(matrix(60), ["a - b"]), "already"),
    ],
)
def test_matrices_that_features_cannot_be_derived_from(data, message):
    with pytest.raises(DataError, match=message) as error:
        derive(data(), ["a - b"])
    assert error.value.code is ErrorCode.UNSUPPORTED_COMBINATION


def test_external_memory_is_an_error(tmp_path):
    data = matrix(60, cache=tmp_path)
    with pytest.raises(DataError, match="external memory"):
        derive(data, ["a - b"])


def test_invalid_requests():
    data = matrix(60)
    for formulas in ([], ["a - b", "a - b"]):
        with pytest.raises(ParameterError):
            derive(data, formulas)
    with pytest.raises(ParameterError, match="'q'"):
        derive(data, ["a - b"], replaced=["q"])
    X, labels = frame(60)
    taken = hornbeam.DMatrix(X.rename(columns={"b": "a - c"}).assign(c=X.b), labels)
    with pytest.raises(ParameterError, match="already"):
        derive(taken, ["a - c"])
    with pytest.raises(DataError, match="label"):
        derive(hornbeam.DMatrix(X), ["mean(label | c)"])
    with pytest.raises(DataError, match="saved"):
        derive(data, ["a - b"]).save_binary("unused")


def test_other_derived_features_than_those_of_the_model_are_an_error(booster):
    with pytest.raises(DataError, match="derived") as error:
        booster.predict(derive(matrix(60), ["a - b"]))
    assert error.value.code is ErrorCode.DERIVED_FEATURES_MISMATCH
    with pytest.raises(DataError, match="bins"):
        booster.predict(hornbeam.QuantileDMatrix(*frame(60)))


def edited(booster, change):
    """Return a model file whose derived features were changed, with no checksum."""
    document = json.loads(booster.save_raw("json"))
    param = document["learner"]["gradient_booster"]["model"]["gbtree_model_param"]
    extension = json.loads(param["hornbeam"])
    change(extension["derived"])
    param["hornbeam"] = json.dumps(extension)
    return json.dumps(document).encode()


def set_in(number, key, value):
    return lambda derived: derived["formulas"][number].__setitem__(key, value)


@pytest.mark.parametrize(
    "change",
    [
        set_in(0, "numbers", [0, 3]),
        set_in(0, "numbers", [0]),
        set_in(0, "numbers", "a"),
        set_in(0, "kind", "+"),
        set_in(0, "more", 1),
        set_in(3, "categories", [7]),
        set_in(3, "categories", []),
        set_in(3, "sizes", [13]),
        set_in(3, "sizes", [14, 1]),
        set_in(4, "means", "1 2 3"),
        set_in(4, "means", " ".join(["inf"] * 14)),
        set_in(4, "means", " ".join(["x"] * 14)),
        set_in(4, "label", -1),
        lambda derived: derived.update(named=1),
        lambda derived: derived.update(formulas=[]),
        lambda derived: derived.update(formulas=3),
        lambda derived: derived.update(formulas=[None] * 5),
        lambda derived: derived["formulas"].extend(derived["formulas"]),
        set_in(4, "means", " ".join(["0.5"] * 14)),  # the checksum
    ],
)
def test_a_file_with_broken_formulas_is_an_error(booster, change):
    with pytest.raises(ModelFileError):
        hornbeam.Booster(model_file=edited(booster, change))


def test_formulas_of_a_linear_model(tmp_path):
    X, labels = frame(300)
    data = derive(hornbeam.DMatrix(X[["a", "b"]], labels), ["a - b"])
    model = hornbeam.train({"booster": "gblinear"}, data, 5)
    model.save_model(tmp_path / "linear.json")
    loaded = hornbeam.Booster(model_file=tmp_path / "linear.json")
    test = hornbeam.DMatrix(X[["a", "b"]])
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
