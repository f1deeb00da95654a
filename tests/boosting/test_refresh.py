"""Updates of existing trees: process_type=update and refit."""

from __future__ import annotations

import numpy as np
import pytest
from samples import few_values, ranked, squared_gradients

import hornbeam
from hornbeam import Booster, DMatrix

ROWS, LABELS = few_values(600, 5, missing=0.1)
DATA = DMatrix(ROWS, LABELS)
PARAMS = {"max_depth": 4}
UPDATE = {**PARAMS, "process_type": "update"}


@pytest.fixture(scope="module")
def booster():
    return hornbeam.train(PARAMS, DATA, 6)


def updated(booster, data=DATA, rounds=6, **params):
    return hornbeam.train(
        {**UPDATE, **params}, data, rounds, xgb_model=booster, verbose_eval=False
    )


def values(booster):
    return [tree.value.tolist() for tree in booster.model.trees]


def test_refresh_on_the_training_rows_keeps_the_leaves(booster):
    again = updated(booster)
    assert values(again) == values(booster)
    for tree, other in zip(again.model.trees, booster.model.trees, strict=True):
        np.testing.assert_array_equal(tree.cover, other.cover)
        np.testing.assert_allclose(tree.gain, other.gain, rtol=1e-3, atol=1e-2)


def test_refresh_with_objectives_weights_and_parallel_trees():
    params = {
        "objective": "multi:softprob",
        "num_class": 3,
        "num_parallel_tree": 2,
        "max_depth": 3,
        "eta": 0.7,
    }
    weight = np.random.default_rng(0).random(600)
    data = DMatrix(ROWS, ranked(LABELS, 3), weight=weight)
    booster = hornbeam.train(params, data, 3)
    again = hornbeam.train(
        {**params, "process_type": "update"}, data, 3, xgb_model=booster
    )
    assert values(again) == values(booster)


def test_refresh_with_custom_objective_and_gradients(booster):
    own = hornbeam.train({**PARAMS, "base_score": 0.0}, DATA, 3, obj=squared_gradients)
    again = hornbeam.train(UPDATE, DATA, 3, obj=squared_gradients, xgb_model=own)
    assert values(again) == values(own)
    given = Booster(UPDATE, model_file=own)
    given.boost(DATA, 0, grad=-LABELS, hess=np.ones(len(ROWS)))
    assert values(given) == values(own[:1])


def test_refresh_leaf_0_updates_statistics_only(booster):
    half = DMatrix(ROWS[:300], LABELS[:300])
    again = updated(booster, half, refresh_leaf=False)
    assert values(again) == values(booster)
    assert all(
        tree.cover[0] == 300 and other.cover[0] == 600
        for tree, other in zip(again.model.trees, booster.model.trees, strict=True)
    )


def test_prune_removes_splits_by_gain_and_depth(booster):
    shallow = updated(booster, updater="prune", max_depth=2)
    assert [tree.depth() for tree in shallow.model.trees] == [2] * 6
    for tree in shallow.model.trees:
        leaf = tree.leaf_mask & (tree.left < 0)
        inner = tree.left >= 0
        assert np.count_nonzero(leaf) == np.count_nonzero(inner) + 1
    stumps = updated(booster, updater="prune", gamma=1e9)
    assert [tree.n_leaves for tree in stumps.model.trees] == [1] * 6
    # Ancestors of a split that is kept are kept, whatever their gain.
    gamma = float(np.median([t.gain[t.left >= 0].mean() for t in booster.model.trees]))
    for tree in updated(booster, updater="prune", gamma=gamma).model.trees:
        last = (tree.left >= 0) & ~np.isin(
            np.arange(tree.n_nodes), tree.parent[tree.left >= 0]
        )
        assert (tree.gain[last] >= gamma).all()


def test_pruned_models_round_trip_through_files(booster):
    pruned = updated(booster, updater="prune,refresh", gamma=5.0)
    for kind in ("json", "ubj"):
        again = Booster(model_file=pruned.save_raw(kind))
        assert again.digest() == pruned.digest()
        np.testing.assert_array_equal(again.predict(DATA), pruned.predict(DATA))


def test_refresh_computes_leaves_from_other_rows(booster):
    other = DMatrix(ROWS, 3 * LABELS + 7)
    result = {}
    again = hornbeam.train(
        UPDATE,
        other,
        6,
        xgb_model=booster,
        evals=[(other, "a")],
        evals_result=result,
        verbose_eval=False,
    )
    error = np.sqrt(np.mean((again.predict(other) - other.get_label()) ** 2))
    before = np.sqrt(np.mean((booster.predict(other) - other.get_label()) ** 2))
    assert error < before / 2
    assert result["a"]["rmse"][-1] == pytest.approx(error, rel=1e-5)
    assert values(booster) == values(hornbeam.train(PARAMS, DATA, 6))


def test_fewer_rounds_update_the_first_trees(booster):
    assert updated(booster, rounds=4).num_boosted_rounds() == 4
    scheduled = hornbeam.train(
        UPDATE,
        DATA,
        6,
        xgb_model=booster,
        callbacks=[hornbeam.LearningRateScheduler([0.3] * 6)],
    )
    assert values(scheduled) == values(booster)


