"""cv: folds and results equal XGBoost's; each fold equals a separate training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost
from samples import few_values, ranked, squared_gradients
from sklearn.model_selection import GroupKFold, KFold

import hornbeam
from hornbeam import DMatrix, QuantileDMatrix

ROWS, LABELS = few_values(300, 4, missing=0.1)
ROWS = np.floor(ROWS)  # each fold has every value, so that cuts of all are its own
PARAMS = {"max_depth": 3, "nthread": 2}


def cv(params=None, rows=ROWS, labels=LABELS, rounds=4, matrix=DMatrix, **arguments):
    info = {
        name: arguments.pop(name)
        for name in ("group", "weight", "base_margin")
        if name in arguments
    }
    data = matrix(rows, labels, **info)
    return hornbeam.cv({**PARAMS, **(params or {})}, data, rounds, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"nfold": 5, "seed": 7, "metrics": ["rmse", "mae"]},
        {"shuffle": False, "metrics": "mae"},
        {"folds": KFold(4)},
        {"folds": [(list(range(100)), list(range(150, 200))), (range(90), [1, 299])]},
    ],
)
def test_results_equal_xgboosts(arguments):
    ours = cv(**arguments)
    data = xgboost.DMatrix(ROWS, LABELS)
    theirs = xgboost.cv(PARAMS, data, 4, **arguments)
    assert list(ours.columns) == list(theirs.columns)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_ranking_groups_are_not_divided():
    sizes = [10, 20, 30, 40, 100, 50, 50]
    arguments = {"nfold": 3, "seed": 3}
    ours = cv(group=sizes, **arguments)
    theirs = xgboost.cv(
        PARAMS, xgboost.DMatrix(ROWS, LABELS, group=sizes), 4, **arguments
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    splitter = cv(group=sizes, folds=GroupKFold(3))
    assert splitter.shape == (4, 4)


def test_each_fold_equals_a_separate_training():
    """The cuts are those of all rows; predictions are out-of-fold."""
    folds = [(np.arange(200), np.arange(200, 300)), (np.arange(50, 300), np.arange(50))]
    params = {**PARAMS, "subsample": 0.8, "max_bin": 8}
    table, predictions = cv(params, folds=folds, return_predictions=True)
    whole = DMatrix(ROWS, LABELS)
    scores = []
    for train, test in folds:
        fold = QuantileDMatrix.of_rows(whole, train, 8)
        model = hornbeam.train(params, fold, 4)
        alone = model.predict(DMatrix(ROWS[test]))
        np.testing.assert_array_equal(predictions[test], alone)
        scores.append(np.sqrt(np.square(alone - LABELS[test]).mean()))
    last = table.iloc[-1]
    np.testing.assert_allclose(last["test-rmse-mean"], np.mean(scores), rtol=1e-6)
    np.testing.assert_allclose(last["test-rmse-std"], np.std(scores), rtol=1e-6)
    assert np.isnan(predictions[50:200]).all()


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_methods_without_shared_bins(method):
    folds = [(np.arange(200), np.arange(200, 300)), (np.arange(50, 300), np.arange(50))]
    params = {**PARAMS, "tree_method": method}
    _, predictions = cv(params, folds=folds, return_predictions=True)
    for train, test in folds:
        model = hornbeam.train(params, DMatrix(ROWS[train], LABELS[train]), 4)
        alone = model.predict(DMatrix(ROWS[test]))
        np.testing.assert_array_equal(predictions[test], alone)


def test_bins_of_a_fold_are_contiguous_by_column():
    part = QuantileDMatrix.of_rows(DMatrix(ROWS, LABELS), np.arange(0, 300, 2), 256)
    assert part.binned(256).by_feature.flags.c_contiguous


def test_stratified_folds_have_equal_class_proportions():
    labels = ranked(LABELS, 3)
    labels[:280] = 0
    tests = []

    def look(train, test, params):
        assert not set(train.get_weight()) & set(test.get_weight())
        tests.append(test.get_label())
        return train, test, params

    params = {"objective": "multi:softprob", "num_class": 3}
    weight = np.arange(1.0, 301)
    cv(params, labels=labels, stratified=True, nfold=4, fpreproc=look, weight=weight)
    counts = np.array([np.bincount(test.astype(int), minlength=3) for test in tests])
    assert len(counts) == 4 and np.ptp(counts, axis=0).max() <= 1
    assert counts.sum() == 300 and np.ptp(counts.sum(axis=1)) <= 1


def test_results_do_not_depend_on_the_number_of_threads(thread_counts):
    given = {"nfold": 5, "return_predictions": True}
    expected = cv({"nthread": 4, "subsample": 0.5}, **given)
    for threads in thread_counts:
        table, predictions = cv({"nthread": threads, "subsample": 0.5}, **given)
        pd.testing.assert_frame_equal(table, expected[0])
        np.testing.assert_array_equal(predictions, expected[1])


def test_every_matrix_class_is_accepted():
    expected = cv(return_predictions=True)
    for matrix in (QuantileDMatrix, hornbeam.DMatrix):
        table, predictions = cv(matrix=matrix, return_predictions=True)
        pd.testing.assert_frame_equal(table, expected[0])
        np.testing.assert_array_equal(predictions, expected[1])


def test_folds_have_the_meta_info_of_their_rows():
    weight = np.linspace(0, 2, len(LABELS))
    plain = cv()
    assert not cv(weight=weight).equals(plain)
    margin = cv(base_margin=LABELS)
    assert margin["test-rmse-mean"].iloc[0] < plain["test-rmse-mean"].iloc[0]


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_early_stopping_truncates_at_the_best_round(booster):
    arguments = {"rounds": 60, "early_stopping_rounds": 2, "nfold": 4}
    params = {"eta": 1.0, "booster": booster}
    if booster == "dart":
        params["rate_drop"] = 0.1
    table, predictions = cv(params, return_predictions=True, **arguments)
    assert 0 < len(table) < 60
    assert table["test-rmse-mean"].idxmin() == len(table) - 1
    errors = [
        np.sqrt(np.square(predictions[test] - LABELS[test]).mean())
        for test in np.array_split(np.random.RandomState(0).permutation(300), 4)
    ]
    last = table["test-rmse-mean"].iloc[-1]
    np.testing.assert_allclose(np.mean(errors), last, rtol=1e-6)


def test_early_stopping_stops_at_xgboosts_round():
    arguments = {"early_stopping_rounds": 2, "nfold": 4}
    table = cv({"eta": 1.0}, rounds=60, **arguments)
    theirs = xgboost.cv(
        {**PARAMS, "eta": 1.0},
        xgboost.DMatrix(ROWS, LABELS),
        60,
        **arguments,
    )
    assert len(theirs) == len(table)


def test_callbacks_receive_all_folds(capsys):
    class Watch(hornbeam.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            rounds = {fold.bst.num_boosted_rounds() for fold in model.cvfolds}
            assert rounds == {epoch + 1} and model.num_boosted_rounds() == epoch + 1
            mean, std = evals_log["test"]["rmse"][-1]
            assert std < mean
            return epoch == 2

    rates = hornbeam.LearningRateScheduler([0.5, 0.1, 0.1, 0.1])
    table = cv(callbacks=[Watch(), rates], rounds=4, verbose_eval=True)
    assert len(table) == 3
    lines = capsys.readouterr().out.splitlines()
    first = table.iloc[0]
    assert lines[0] == (
        f"[0]\ttrain-rmse:{first.iloc[0]:.5f}+{first.iloc[1]:.5f}"
        f"\ttest-rmse:{first.iloc[2]:.5f}+{first.iloc[3]:.5f}"
    )
    best = hornbeam.EarlyStopping(rounds=1, save_best=True)
    assert len(cv({"eta": 1.0}, rounds=30, callbacks=[best])) < 30


def test_custom_objective_and_metric():
    def furthest(predictions, data):
        return "furthest", np.abs(predictions - data.get_label()).max()

    own = cv({"base_score": 0.5}, obj=squared_gradients, custom_metric=furthest)
    names = ["rmse", "furthest"]
    assert list(own) == [
        f"{data}-{name}-{what}"
        for data in ("train", "test")
        for name in names
        for what in ("mean", "std")
    ]
    np.testing.assert_allclose(own.iloc[:, :2], cv({"base_score": 0.5}).iloc[:, :2])


def test_fpreproc_may_change_folds():
    def halve(train, test, params):
        rows = np.arange(train.num_row() // 2)
        return train.slice(rows), test, {**params, "eta": 1.0}

    changed = cv(fpreproc=halve, metrics="mae")
    assert list(changed) == list(cv(metrics="mae"))
    assert not changed.equals(cv(metrics="mae"))


def test_results_without_pandas():
    table = cv(as_pandas=False)
    assert table == cv().to_dict("list")
    assert cv(rounds=0, as_pandas=False) == {}


BAD = {
    "one fold": ({"nfold": 1}, "nfold must be an integer from 2 to 300, the"),
    "too many folds": ({"nfold": 301}, "from 2 to 300, the number of rows"),
    "more folds than groups": (
        {"nfold": 3, "group": [100, 200]},
        "the number of groups",
    ),
    "a seed": ({"seed": -1}, "seed of cv must be"),
    "stratified groups": (
        {"stratified": True, "group": [100] * 3},
        "would split query groups",
    ),
    "stratified without labels": (
        {"stratified": True, "labels": None},
        "need one label per row, and the data has 0",
    ),
    "stratified and folds": (
        {"stratified": True, "folds": [([0], [1])]},
        "cannot be combined",
    ),
    "folds of a wrong type": ({"folds": 3}, "folds must be pairs"),
    "a fold that is no pair": ({"folds": [[1, 2, 3]]}, "fold 0 must be a pair"),
    "no folds": ({"folds": []}, "folds is empty"),
    "a fold without a test": ({"folds": [([1], [])]}, "fold 0 has no test rows"),
    "row out of range": ({"folds": [([1], [300])]}, "there is no row 300"),
    "a row tested twice": (
        {"folds": [([1, 2], [7]), ([1, 3], [7])], "return_predictions": True},
        "row 7 is in 2 test folds",
    ),
    "fpreproc drops test rows": (
        {
            "fpreproc": lambda a, b, p: (a, b.slice([0]), p),
            "return_predictions": True,
        },
        "fpreproc returned 1 rows for the 100",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_folds_raise_an_error(case):
    arguments, words = BAD[case]
    with pytest.raises(hornbeam.HornbeamError, match=words):
        cv(**arguments)
