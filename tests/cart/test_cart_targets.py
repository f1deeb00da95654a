"""Targets: exact sums in any order, predictions, losses and impurities of nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam import ParameterError
from hornbeam.cart.targets import Targets


@given(st.integers(0, 2**32), st.integers(-300, 280), st.sampled_from([0.0, 1.0, 1e6]))
def test_sums_of_a_sample_are_exact_in_any_order(seed, exponent, offset):
    rng = np.random.default_rng(seed)
    y = (rng.normal(size=200) + offset) * 10.0**exponent
    weights = rng.exponential(size=200)
    targets = Targets.of(y, weights, 0, "squared_error", 400)
    rows = rng.integers(200, size=400)
    for values in (targets.values[rows], targets.weights[rows]):
        total = values.sum()
        assert np.cumsum(rng.permutation(values))[-1] == total
        assert values[::3].sum() + values[1::3].sum() + values[2::3].sum() == total


@given(st.integers(0, 2**32))
def test_node_means_are_weighted_means_or_class_shares(seed):
    rng = np.random.default_rng(seed)
    y, weights = rng.normal(size=50) + 1000, rng.exponential(size=50)
    targets = Targets.of(y, weights, 0, "squared_error", 50)
    sums = np.array([[targets.weights.sum(), targets.values.sum()]])
    assert targets.node_means(sums)[0] == pytest.approx(np.average(y, weights=weights))
    classes = rng.integers(3, size=50)
    targets = Targets.of(classes, weights, 3, "gini", 50)
    sums = np.bincount(classes, targets.weights, 3)[None]
    shares = [weights[classes == k].sum() / weights.sum() for k in range(3)]
    np.testing.assert_allclose(targets.node_means(sums)[0], shares)
    assert targets.node_votes(sums)[0].tolist() == np.eye(3)[np.argmax(shares)].tolist()


def test_of_sample_multiplies_by_the_counts_of_rows():
    targets = Targets.of(
        np.arange(4.0), np.array([1, 2, 1, 1.0]), 0, "squared_error", 9
    )
    rows, counts = np.array([0, 1], np.int32), np.array([3, 2, 0, 0], np.int32)
    weights, values, _ = targets.of_sample(rows, counts)
    assert weights.tolist() == [3, 4]
    np.testing.assert_array_equal(values, [3, 4] * (np.arange(2) - targets.center))


def test_node_votes_of_equal_classes_go_to_the_first():
    targets = Targets.of(np.arange(3), None, 3, "gini", 3)
    assert targets.node_votes(np.array([[1.0, 2.0, 2.0]])).tolist() == [[0, 1, 0]]
    targets = Targets.of(np.arange(2), None, 2, "gini", 2)
    assert targets.node_votes(np.array([[2.0, 2.0], [1.0, 2.0]])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [("gini", 0.625), ("entropy", 1.5), ("log_loss", 1.5), ("error", 0.5)],
)
def test_impurity_of_classes(criterion, expected):
    labels = np.array([0, 0, 1, 2])
    targets = Targets.of(labels, None, 3, criterion, 4)
    sample = targets.of_sample(np.arange(4, dtype=np.int32), None)
    assert targets.impurity(sample, np.array([2.0, 1.0, 1.0])) == expected


def test_a_criterion_for_other_targets_raises_an_error():
    for n_classes, named in ((0, "gini"), (3, "squared_error"), (3, "ginny")):
        with pytest.raises(ParameterError, match=f"one of .*, not '{named}'"):
            Targets.of(np.arange(3), None, n_classes, named, 3)
