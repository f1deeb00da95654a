"""The import hook: other packages import hornbeam.xgboost by the name xgboost."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("shap")

MODEL = """
import numpy as np
from hornbeam import xgboost as xgb

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
y = X[:, 0] + X[:, 1] * X[:, 2]
"""


def run(code):
    """Run code in a new process, since the hook changes the imports of a process."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )


def said(code):
    ran = run(code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


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
"""
    assert said(code) == ["True", "True", "True", "hornbeam.xgboost.plotting"]


def test_unknown_names_raise_import_errors():
    ran = run("from hornbeam import xgboost; xgboost.stand_in(); import xgboost.spark")
    assert "No module named 'xgboost.spark'" in ran.stderr


def test_stand_in_after_import_of_xgboost_is_an_error():
    ran = run("import xgboost; from hornbeam import xgboost as xgb; xgb.stand_in()")
    assert "HornbeamError: xgboost itself is already imported" in ran.stderr


@pytest.mark.parametrize(
    "model",
    ["xgb.XGBRegressor(n_estimators=8).fit(X, y)", "xgb.train({}, data, 8)"],
)
def test_shap_explains_a_booster(model):
    code = f"""{MODEL}
xgb.stand_in()
import shap
data = xgb.DMatrix(X, y)
model = {model}
found = shap.TreeExplainer(model).shap_values(X)
booster = model if isinstance(model, xgb.Booster) else model.get_booster()
own = booster.predict(data, pred_contribs=True)
print(found.shape, np.abs(found - own[:, :-1]).max() < 1e-6, np.abs(own).max() > 0.5)
against = shap.TreeExplainer(model, data=X[:50])
own = booster.shap_values(data, xgb.DMatrix(X[:50]))
print(np.abs(against.shap_values(X) - own[:, :-1]).max() < 1e-5)
"""
    assert said(code) == ["(200,", "4)", "True", "True", "True"]


def test_autologging_of_mlflow():
    """MLflow replaces `xgboost.sklearn.train`, which the estimators must call."""
    code = f"""{MODEL}
train = xgb.sklearn.train
def watched(params, *args, **options):
    print(params["max_depth"])
    return train(params, *args, **options)
xgb.sklearn.train = watched
xgb.XGBRegressor(n_estimators=2, max_depth=3).fit(X, y)
"""
    assert said(code) == ["3"]
