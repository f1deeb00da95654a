"""Export to ONNX: predictions of onnxruntime."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from exported_models import CASES, exported
from selection import half_slow
from sklearn.datasets import load_breast_cancer, load_wine

import hornbeam
from hornbeam import HornbeamClassifier, HornbeamRegressor, ParameterError
from hornbeam.export import to_onnx


def run(model, rows):
    """Return the outputs by name, for rows in the input type of the model."""
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (entry,) = session.get_inputs()
    dtype = np.float64 if "double" in entry.type else np.float32
    results = session.run(None, {"X": np.asarray(rows, dtype)})
    return dict(zip([o.name for o in session.get_outputs()], results, strict=True))


def as_float32(case):
    """Return the rows of a case in float32."""
    return hornbeam.DMatrix(
        case.codes.astype(np.float32),
        feature_names=case.data.feature_names,
        feature_types=case.data.feature_types,
    )


@pytest.mark.parametrize("name", half_slow(CASES, pytest.mark.slow))
def test_predictions_of_onnxruntime(name):
    case = exported(name)
    assert np.isnan(case.codes).any()
    results = run(to_onnx(case.booster), case.codes)
    want = case.booster.predict(as_float32(case), strict_shape=True)
    if "variable" in results:
        assert results["variable"].dtype == want.dtype
        np.testing.assert_allclose(results["variable"], want, rtol=1e-5, atol=1e-5)
        return
    shares = results["probabilities"]
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    if case.booster.model.objective == "multi:softmax":
        np.testing.assert_array_equal(results["label"], want[:, 0])
    else:
        of_last = shares[:, 1:] if want.shape[1] == 1 else shares
        np.testing.assert_allclose(of_last, want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(results["label"], shares.argmax(axis=1))


@pytest.mark.parametrize("name", CASES)
def test_margins(name):
    case = exported(name)
    model = to_onnx(case.booster, output_margin=True)
    want = case.booster.predict(as_float32(case), output_margin=True, strict_shape=True)
    margins = run(model, case.codes)["variable"]
    np.testing.assert_allclose(margins, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["squared error", "float32", "sets", "far from 0"])
def test_features_in_double_precision(name):
    case = exported(name)
    margins = run(to_onnx(case.booster, input_type="float64"), case.codes)["variable"]
    np.testing.assert_allclose(margins, case.margins, rtol=1e-6, atol=1e-6)


def test_thresholds_between_adjacent_float32_need_double_precision():
    rows = np.array([[1.0], [1.0 + 1e-12]])
    params = {"learning_rate": 1, "reg_lambda": 0, "base_score": 0}
    booster = hornbeam.train(params, hornbeam.DMatrix(rows, [0, 1]), 1)
    narrow = run(to_onnx(booster), rows)["variable"][:, 0]
    wide = run(to_onnx(booster, input_type="float64"), rows)["variable"][:, 0]
    assert narrow[0] == narrow[1]
    assert wide.tolist() == [0, 1]


def test_class_labels_and_best_iteration_of_an_estimator():
    X, y = load_wine(return_X_y=True)
    names = np.array(["Barolo", "Grignolino", "Barbera"])[y]
    model = HornbeamClassifier(
        n_estimators=60, max_depth=2, learning_rate=0.5, early_stopping_rounds=3
    )
    model.fit(X[::2], names[::2], eval_set=[(X[1::2], names[1::2])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    results = run(to_onnx(model, input_type="float64"), X)
    np.testing.assert_array_equal(results["label"], model.predict(X))
    np.testing.assert_allclose(
        results["probabilities"], model.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("labels", [[False, True], [3, 7], [1.0, 2.0], ["no", "yes"]])
@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw"])
def test_class_labels_of_two_classes(labels, objective):
    X, y = load_breast_cancer(return_X_y=True)
    y = np.array(labels)[y]
    model = HornbeamClassifier(n_estimators=5, objective=objective).fit(X, y)
    results = run(to_onnx(model, input_type="float64"), X)
    np.testing.assert_array_equal(results["label"], model.predict(X))
    np.testing.assert_allclose(
        results["probabilities"], model.predict_proba(X), atol=1e-6
    )


def test_random_forests():
    X, y = load_wine(return_X_y=True)
    for target in (y, y > 0):
        model = hornbeam.RandomForestClassifier(n_estimators=20, random_state=0)
        model.fit(X, target)
        results = run(to_onnx(model, input_type="float64"), X)
        np.testing.assert_allclose(
            results["probabilities"], model.predict_proba(X), atol=1e-6
        )
        np.testing.assert_array_equal(results["label"], model.predict(X))


def test_feature_names_are_in_the_metadata():
    model = to_onnx(exported("squared error").booster)
    told = {entry.key: entry.value for entry in model.metadata_props}
    assert told["objective"] == "reg:squarederror"
    assert json.loads(told["feature_names"])[:3] == ["origin", "wind_dir", "month"]
    assert json.loads(told["categories"])["origin"] == ["EWR", "JFK", "LGA"]


def test_iteration_range_of_a_booster():
    case = exported("squared error")
    some = run(to_onnx(case.booster, iteration_range=(2, 5)), case.codes)["variable"]
    want = case.booster.predict(as_float32(case), iteration_range=(2, 5))
    np.testing.assert_allclose(some[:, 0], want, rtol=1e-5)


def test_export_methods_of_boosters_and_estimators(tmp_path):
    case = exported("squared error")
    case.booster.export(tmp_path / "a.onnx")
    assert onnx.load(tmp_path / "a.onnx") == to_onnx(case.booster)
    X, y = case.codes[:, 2:], case.margins[:, 0]
    model = HornbeamRegressor(n_estimators=3).fit(X, y)
    model.export(tmp_path / "b.onnx", input_type="float64")
    results = run(onnx.load(tmp_path / "b.onnx"), X)
    np.testing.assert_allclose(results["variable"][:, 0], model.predict(X), rtol=1e-5)


def test_unknown_input_types_are_an_error():
    with pytest.raises(ParameterError, match="'float32' or 'float64', not 'float16'"):
        to_onnx(exported("float32").booster, input_type="float16")
