"""Merged models: the rounds of one model followed by those of another."""

from __future__ import annotations

import numpy as np
from samples import few_values

import hornbeam
from hornbeam import Booster, DMatrix

ROWS, LABELS = few_values(300, 4)
DATA = DMatrix(ROWS, LABELS)
PARAMS = {"max_depth": 3}


def test_merged_slices_equal_the_whole_model():
    whole = hornbeam.train(PARAMS, DATA, 9)
    assert (whole[:4] + whole[4:]).digest() == whole.digest()
    assert hornbeam.merge(list(whole)).digest() == whole.digest()
    assert hornbeam.merge([whole]).digest() == whole.digest()
    untrained = Booster(PARAMS)
    assert hornbeam.merge([untrained]).num_boosted_rounds() == 0


def test_merged_margins_add_up():
    fixed = {**PARAMS, "base_score": 0.5}
    first = hornbeam.train(fixed, DATA, 5)
    margins = first.predict(DATA, output_margin=True)
    other = DMatrix(ROWS, LABELS, base_margin=margins)
    second = hornbeam.train({**fixed, "eta": 0.1}, other, 3)
    both = first + second
    np.testing.assert_allclose(
        both.predict(DATA), second.predict(other), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        both.predict(DATA),
        first.predict(DATA) + second.predict(DATA) - 0.5,
        rtol=1e-5,
        atol=1e-5,
    )
    assert first.num_boosted_rounds() == 5 and both.num_boosted_rounds() == 8
    longer = hornbeam.train(fixed, DATA, 1, xgb_model=both)
    assert longer.num_boosted_rounds() == 9


def test_merge_of_dart_and_gbtree_models():
    trees = hornbeam.train(PARAMS, DATA, 4)
    dart = hornbeam.train({**PARAMS, "booster": "dart", "rate_drop": 0.5}, DATA, 6)
    both = trees + dart
    np.testing.assert_array_equal(
        both.model.tree_weights,
        np.concatenate([np.ones(4, np.float32), dart.model.tree_weights]),
    )
    both.update(DATA, 10)
    assert both.num_boosted_rounds() == 11


def test_merged_models_have_the_attributes_of_the_first():
    first, second = (hornbeam.train(PARAMS, DATA, 2) for _ in range(2))
    first.set_attr(note="a", best_iteration="1")
    second.set_attr(note="b", other="c")
    assert (first + second).attributes() == {"note": "a"}
