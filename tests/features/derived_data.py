"""Rows whose label depends on a product, and on a category with missing values."""

from __future__ import annotations

import numpy as np
import pandas as pd

import hornbeam

FORMULAS = ("a * b", "a / b", "a - b", "a - mean(a | c)", "mean(label | c)")


def frame(rows, seed=0, levels=12):
    """Return features and labels; two rows in ten have no category."""
    rng = np.random.default_rng(seed)
    a, b, codes = (
        rng.normal(size=rows),
        rng.normal(size=rows),
        rng.integers(levels, size=rows),
    )
    effects = np.linspace(-2.0, 2.0, levels)
    labels = a * b + effects[codes] + 0.1 * rng.normal(size=rows)
    names = np.array([f"level {code:02}" for code in range(levels)], object)[codes]
    names[::5] = None
    kind = pd.CategoricalDtype([f"level {code:02}" for code in range(levels)])
    X = pd.DataFrame({"a": a, "b": b, "c": pd.Categorical(names, dtype=kind)})
    X.loc[X.index[::7], "a"] = np.nan
    return X, labels


def matrix(rows, seed=0, **fields):
    X, labels = frame(rows, seed)
    return hornbeam.DMatrix(X, labels, **fields)
