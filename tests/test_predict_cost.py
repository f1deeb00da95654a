"""The prediction of one row costs little Python: a count, which no machine changes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import hornbeam
from hornbeam.kernels.jit import COMPILED

#: Calls of Python functions in one prediction, the kernel's included.
MOST_CALLS = {
    "Booster.inplace_predict": 23,
    "Booster.predict": 41,
    "Booster.predict, SHAP values": 115,
    "HornbeamRegressor.predict": 29,
    "HornbeamClassifier.predict": 30,
    "HornbeamClassifier.predict_proba": 41,
}


def calls_of(predict):
    """Return the number of Python calls of a prediction."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        predict()
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture(scope="module")
def predictions():
    """Return the entry points, for one row of an array."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 10)).astype(np.float32)
    labels = rows[:, 0] + rows[:, 1]
    row = rows[:1].copy()
    matrix = hornbeam.DMatrix(row)
    data = hornbeam.DMatrix(rows, labels)
    booster = hornbeam.train({"nthread": 1}, data, 5, verbose_eval=False)
    size = {"n_estimators": 5, "n_jobs": 1}
    regressor = hornbeam.HornbeamRegressor(**size).fit(rows, labels)
    classifier = hornbeam.HornbeamClassifier(**size).fit(rows, labels > 0)
    return {
        "Booster.inplace_predict": lambda: booster.inplace_predict(row),
        "Booster.predict": lambda: booster.predict(matrix),
        "Booster.predict, SHAP values": lambda: booster.predict(
            matrix, pred_contribs=True
        ),
        "HornbeamRegressor.predict": lambda: regressor.predict(row),
        "HornbeamClassifier.predict": lambda: classifier.predict(row),
        "HornbeamClassifier.predict_proba": lambda: classifier.predict_proba(row),
    }


@pytest.mark.skipif(not COMPILED, reason="kernels call Python functions")
@pytest.mark.parametrize("name", MOST_CALLS)
def test_the_prediction_of_a_row_has_few_python_calls(name, predictions):
    predictions[name]()  # imports, and the layout of the trees
    assert calls_of(predictions[name]) <= MOST_CALLS[name]
