"""Categories in training and prediction are matched by name, not by code."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import hornbeam
from hornbeam import Booster, DataError, DMatrix, HornbeamRegressor, QuantileDMatrix

PARAMETERS = {"max_depth": 4, "learning_rate": 0.5}


def table(n_rows=600, seed=0):
    """Return a data frame with text, categorical and numerical columns, and labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Ulm", "Bonn", "Kiel", None], n_rows),
            "shop": rng.integers(40, size=n_rows).astype(str),
            "size": rng.normal(size=n_rows).round(1),
        }
    )
    labels = 2.0 * (frame.town == "Ulm") + frame.shop.astype(int) % 7 + frame["size"]
    return frame, labels.to_numpy()


FRAME, LABELS = table()


@pytest.fixture(scope="module")
def booster():
    return hornbeam.train(PARAMETERS, DMatrix(FRAME, LABELS), 8)


def test_models_store_category_names(booster, tmp_path):
    assert booster.feature_types == ["c", "c", "float"]
    assert booster.get_categories().of(0).tolist() == ["Bonn", "Kiel", "Ulm"]
    path = tmp_path / "model.ubj"
    booster.save_model(path)
    loaded = Booster(model_file=path)
    assert loaded.get_categories() == booster.get_categories()
    assert loaded.digest() == booster.digest()
    np.testing.assert_array_equal(
        loaded.inplace_predict(FRAME), booster.predict(DMatrix(FRAME))
    )


def test_categories_are_matched_by_name_not_by_code(booster):
    expected = booster.inplace_predict(FRAME)
    turned = FRAME[["size", "shop", "town"]].copy()
    turned["town"] = pd.Categorical(turned.town, ["Paris", "Ulm", "Kiel", "Bonn"])
    for data in (turned, pl.from_pandas(FRAME), pl.from_pandas(FRAME).to_arrow()):
        np.testing.assert_array_equal(booster.inplace_predict(data), expected)
        np.testing.assert_array_equal(booster.predict(DMatrix(data)), expected)
    few = FRAME[FRAME.town == "Kiel"]
    np.testing.assert_array_equal(
        booster.inplace_predict(few), expected[FRAME.town == "Kiel"]
    )


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_evaluation_and_continued_training_match_names(booster, kind):
    turned = FRAME[["size", "shop", "town"]].copy()
    turned["town"] = pd.Categorical(turned.town, ["Ulm", "Kiel", "Bonn"])
    data = DMatrix(FRAME, LABELS)
    # A quantile matrix keeps its own codes unless it has a reference matrix.
    other = kind(turned, LABELS, **({"ref": data} if kind is QuantileDMatrix else {}))
    history = {}
    evals = [(data, "same"), (other, "other")]
    hornbeam.train(PARAMETERS, data, 3, evals=evals, evals_result=history)
    assert history["same"] == history["other"]
    digests = {
        hornbeam.train(PARAMETERS, each, 3, xgb_model=booster).digest()
        for each in (data, other)
    }
    assert len(digests) == 1


def test_unseen_categories(booster, tmp_path):
    new = pd.DataFrame({"town": ["Ulm", "Oslo"], "shop": ["1", "2"], "size": [0, 0]})
    absent = new.assign(town=["Ulm", None])
    with pytest.raises(DataError, match=r"row 1 of column 'town'.*'Oslo'"):
        booster.inplace_predict(new)
    with pytest.raises(DataError, match=r"row 1 of column 'town'.*'Oslo'"):
        booster.eval(DMatrix(new, [0, 0]))
    lenient = booster.copy()
    lenient.set_param("unseen", "missing")
    path = tmp_path / "model.json"
    lenient.save_model(path)
    for model in (lenient, Booster(model_file=path)):
        np.testing.assert_array_equal(
            model.inplace_predict(new), booster.inplace_predict(absent)
        )


def test_a_binned_validation_set_may_have_unseen_categories():
    train, labels = DMatrix(FRAME, LABELS), LABELS[:50]
    new = FRAME[:50].assign(town="Oslo")
    with pytest.raises(DataError, match="'Oslo'"):
        QuantileDMatrix(new, labels, ref=train)
    history = {}
    evals = [
        (QuantileDMatrix(new, labels, ref=train, unseen="missing"), "unseen"),
        (QuantileDMatrix(new.assign(town=None), labels, ref=train), "missing"),
    ]
    hornbeam.train(PARAMETERS, train, 3, evals=evals, evals_result=history)
    assert history["unseen"] == history["missing"]


def test_numerical_and_categorical_columns_are_not_interchangeable(booster):
    wrong = FRAME.assign(town=1.0, size="small", colour="red").drop(columns="shop")
    for kind in ("missing: 'shop'", "'colour'", "'town'", "'size'"):
        with pytest.raises(DataError, match=kind):
            booster.inplace_predict(wrong)


def test_the_model_does_not_depend_on_the_number_of_threads():
    data = QuantileDMatrix(FRAME, LABELS)
    for more in ({}, {"grow_policy": "lossguide", "max_leaves": 9, "subsample": 0.6}):
        digests = {
            hornbeam.train({**PARAMETERS, **more, "nthread": n}, data, 4).digest()
            for n in (1, 2, 3, 7)
        }
        assert len(digests) == 1


def test_estimators_accept_text_columns():
    model = HornbeamRegressor(n_estimators=8, max_depth=4, learning_rate=0.5)
    model.fit(FRAME, LABELS)
    assert model.score(FRAME, LABELS) > 0.95
    with pytest.raises(DataError, match="Oslo"):
        model.predict(FRAME.assign(town="Oslo"))
    model.set_params(unseen="missing").fit(FRAME, LABELS)
    assert np.isfinite(model.predict(FRAME.assign(town="Oslo"))).all()
    with pytest.raises(DataError, match="enable_categorical"):
        model.set_params(enable_categorical=False).fit(FRAME, LABELS)
