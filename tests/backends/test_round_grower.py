"""Several rounds in one job: the model is that of one round after the other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam
from hornbeam import Booster, DataError, DMatrix, ParameterError, train
from hornbeam import xgboost as drop_in
from hornbeam.kernels import team
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.team import Team

ROUNDS = 12 if COMPILED else 4
N_ROWS = 1500 if COMPILED else 200
THREADS = [1, 2, 3, 7] if COMPILED else [1]


@pytest.fixture
def jobs(monkeypatch):
    """Return the jobs of several rounds: how many were wanted, and done."""
    found = []
    repeat = Team.repeat

    def noted(team, calls, times, ended):
        done = repeat(team, calls, times, ended)
        found.append((times, done))
        return done

    monkeypatch.setattr(Team, "repeat", noted)
    return found


def made(labels="numbers", weighted=False, categories=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 6))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + rng.normal(size=N_ROWS) / 10
    X[rng.random(X.shape) < 0.1] = np.nan
    if labels == "classes":
        y = (y > 0).astype(float)
    elif labels == "counts":
        y = np.floor(np.exp(y.clip(-2, 2)))
    elif labels == "three classes":
        y = np.digitize(y, [-0.5, 0.5])
    elif labels == "targets":
        y = np.column_stack([y, y**2])
    elif labels == "outliers":
        y[3:] *= 1e-9
    types = ["float"] * 6
    if categories:
        X[:, 5], types[5] = rng.integers(0, 7, N_ROWS), "c"
    weight = rng.uniform(size=N_ROWS) if weighted else None
    return DMatrix(X, y, weight=weight, feature_types=types)


def one_by_one(parameters, data, rounds=ROUNDS, objective=None):
    booster = Booster(parameters, [data])
    for number in range(rounds):
        booster.update(data, number, objective)
    return booster


def bits(booster):
    return bytes(booster.reset().save_raw("ubj"))


CASES = {
    "numbers": ({}, {}),
    "classes": ({"objective": "binary:logistic"}, {"labels": "classes"}),
    "weights": (
        {"objective": "binary:logistic", "scale_pos_weight": 3},
        {"labels": "classes", "weighted": True},
    ),
    "counts": ({"objective": "count:poisson"}, {"labels": "counts"}),
    "float32": ({"margin_type": "float32"}, {}),
    "leaf-wise": ({"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0}, {}),
    "categories": ({}, {"categories": True}),
    "many bins": ({"max_bin": 1000}, {}),
    "three classes": (
        {"objective": "multi:softprob", "num_class": 3},
        {"labels": "three classes", "weighted": True},
    ),
    "targets": ({}, {"labels": "targets"}),
}


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("case", CASES)
def test_rounds_of_a_job_are_those_of_one_by_one(case, threads, jobs):
    parameters, kind = CASES[case]
    parameters = {"nthread": threads, **parameters}
    data = made(**kind)
    booster = train(parameters, data, ROUNDS)
    assert jobs == [(ROUNDS - 1, ROUNDS - 1)]
    assert bits(booster) == bits(one_by_one(parameters, data))
    assert len(jobs) == 1


@pytest.mark.skipif(not COMPILED, reason="as plain Python the trees take minutes")
@given(
    depth=st.integers(1, 9),
    bins=st.sampled_from([2, 16, 256, 700]),
    seed=st.integers(0, 99),
    labels=st.sampled_from(["numbers", "targets"]),
    rate=st.sampled_from([0.1, 0.5, 1.0]),
    parts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    threads=st.sampled_from(THREADS),
)
def test_any_division_into_jobs_gives_the_same_model(
    depth, bins, seed, labels, rate, parts, threads
):
    shape = {"max_depth": depth, "max_bin": bins, "learning_rate": rate}
    parameters = {**shape, "nthread": threads}
    data = made(labels, seed=seed)
    booster = Booster(parameters, [data])
    for rounds in parts:
        booster.update(data, 0, rounds=rounds)
        assert np.isfinite(booster.predict(data)).all()
    assert bits(booster) == bits(one_by_one(parameters, data, sum(parts)))


@pytest.mark.skipif(not COMPILED, reason="as plain Python the trees take minutes")
@pytest.mark.parametrize(("labels", "seed"), [("numbers", 6), ("targets", 5)])
def test_tables_that_are_full_end_a_job(labels, seed, jobs):
    parameters, data = {"max_depth": 12, "nthread": 1}, made(labels, seed=seed)
    booster = train(parameters, data, ROUNDS)
    sizes = [tree.n_nodes for tree in booster.model.trees]
    assert max(sizes) > 512 > sizes[0]
    assert any(done < wanted for wanted, done in jobs)
    assert bits(booster) == bits(one_by_one(parameters, data))


def test_gradients_that_need_wide_sums_do_not_begin_a_job(jobs):
    parameters, data = {"nthread": 1}, made("outliers")
    booster = train(parameters, data, ROUNDS)
    assert jobs == []
    assert bits(booster) == bits(one_by_one(parameters, data))


def test_a_job_ends_where_packed_sums_lose_precision(jobs):
    # All gradients become smaller but that of an outlier, which has no leaf of its own.
    parameters = {"nthread": 1, "max_depth": 1, "min_child_weight": N_ROWS // 10}
    X = np.arange(N_ROWS)[:, None] - N_ROWS / 2
    y = np.sign(X[:, 0])
    y[-1] = N_ROWS / 30
    data = DMatrix(X, y)
    booster = train(parameters, data, ROUNDS)
    assert [0 < done < wanted for wanted, done in jobs] == [True]
    assert bits(booster) == bits(one_by_one(parameters, data))


@pytest.mark.parametrize(
    "parameters",
    [
        {"subsample": 0.5},
        {"colsample_bynode": 0.5},
        {"num_parallel_tree": 2},
        {"booster": "dart", "rate_drop": 0.5},
        {"monotone_constraints": "(1,0,0,0,0,0)"},
        {"interaction_constraints": "[[0,1]]"},
        {"min_samples_leaf": 5},
        {"path_smooth": 1.0},
        {"grow_policy": "symmetric"},
        {"tree_method": "approx"},
        {"tree_method": "exact"},
        {"leaf_model": "linear"},
        {"feature_costs": "[1,0,0,0,0,0]"},
    ],
    ids=str,
)
def test_other_rounds_are_done_one_by_one(parameters, jobs):
    parameters = {"nthread": 1, **parameters}
    data = made()
    booster = train(parameters, data, 4)
    assert jobs == [] and booster.num_boosted_rounds() == 4
    assert bits(booster) == bits(one_by_one(parameters, data, 4))


@pytest.mark.skipif(NATIVE is None, reason="the kernels are not those of a binary")
@pytest.mark.parametrize("case", CASES)
def test_the_binary_has_code_for_all_calls_of_a_job(case, monkeypatch):
    done = []

    def repeat(*arguments):
        done.append(NATIVE.repeat(*arguments))
        return done[-1]

    monkeypatch.setattr(team, "NATIVE", SimpleNamespace(repeat=repeat))
    parameters, kind = CASES[case]
    train({"nthread": 1, **parameters}, made(**kind), ROUNDS)
    assert done == [ROUNDS - 1]


@pytest.mark.parametrize("rounds", [-1, 2.0, "3"])
@pytest.mark.parametrize("library", [hornbeam, drop_in])
def test_a_wrong_number_of_rounds_is_an_error(library, rounds):
    rng = np.random.default_rng(0)
    data = library.DMatrix(rng.normal(size=(20, 2)), rng.normal(size=20))
    booster = library.Booster({}, [data])
    with pytest.raises(ParameterError, match="rounds must be"):
        booster.update(data, 0, rounds=rounds)
    assert booster.num_boosted_rounds() == 0


def test_rounds_that_somebody_watches_are_done_one_by_one(jobs):
    data = made()
    train({"nthread": 1}, data, 4, evals=[(data, "train")], verbose_eval=False)
    assert jobs == []


class Quartic:
    """Formulas of a user's objective."""

    def gradient(self, y, m):
        return (m - y) ** 3

    def hessian(self, y, m):
        return 3 * (m - y) ** 2


