"""Calibration of probabilities on out-of-bag rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss

from hornbeam import HornbeamClassifier
from hornbeam.errors import ErrorCode, ModelFileError, ParameterError
from hornbeam.sklearn.calibration import Calibrator

#: So many rounds that probabilities are too near 0 and 1.
TOO_MANY = {"n_estimators": 80, "learning_rate": 0.5, "max_depth": 5}


def noisy(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


@pytest.fixture(scope="module")
def too_sharp():
    X, y = noisy(1500, 0)
    return HornbeamClassifier(n_bags=4, **TOO_MANY).fit(X, y)


@pytest.mark.parametrize("method", ["isotonic", "beta"])
def test_probabilities_that_are_too_sharp_are_corrected(too_sharp, method):
    X, y = noisy(1500, 0)
    new, expected = noisy(4000, 1)
    model = HornbeamClassifier(calibration=method, n_bags=4, **TOO_MANY).fit(X, y)
    before = log_loss(expected, too_sharp.predict_proba(new))
    after = log_loss(expected, model.predict_proba(new))
    assert after < before - 0.02
    losses = model.calibration_losses_
    assert losses[method] < losses["uncalibrated"] - 0.02
    # What was measured out of bag holds on new rows.
    assert abs(losses[method] - after) < 0.05


@pytest.mark.parametrize("method", ["isotonic", "beta"])
def test_several_classes_have_probabilities_that_sum_to_1(method, tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    model = HornbeamClassifier(
        calibration=method, n_bags=3, n_estimators=10, max_depth=3
    ).fit(X, y)
    found = model.predict_proba(X)
    assert found.shape == (600, 10) and found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert (found > 0).all()
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[found.argmax(axis=1)]
    )
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(X), found
    )
    model.save_model(tmp_path / "model.ubj")
    loaded = HornbeamClassifier()
    loaded.load_model(tmp_path / "model.ubj")
    np.testing.assert_array_equal(loaded.predict_proba(X), found)


def test_isotonic_calibration_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    hits = rng.random(300) < p**2
    calibrator = Calibrator.fit("isotonic", np.column_stack([1 - p, p]), hits, None)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(p, hits).predict(p)
    found = calibrator(np.column_stack([1 - p, p]))[:, 1]
    np.testing.assert_allclose(found, np.clip(theirs, 1 / 302, 301 / 302), atol=1e-6)


def test_beta_calibration_finds_its_own_maps():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, size=200_000)
    a, b, c = 0.5, 1.5, 0.3
    odds = p**a / (1 - p) ** b * np.exp(c)
    hits = rng.random(len(p)) < odds / (1 + odds)
    calibrator = Calibrator.fit("beta", np.column_stack([1 - p, p]), hits, None)
    np.testing.assert_allclose(calibrator.maps[0], [a, b, c], atol=0.05)
    # A map that would fall is constant.
    falling = Calibrator.fit("beta", np.column_stack([p, 1 - p]), hits, None)
    assert min(falling.maps[0][:2]) == 0
    grid = np.linspace(0, 1, 50)
    mapped = falling(np.column_stack([1 - grid, grid]))[:, 1]
    assert (np.diff(mapped) >= 0).all()


def test_one_class_and_two_threads():
    X, y = load_breast_cancer(return_X_y=True)
    models = [
        HornbeamClassifier(calibration="beta", n_estimators=5, n_jobs=n).fit(X, y)
        for n in (1, 3)
    ]
    assert len({model.get_booster().digest() for model in models}) == 1
    only = HornbeamClassifier(calibration="beta", n_estimators=2).fit(X, np.ones(569))
    assert (only.predict_proba(X) == 1).all()


def test_bad_choices_are_errors(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ParameterError, match="must be None, 'isotonic', 'beta', not"):
        HornbeamClassifier(calibration="platt").fit(X, y)
    model = HornbeamClassifier(calibration="beta", n_estimators=5).fit(X, y)
    with pytest.raises(ParameterError, match="calibrated prob") as error:
        model.export(tmp_path / "model.py")
    assert error.value.code == ErrorCode.NOT_EXPORTABLE
    model.export(tmp_path / "margins.py", output_margin=True)
    model.get_booster().export(tmp_path / "uncalibrated.py")
    model.get_booster().set_attr(hornbeam_calibration="[]")
    with pytest.raises(ModelFileError, match="holds no calibrator"):
        model.predict_proba(X)
