"""Bootstrap samples, the order of trees, out-of-bag error and importance."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from hornbeam import DMatrix
from hornbeam.cart.bagging import (
    BootstrapSampler,
    FoldSampler,
    OutOfBag,
    grow_forest,
    permutation_importance,
)
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams

ROWS = np.arange(0, 600, 2, dtype=np.int32)


def test_bootstrap_samples_draw_rows_uniformly_and_hold_rows_out():
    sampler = BootstrapSampler(ROWS, 601, ROWS.size, seed=9)
    counts = np.array([sampler.sample(number).counts for number in range(60)])
    assert (counts.sum(axis=1) == ROWS.size).all()
    assert counts[:, 1::2].sum() == 0 and counts[:, -1].sum() == 0
    drawn = counts[:, ROWS].sum(axis=0)
    assert ((drawn - 60) ** 2 / 60).sum() < 380  # 0.1 % by chance, 299 degrees
    shares = [sampler.sample(number).held_out.size / ROWS.size for number in range(60)]
    assert np.mean(shares) == pytest.approx(np.exp(-1), abs=0.01)
    # Samples of different trees are independent.
    assert abs(np.corrcoef(counts[0, ROWS], counts[1, ROWS])[0, 1]) < 0.2


def test_sampled_and_held_out_rows_are_all_rows_with_weight():
    for n_draws, most in ((ROWS.size, 300), (20, 20), (None, 300)):
        sampler = BootstrapSampler(ROWS, 601, n_draws, seed=1)
        assert sampler.max_rows == most
        sample = sampler.sample(3)
        assert sample.rows.size <= most
        np.testing.assert_array_equal(np.sort([*sample.rows, *sample.held_out]), ROWS)
        for rows in (sample.rows, sample.held_out):
            assert (np.diff(rows) > 0).all() and rows.dtype == np.int32
        if n_draws is not None:
            np.testing.assert_array_equal(np.flatnonzero(sample.counts), sample.rows)


def planted(n_classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    y = (X[:, 1] > 0).astype(float) + (X[:, 0] > 1)
    y = np.minimum(y, n_classes - 1) if n_classes else y + 0.01 * X[:, 0]
    criterion = "gini" if n_classes else "squared_error"
    weights = rng.uniform(0.5, 2, size=80)
    return (
        BinnedFeatures.of(DMatrix(X)),
        Targets.of(y, weights, n_classes, criterion, 80),
        y,
    )


def test_trees_are_yielded_in_order_whatever_the_number_of_threads():
    features, targets, _ = planted()
    sampler = BootstrapSampler(np.arange(80, dtype=np.int32), 80, 80, 0)
    seen = set()

    def finish(number, sample, tree):
        seen.add(threading.current_thread().name)
        return number, tree.nodes.tobytes()

    single, several = (
        list(
            grow_forest(
                features, targets, GrowthParams(1), sampler, 30, n_threads, finish
            )
        )
        for n_threads in (1, 3)
    )
    assert single == several
    assert [number for number, _ in single] == list(range(30))
    assert len(seen) > 1


def test_an_exception_in_one_tree_cancels_the_others():
    features, targets, _ = planted()
    sampler = BootstrapSampler(np.arange(80, dtype=np.int32), 80, 80, 0)
    begun = []

    def finish(number, sample, tree):
        begun.append(number)
        if number == 4:
            raise KeyboardInterrupt
        return number

    with pytest.raises(KeyboardInterrupt):
        list(grow_forest(features, targets, GrowthParams(3), sampler, 500, 2, finish))
    assert len(begun) < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("hornbeam_tree")]


def test_fold_sampler_returns_the_given_folds():
    parts = [(ROWS[:10], ROWS[10:]), (ROWS[5:], ROWS[:5])]
    folds = FoldSampler(parts)
    assert folds.max_rows == 295
    sample = folds.sample(1)
    assert sample.counts is None
    np.testing.assert_array_equal(sample.rows, ROWS[5:])
    np.testing.assert_array_equal(sample.held_out, ROWS[:5])


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_out_of_bag_error_is_the_loss_of_the_mean_prediction_so_far(n_classes):
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
            targets.losses(means, y[seen]), weights=targets.weights[seen]
        )
        assert out_of_bag.errors[-1] == pytest.approx(error)
    predictions = out_of_bag.predictions.reshape(80, -1)
    np.testing.assert_array_equal(np.isnan(predictions[:, 0]), counts == 0)
    np.testing.assert_allclose(
        predictions[seen], means.reshape(len(means), -1), rtol=1e-12
    )


@pytest.mark.parametrize("n_classes", [0, 2])
def test_permutation_importance_is_positive_for_informative_features_only(n_classes):
    features, targets, y = planted(n_classes)
    sampler = BootstrapSampler(np.arange(80, dtype=np.int32), 80, 80, 0)

    def finish(number, sample, tree):
        own = targets.node_means(tree.sums)
        held_out = sample.held_out
        found = permutation_importance(
            number, 0, tree, features, targets, y, own, held_out
        )
        weights = targets.weights[held_out]
        baseline = targets.losses(own[tree.apply(features, held_out)], y[held_out])
        for feature in range(3):
            if feature not in tree.nodes["feature"][tree.nodes["left"] >= 0]:
                assert found[feature] == 0
        assert (found >= -np.average(baseline, weights=weights) - 1e-12).all()
        return found

    increases = list(
        grow_forest(features, targets, GrowthParams(3), sampler, 20, 2, finish)
    )
    mean = np.mean(increases, axis=0)
    assert mean.argmax() == 1
    assert mean[1] > 0.1
    assert abs(mean[2]) < 0.05 * mean[1]
    again = list(
        grow_forest(features, targets, GrowthParams(3), sampler, 20, 1, finish)
    )
    np.testing.assert_array_equal(increases, again)
