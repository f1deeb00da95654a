"""What all pictures have in common."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import xgboost
from matplotlib import pyplot as plt

import hornbeam
from hornbeam import explain
from hornbeam.errors import DataError, ParameterError

PICTURES = [name for name in explain.__all__ if name.startswith("plot_")]


@pytest.mark.parametrize("name", explain.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    assert getattr(explain, name).__doc__


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_takes_axes(name):
    ax = inspect.signature(getattr(explain, name)).parameters["ax"]
    assert ax.default is None


@pytest.mark.parametrize("fitted", [False, True])
def test_models_of_xgboost_have_to_be_loaded(fitted, tmp_path):
    rows = np.arange(40.0).reshape(-1, 2)
    model = xgboost.XGBRegressor(n_estimators=2).fit(rows, rows[:, 0])
    given = model if fitted else model.get_booster()
    with pytest.raises(ParameterError, match=r"not XGBoost.s .*save_model writes"):
        explain.plot_shap_summary(given, rows)
    model.save_model(tmp_path / "model.json")
    loaded = hornbeam.Booster(model_file=tmp_path / "model.json")
    assert explain.contributions_of(loaded, rows).values.shape == (20, 2)


def test_no_figure_is_shown(titanic, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("the figure was shown"))
    before = plt.rcParams.copy()
    axes = [
        explain.plot_calibration(*titanic),
        explain.plot_confusion(*titanic),
        explain.plot_partial_dependence(*titanic[:2], "age", max_rows=20),
        explain.plot_shap_summary(*titanic[:2]),
        explain.plot_shap_dependence(*titanic[:2], "age"),
        explain.plot_shap_waterfall(*titanic[:2]),
        explain.plot_importance(titanic[0]),
    ]
    assert plt.get_fignums() == [ax.figure.number for ax in axes]
    assert plt.gcf() is axes[-1].figure
    for ax in axes:
        assert ax.figure.gca() is ax
    assert plt.rcParams == before


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_no_axes_or_no_data_is_said(name):
    rows = np.arange(40.0).reshape(-1, 2)
    label, params = rows[:, 0] > 19, {"objective": "binary:logistic"}
    if name == "plot_residuals":
        label, params = rows[:, 0], {}
    elif name == "plot_quantile_reliability":
        label, params = rows[:, 0], {"objective": "dist:normal"}
    data, scores = hornbeam.DMatrix(rows, label), {}
    evals = {"evals": [(data, "train")], "evals_result": scores, "verbose_eval": False}
    model = hornbeam.train(params, data, 2, **evals)
    picture = getattr(explain, name)
    of_data = "data" in inspect.signature(picture).parameters
    given = [data] if of_data else []
    given += [0] if "features" in inspect.signature(picture).parameters else []
    subject = scores if name == "plot_learning_curves" else model
    figure, axs = plt.subplots(2, 2)
    for ax, mend in ((axs, "pass one|metric"), (figure, "add_subplot"), ("x", "leave")):
        with pytest.raises(ParameterError, match=mend):
            picture(subject, *given, ax=ax)
    if of_data:
        for nothing, said in ((None, "no data"), (rows[:0], "no rows in the data")):
            with pytest.raises(DataError, match=said):
                picture(model, nothing, *given[1:])
