"""Means by level: of numbers, and ordered ones of labels."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.level_means import LevelMeans
from hornbeam.features.matrix import derive


def columns_of(*columns):
    return lambda feature: np.array(columns[feature], np.float64)


def test_levels_are_codes_then_missing_then_unknown():
    columns = columns_of([0, 1, 2, np.nan, 3, 7, -1])
    levels = LevelMeans((0,)).levels(columns, [5])
    assert levels.tolist() == [0, 1, 2, 3, 4, 4, 4]


def test_combinations_count_the_last_column_fastest():
    columns = columns_of([0, 1, np.nan], [1, 0, 2])
    levels = LevelMeans((0, 1)).levels(columns, [4, 5])
    assert levels.tolist() == [1, 5, 12]


def test_the_ordered_mean_of_a_row_does_not_contain_its_own_label():
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(8, size=300), rng.normal(size=300)
    changed = labels.copy()
    changed[17] += 100.0
    ones, columns = np.ones(300), columns_of(codes)
    before, ordered = LevelMeans((0,)).of_targets(columns, [10], labels, ones, 3)
    after, other = LevelMeans((0,)).of_targets(columns, [10], changed, ones, 3)
    shift = 100.0 / 300  # of the prior, whose weight is at most 1
    assert abs(other[17] - ordered[17]) <= shift + 1e-9
    assert after.values[codes[17]] > before.values[codes[17]] + 1.0
    assert np.abs(other - ordered).max() > 1.0


def test_permutations_depend_on_the_seed_alone():
    codes, labels = np.arange(200) % 7, np.arange(200.0)
    ones, columns = np.ones(200), columns_of(codes)
    one, same, other = (
        LevelMeans((0,)).of_targets(columns, [9], labels, ones, seed)[1]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_weights_are_in_units_of_their_mean():
    codes, labels = np.arange(60) % 5, np.linspace(0, 1, 60)
    columns = columns_of(codes)
    light, heavy = (
        LevelMeans((0,)).of_targets(columns, [7], labels, np.full(60, w), 0)
        for w in (1.0, 8.0)
    )
    np.testing.assert_allclose(light[0].values, heavy[0].values)
    np.testing.assert_allclose(light[1], heavy[1])


def test_a_weight_of_two_is_a_row_twice_in_the_means_of_prediction():
    codes, labels = np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 5.0, 7.0])
    weights = np.array([2.0, 1.0, 1.0, 1.0])
    once = LevelMeans((0,)).of_numbers(columns_of(codes), [4], labels, weights)
    assert once.values.tolist() == [5 / 3, 6.0, 17 / 5, 17 / 5]


def test_a_constant_label_has_a_constant_mean():
    codes, ones = np.arange(40) % 3, np.ones(40)
    means, ordered = LevelMeans((0,)).of_targets(
        columns_of(codes), [5], np.full(40, 2.5), ones, 0
    )
    np.testing.assert_allclose(means.values, 2.5)
    np.testing.assert_allclose(ordered, 2.5)


def test_too_many_combinations_are_an_error():
    codes = np.arange(1100.0)
    data = hornbeam.DMatrix(
        np.column_stack([codes, codes]), codes, feature_types=["c", "c"]
    )
    with pytest.raises(ParameterError, match="combinations") as error:
        derive(data, ["mean(label | f0, f1)"])
    assert error.value.code is ErrorCode.INVALID_FEATURE_FORMULA
