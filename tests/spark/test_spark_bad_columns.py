"""Bad columns on Spark: one error with the column, a stable code, and the worker."""

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql.functions import array, array_repeat, col, expr, lit, when
from tables import NAMES, table

import hornbeam
from hornbeam import ErrorCode
from hornbeam.spark import HornbeamClassifier, HornbeamRanker, HornbeamRegressor

OPTIONS = {"n_estimators": 2, "verbose": False, "num_workers": 2}
COLUMNS = {"features_col": NAMES, "label_col": "y"}
#: One row, which is in one of the two partitions.
ODD = "id = 1007"


@pytest.fixture(scope="module")
def frame(module_spark):
    return module_spark.createDataFrame(table()).repartition(2, "id")


@pytest.mark.parametrize(
    ("given", "column", "code"),
    [
        ({"features_col": "z"}, "z", ErrorCode.COLUMN_NOT_FOUND),
        ({"features_col": ["a", "z"]}, "z", ErrorCode.COLUMN_NOT_FOUND),
        ({"label_col": "z"}, "z", ErrorCode.COLUMN_NOT_FOUND),
        ({"weight_col": "z"}, "z", ErrorCode.COLUMN_NOT_FOUND),
        ({"features_col": "y"}, "y", ErrorCode.UNSUPPORTED_ELEMENT_TYPE),
        ({"features_col": "texts"}, "texts", ErrorCode.UNSUPPORTED_ELEMENT_TYPE),
        ({"features_col": ["text"]}, "text", ErrorCode.UNSUPPORTED_ELEMENT_TYPE),
        ({"label_col": "text"}, "text", ErrorCode.META_INFO_NOT_NUMERIC),
        ({"weight_col": "texts"}, "texts", ErrorCode.META_INFO_NOT_NUMERIC),
    ],
)
def test_columns_that_the_driver_refuses(frame, given, column, code):
    odd = frame.withColumn("text", lit("a")).withColumn("texts", array(lit("a")))
    with pytest.raises(hornbeam.DataError, match=f"column '{column}'") as caught:
        HornbeamRegressor(**OPTIONS | COLUMNS | given).fit(odd)
    assert caught.value.code == code
    assert caught.value.details["column"] == column


@pytest.mark.parametrize(
    ("kind", "given", "value", "code"),
    [
        (HornbeamRegressor, {"label_col": "odd"}, "nan", ErrorCode.LABEL_NOT_FINITE),
        (HornbeamClassifier, {"label_col": "odd"}, None, ErrorCode.LABEL_NOT_FINITE),
        (HornbeamRegressor, {"weight_col": "odd"}, -1, ErrorCode.WEIGHT_NEGATIVE),
        (
            HornbeamRegressor,
            {"weight_col": "odd"},
            None,
            ErrorCode.META_INFO_NOT_FINITE,
        ),
        (HornbeamRanker, {"qid_col": "odd"}, None, ErrorCode.META_INFO_NOT_FINITE),
    ],
)
def test_values_that_a_worker_refuses(frame, kind, given, value, code):
    bad = lit(value).cast("double")
    whole = "qid_col" in given
    usual = col("query") if whole else lit(1.0)
    odd = frame.withColumn(
        "odd", when(expr(ODD), bad.cast("long") if whole else bad).otherwise(usual)
    )
    with pytest.raises(
        hornbeam.DataError, match=r"column 'odd'.*\(in worker"
    ) as caught:
        kind(**OPTIONS | COLUMNS | given).fit(odd)
    assert caught.value.code == code
    assert caught.value.details["column"] == "odd"
    assert caught.value.details["worker"].startswith("worker ")


def test_vectors_and_arrays_of_different_sizes(spark, frame):
    """In the rows of one worker, and those of one worker and another."""
    longer = frame.withColumn("odd", expr(f"if({ODD}, array(1.0, 2.0), array(1.0))"))
    uneven = HornbeamRegressor(**OPTIONS | {"features_col": "odd", "label_col": "y"})
    with pytest.raises(
        hornbeam.DataError, match=r"column 'odd'.*2 numbers|1 numbers"
    ) as caught:
        uneven.fit(longer)
    assert caught.value.code == ErrorCode.FEATURE_COUNT_MISMATCH
    assert caught.value.details["column"] == "odd"
    rows = [(Vectors.dense([1.0] * (1 + k % 2)), float(k), k % 2) for k in range(8)]
    halves = spark.createDataFrame(rows, ["odd", "y", "half"]).repartition(2, "half")
    with pytest.raises(hornbeam.DataError, match=r"column 'odd'.*numbers") as caught:
        uneven.fit(halves)
    assert caught.value.code == ErrorCode.FEATURE_COUNT_MISMATCH
    margins = frame.withColumn(
        "odd", array_repeat(lit(0.5), when(expr(ODD), 2).otherwise(1))
    )
    given = {"base_margin_col": "odd"}
    with pytest.raises(
        hornbeam.DataError, match=r"column 'odd' \(base_margin\)"
    ) as caught:
        HornbeamRegressor(**OPTIONS | COLUMNS | given).fit(margins)
    assert caught.value.code == ErrorCode.META_INFO_SIZE_MISMATCH
