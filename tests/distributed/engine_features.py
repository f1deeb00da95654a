"""One training for each row of the table in docs/clusters.md."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

import hornbeam

ROWS = 600
_random = np.random.default_rng(11)
_x = _random.normal(size=(ROWS, 4)).astype(np.float32)
_x[_random.random(_x.shape) < 0.05] = np.nan
_y = np.nan_to_num(_x[:, 0] * 2 + _x[:, 1]) + _random.normal(size=ROWS) / 4
FRAME = pd.DataFrame(_x, columns=list("abcd")).assign(
    level=pd.Categorical(np.array(list("uvwxyz"))[_random.integers(0, 6, ROWS)]),
    y=_y,
    grade=np.digitize(_y, [-1, 1]),
    time=np.exp(_y),
    query=np.arange(ROWS) // 10,
    key=_random.permutation(ROWS),
)
FEATURES = [*"abcd", "level"]
NUMBERS = list("abcd")


def squared(margins, data):
    return margins - data.get_label(), np.ones_like(margins)


def _of(params=None, label="y", features=FEATURES, options=None, **fields):
    return params or {}, label, features, options or {}, fields


#: By the name of the row: parameters, label, features, options of `train`, and fields.
CASES = {
    "regression, binary and count objectives": _of(
        {"objective": "reg:tweedie"}, "time"
    ),
    "several classes": _of({"objective": "multi:softprob", "num_class": 3}, "grade"),
    "quantiles": _of({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}),
    "survival (Cox)": _of({"objective": "survival:cox"}, "time"),
    "ranking": _of({"objective": "rank:ndcg"}, "grade", qid="query"),
    "`booster='dart'`": _of({"booster": "dart", "rate_drop": 0.5}),
    "`booster='gblinear'`": _of(
        {"booster": "gblinear", "max_depth": 6}, features=NUMBERS
    ),
    "`tree_method='approx'`": _of(
        {"tree_method": "approx", "objective": "reg:logistic"}, "unit"
    ),
    "`tree_method='exact'`": _of({"tree_method": "exact"}, features=NUMBERS),
    "`grow_policy='lossguide'`": _of({"grow_policy": "lossguide", "max_leaves": 8}),
    "`grow_policy='symmetric'`": _of({"grow_policy": "symmetric"}),
    "vector leaves": _of(
        {
            "objective": "multi:softprob",
            "num_class": 3,
            "multi_strategy": "multi_output_tree",
        },
        "grade",
    ),
    "linear leaves": _of({"leaf_model": "linear"}, features=NUMBERS),
    "line search": _of({"leaf_solver": "line_search"}, features=NUMBERS),
    "`process_type='update'`": _of({"process_type": "update"}, features=NUMBERS),
    "`device='gpu'`": _of({"device": "gpu"}, features=NUMBERS),
    "categories": _of({"max_cat_to_onehot": 1}),
    "constraints": _of(
        {"monotone_constraints": {"a": 1}, "interaction_constraints": [["a", "b"]]}
    ),
    "`subsample`, GOSS": _of({"sampling_method": "goss"}),
    "`row_key`": _of({"subsample": 0.5}, row_key="key"),
    "custom objective": _of({"base_score": 0.5}, options={"obj": squared}),
    "continuing a model": _of(options={"xgb_model": "before"}),
}
FRAME["unit"] = 1 / (1 + np.exp(-_y))
PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


def table():
    """Return the cells of the table by row and engine, as on the page."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"\|", line)[1:-1]] for line in lines]
    head = rows[0]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows[2:]}


def matrix(frame, label, features, fields):
    """Return a matrix of some rows."""
    values = {name: frame[column].to_numpy() for name, column in fields.items()}
    return hornbeam.DMatrix(frame[features], frame[label].to_numpy(), **values)


def part_of(name, begin, end):
    """Return the features and fields of some rows of a case."""
    _, label, features, _, fields = CASES[name]
    own = FRAME.iloc[begin:end]
    given = {field: own[column].to_numpy() for field, column in fields.items()}
    return {"data": own[features], "label": own[label].to_numpy()} | given


#: A model to continue.
BEFORE = hornbeam.train(
    {"max_depth": 2}, matrix(FRAME, "y", FEATURES, {}), 1, verbose_eval=False
)


def train(name, rows, params=None):
    """Train a case on a part of the rows."""
    given, label, features, options, fields = CASES[name]
    data = matrix(FRAME.iloc[rows], label, features, fields)
    if options.get("xgb_model"):
        options = options | {"xgb_model": BEFORE}
    return hornbeam.train(
        {"max_depth": 3, "nthread": 1} | given | (params or {}),
        data,
        3,
        verbose_eval=False,
        **options,
    )
