"""Bags of rows, trees in order, and what rows outside of bags say."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from hornbeam import DMatrix
from hornbeam.cart.bagging import (
    Bags,
    Folds,
    OutOfBag,
    grow_forest,
    permutation_increases,
)
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules
from hornbeam.cart.targets import Targets

ROWS = np.arange(0, 600, 2, dtype=np.int32)


def test_bags_draw_rows_evenly_and_leave_a_share_out():
    bags = Bags(ROWS, 601, ROWS.size, seed=9)
    times = np.array([bags.of(number).times for number in range(60)])
    assert (times.sum(axis=1) == ROWS.size).all()
    assert times[:, 1::2].sum() == 0 and times[:, -1].sum() == 0
    drawn = times[:, ROWS].sum(axis=0)
    assert ((drawn - 60) ** 2 / 60).sum() < 380  # 0.1 % by chance, 299 degrees
    shares = [bags.of(number).others.size / ROWS.size for number in range(60)]
    assert np.mean(shares) == pytest.approx(np.exp(-1), abs=0.01)
    # Each row in one bag more often than not is in another: they are drawn apart.
    assert abs(np.corrcoef(times[0, ROWS], times[1, ROWS])[0, 1]) < 0.2


def test_rows_in_and_out_of_a_bag_are_all_that_weigh():
    for n_draws, most in ((ROWS.size, 300), (20, 20), (None, 300)):
        bags = Bags(ROWS, 601, n_draws, seed=1)
        assert bags.most_rows == most
        bag = bags.of(3)
        assert bag.rows.size <= most
        np.testing.assert_array_equal(np.sort([*bag.rows, *bag.others]), ROWS)
        for rows in (bag.rows, bag.others):
            assert (np.diff(rows) > 0).all() and rows.dtype == np.int32
        if n_draws is not None:
            np.testing.assert_array_equal(np.flatnonzero(bag.times), bag.rows)


def planted(n_classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    y = (X[:, 1] > 0).astype(float) + (X[:, 0] > 1)
    y = np.minimum(y, n_classes - 1) if n_classes else y + 0.01 * X[:, 0]
    criterion = "gini" if n_classes else "squared_error"
    weights = rng.uniform(0.5, 2, size=80)
    return Codes.of(DMatrix(X)), Targets.of(y, weights, n_classes, criterion, 80), y


def test_trees_come_in_order_from_threads_of_their_own():
    codes, targets, _ = planted()
    bags = Bags(np.arange(80, dtype=np.int32), 80, 80, 0)
    seen = set()

    def finish(number, bag, grown):
        seen.add(threading.current_thread().name)
        return number, grown.nodes.tobytes()

    alone, others = (
        list(grow_forest(codes, targets, Rules(1), bags, 30, n_threads, finish))
        for n_threads in (1, 3)
    )
    assert alone == others
    assert [number for number, _ in alone] == list(range(30))
    assert len(seen) > 1


def test_an_error_of_one_tree_ends_all():
    codes, targets, _ = planted()
    bags = Bags(np.arange(80, dtype=np.int32), 80, 80, 0)
    begun = []

    def finish(number, bag, grown):
        begun.append(number)
        if number == 4:
            raise KeyboardInterrupt
        return number

    with pytest.raises(KeyboardInterrupt):
        list(grow_forest(codes, targets, Rules(3), bags, 500, 2, finish))
    assert len(begun) < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("hornbeam_tree")]


def test_folds_are_bags_as_given():
    parts = [(ROWS[:10], ROWS[10:]), (ROWS[5:], ROWS[:5])]
    folds = Folds(parts)
    assert folds.most_rows == 295
    bag = folds.of(1)
    assert bag.times is None
    np.testing.assert_array_equal(bag.rows, ROWS[5:])
    np.testing.assert_array_equal(bag.others, ROWS[:5])


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_errors_out_of_bag_are_those_of_the_means_so_far(n_classes):
    _, targets, y = planted(n_classes)
    rng = np.random.default_rng(1)
    out_of_bag = OutOfBag(targets, y)
    shape = (80, n_classes) if n_classes > 2 else (80,)
    sums, counts = np.zeros(shape), np.zeros(80)
    for _ in range(5):
        rows = np.flatnonzero(rng.random(80) < 0.3).astype(np.int32)
        predicted = rng.random((rows.size, *shape[1:]))
        out_of_bag.add(rows, predicted)
        sums[rows] += predicted
        counts[rows] += 1
        seen = counts > 0
        means = (sums[seen].T / counts[seen]).T
        error = np.average(
            targets.losses_of(means, y[seen]), weights=targets.weights[seen]
        )
        assert out_of_bag.errors[-1] == pytest.approx(error)
    predictions = out_of_bag.predictions.reshape(80, -1)
    np.testing.assert_array_equal(np.isnan(predictions[:, 0]), counts == 0)
    np.testing.assert_allclose(
        predictions[seen], means.reshape(len(means), -1), rtol=1e-12
    )


@pytest.mark.parametrize("n_classes", [0, 2])
def test_a_permuted_feature_costs_what_the_tree_knew_by_it(n_classes):
    codes, targets, y = planted(n_classes)
    bags = Bags(np.arange(80, dtype=np.int32), 80, 80, 0)

    def finish(number, bag, grown):
        own = targets.means_of(grown.sums)
        others = bag.others
        found = permutation_increases(number, 0, grown, codes, targets, y, own, others)
        weights = targets.weights[others]
        usual = targets.losses_of(own[grown.leaves_of(codes, others)], y[others])
        for feature in range(3):
            if feature not in grown.nodes["feature"][grown.nodes["left"] >= 0]:
                assert found[feature] == 0
        assert (found >= -np.average(usual, weights=weights) - 1e-12).all()
        return found

    increases = list(grow_forest(codes, targets, Rules(3), bags, 20, 2, finish))
    mean = np.mean(increases, axis=0)
    assert mean.argmax() == 1
    assert mean[1] > 0.1
    assert abs(mean[2]) < 0.05 * mean[1]
    again = list(grow_forest(codes, targets, Rules(3), bags, 20, 1, finish))
    np.testing.assert_array_equal(increases, again)
