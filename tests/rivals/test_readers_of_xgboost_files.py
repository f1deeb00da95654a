"""Tools that read XGBoost's files read Hornbeam's: treelite, and shap with XGBoost."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import treelite
import xgboost
from samples import few_values, ranked

import hornbeam
from hornbeam.export import to_xgboost

with warnings.catch_warnings():  # it colours maps as matplotlib will not have it
    warnings.simplefilter("ignore")
    import shap

ROWS, LABELS = few_values(300, 5, missing=0.1)
CLASSES = {"objective": "multi:softprob", "num_class": 3}
VECTORS = {"multi_strategy": "multi_output_tree"}
#: Parameters and labels.
CASES = {
    "squared error": ({}, LABELS),
    "logistic": ({"objective": "binary:logistic"}, LABELS > 0),
    "classes": (CLASSES, ranked(LABELS, 3)),
    "poisson": ({"objective": "count:poisson"}, np.abs(LABELS).round()),
    "dart": ({"booster": "dart", "rate_drop": 0.3}, LABELS),
    "forest": ({"num_parallel_tree": 3, "subsample": 0.5}, LABELS),
    "lossguide": ({"grow_policy": "lossguide", "max_leaves": 9}, LABELS),
}


def trained(name, rows=ROWS):
    params, labels = (CASES | {"vectors": (CLASSES | VECTORS, ranked(LABELS, 3))})[name]
    data = hornbeam.DMatrix(rows, labels)
    return hornbeam.train({"max_depth": 4, **params}, data, 8), data


@pytest.mark.parametrize("name", [*CASES, "vectors"])
@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("shift", [np.float32(0), np.float64(0.1)])
def test_treelite(name, ending, shift, tmp_path):
    booster, data = trained(name, ROWS + shift)
    path = tmp_path / f"model.{ending}"
    booster.save_model(path)
    # The file has float64 thresholds in addition to those that XGBoost reads.
    assert (b"thresholds" in path.read_bytes()) == (shift != 0)
    assert hornbeam.Booster(model_file=path).digest() == booster.digest()
    choice = {"json": "json", "ubj": "ubjson"}[ending]
    model = treelite.frontend.load_xgboost_model(path, format_choice=choice)
    got = treelite.gtil.predict(model, ROWS + shift).squeeze()
    np.testing.assert_allclose(got, booster.predict(data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_shap(name, tmp_path):
    booster, data = trained(name)
    booster.save_model(tmp_path / "model.ubj")
    reader = xgboost.Booster(model_file=tmp_path / "model.ubj")
    explainer = shap.TreeExplainer(reader)
    ours = as_shap(booster.predict(data, pred_contribs=True, strict_shape=True))
    theirs = explainer.shap_values(ROWS)
    np.testing.assert_allclose(theirs, ours[:, :-1], atol=1e-5)
    np.testing.assert_allclose(explainer.expected_value, ours[0, -1], atol=1e-5)

    pairs = as_shap(booster.predict(data, pred_interactions=True, strict_shape=True))
    theirs = explainer.shap_interaction_values(ROWS)
    np.testing.assert_allclose(theirs, pairs[:, :-1, :-1], atol=1e-5)


def as_shap(ours):
    """Return contributions with the outputs, if several, as the last axis."""
    last = np.moveaxis(ours, 1, -1)
    return last[..., 0] if last.shape[-1] == 1 else last


def test_exported_files_have_no_extension():
    for rows in (ROWS, ROWS + np.float64(0.1)):
        booster, data = trained("dart", rows)
        raw = to_xgboost(booster, raw_format="json")
        assert b"hornbeam" not in raw
        again = hornbeam.Booster(model_file=raw)
        narrow = hornbeam.DMatrix(rows.astype(np.float32))
        np.testing.assert_allclose(
            again.predict(narrow), booster.predict(data), rtol=1e-5
        )
        reader = xgboost.Booster(model_file=bytearray(raw))
        np.testing.assert_allclose(
            reader.predict(xgboost.DMatrix(rows)), booster.predict(data), rtol=1e-5
        )
        written = json.loads(reader.save_raw("json"))
        assert json.loads(raw)["learner"].keys() == written["learner"].keys()


def test_exported_files_of_some_rounds():
    booster, data = trained("squared error")
    raw = to_xgboost(booster, iteration_range=(0, 3))
    want = booster.predict(data, iteration_range=(0, 3))
    assert hornbeam.Booster(model_file=raw).predict(data).tolist() == want.tolist()
