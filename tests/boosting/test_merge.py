"""Merged models, the rounds of one followed by those of another, and averaged ones."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
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


@pytest.mark.parametrize(
    ("params", "labels"),
    [
        ({}, LABELS),
        ({"objective": "multi:softprob", "num_class": 3}, np.arange(300) % 3),
        ({"num_parallel_tree": 2, "subsample": 0.5}, LABELS),
        ({"booster": "dart", "rate_drop": 0.5}, LABELS),
        ({"multi_strategy": "multi_output_tree"}, np.column_stack([LABELS, -LABELS])),
    ],
    ids=["values", "classes", "forests", "dart", "vectors"],
)
def test_averaged_margins_are_means(params, labels, tmp_path):
    parts = [
        hornbeam.train(
            {**PARAMS, **params, "base_score": 0.5},
            DMatrix(ROWS[rows], labels[rows]),
            4,
        )
        for rows in (slice(200), slice(100, 300), slice(50, 250))
    ]
    mean = np.mean([part.predict(DATA, output_margin=True) for part in parts], axis=0)
    averaged = hornbeam.average(parts)
    assert averaged.num_boosted_rounds() == 4
    margins = averaged.predict(DATA, output_margin=True)
    np.testing.assert_allclose(margins, mean, rtol=1e-5, atol=1e-5)
    averaged.save_model(tmp_path / "averaged.ubj")
    theirs = xgboost.Booster(model_file=tmp_path / "averaged.ubj")
    np.testing.assert_allclose(
        theirs.predict(xgboost.DMatrix(ROWS), output_margin=True), mean, 1e-5, 1e-5
    )
    params = {**PARAMS, **params, "num_parallel_tree": averaged.model.num_parallel_tree}
    longer = hornbeam.train(params, DMatrix(ROWS, labels), 1, xgb_model=averaged)
    assert longer.num_boosted_rounds() == 5


def test_only_models_of_as_many_rounds_have_an_average():
    booster = hornbeam.train(PARAMS, DATA, 3)
    assert hornbeam.average([booster]).digest() == booster.digest()
    with pytest.raises(hornbeam.ParameterError, match="3 and 2 rounds"):
        hornbeam.average([booster, booster[:2]])
    with pytest.raises(hornbeam.ParameterError, match="average takes a list"):
        hornbeam.average([])
