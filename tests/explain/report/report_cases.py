"""Data that reports are made of: clean, and with one fault each."""

from __future__ import annotations

import numpy as np
import pandas as pd

import hornbeam
from hornbeam.explain.report.rows import Rows, read_rows
from hornbeam.explain.report.task import Task, task_of


def frame_of(n_rows=1500, seed=0):
    """Return features, and labels of two classes, which they explain in part."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows),
            "income": rng.lognormal(10, 0.5, n_rows),
            "score": rng.normal(size=n_rows),
            "city": pd.Categorical(rng.choice(["Bonn", "Kiel", "Ulm"], n_rows)),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, "score"] = np.nan
    margin = frame["score"].fillna(0) + (frame["city"] == "Kiel") + frame["age"] / 40
    return frame, (margin + rng.logistic(size=n_rows) > 2).to_numpy(float)


def trained(frame, labels, params=None, rounds=10, **info):
    params = {"objective": "binary:logistic", "max_depth": 3, **(params or {})}
    return hornbeam.train(params, hornbeam.DMatrix(frame, labels, **info), rounds)


def rows_of(booster, frame, labels, name="validation", **info) -> tuple[Rows, Task]:
    """Return rows as a report reads them, and what the model is for."""
    data = hornbeam.DMatrix(frame, labels, **info)
    rows = read_rows(name, booster, data, 400_000, 0)
    return rows, task_of(booster, booster.params, [rows], None)
