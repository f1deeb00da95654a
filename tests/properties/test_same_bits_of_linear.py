"""One linear model on any number of threads, in one go or in two."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam

# Enough for several actors, and for several tasks of each column.
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(9000, 16)).astype(np.float32)
ROWS[RNG.random(ROWS.shape) < 0.2] = np.nan
LABELS = np.nan_to_num(ROWS[:, 0] - ROWS[:, 1]) + RNG.normal(size=len(ROWS))
CLASSES = np.digitize(LABELS, [-1, 1])

OBJECTIVES = [
    ({"objective": "reg:squarederror"}, LABELS),
    ({"objective": "binary:logistic"}, LABELS > 0),
    ({"objective": "multi:softprob", "num_class": 3}, CLASSES),
]


@given(
    st.sampled_from(OBJECTIVES),
    st.fixed_dictionaries(
        {
            "feature_selector": st.sampled_from(
                ["cyclic", "shuffle", "random", "greedy", "thrifty"]
            ),
            "top_k": st.integers(0, 5),
            "reg_alpha": st.sampled_from([0, 0.01]),
            "reg_lambda": st.sampled_from([0, 0.1]),
            "tolerance": st.sampled_from([0, 0.1]),
            "seed": st.integers(0, 3),
        }
    ),
    st.booleans(),
)
@examples(10)
def test_threads_and_stops_change_nothing(objective, params, weighted):
    kind, labels = objective
    params = {"booster": "gblinear", **kind, **params}
    weight = np.linspace(0.5, 2, len(ROWS)) if weighted else None
    data = hornbeam.DMatrix(ROWS, labels, weight=weight)
    expected = hornbeam.train({**params, "nthread": 1}, data, 4)
    for threads in (2, 3, 7):
        own = {**params, "nthread": threads}
        begun = hornbeam.train(own, data, threads % 3 + 1)
        model = hornbeam.train(own, data, 3 - threads % 3, xgb_model=begun.save_raw())
        assert model.digest() == expected.digest()
