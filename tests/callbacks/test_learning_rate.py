"""Learning rate schedules next to those of XGBoost."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from small_training import ROUNDS, fit, rows

import hornbeam
from hornbeam.errors import ParameterError

RATES = [0.5 / (1 + epoch) for epoch in range(ROUNDS)]


@pytest.mark.parametrize("rates", [RATES, RATES.__getitem__], ids=["list", "function"])
def test_schedules_agree_with_xgboost(rates):
    ours = fit(hornbeam, [hornbeam.LearningRateScheduler(rates)])
    theirs = fit(xgboost, [xgboost.callback.LearningRateScheduler(rates)])
    X, _ = rows(1)
    np.testing.assert_allclose(
        ours.predict(hornbeam.DMatrix(X)), theirs.predict(xgboost.DMatrix(X)), atol=1e-4
    )


def test_invalid_schedules_are_an_error():
    with pytest.raises(ParameterError, match="a function of the epoch or a list"):
        hornbeam.LearningRateScheduler(0.1)
    with pytest.raises(ParameterError, match="has 2 rates, too few for round 2"):
        fit(hornbeam, [hornbeam.LearningRateScheduler([0.1, 0.1])])
