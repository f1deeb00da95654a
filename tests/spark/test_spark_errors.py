"""Bad input on Spark: one clear error, which names the worker and the way out."""

import os
import subprocess
import sys

import pandas as pd
import pyspark
import pytest
from pyspark.ml.linalg import Vectors
from tables import NAMES, OtherVersion, table

import hornbeam
from hornbeam.spark import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.xgboost.spark import SparkXGBRegressor

QUIET = {"n_estimators": 2, "verbose": False}


@pytest.fixture(scope="module")
def frame(module_spark):
    return module_spark.createDataFrame(table())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_deph": 3}, "max_deph.*did you mean 'max_depth'"),
        ({"max_depth": -1}, "max_depth must be"),
        ({"num_workers": "two"}, "num_workers"),
        ({"featuresCol": "x"}, "use the name 'features_col'"),
        ({"n_jobs": 2}, "as many threads as spark.task.cpus"),
        ({"eval_set": []}, "validation_indicator_col"),
        ({"probability_col": "p"}, "has no parameter 'probability_col'"),
        ({"key_col": "p"}, "has no parameter 'key_col'"),
        ({"tree_method": "exact"}, "tree_method='exact'"),
        ({"booster": "gblinear"}, "gblinear"),
        ({"device": "gpu"}, "device='gpu' trains on one machine"),
        ({"use_gpu": True}, "on CPUs on Spark"),
    ],
)
def test_parameters(spark, given, message):
    with pytest.raises(hornbeam.ParameterError, match=message):
        HornbeamRegressor(**given)


@pytest.mark.parametrize("given", [{"device": "cuda"}, {"use_gpu": True}])
def test_devices_with_the_names_of_xgboost(given):
    with pytest.raises(hornbeam.ParameterError, match=r"device='cuda'|on CPUs"):
        SparkXGBRegressor(**given)


def test_data_of_other_sessions_and_libraries():
    """A DataFrame of Spark Connect is not one of the driver's session."""

    class DataFrame(pyspark.sql.DataFrame):
        __module__ = "pyspark.sql.connect.dataframe"

        def __new__(cls):
            return object.__new__(cls)

    estimator = HornbeamRegressor(**QUIET)
    with pytest.raises(hornbeam.ClusterError, match=r"remote\(") as caught:
        estimator.fit(DataFrame())
    assert caught.value.code == hornbeam.ErrorCode.SPARK_CONNECT
    with pytest.raises(hornbeam.DataError, match="pandas DataFrame; pass") as caught:
        estimator.fit(pd.DataFrame({"a": [1.0]}))
    assert caught.value.code == hornbeam.ErrorCode.UNSUPPORTED_COLLECTION


def test_estimators_for_one_machine_name_those_of_spark(frame):
    with pytest.raises(hornbeam.HornbeamError, match=r"estimators of hornbeam\.spark"):
        hornbeam.HornbeamRegressor(n_estimators=2).fit(frame, [1.0])


def test_without_java_loading_says_what_to_install(tmp_path):
    code = """
import hornbeam.spark
try:
    hornbeam.spark.HornbeamRegressorModel.load("nowhere")
except hornbeam.ClusterError as error:
    assert error.code == hornbeam.ErrorCode.JAVA_MISSING, error.code
    assert "there is no Java" in str(error)
else:
    raise AssertionError
"""
    environment = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (HornbeamRegressor, {"num_workers": 4}, "num_workers=4 tasks.*slots for 3"),
        (HornbeamRegressor, {"num_workers": 0}, "num_workers must be 1 or more"),
        (
            HornbeamRegressor,
            {"features_col": "y"},
            "'y' holds double; it must hold vec",
        ),
        (HornbeamRegressor, {"features_col": ["a", "text"]}, "'text' holds string"),
        (HornbeamRegressor, {"features_col": ["a", "z"]}, "no column 'z' in the data"),
        (HornbeamRegressor, {"features_col": []}, "name at least one column"),
        (HornbeamRegressor, {"label_col": "text"}, "label column 'text' holds string"),
        (HornbeamRegressor, {"qid_col": "query"}, "has no query groups"),
        (HornbeamRegressor, {"row_key_col": "y"}, "must hold integers or text"),
        (HornbeamRegressor, {"validation_indicator_col": "y"}, "must hold booleans"),
        (HornbeamRegressor, {"early_stopping_rounds": 2}, "needs validation rows"),
        (HornbeamRegressor, {"enable_sparse_data_optim": True}, "set missing=0.0"),
        (HornbeamRegressor, {"xgb_model": "file"}, "xgb_model must be a Booster"),
        (HornbeamRegressor, {"coll_cfg": {"retries": 1}}, "no setting 'retries'"),
        (HornbeamRanker, {}, "needs the column of query groups"),
    ],
)
def test_settings_and_columns(frame, kind, given, message):
    from pyspark.sql.functions import lit

    options = {"features_col": NAMES, "label_col": "y"} | QUIET | given
    with pytest.raises(hornbeam.HornbeamError, match=message):
        kind(**options).fit(frame.withColumn("text", lit("a")))


def test_rows(spark, frame):
    """Errors of tasks are raised once, without another attempt."""
    options = {"features_col": NAMES, "num_workers": 2, **QUIET}
    with pytest.raises(hornbeam.DataError, match="StringIndexer") as caught:
        HornbeamClassifier(label_col="y", **options).fit(frame)
    assert caught.value.code == hornbeam.ErrorCode.CLASSES_NOT_CONSECUTIVE
    negative = HornbeamRegressor(label_col="y", objective="count:poisson", **options)
    with pytest.raises(hornbeam.DataError, match=r"\(in worker [01] ") as caught:
        negative.fit(frame)
    assert caught.value.details["worker"].startswith("worker")
    with pytest.raises(
        hornbeam.DataError,
        match=r"no rows to learn from|no process of the group has rows",
    ):
        HornbeamRegressor(label_col="y", **options).fit(frame.where("id < 0"))
    rows = [(Vectors.dense([1.0, 2.0]), 1.0), (Vectors.dense([1.0]), 2.0)]
    uneven = spark.createDataFrame(rows * 4, ["features", "label"])
    with pytest.raises(hornbeam.DataError, match="features"):
        HornbeamRegressor(num_workers=2, **QUIET).fit(uneven)

    class Fails(hornbeam.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            raise RuntimeError("this callback fails")

    failing = HornbeamRegressor(label_col="y", callbacks=[Fails()], **options)
    with pytest.raises(
        hornbeam.ClusterError,
        match=r"task [01] .* raised RuntimeError: this ca",
    ):
        failing.fit(frame)


def test_another_version_on_a_worker(frame):
    options = {"features_col": NAMES, "label_col": "y", "num_workers": 2, **QUIET}
    estimator = HornbeamRegressor(**options, callbacks=[OtherVersion()])
    with pytest.raises(
        hornbeam.ClusterError, match=r"runs Hornbeam.* 9.9, protocol.*install the s"
    ):
        estimator.fit(frame)
