"""Every objective there is: the same model on any number of threads, and in parts."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam import DMatrix, QuantileDMatrix, train
from hornbeam.objectives.base import names

THREADS = (1, 2, 3, 7)
#: Enough for several tasks of each loop over rows.
N_ROWS = 36_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 4)).astype(np.float32)
NUMBERS = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + RNG.normal(size=N_ROWS)
AMOUNTS = np.exp(NUMBERS / 4)
GRADES = np.clip(np.floor(NUMBERS + 2), 0, 3)
WEIGHTS = RNG.uniform(0.5, 2, N_ROWS)
SEEN = RNG.random(N_ROWS) < 0.6

#: Labels by the beginning of an objective's name, the first that fits.
LABELS = {
    "binary:": NUMBERS > 0,
    "reg:logistic": NUMBERS > 0,
    "multi:": GRADES,
    "rank:map": NUMBERS > 0,
    "rank:": GRADES,
    "count:": np.floor(AMOUNTS),
    "reg:gamma": AMOUNTS,
    "reg:tweedie": AMOUNTS * (NUMBERS > -1),
    "reg:squaredlogerror": AMOUNTS,
    "dist:lognormal": AMOUNTS,
    "dist:negbinomial": np.floor(AMOUNTS),
    "survival:cox": np.where(SEEN, AMOUNTS, -AMOUNTS),
    "": NUMBERS,
}
PARAMS = {
    "multi:": {"num_class": 4},
    "reg:quantileerror": {"quantile_alpha": [0.1, 0.5, 0.8]},
    "reg:expectileerror": {"expectile_alpha": [0.2, 0.7]},
}


def fitting(table, name, default=None):
    """Return the entry of the first beginning of `name`."""
    return next(
        (own for begin, own in table.items() if name.startswith(begin)), default
    )


def matrix(name, weighted, kind=DMatrix):
    info = {}
    if name == "survival:aft":
        info["label_lower_bound"] = AMOUNTS
        info["label_upper_bound"] = np.where(SEEN, 1.5 * AMOUNTS, np.inf)
    else:
        info["label"] = np.asarray(fitting(LABELS, name), float)
    if name.startswith("rank:"):
        info["group"] = [30] * (N_ROWS // 30)
    if weighted:
        ranks = name.startswith("rank:")
        info["weight"] = WEIGHTS[: N_ROWS // 30] if ranks else WEIGHTS
    return kind(X, **info)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", names())
def test_any_number_of_threads(name, weighted):
    params = {"objective": name, "max_depth": 4, **fitting(PARAMS, name, {})}
    data = matrix(name, weighted)
    boosters = [
        train({**params, "nthread": threads}, data, 3, verbose_eval=False)
        for threads in THREADS
    ]
    assert len({booster.digest() for booster in boosters}) == 1
    assert max(tree.n_leaves for tree in boosters[0].model.trees) > 2
    assert np.isfinite(boosters[0].predict(data)).all()

    codes = matrix(name, weighted, QuantileDMatrix)
    two = train({**params, "nthread": 2}, codes, 2, verbose_eval=False)
    both = train(params, codes, 1, xgb_model=two.save_raw("ubj"), verbose_eval=False)
    assert both.digest() == boosters[0].digest()
