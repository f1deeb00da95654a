"""The estimators with XGBoost's names, beside those of XGBoost itself."""

import numpy as np
import pytest
from tables import COLUMNS, NAMES, X, table

import hornbeam.xgboost as xgb
from hornbeam.xgboost.collective import Config
from hornbeam.xgboost.spark import SparkXGBClassifier, SparkXGBClassifierModel


@pytest.mark.filterwarnings("ignore")
def test_the_model_is_that_of_the_drop_in_and_near_that_of_xgboost(spark, tmp_path):
    from xgboost.spark import SparkXGBClassifier as Theirs

    frame = spark.createDataFrame(table())
    given = {
        "features_col": NAMES,
        "label_col": "three",
        "validation_indicator_col": "held",
        "early_stopping_rounds": 5,
        "n_estimators": 8,
        "max_depth": 3,
        "learning_rate": 0.5,
        "random_state": 7,
        "num_workers": 2,
        "verbose": False,
    }
    estimator = SparkXGBClassifier(
        coll_cfg=Config(retry=2), max_delta_step=9.0, **given
    )
    estimator.write().overwrite().save(f"{tmp_path}/estimator")
    model = SparkXGBClassifier.load(f"{tmp_path}/estimator").fit(frame)
    assert isinstance(model, SparkXGBClassifierModel)
    assert isinstance(model.get_booster(), xgb.Booster)
    rows = ~COLUMNS["held"]
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3}
    params |= {"learning_rate": 0.5, "max_delta_step": 9.0}
    data = xgb.DMatrix(X[rows].astype(np.float32), COLUMNS["three"][rows])
    one = xgb.train(params, data, 8)
    found = np.array(
        [row.probability for row in model.transform(frame).sort("id").collect()]
    )
    expected = one.predict(xgb.DMatrix(X.astype(np.float32)))
    np.testing.assert_array_equal(found, expected.astype(float))

    theirs = Theirs(max_delta_step=9.0, **given).fit(frame)
    other = np.array(
        [row.probability for row in theirs.transform(frame).sort("id").collect()]
    )
    assert np.abs(found - other).mean() < 0.03
    ours, its = model.training_summary, theirs.training_summary
    np.testing.assert_allclose(
        ours.train_objective_history["mlogloss"],
        its.train_objective_history["mlogloss"],
        atol=0.05,
    )
