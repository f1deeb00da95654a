"""The table of the tests, as a frame, a Dataset of Ray and a matrix."""

import numpy as np
import pandas as pd

import hornbeam

ROWS = 1200
_random = np.random.default_rng(7)
_x = _random.normal(size=(ROWS, 5))
_x[_random.random(_x.shape) < 0.05] = np.nan
_score = np.nan_to_num(_x[:, 0] * _x[:, 1]) + np.nan_to_num(_x[:, 2])
FRAME = pd.DataFrame(_x, columns=list("abcde")).assign(
    level=pd.Categorical(np.array(list("uvwxyz"))[_random.integers(0, 6, ROWS)]),
    y=_score + _random.normal(size=ROWS) / 4,
    w=_random.random(ROWS),
    q=np.arange(ROWS) // 7,
)
PARAMS = {"max_depth": 3, "subsample": 0.5, "colsample_bytree": 0.8}


def matrix(frame=FRAME, label="y", **fields):
    """Return a matrix of the features, with the columns of `fields`."""
    values = {field: frame[column].to_numpy() for field, column in fields.items()}
    features = frame.drop(columns=["y", *fields.values()])
    return hornbeam.DMatrix(features, frame[label].to_numpy(), **values)


def alone(params=PARAMS, rounds=8, frame=FRAME, label="y", **fields):
    """Return the booster that one process trains."""
    data = matrix(frame, label, **fields)
    return hornbeam.train(params, data, rounds, verbose_eval=False)