@pytest.mark.skipif(not COMPILED, reason="formulas are compiled")
@pytest.mark.jit
def test_formulas_of_a_user(jobs):
    data, loss = made(), Quartic()
    booster = train({"nthread": 1}, data, ROUNDS, obj=loss)
    assert jobs == [(ROUNDS - 1, ROUNDS - 1)]
    assert bits(booster) == bits(one_by_one({"nthread": 1}, data, objective=loss))


def test_the_drop_in_uses_jobs(jobs):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_ROWS, 3)), rng.normal(size=N_ROWS)
    data = drop_in.DMatrix(X, y)
    drop_in.train({"nthread": 1}, data, ROUNDS)
    assert jobs == [(ROUNDS - 1, ROUNDS - 1)]
    seen = []

    def objective(predictions, matrix):
        seen.append(len(predictions))
        return predictions - matrix.get_label(), np.ones(len(predictions))

    booster = drop_in.train({"nthread": 1}, data, 3, obj=objective)
    assert seen == [N_ROWS] * 3 and booster.num_boosted_rounds() == 3


def test_an_interrupted_job_leaves_the_model_of_before(monkeypatch):
    parameters, data = {"nthread": 1}, made()
    booster = Booster(parameters, [data])
    booster.update(data, 0, rounds=3)
    repeat = Team.repeat

    def interrupted(team, calls, times, ended):
        repeat(team, calls, times - 1, ended)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Team, "repeat", interrupted)
        with pytest.raises(KeyboardInterrupt):
            booster.update(data, 0, rounds=5)
    # The first round of an update is not in the job.
    assert bits(booster.copy()) == bits(one_by_one(parameters, data, 4))
    booster.update(data, 0, rounds=5)
    assert bits(booster) == bits(one_by_one(parameters, data, 9))


def test_a_job_that_diverges_raises_the_error_of_a_round(jobs):
    parameters = {"learning_rate": 1e4, "reg_lambda": 0.0, "nthread": 1}
    errors = []
    for fit in (train, one_by_one):
        with pytest.raises(DataError) as raised:
            fit(parameters, made(), 60)
        errors.append((raised.value.code, str(raised.value)))
    assert errors[0] == errors[1]
    assert [0 < done < wanted for wanted, done in jobs] == [True]