def test_refresh_keeps_dart_weights():
    params = {"booster": "dart", "rate_drop": 0.5, "max_depth": 3}
    booster = hornbeam.train(params, DATA, 8)
    again = hornbeam.train(
        {"process_type": "update"}, DATA, 8, xgb_model=booster, verbose_eval=False
    )
    np.testing.assert_array_equal(again.model.tree_weights, booster.model.tree_weights)


def test_refresh_does_not_depend_on_the_number_of_threads(booster):
    other = DMatrix(ROWS[::-1], LABELS[::-1] + 1)
    digests = {updated(booster, other, nthread=n).digest() for n in (1, 2, 3, 7)}
    digests.add(updated(booster, DMatrix(ROWS, LABELS + 1)).digest())
    assert len(digests) == 1


# --- Refit ----------------------------------------------------------------------------


def test_refit_mixes_old_and_new_values(booster):
    other = DMatrix(ROWS[:300], LABELS[:300] + 2)
    errors = []
    for decay in (1.0, 0.9, 0.5, 0.0):
        found = booster.refit(other, decay)
        errors.append(np.mean((found.predict(other) - other.get_label()) ** 2))
        assert found.num_boosted_rounds() == 6
    assert errors == sorted(errors, reverse=True)
    assert values(booster.refit(other, 1.0)) == values(booster)
    first, old = booster.refit(other, 0.25).model.trees[0], booster.model.trees[0]
    new = booster.refit(other, 0.0).model.trees[0]
    np.testing.assert_allclose(
        first.value, 0.25 * old.value + 0.75 * new.value, rtol=1e-6
    )


def test_refit_keeps_leaves_without_rows(booster):
    leaves = booster.predict(DATA, pred_leaf=True)[:, 0]
    some = leaves == leaves[0]
    first = booster.refit(DMatrix(ROWS[some], LABELS[some] + 9), 0.0).model.trees[0]
    old = booster.model.trees[0]
    changed = np.flatnonzero(first.value != old.value)
    assert changed.tolist() == [int(leaves[0])]


def test_a_refitted_booster_can_be_trained_further(booster):
    fitted = booster.refit(DATA, 0.5)
    longer = hornbeam.train(PARAMS, DATA, 2, xgb_model=fitted)
    assert longer.num_boosted_rounds() == 8
    fitted.update(DATA, 6)
    assert fitted.num_boosted_rounds() == 7


TOGETHER = {**PARAMS, "multi_strategy": "multi_output_tree"}
TWO = np.stack([LABELS, np.nan_to_num(ROWS[:, 1]) - LABELS], axis=1)


@pytest.mark.parametrize("kind", [{}, {"booster": "dart", "rate_drop": 0.3}])
def test_multi_output_trees_are_refreshed(kind):
    params = {**TOGETHER, **kind}
    weight = np.random.default_rng(0).random(600)
    data = DMatrix(ROWS, TWO, weight=weight)
    booster = hornbeam.train(params, data, 4)
    update = {**params, "process_type": "update"}
    if not kind:  # the weights of dropped trees have changed since
        again = hornbeam.train(update, data, 4, xgb_model=booster)
        assert values(again) == values(booster)
        for tree, other in zip(again.model.trees, booster.model.trees, strict=True):
            np.testing.assert_array_equal(tree.cover, other.cover)
            np.testing.assert_allclose(tree.gain, other.gain, rtol=1e-3, atol=1e-2)
    half = DMatrix(ROWS[:300], TWO[:300])
    fresh = [
        hornbeam.train({**update, "nthread": threads}, half, 4, xgb_model=booster)
        for threads in (1, 2, 3, 7)
    ]
    assert len({one.digest() for one in fresh}) == 1
    assert fresh[0].model.trees[0].cover[0] == 2 * 300


def test_refresh_of_equal_outputs_equals_that_of_one_output():
    twice = np.stack([LABELS, LABELS], axis=1)
    one = hornbeam.train(PARAMS, DATA, 3)
    both = hornbeam.train(TOGETHER, DMatrix(ROWS, twice), 3)
    half, halves = DMatrix(ROWS[:300], LABELS[:300]), DMatrix(ROWS[:300], twice[:300])
    update = {"process_type": "update", "updater": "refresh,prune"}
    pairs = [
        (
            hornbeam.train({**PARAMS, **update, "gamma": 9}, half, 3, xgb_model=one),
            hornbeam.train(
                {**TOGETHER, **update, "gamma": 18}, halves, 3, xgb_model=both
            ),
        ),
        (one.refit(half, decay=0.3), both.refit(halves, decay=0.3)),
    ]
    for alone, together in pairs:
        for tree, other in zip(alone.model.trees, together.model.trees, strict=True):
            np.testing.assert_array_equal(tree.left, other.left)
            np.testing.assert_array_equal(np.stack([tree.value] * 2, 1), other.value)
        read = Booster(model_file=together.save_raw())
        np.testing.assert_array_equal(read.predict(halves), together.predict(halves))
