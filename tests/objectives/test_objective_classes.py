"""The declarations of objective classes, and objectives of other packages."""

from __future__ import annotations

import inspect
from hashlib import sha256
from typing import get_args

import numpy as np
import pytest

import hornbeam
from hornbeam import warm_up
from hornbeam.errors import ModelFileError
from hornbeam.explain.subject import Subject
from hornbeam.export import to_c, to_python
from hornbeam.export.links import FORMULAS
from hornbeam.kernels import maths
from hornbeam.kernels.gradients import by_row
from hornbeam.kernels.jit import formula
from hornbeam.metrics import create as create_metric
from hornbeam.objectives import base
from hornbeam.objectives.base import Link, Task, register
from hornbeam.objectives.config import ConfigGroup
from hornbeam.objectives.registry import find, names
from hornbeam.objectives.regression import NewtonStart
from hornbeam.params import Parameters, parameter_table

NEEDED = {
    "ordinal:logistic": {"num_class": 3},
    "multi:softmax": {"num_class": 3},
    "multi:softprob": {"num_class": 3},
    "reg:quantileerror": {"quantile_alpha": [0.1, 0.9]},
    "reg:expectileerror": {"expectile_alpha": [0.1, 0.9]},
}


@pytest.mark.parametrize("name", names())
def test_every_class_has_all_declarations(name):
    objective = find(name)
    assert objective.name == name
    assert objective.task in get_args(Task)
    params = Parameters.resolve({"objective": name, **NEEDED.get(name, {})})
    created = objective(params)
    for link in (created.link, created.probability_link):
        assert link is None or link.name in FORMULAS
    metric = create_metric(created.default_metric, created.n_outputs, params)
    assert metric.needs
    known = {row.name for row in parameter_table()}
    assert set(objective.config_group.parameters) <= known
    assert bool(objective.config_group.name) == bool(objective.config_group.parameters)
    if objective.prediction == "probability":
        assert objective.has_probabilities


def test_a_class_that_declares_too_little_is_refused():
    class Nameless(NewtonStart):
        name = "test:nothing"
        default_metric = "mae"
        task = "regression"
        link = Link("identity")

    with pytest.raises(TypeError, match="Nameless does not declare config_group"):
        register(Nameless)
    assert "test:nothing" not in names()


def log_cosh(margin, label, slope):
    """Return the slope of log(cosh(slope * (margin - label))) and its slope."""
    z = min(max(slope * (margin - label), -15.0), 15.0)
    odds = maths.exp(-2.0 * z)
    g = (1.0 - odds) / (1.0 + odds)
    return slope * g, slope * slope * max(1.0 - g * g, 1e-12)


# The name of a kernel on disk, which depends on the formula and on this module.
_SOURCE = __name__ + inspect.getsource(log_cosh)
log_cosh.__name__ += f"_{sha256(_SOURCE.encode()).hexdigest()[:8]}"


@pytest.fixture
def log_cosh_class(monkeypatch):
    """Register an objective of two parts: the formula above, and its class."""
    names()  # all of the package's are registered
    monkeypatch.setitem(base.OBJECTIVES, "test:logcosh", None)  # removed afterwards

    @register
    class LogCosh(NewtonStart):
        name = "test:logcosh"
        task = "regression"
        config_group = ConfigGroup("log_cosh_param", ("huber_slope",))
        default_metric = "mae"
        link = Link("identity")
        warm_up_cases = ({"huber_slope": 2.0},)
        kernel = staticmethod(by_row(formula(log_cosh)))

        @property
        def numbers(self):
            return (self.positive_weight, self.parameters.huber_slope)

    return LogCosh


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = X[:, 0] + np.where(rng.random(300) < 0.1, 50.0, 0.1) * rng.normal(size=300)
    return X, y.astype(np.float32)


def trained(X, y, rounds=20):
    params = {"objective": "test:logcosh", "huber_slope": 2.0, "base_score": 0.0}
    log = {}
    matrix = hornbeam.DMatrix(X, y)
    booster = hornbeam.train(
        params,
        matrix,
        rounds,
        evals=[(matrix, "data")],
        evals_result=log,
        verbose_eval=False,
    )
    return booster, log


@pytest.mark.jit
def test_an_objective_of_another_package_trains(log_cosh_class):
    X, y = data()
    booster, log = trained(X, y)
    assert list(log["data"]) == ["mae"]
    assert log["data"]["mae"][-1] < log["data"]["mae"][0]
    predictions = booster.predict(hornbeam.DMatrix(X))
    squared = hornbeam.train({}, hornbeam.DMatrix(X, y), 20)
    inliers = np.abs(y - X[:, 0]) < 1.0
    mae = np.abs(predictions - y)[inliers].mean()
    assert mae < np.abs(squared.predict(hornbeam.DMatrix(X)) - y)[inliers].mean()


@pytest.mark.jit
def test_an_objective_of_another_package_is_saved(log_cosh_class, tmp_path):
    X, y = data()
    booster, _ = trained(X, y)
    booster.save_model(tmp_path / "model.json")
    loaded = hornbeam.Booster(model_file=tmp_path / "model.json")
    assert loaded.model.objective_config == {"log_cosh_param": {"huber_slope": "2"}}
    assert loaded.digest() == booster.digest()
    assert type(loaded.objective) is log_cosh_class
    assert loaded.objective.parameters.huber_slope == 2.0
    base.OBJECTIVES.pop("test:logcosh")
    with pytest.raises(ModelFileError, match="test:logcosh"):
        hornbeam.Booster(model_file=tmp_path / "model.json")


@pytest.mark.jit
def test_an_objective_of_another_package_is_exported(log_cosh_class, tmp_path):
    X, y = data()
    booster, _ = trained(X, y)
    expected = booster.predict(hornbeam.DMatrix(X))
    module = {}
    exec(to_python(booster), module)
    found = [module["predict"](row) for row in X.astype(float).tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert FORMULAS["identity"] in to_c(booster)
    onnx = pytest.importorskip("onnxruntime")
    booster.export(tmp_path / "model.onnx")
    session = onnx.InferenceSession(tmp_path / "model.onnx")
    (found, *_) = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.jit
def test_an_objective_of_another_package_is_warmed_up(log_cosh_class):
    from hornbeam.kernels.compiler import KERNELS

    for fit in warm_up._fits():
        fit()
    before = {id(one): len(one.signatures) for one in KERNELS.values()}
    X, y = data()
    for dtype in (np.float32, np.float64):
        for weight in (None, np.ones(len(y))):
            matrix = hornbeam.DMatrix(X.astype(dtype), y, weight=weight)
            booster = hornbeam.train({"objective": "test:logcosh"}, matrix, 2)
            booster.predict(matrix)
    assert {id(one): len(one.signatures) for one in KERNELS.values()} == before


@pytest.mark.jit
def test_an_objective_of_another_package_is_explained(log_cosh_class):
    X, y = data()
    booster, _ = trained(X, y)
    residuals = hornbeam.explain.residuals_of(booster, X, y)
    np.testing.assert_allclose(residuals.values, y - residuals.predictions)
    with pytest.raises(hornbeam.ParameterError, match="no probabilities"):
        Subject(booster, X).probabilities()
