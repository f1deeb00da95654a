"""Training on Spark: the model of one machine, for any workers and any order."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.ml.feature import VectorAssembler
from pyspark.sql.functions import expr
from tables import COLUMNS, NAMES, PARAMS, ROWS, X, matrix, table

import hornbeam
from hornbeam.callbacks import TrainingCallback
from hornbeam.spark import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.spark.stage import arrange

QUIET = {"n_estimators": 4, "verbose": False}


@pytest.fixture(scope="module")
def frame(module_spark):
    order = np.random.default_rng(4).permutation(ROWS)
    return module_spark.createDataFrame(table(order))


def alone(params, data, rounds=4, **options):
    return hornbeam.train(PARAMS | params, data, rounds, verbose_eval=False, **options)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_any_workers_give_the_model_of_one_machine(frame, num_workers):
    """By keys, and by hashes of the rows."""
    options = {"features_col": NAMES, "label_col": "y", "num_workers": num_workers}
    model = HornbeamRegressor(row_key_col="id", **options, **QUIET, **PARAMS).fit(frame)
    expected = alone({}, matrix(row_key="id"))
    assert model.get_booster().digest() == expected.digest()

    hashed = HornbeamRegressor(**options, **QUIET, **PARAMS, weight_col="w").fit(frame)
    data = matrix(weight="w")
    data.set_info(row_key=data.hash_rows())
    assert hashed.get_booster().digest() == alone({}, data).digest()


def test_tasks_do_not_import_pandas(frame, monkeypatch):
    """It takes longer than their other imports."""

    class Check(TrainingCallback):
        def after_training(self, model):
            assert "pandas" not in sys.modules
            return model

    # Spark starts other Python processes for another environment.
    monkeypatch.setitem(frame.sparkSession.sparkContext.environment, "FRESH", "yes")
    options = {"features_col": NAMES, "label_col": "y", "callbacks": [Check()]}
    model = HornbeamRegressor(row_key_col="id", **options, **QUIET, **PARAMS).fit(frame)
    assert model.get_booster().num_boosted_rounds() == QUIET["n_estimators"]


def test_kinds_of_features(frame):
    """An array, columns of several types, and dense and sparse vectors."""
    options = {"label_col": "y", "row_key_col": "id", "num_workers": 2}
    expected = alone({}, matrix(row_key="id", names=None)).digest()
    found = HornbeamRegressor(features_col="array", **options, **QUIET, **PARAMS)
    assert found.fit(frame).get_booster().digest() == expected

    mixed = frame.selectExpr("id", "y", "float(a) AS a", "query", "held", "b")
    columns = {
        "a": X[:, 0].astype(np.float32),
        "query": COLUMNS["query"].astype(float),
        "held": COLUMNS["held"].astype(np.float32),
        "b": X[:, 1],
    }
    data = hornbeam.DMatrix(pa.table(columns), COLUMNS["y"], row_key=COLUMNS["id"])
    found = HornbeamRegressor(features_col=list(columns), **options, **QUIET, **PARAMS)
    assert found.fit(mixed).get_booster().digest() == alone({}, data).digest()

    zeros = frame.fillna(0.0, NAMES)
    vectors = VectorAssembler(inputCols=NAMES, outputCol="features").transform(zeros)
    data = hornbeam.DMatrix(np.nan_to_num(X), COLUMNS["y"], row_key=COLUMNS["id"])
    found = HornbeamRegressor(**options, **QUIET, **PARAMS).fit(vectors)
    assert found.get_booster().digest() == alone({}, data).digest()
    data = hornbeam.DMatrix(
        np.nan_to_num(X), COLUMNS["y"], row_key=COLUMNS["id"], missing=0.0
    )
    found = HornbeamRegressor(
        missing=0.0, enable_sparse_data_optim=True, **options, **QUIET, **PARAMS
    )
    model = found.fit(vectors)
    assert model.get_booster().digest() == alone({}, data).digest()
    predicted = [
        row.prediction for row in model.transform(vectors).sort("id").collect()
    ]
    expected = model.get_booster().predict(data)
    np.testing.assert_array_equal(predicted, expected.astype(float))


def test_early_stopping_weights_and_margins(frame, capfd):
    estimator = HornbeamClassifier(
        features_col=NAMES,
        label_col="two",
        weight_col="w",
        base_margin_col="margin",
        validation_indicator_col="held",
        row_key_col="id",
        early_stopping_rounds=2,
        n_estimators=60,
        learning_rate=0.8,
        eval_metric="logloss",
        num_workers=2,
        **PARAMS,
    )
    model = estimator.fit(frame)
    held = COLUMNS["held"]
    fields = {"weight": "w", "base_margin": "margin", "row_key": "id"}
    data, valid = (matrix("two", rows, **fields) for rows in (~held, held))
    history = {}
    expected = alone(
        {"objective": "binary:logistic", "learning_rate": 0.8},
        data,
        60,
        evals=[(data, "training"), (valid, "validation")],
        early_stopping_rounds=2,
        evals_result=history,
    )
    assert model.get_booster().digest() == expected.digest()
    assert model.get_booster().best_iteration < 58
    summary = model.training_summary
    np.testing.assert_allclose(
        summary.validation_objective_history["logloss"],
        history["validation"]["logloss"],
    )
    lines = [line for line in capfd.readouterr().out.splitlines() if "logloss" in line]
    assert len(lines) == len(history["training"]["logloss"])
    assert lines[1].startswith("[1]\ttraining-logloss:")


def test_classes_and_groups(frame):
    model = HornbeamClassifier(
        features_col=NAMES, label_col="three", num_workers=2, **QUIET, max_depth=3
    ).fit(frame)
    data = matrix("three")
    params = {"objective": "multi:softprob", "num_class": 3, "subsample": 1.0}
    assert model.get_booster().digest() == alone(params, data).digest()
    assert model.numClasses == 3

    ranker = HornbeamRanker(
        features_col=NAMES,
        label_col="grade",
        qid_col="query",
        row_key_col="id",
        num_workers=2,
        **QUIET,
        **PARAMS,
    )
    data = matrix("grade", qid="query", row_key="id")
    expected = alone({"objective": "rank:ndcg"}, data)
    assert ranker.fit(frame).get_booster().digest() == expected.digest()


def test_partitions_without_rows_and_unions(spark, frame):
    """And a tracker in the first task, more rounds, and repartitioning."""
    few = frame.where("id < 1100").repartition(3, expr("id div 5000"))
    options = {"features_col": NAMES, "label_col": "y", "row_key_col": "id"}
    options |= {"num_workers": 3, **QUIET, **PARAMS}
    expected = alone({}, matrix(rows=slice(100), row_key="id")).digest()
    model = HornbeamRegressor(launch_tracker_on_driver=False, **options).fit(few)
    assert model.get_booster().digest() == expected
    array = HornbeamRegressor(**options | {"features_col": "array"}).fit(few)
    unnamed = alone({}, matrix(rows=slice(100), row_key="id", names=None))
    assert array.get_booster().digest() == unnamed.digest()

    first, second = frame.where("id < 1300"), frame.where("id >= 1300")
    both = first.repartition(1).union(second.repartition(2))
    shuffled = {"force_repartition": True, "repartition_random_shuffle": True}
    expected = alone({}, matrix(row_key="id"))
    for more in ({}, shuffled):
        model = HornbeamRegressor(**options, **more).fit(both)
        assert model.get_booster().digest() == expected.digest()

    estimator = HornbeamRegressor(**options, xgb_model=model.get_booster())
    longer = estimator.fit(frame).get_booster()
    assert (
        longer.digest() == alone({}, matrix(row_key="id"), xgb_model=expected).digest()
    )


@pytest.mark.parametrize("first", [ROWS // 2, ROWS // 10])
def test_even_files_are_not_shuffled(module_spark, tmp_path, first):
    """For as many workers as Spark reads partitions."""
    rows = table()
    for n, part in enumerate([rows.slice(0, first), rows.slice(first)]):
        pyarrow.parquet.write_table(part, tmp_path / f"{n}.parquet")
    files = module_spark.read.parquet(str(tmp_path))
    assert files.rdd.getNumPartitions() == 2

    def is_kept(given, workers=2, force=False, qid=None):
        return arrange(given, workers, force=force, random=False, qid=qid) is given

    assert is_kept(files) == is_kept(files.select("a", "y")) == (first == ROWS // 2)
    assert not is_kept(files, workers=3)
    assert not is_kept(files, force=True)
    assert not is_kept(files, qid="query")
    assert not is_kept(files.where("a > 0"))
    assert not is_kept(files.union(files), workers=4)

    options = {"features_col": NAMES, "label_col": "y", "row_key_col": "id"}
    found = HornbeamRegressor(**options, num_workers=2, **QUIET, **PARAMS).fit(files)
    expected = alone({}, matrix(row_key="id")).digest()
    assert found.get_booster().digest() == expected
