"""Model files between Hornbeam and the newest XGBoost, which the tests do not install.

In an environment with that XGBoost, and NumPy and pandas::

    python tests/xgboost/newest.py write tests/xgboost/newest

writes its models and their predictions, which the tests read. With Hornbeam's models,

    python tests/xgboost/newest.py write FOLDER hornbeam

writes them, and, with the newest XGBoost again,

    python tests/xgboost/newest.py read FOLDER

compares its predictions of them with Hornbeam's.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

RNG = np.random.default_rng(0)
N_ROWS = 24
X = pd.DataFrame(
    {
        "a": RNG.random(N_ROWS).astype(np.float32),
        "b": RNG.random(N_ROWS).astype(np.float32),
        "c": pd.Categorical.from_codes(RNG.integers(0, 5, N_ROWS), list("pqrst")),
    }
)
X.loc[3, "b"] = np.nan
Y = (X["a"] * 3 + X["c"].cat.codes % 2).to_numpy()
TWO = np.stack([Y, X["a"] - Y], axis=1)
CLASSES = (X["a"] * 2.99).to_numpy().astype(int)
DROPOUT = {"booster": "dart", "rate_drop": 0.5, "one_drop": 1}
VECTORS = {"multi_strategy": "multi_output_tree"}
MODELS = {
    "classes": ({"objective": "multi:softprob", "num_class": 3}, CLASSES),
    "dart": (DROPOUT, Y),
    "expectiles": (
        {"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8]},
        Y,
    ),
    "linear": ({"booster": "gblinear"}, Y),
    "vectors": (VECTORS, TWO),
    "vectors_dart": ({**VECTORS, **DROPOUT}, TWO),
}


def matrix(xgb, model, label=None):
    rows = X[["a", "b"]] if model == "linear" else X
    return xgb.DMatrix(rows, label, enable_categorical=True)


def train(xgb, model, **options):
    """Return a booster of two rounds."""
    params, label = MODELS[model]
    depth = {} if model == "linear" else {"max_depth": 2}
    return xgb.train({**depth, **params}, matrix(xgb, model, label), 2, **options)


def write(xgb, folder):
    folder.mkdir(exist_ok=True)
    predictions = {}
    for name in MODELS:
        booster = train(xgb, name)
        booster.save_model(folder / f"{name}.json")
        found = booster.predict(matrix(xgb, name), output_margin=True)
        predictions[name] = np.round(found.astype(np.float64), 7).tolist()
    (folder / "margins.json").write_text(json.dumps(predictions, indent=1) + "\n")


def differences(xgb, folder):
    """Return the largest difference of margins for each model."""
    expected = json.loads((folder / "margins.json").read_text())
    found = {}
    for name in MODELS:
        booster = xgb.Booster(model_file=folder / f"{name}.json")
        margins = booster.predict(matrix(xgb, name), output_margin=True)
        found[name] = float(np.abs(margins - np.array(expected[name])).max())
    return found


def main():
    action, folder, *package = sys.argv[1:]
    xgb = importlib.import_module("hornbeam.xgboost" if package else "xgboost")
    if action == "write":
        write(xgb, Path(folder))
        return
    for name, difference in differences(xgb, Path(folder)).items():
        assert difference < 1e-5, (name, difference)


if __name__ == "__main__":
    main()
