"""Dates on a cluster and in groups: parts are chosen from all partitions."""

from itertools import pairwise

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from group_processes import call_in_threads

import hornbeam
from hornbeam import DataError
from hornbeam.dask import (
    DaskDMatrix,
    DaskHornbeamRegressor,
    DaskQuantileDMatrix,
    inplace_predict,
    predict,
    train,
)
from hornbeam.distributed.group import join, leave
from hornbeam.distributed.tracker import Tracker
from hornbeam.errors import ErrorCode

ROWS = 900
PARAMS = {"max_depth": 3, "nthread": 1}
_random = np.random.default_rng(0)
# Of one month in a part of 300 rows, of three in all, and no times in the last part.
_times = pd.date_range("2023-03-01", periods=ROWS, freq="150min", tz="Europe/Rome")
FRAME = pd.DataFrame(
    {"when": _times, "x": _random.normal(size=ROWS), "level": np.arange(ROWS) % 3}
)
FRAME.loc[600:, "when"] = pd.NaT
FRAME["level"] = FRAME["level"].map({0: "u", 1: "v", 2: "w"}).astype("category")
Y = FRAME["when"].dt.hour.fillna(3).to_numpy() / 10 + FRAME["x"].to_numpy()
BOUNDS = [0, 300, 600, ROWS]
PARTS = [slice(*bounds) for bounds in pairwise(BOUNDS)]


def alone(**params):
    data = hornbeam.DMatrix(FRAME, Y, dates="expand")
    return hornbeam.train({**PARAMS, **params}, data, 5)


@pytest.fixture(scope="module")
def client():
    with Client(n_workers=2, threads_per_worker=1, processes=False) as found:
        yield found


def spread(values):
    return [dask.delayed(values[part]) for part in PARTS]


def matrix(client, kind=DaskDMatrix, frame=FRAME, y=Y, **options):
    """Return a matrix of partitions whose columns are in different orders."""
    parts = [dask.delayed(frame[part]) for part in PARTS]
    parts[1] = dask.delayed(frame[["level", "when", "x"]][PARTS[1]])
    return kind(client, parts, spread(y), dates="expand", **options)


@pytest.mark.parametrize("kind", [DaskDMatrix, DaskQuantileDMatrix])
@pytest.mark.parametrize("cached", [False, True])
def test_a_cluster_trains_the_model_of_one_machine(client, kind, cached, tmp_path):
    data = matrix(client, kind, **({"cache": tmp_path} if cached else {}))
    found = train(client, PARAMS, data, 5, evals=[(data, "train")], verbose_eval=False)
    booster = found["booster"]
    assert booster.digest() == alone().digest()
    assert "month(when)" in booster.feature_names
    assert "year(when)" not in booster.feature_names
    expected = booster.inplace_predict(FRAME)
    np.testing.assert_array_equal(predict(client, booster, data).compute(), expected)


def test_validation_rows_take_the_parts_of_training(client):
    # All of one hour, so that the parts that vary differ.
    other = FRAME.assign(when=FRAME["when"].dt.floor("D"))
    data, valid = matrix(client), matrix(client, frame=other)
    evals = [(valid, "valid")]
    found = train(client, PARAMS, data, 5, evals=evals, verbose_eval=False)
    expected = {}
    hornbeam.train(
        PARAMS,
        hornbeam.DMatrix(FRAME, Y, dates="expand"),
        5,
        evals=[(hornbeam.DMatrix(other, Y, dates="expand"), "valid")],
        evals_result=expected,
        verbose_eval=False,
    )
    assert found["history"] == expected


def test_frames_are_predicted_from_the_column_itself(client):
    import dask.dataframe as dd

    frame = dd.from_pandas(FRAME, npartitions=3, sort=False)
    booster = alone()
    expected = booster.inplace_predict(FRAME)
    for call in (predict, inplace_predict):
        found = call(client, booster, frame).compute()
        np.testing.assert_array_equal(found, expected)


def test_estimators_expand_dates_by_default(client):
    import dask.dataframe as dd

    frame = dd.from_pandas(FRAME.assign(y=Y), npartitions=3, sort=False)
    X, y = frame[list(FRAME.columns)], frame["y"]
    model = DaskHornbeamRegressor(n_estimators=5, max_depth=3)
    model.client = client
    model.fit(X, y)
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert "hour(when)" in model.get_booster().feature_names
    one = hornbeam.HornbeamRegressor(n_estimators=5, max_depth=3).fit(FRAME, Y)
    np.testing.assert_array_equal(model.predict(X).compute(), one.predict(FRAME))
    refusing = DaskHornbeamRegressor(n_estimators=5, dates="error")
    refusing.client = client
    with pytest.raises(DataError, match="neither numbers nor categories: 'when'"):
        refusing.fit(X, y)


def test_weights_of_columns(client):
    weights = [1.0, 5.0, 2.0]
    params = {**PARAMS, "colsample_bynode": 0.5}
    data = hornbeam.DMatrix(FRAME, Y, dates="expand", feature_weights=weights)
    expected = hornbeam.train(params, data, 5).digest()
    data = matrix(client, feature_weights=weights)
    assert train(client, params, data, 5)["booster"].digest() == expected


def test_times_of_several_zones_are_an_error(client):
    parts = [FRAME[part] for part in PARTS[:2]]
    parts[1] = parts[1].assign(when=parts[1]["when"].dt.tz_convert("UTC"))
    with pytest.raises(DataError, match="times of several zones in column") as error:
        DaskDMatrix(client, [dask.delayed(part) for part in parts], dates="expand")
    assert error.value.code is ErrorCode.PARTITION_COLUMNS_MISMATCH


@pytest.mark.parametrize("params", [{}, {"tree_method": "approx"}])
def test_groups_train_the_model_of_one_process(params):
    tracker = Tracker(3, "127.0.0.1", by_task=True)
    tracker.start()

    def fit(number):
        join(tracker.host, tracker.port, tracker.token, task=str(number))
        try:
            part = PARTS[number]
            data = hornbeam.DMatrix(FRAME[part], Y[part], dates="expand")
            chosen, options = {**PARAMS, **params}, {"verbose_eval": False}
            first = hornbeam.train(chosen, data, 5, evals=[(data, "train")], **options)
            return first.digest(), hornbeam.train(chosen, data, 5).digest()
        finally:
            leave()

    expected = alone(**params).digest()
    assert call_in_threads(fit, 3) == [(expected, expected)] * 3
    tracker.close("the test has ended")
