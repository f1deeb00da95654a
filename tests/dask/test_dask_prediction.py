"""Predictions of Dask collections: values of one table, types of xgboost.dask."""

import os
import signal

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import process_of
from dask import delayed
from selection import half_slow

import hornbeam
from hornbeam import Booster, DataError, DMatrix, NotTrainedError, ParameterError
from hornbeam.dask import DaskDMatrix, inplace_predict, predict

ROWS = 120
QUIET = {"verbose_eval": False}


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(ROWS, 4)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.fixture(scope="module", params=["binary", "classes"])
def booster(request, x):
    y = np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1])
    if request.param == "binary":
        return hornbeam.train(
            {"objective": "binary:logistic"}, DMatrix(x, y > 0), 4, **QUIET
        )
    params = {"objective": "multi:softprob", "num_class": 3}
    return hornbeam.train(params, DMatrix(x, np.digitize(y, [-1, 1])), 4, **QUIET)


KINDS = {
    "value": {},
    "margin": {"output_margin": True},
    "leaf": {"pred_leaf": True},
    "strict": {"strict_shape": True},
    "strict leaf": {"pred_leaf": True, "strict_shape": True},
    "rounds": {"iteration_range": (1, 3)},
    "contributions": {"pred_contribs": True},
    "interactions": {"pred_interactions": True},
}


def assert_same(lazy, expected):
    assert lazy.shape == expected.shape and lazy.dtype == expected.dtype
    got = lazy.compute()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", half_slow(KINDS, pytest.mark.slow))
def test_an_array_and_a_matrix_become_arrays(client, booster, x, kind):
    collection = da.from_array(x, chunks=(50, 3))
    expected = booster.predict(DMatrix(x), **KINDS[kind])
    lazy = predict(client, booster, collection, **KINDS[kind])
    assert isinstance(lazy, da.Array) and lazy.chunks[0] == (50, 50, 20)
    assert_same(lazy, expected)
    matrix = DaskDMatrix(client, collection)
    assert_same(predict(client, booster, matrix, **KINDS[kind]), expected)


def test_a_dataframe_becomes_a_series_or_a_dataframe(client, booster, x):
    frame = pd.DataFrame(x, index=np.arange(ROWS) * 2)
    collection = dd.from_pandas(frame, npartitions=3)
    expected = booster.predict(DMatrix(x))
    for lazy in (
        predict(client, booster, collection),
        inplace_predict(client, booster, collection),
    ):
        kind = dd.Series if expected.ndim == 1 else dd.DataFrame
        assert isinstance(lazy, kind)
        got = lazy.compute()
        assert (got.index == frame.index).all()
        np.testing.assert_array_equal(got, expected)
        assert (got.dtypes == np.float32).all() if expected.ndim == 2 else got.dtype
    with pytest.raises(DataError, match=r"which a dask\.dataframe does not support"):
        predict(client, booster, collection, pred_leaf=True, strict_shape=True)


def test_models_as_dict_booster_and_future(client, booster, x):
    collection = da.from_array(x, chunks=(50, 4))
    expected = booster.predict(DMatrix(x))
    for model in ({"booster": booster, "history": {}}, client.scatter(booster)):
        assert_same(predict(client, model, collection), expected)
        assert_same(inplace_predict(client, model, collection), expected)
    with pytest.raises(ParameterError, match="model must be the dict"):
        predict(client, "model.ubj", collection)
    with pytest.raises(ParameterError, match="the future of a model is str"):
        predict(client, client.submit(str, 1), collection)
    with pytest.raises(ParameterError, match='model has no "booster"'):
        predict(client, {}, collection)
    with pytest.raises(NotTrainedError, match="neither been trained nor loaded"):
        predict(client, Booster(), collection)


