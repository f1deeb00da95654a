"""Columns of dates and times on Spark: the model of one machine."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.functions import expr

import hornbeam
from hornbeam.errors import ErrorCode
from hornbeam.spark import HornbeamClassifier, HornbeamRegressor, HornbeamRegressorModel
from hornbeam.xgboost.spark import SparkXGBRegressor

NAMES = ["when", "day", "plain", "span", "x"]
OPTIONS = {"features_col": NAMES, "label_col": "y", "n_estimators": 4, "max_depth": 3}
QUIET = {"verbose": False, "num_workers": 2}


@pytest.fixture
def frame(spark):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Rome")
    found = spark.range(600, numPartitions=3).selectExpr(
        "id",
        # Missing in the last partition, and of one month in the others.
        "if(id < 400, timestamp_seconds(1677650000 + id * 7200), NULL) AS `when`",
        "date_add(DATE'2020-02-27', int(id % 9)) AS day",
        "TIMESTAMP_NTZ'2021-01-01 00:00:00' + make_dt_interval(0, int(id)) AS plain",
        "make_dt_interval(0, 0, int(id % 50)) AS span",
        "rand(0) AS x",
        "id % 2 = 0 AS held",
    )
    found = found.withColumn("y", expr("x + coalesce(hour(`when`), 3) / 10")).cache()
    yield found
    spark.conf.unset("spark.sql.session.timeZone")


def on_one_machine(frame):
    """Return the rows with timestamps on the clock of the session, not on UTC's."""
    rows = frame.sort("id").toArrow()
    when = rows["when"].cast(pa.timestamp("us", "Europe/Rome"))
    return rows.set_column(rows.column_names.index("when"), "when", when)


def alone(frame, **params):
    rows = on_one_machine(frame)
    data = hornbeam.DMatrix(
        rows.select(NAMES), rows["y"], row_key=rows["id"], dates="expand"
    )
    return hornbeam.train({"max_depth": 3, **params}, data, 4, verbose_eval=False)


def test_times_are_expanded_as_on_one_machine(frame, tmp_path):
    estimator = HornbeamRegressor(
        row_key_col="id", subsample=0.6, pred_contrib_col="c", **OPTIONS, **QUIET
    )
    model = estimator.fit(frame)
    expected = alone(frame, subsample=0.6)
    booster = model.get_booster()
    assert booster.digest() == expected.digest()
    assert {"month(when)", "hour(when)", "day(day)", "seconds(span)"} <= set(
        booster.feature_names
    )
    assert "year(when)" not in booster.feature_names  # it does not vary
    model.write().save(str(tmp_path / "model"))
    loaded = HornbeamRegressorModel.load(str(tmp_path / "model"))
    rows = loaded.transform(frame).sort("id").select("prediction", "c").collect()
    table = on_one_machine(frame).select(NAMES)
    np.testing.assert_array_equal(
        [row.prediction for row in rows], expected.inplace_predict(table)
    )
    contributions = expected.predict(
        hornbeam.DMatrix(table, dates="expand"), pred_contribs=True
    )
    np.testing.assert_array_equal([row.c.toArray() for row in rows], contributions)


def test_validation_rows_take_the_parts_of_training(frame):
    binary = frame.withColumn("y", expr("double(y > 1.2)"))
    model = HornbeamClassifier(
        validation_indicator_col="held", **OPTIONS | {"verbose": False}
    ).fit(binary)
    history = model.training_summary.validation_objective_history["logloss"]
    assert len(history) == 4
    assert history[-1] < history[0]
    assert model.transform(binary).select("probability").count() == 600


def test_refused_times_are_one_error(frame):
    for estimator in (
        HornbeamRegressor(dates="error", **OPTIONS),
        SparkXGBRegressor(**OPTIONS),
    ):
        with pytest.raises(hornbeam.DataError, match=r"'when' holds timestamp.*expand"):
            estimator.fit(frame)
    with pytest.raises(hornbeam.ParameterError, match="dates must be one of") as caught:
        HornbeamRegressor(dates="ignore", **OPTIONS).fit(frame)
    assert caught.value.code == ErrorCode.UNKNOWN_OPTION
