"""Leaf values that are added to the margins with the next gradients."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam

CLASSES = {"objective": "multi:softprob", "num_class": 3}
CASES = [
    {},
    {"custom": True},
    {"num_parallel_tree": 2, "subsample": 0.5},
    {"booster": "dart", "rate_drop": 0.5},
    {"objective": "survival:aft", "base_score": 1.0},
    CLASSES,
    {**CLASSES, "multi_strategy": "multi_output_tree"},
    {"objective": "reg:absoluteerror", "leaf_solver": "line_search"},
    {"tree_method": "exact", "subsample": 0.5},
]


def squared_error(margins, data):
    return margins - data.get_label(), np.ones_like(margins)


def metric_of(line):
    return float(line.rpartition(":")[2])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_margins_may_be_read_between_rounds(case):
    parameters = {name: value for name, value in case.items() if name != "custom"}
    fobj = squared_error if "custom" in case else None
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    own = {}
    if parameters.get("objective") == "survival:aft":
        low = rng.uniform(1, 2, 300)
        own = {"label_lower_bound": low, "label_upper_bound": low + 1}
    data = hornbeam.DMatrix(X, rng.integers(0, 3, 300), **own)
    unread, read = (hornbeam.Booster(parameters, [data]) for _ in range(2))
    for number in range(4):
        for booster in (unread, read):
            booster.update(data, number, fobj if number in (1, 2) else None)
        saved = hornbeam.Booster(model_file=read.save_raw())
        expected = metric_of(saved.eval(hornbeam.DMatrix(X, data.get_label(), **own)))
        assert metric_of(read.eval(data)) == pytest.approx(expected, rel=1e-5)
    assert unread.digest() == read.digest()