@pytest.mark.parametrize("chunks", [40, 50])
def test_base_margins(client, booster, x, chunks):
    outputs = booster.model.n_outputs
    margin = np.random.default_rng(6).normal(size=(ROWS, outputs))
    margin = margin[:, 0] if outputs == 1 else margin
    collection = da.from_array(x, chunks=(50, 4))
    given = da.from_array(margin, chunks=chunks)
    expected = booster.inplace_predict(x, base_margin=margin)
    lazy = inplace_predict(client, booster, collection, base_margin=given)
    assert_same(lazy, expected)
    matrix = DaskDMatrix(client, collection, base_margin=given)
    assert_same(predict(client, booster, matrix), expected)
    frame = dd.from_dask_array(collection)
    if chunks == 50:
        lazy = inplace_predict(client, booster, frame, base_margin=given)
        np.testing.assert_array_equal(lazy.compute(), expected)
    lazy = inplace_predict(client, booster, collection, predict_type="margin")
    assert_same(lazy, booster.inplace_predict(x, predict_type="margin"))


def test_invalid_arguments(client, booster, x):
    collection = da.from_array(x, chunks=(50, 4))
    with pytest.raises(ParameterError, match="predict_type must be"):
        inplace_predict(client, booster, collection, predict_type="leaf")
    with pytest.raises(ParameterError, match="iteration_range"):
        predict(client, booster, collection, iteration_range=(3, 9))
    with pytest.raises(ParameterError, match="approx_contribs=True"):
        predict(client, booster, collection, approx_contribs=True)
    with pytest.raises(DataError, match="cannot predict numpy ndarray"):
        predict(client, booster, x)
    with pytest.raises(DataError, match="data has 1 dimensions"):
        predict(client, booster, collection[:, 0])
    with pytest.raises(DataError, match="base_margin has chunks"):
        inplace_predict(client, booster, collection, base_margin=da.ones(99))
    with pytest.raises(DataError, match="there are 4 columns in training"):
        predict(client, booster, collection[:, :3]).compute()


def test_categories_are_matched_by_name(client):
    rng = np.random.default_rng(8)
    kind = rng.choice(["u", "v", "w"], ROWS)
    frame = pd.DataFrame({"kind": pd.Categorical(kind), "x": rng.normal(size=ROWS)})
    label = pd.Series(frame["kind"].cat.codes + frame["x"])
    booster = hornbeam.train({}, DMatrix(frame, label), 3, **QUIET)
    expected = booster.predict(DMatrix(frame))
    parts = [
        frame[:50].assign(kind=kind[:50]),
        frame[50:].assign(kind=pd.Categorical(kind[50:], ["w", "v", "u"]))[
            ["x", "kind"]
        ],
    ]
    matrix = DaskDMatrix(client, [delayed(part) for part in parts])
    assert_same(predict(client, booster, matrix), expected)
    collection = dd.from_pandas(frame.assign(kind=kind), npartitions=2)
    np.testing.assert_array_equal(predict(client, booster, collection), expected)


def test_columns_that_are_not_features_are_ignored(client):
    frame = pd.DataFrame({"x": np.arange(6.0), "y": np.arange(6), "w": 1.0})
    matrix = DaskDMatrix(client, dd.from_pandas(frame, npartitions=2), "y", weight="w")
    booster = hornbeam.train({}, DMatrix(frame, "y", weight="w"), 2, **QUIET)
    expected = booster.predict(DMatrix(frame[["x"]]))
    assert_same(predict(client, booster, matrix), expected)


def test_unknown_chunk_sizes(client, booster, x):
    collection = dd.from_pandas(pd.DataFrame(x), npartitions=3).to_dask_array()
    expected = booster.predict(DMatrix(x))
    lazy = predict(client, booster, collection)
    np.testing.assert_array_equal(lazy.compute(), expected)
    np.testing.assert_array_equal(
        predict(client, booster, DaskDMatrix(client, collection)).compute(), expected
    )


@pytest.mark.slow
def test_a_worker_that_dies_during_prediction(own_cluster, x):
    client = own_cluster(2)
    booster = hornbeam.train({}, DMatrix(x, np.nan_to_num(x[:, 0])), 4, **QUIET)
    expected = booster.predict(DMatrix(x))
    collection = da.from_array(x, chunks=(20, 4)).persist()
    matrix = DaskDMatrix(client, collection)
    lazy = predict(client, booster, collection)
    of_matrix = predict(client, booster, matrix)
    np.testing.assert_array_equal(lazy.compute(), expected)
    address = next(iter(client.scheduler_info()["workers"]))
    os.kill(process_of(client, address), signal.SIGKILL)
    assert_same(lazy, expected)
    assert_same(of_matrix, expected)
