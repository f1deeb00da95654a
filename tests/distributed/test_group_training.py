"""`hornbeam.train` in a group: the model of the rows of all processes."""

import re

import numpy as np
import pandas as pd
import pytest
from group_processes import call_in_threads

import hornbeam
from hornbeam.distributed.group import join, leave
from hornbeam.distributed.tracker import Tracker
from hornbeam.shared_memory import MappedMemory

ROWS = 900
_random = np.random.default_rng(0)
X = _random.normal(size=(ROWS, 5))
Y = X[:, 0] * X[:, 1] + X[:, 2]
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(
    level=pd.Categorical(np.where(X[:, 1] > 0, "u", np.where(X[:, 2] > 0, "v", "w")))
)
PARAMS = {"max_depth": 3, "subsample": 0.5, "nthread": 1}
MORE_PARAMS = [
    {"max_depth": 5},
    {"tree_method": "approx", "objective": "count:poisson"},
    {"num_parallel_tree": 2, "subsample": 0.5, "sampling_method": "gradient_based"},
]
SPLITS = {1: [0, 900], 2: [0, 200, 900], 3: [0, 0, 500, 900]}


def fit(rows, params=PARAMS, **options):
    data = hornbeam.DMatrix(FRAME.iloc[rows], Y[rows])
    options = {"evals": [(data, "train")], "verbose_eval": False} | options
    return hornbeam.train(params, data, 5, **options)


def run(n_workers, task=fit, *args, **options):
    """Return the results of a task on the parts of the rows, in the order of parts."""
    tracker = Tracker(n_workers, "127.0.0.1", by_task=True)
    tracker.start()
    bounds = SPLITS[n_workers]

    def one(number):
        join(tracker.host, tracker.port, tracker.token, task=str(number))
        try:
            return task(slice(*bounds[number : number + 2]), *args, **options)
        finally:
            leave()

    found = call_in_threads(one, n_workers)
    assert tracker.wait(10)
    tracker.close("the test has ended")
    return found


@pytest.mark.parametrize("n_workers", SPLITS)
def test_any_number_of_processes_trains_the_same_model(n_workers):
    alone = fit(slice(ROWS))
    for booster in run(n_workers):
        assert booster.digest() == alone.digest()
        assert booster.history == alone.history
        assert type(booster) is hornbeam.Booster


def test_long_columns_have_the_cuts_of_the_rows_of_all_processes():
    rng = np.random.default_rng(1)
    n_rows = 1 << 15
    x = rng.normal(size=(n_rows, 5))  # counted
    x[:, 1] = np.where(rng.random(n_rows) < 0.3, np.nan, x[:, 1])
    x[:, 2] = np.where(rng.random(n_rows) < 0.3, 0.5, x[:, 2])  # sorted
    x[:, 3] = rng.integers(0, 9, n_rows)
    x[: n_rows // 2, 4] = np.nan  # missing in all of one process's rows
    y, weights = np.nan_to_num(x).sum(axis=1), rng.integers(0, 4, n_rows) / 3

    def train(rows, weight):
        own = None if weight is None else weight[rows]
        data = hornbeam.DMatrix(x[rows], y[rows], weight=own)
        return hornbeam.train(PARAMS, data, 2, verbose_eval=False).digest()

    def of_part(rows, weight):
        half = slice(n_rows // 2) if rows.start == 0 else slice(n_rows // 2, n_rows)
        return train(half, weight)

    for weight in (None, weights):
        alone = train(slice(n_rows), weight)
        assert run(2, of_part, weight) == [alone, alone]


@pytest.mark.parametrize(
    "params",
    [
        {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0},
        {"objective": "multi:softprob", "num_class": 3, "colsample_bytree": 0.9},
        *(pytest.param(params, marks=pytest.mark.slow) for params in MORE_PARAMS),
    ],
    ids=lambda params: next(iter(params)),
)
def test_histograms_in_shared_memory(monkeypatch, params):
    n_rows = 3_000
    x = np.random.default_rng(2).normal(size=(n_rows, 40))
    y = np.digitize(x[:, 0] * x[:, 1] + x[:, 2], [-0.7, 0.7])

    def train(rows):
        data = hornbeam.DMatrix(x[rows], y[rows])
        given = {"nthread": 1, "max_bin": 256} | params
        return hornbeam.train(given, data, 2, verbose_eval=False).digest()

    def of_part(rows):
        return train(slice(*(3 * bound for bound in (rows.start, rows.stop))))

    bounds = [0, 200, 300, 600, 700, 1_000]  # two steps, and a process beyond them
    monkeypatch.setattr(f"{__name__}.SPLITS", {5: bounds})
    places, at = [], MappedMemory.at
    monkeypatch.setattr(
        MappedMemory, "at", lambda own, place: places.append(place) or at(own, place)
    )
    assert run(5, of_part) == [train(slice(n_rows))] * 5
    assert len(set(places)) > 5


def test_a_line_a_round_is_printed_once(capsys):
    run(2, verbose_eval=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [f"[{n}]" for n in range(5)]


def test_one_process_saves_checkpoints_and_all_resume(tmp_path):
    def saving(rows, n_rounds):
        data = hornbeam.DMatrix(FRAME.iloc[rows], Y[rows])
        saved = hornbeam.TrainingCheckPoint(tmp_path, interval=1, resume=True)
        callbacks = [saved, hornbeam.EarlyStopping(rounds=3, save_best=True)]
        options = {"evals": [(data, "train")], "callbacks": callbacks}
        return hornbeam.train(PARAMS, data, n_rounds, verbose_eval=False, **options)

    run(2, saving, 3)
    assert {path.name for path in tmp_path.glob("*.ubj")} == {
        "model_1.ubj",
        "model_2.ubj",
    }
    expected = fit(
        slice(ROWS), callbacks=[hornbeam.EarlyStopping(rounds=3, save_best=True)]
    )
    for booster in run(2, saving, 5):
        assert booster.digest() == expected.digest()


def test_processes_with_different_columns_raise_one_error():
    def other(rows):
        names = list("abcde") if rows.start == 0 else list("abcdx")
        data = hornbeam.DMatrix(X[rows], Y[rows], feature_names=names)
        return hornbeam.train(PARAMS, data, 2)

    found = run(2, other)
    assert found[0] == found[1]
    assert re.search("DataError.*x", found[0])


def test_an_error_tells_which_process_raised_it():
    def fail(rows):
        labels = np.abs(Y[rows]) if rows.start == 0 else -np.abs(Y[rows])
        data = hornbeam.DMatrix(X[rows], labels)
        try:
            hornbeam.train(PARAMS | {"objective": "count:poisson"}, data, 2)
        except hornbeam.HornbeamError as error:
            return error.details["worker"]

    names = run(2, fail)
    assert names[0] == names[1]
    assert names[0].startswith("worker 1 ")
