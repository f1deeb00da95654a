"""The import hook: other packages import hornbeam.xgboost by the name xgboost."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

from hornbeam import HornbeamError
from hornbeam import xgboost as xgb

pytest.importorskip("shap")


def run(code):
    """Run code in a new process, since the hook changes the imports of a process."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )


def said(code):
    ran = run(code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_modules_have_one_object_under_both_names():
    code = """
import sys
from hornbeam import xgboost as ours
ours.stand_in()
ours.stand_in()
import hornbeam.xgboost.core
import xgboost
import xgboost.plotting
from xgboost.sklearn import XGBRegressor
print(xgboost is ours, xgboost.core is hornbeam.xgboost.core)
print(XGBRegressor is ours.XGBRegressor, xgboost.plotting.__spec__.name)
try:
    import xgboost.nothing
except ModuleNotFoundError as error:
    print(error)
"""
    assert said(code) == [
        "True True",
        "True hornbeam.xgboost.plotting",
        "No module named 'xgboost.nothing'",
    ]


def test_stand_in_after_import_of_xgboost_is_an_error():
    importlib.import_module("xgboost")
    with pytest.raises(HornbeamError, match="xgboost itself is already imported"):
        xgb.stand_in()


@pytest.mark.slow
def test_shap_explains_boosters_and_estimators():
    code = """
import numpy as np
from hornbeam import xgboost as xgb
xgb.stand_in()
import shap

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
y = X[:, 0] + X[:, 1] * X[:, 2]
data = xgb.DMatrix(X, y)
booster = xgb.train({}, data, 8)
estimator = xgb.XGBRegressor(n_estimators=8).fit(X, y)
for model, booster in (booster, booster), (estimator, estimator.get_booster()):
    found = shap.TreeExplainer(model).shap_values(X)
    own = booster.predict(data, pred_contribs=True)
    print(found.shape)
    print(np.abs(found - own[:, :-1]).max() < 1e-6, np.abs(own).max() > 0.5)
    against = shap.TreeExplainer(model, data=X[:50])
    own = booster.shap_values(data, xgb.DMatrix(X[:50]))
    print(np.abs(against.shap_values(X) - own[:, :-1]).max() < 1e-5)
"""
    assert said(code) == ["(200, 4)", "True True", "True"] * 2


def test_autologging_of_mlflow(monkeypatch):
    """MLflow replaces `xgboost.sklearn.train`, which the estimators must call."""
    train, seen = xgb.sklearn.train, []

    def watched(params, *args, **options):
        seen.append(params["max_depth"])
        return train(params, *args, **options)

    monkeypatch.setattr(xgb.sklearn, "train", watched)
    X = np.random.default_rng(0).normal(size=(200, 4))
    xgb.XGBRegressor(n_estimators=2, max_depth=3).fit(X, X[:, 0])
    assert seen == [3]
