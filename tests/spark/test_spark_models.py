"""Models on Spark: predictions, pipelines, grids, saving and loading."""

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from tables import COLUMNS, NAMES, X, table

import hornbeam
from hornbeam.spark import (
    HornbeamClassifier,
    HornbeamClassifierModel,
    HornbeamRegressor,
    HornbeamRegressorModel,
)

QUIET = {"n_estimators": 4, "verbose": False, "max_depth": 3}


@pytest.fixture(scope="module")
def frame(module_spark):
    return module_spark.createDataFrame(table())


def column(frame, name):
    return np.array([row[name] for row in frame.sort("id").select(name).collect()])


def test_predictions_of_classes_are_those_of_the_booster(frame, tmp_path):
    estimator = HornbeamClassifier(
        features_col=NAMES,
        label_col="three",
        pred_contrib_col="contrib",
        base_margin_col=None,
        num_workers=2,
        **QUIET,
    )
    model = estimator.fit(frame)
    booster, data = model.get_booster(), hornbeam.DMatrix(X, feature_names=NAMES)
    predicted = model.transform(frame)
    assert predicted.columns == [
        *frame.columns,
        *("rawPrediction", "prediction", "probability", "contrib"),
    ]
    probability = column(predicted, "probability")
    np.testing.assert_array_equal(probability, booster.predict(data).astype(float))
    margins = booster.predict(data, output_margin=True)
    np.testing.assert_array_equal(column(predicted, "rawPrediction"), margins)
    chosen = column(predicted, "prediction")
    np.testing.assert_array_equal(chosen, probability.argmax(axis=1))
    contribs = booster.predict(data, pred_contribs=True)
    np.testing.assert_allclose(column(predicted, "contrib"), contribs, atol=1e-6)
    assert model.get_feature_importances("gain").keys() <= set(NAMES)

    # Saved by Spark, to the file system that the address names.
    path = f"file://{tmp_path}/model"
    model.write().overwrite().save(path)
    model.write().overwrite().save(path)
    loaded = HornbeamClassifierModel.load(path)
    assert loaded.uid == model.uid
    assert loaded.get_booster().digest() == booster.digest()
    assert loaded.getOrDefault(loaded.max_depth) == 3
    again = loaded.copy({loaded.probabilityCol: "p"})
    np.testing.assert_array_equal(column(again.transform(frame), "p"), probability)
    with pytest.raises(
        hornbeam.ModelFileError, match="holds a HornbeamClassifierModel"
    ):
        HornbeamRegressorModel.load(path)
    with pytest.raises(hornbeam.NotTrainedError, match="has no trees"):
        HornbeamRegressorModel().get_booster()


def test_two_classes_and_a_base_margin(frame):
    estimator = HornbeamClassifier(
        features_col="array", label_col="two", base_margin_col="margin", **QUIET
    )
    model = estimator.fit(frame)
    data = hornbeam.DMatrix(X, base_margin=COLUMNS["margin"])
    expected = model.get_booster().predict(data)
    predicted = model.transform(frame)
    found = column(predicted, "probability")
    np.testing.assert_array_equal(found[:, 1], expected.astype(float))
    np.testing.assert_array_equal(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(column(predicted, "prediction"), expected > 0.5)


def test_pipelines_and_grids(frame, tmp_path):
    assembler = VectorAssembler(
        inputCols=NAMES, outputCol="features", handleInvalid="keep"
    )
    estimator = HornbeamRegressor(
        label_col="y", callbacks=[hornbeam.EvaluationMonitor()], **QUIET
    )
    pipeline = Pipeline(stages=[assembler, estimator])
    pipeline.write().overwrite().save(f"{tmp_path}/pipeline")
    loaded = Pipeline.load(f"{tmp_path}/pipeline")
    assert loaded.getStages()[1].getOrDefault("n_estimators") == 4
    assert len(loaded.getStages()[1].getOrDefault("callbacks")) == 1
    model = loaded.fit(frame)
    predicted = model.transform(frame)
    expected = model.stages[1].get_booster().predict(hornbeam.DMatrix(X))
    np.testing.assert_array_equal(
        column(predicted, "prediction"), expected.astype(float)
    )
    model.save(f"{tmp_path}/fitted")
    again = PipelineModel.load(f"{tmp_path}/fitted").transform(frame)
    np.testing.assert_array_equal(column(again, "prediction"), expected.astype(float))

    estimator.clear(estimator.callbacks)
    grid = ParamGridBuilder().addGrid(estimator.max_depth, [1, 4]).build()
    search = CrossValidator(
        estimator=Pipeline(stages=[assembler, estimator]),
        estimatorParamMaps=grid,
        evaluator=RegressionEvaluator(labelCol="y"),
        numFolds=2,
        seed=1,
    ).fit(frame)
    assert search.avgMetrics[1] < search.avgMetrics[0]
    best = search.bestModel.stages[1]
    assert best.getOrDefault(best.max_depth) == 4
