"""Custom objectives in formulas: results next to built-in ones, checks, files."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import subprocess
import sys
from math import exp, log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hornbeam
from hornbeam import Booster, DMatrix, ParameterError
from hornbeam.kernels.jit import COMPILED

pytestmark = pytest.mark.jit

ROWS = np.random.default_rng(0).normal(size=(2000, 4))
LABELS = (ROWS[:, 0] + 0.5 * ROWS[:, 1] ** 2 > 0.3) * 1.0
PARAMS = {"max_depth": 3, "nthread": 1}


def train(objective, labels=LABELS, rounds=3, params=(), **info):
    data = DMatrix(ROWS[: len(labels)], labels, **info)
    params = PARAMS | dict(params)
    if isinstance(objective, str):
        params["objective"], objective = objective, None
    return hornbeam.train(params, data, rounds, obj=objective, verbose_eval=False)


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


class Squared:
    """Half the squared error."""

    @staticmethod
    def gradient(y, m):
        return m - y

    @staticmethod
    def hessian(y, m):
        return 1


class Logistic:
    """The log loss, as by XGBoost."""

    default_metric = "logloss"

    @staticmethod
    def loss(y, m):
        return math.log1p(math.exp(m)) - y * m

    @staticmethod
    def gradient(y, m):
        return sigmoid(m) - y

    @staticmethod
    def hessian(y, m):
        p = sigmoid(m)
        return p * (1.0 - p)

    @staticmethod
    def transform(m):
        return sigmoid(m)

    @staticmethod
    def start(mean):
        return math.log(mean / (1.0 - mean))


class Counts:
    """Poisson's log-likelihood, by names that come from modules."""

    transform = np.exp
    start = log

    def gradient(y, m):  # noqa: N805
        return exp(m) - y

    def hessian(y, m):  # noqa: N805
        return np.exp(m)


class Huber:
    """Quadratic near zero and linear beyond; both numbers are the object's."""

    def __init__(self, delta=1.0, *, doubled=False):
        self.delta, self.doubled = delta, doubled

    def loss(self, y, m):
        z = abs(m - y)
        factor = 2.0 if self.doubled else 1.0
        if z <= self.delta:
            return factor * z * z / 2.0
        return factor * self.delta * (z - self.delta / 2.0)

    def gradient(self, y, m):
        factor = 2.0 if self.doubled else 1.0
        return factor * min(max(m - y, -self.delta), self.delta)

    def hessian(self, y, m):
        factor = 2.0 if self.doubled else 1.0
        return factor if abs(m - y) < self.delta else 0.0


@pytest.mark.parametrize("weight", [None, np.arange(2000) % 3 + 0.5])
def test_formulas_of_a_builtin_objective_give_its_model(weight):
    own = train(Squared, params={"base_score": 0.25}, weight=weight)
    ours = train("reg:squarederror", params={"base_score": 0.25}, weight=weight)
    assert own.digest() == ours.digest()
    params = {"base_score": 0.0}
    own = train(Logistic(), params=params, weight=weight)
    ours = train("binary:logistic", params={"base_score": 0.5}, weight=weight)
    data = DMatrix(ROWS)
    np.testing.assert_array_equal(own.predict(data), ours.predict(data))
    margins = [b.predict(data, output_margin=True) for b in (own, ours)]
    np.testing.assert_array_equal(*margins)


def test_start_determines_the_base_score():
    assert train(Squared).model.base_score == [0.0]
    own, ours = train(Logistic), train("binary:logistic")
    mean = LABELS.mean()
    assert own.model.base_score == pytest.approx(np.log(mean / (1 - mean)), rel=1e-6)
    data = DMatrix(ROWS)
    np.testing.assert_allclose(own.predict(data), ours.predict(data), rtol=1e-5)
    counts = np.random.default_rng(1).poisson(np.exp(ROWS[:, 0])).astype(float)
    own = train(Counts, counts)
    assert own.model.base_score == pytest.approx(np.log(counts.mean()), rel=1e-6)
    margins = own.predict(data, output_margin=True)
    np.testing.assert_allclose(own.predict(data), np.exp(margins), rtol=1e-6)


def test_formulas_read_the_numbers_of_the_object():
    digests = {
        train(Huber(*numbers, **more)).digest()
        for numbers, more in (((0.5,), {}), ((1.7,), {}), ((1.7,), {"doubled": True}))
    }
    assert len(digests) == 3
    functions = SimpleNamespace(
        gradient=lambda y, m: m - y, hessian=lambda y, m: 1.0, transform=lambda m: 2 * m
    )
    doubled = train(functions).predict(DMatrix(ROWS))
    np.testing.assert_array_equal(doubled, 2 * train(Squared).predict(DMatrix(ROWS)))


def test_several_label_columns_are_several_targets():
    labels = np.column_stack([LABELS, 1 - LABELS, ROWS[:, 2] > 0])
    together = train(Logistic, labels).predict(DMatrix(ROWS))
    for k in range(3):
        alone = train(Logistic, labels[:, k]).predict(DMatrix(ROWS))
        np.testing.assert_array_equal(together[:, k], alone)


def test_without_a_transform_the_named_objective_predicts():
    bare = SimpleNamespace(gradient=Logistic.gradient, hessian=Logistic.hessian)
    own = train(bare, params={"objective": "binary:logistic"})
    ours = train("binary:logistic", params={"base_score": 0.5})
    np.testing.assert_array_equal(
        own.predict(DMatrix(ROWS)), ours.predict(DMatrix(ROWS))
    )
    assert Booster(model_file=own.save_raw()).predict(DMatrix(ROWS)).max() < 1


def test_metrics_take_transformed_predictions():
    data, history = DMatrix(ROWS, LABELS), {}
    seen = []
    hornbeam.train(
        PARAMS, data, 2, obj=Logistic, evals=[(data, "a")], evals_result=history,
        custom_metric=lambda p, d: seen.append(p) or ("mine", 0.0), verbose_eval=False,
    )  # fmt: skip
    assert list(history["a"]) == ["logloss", "mine"]
    assert history["a"]["logloss"][1] < history["a"]["logloss"][0] < 0.69
    assert 0 < seen[-1].min() < seen[-1].max() < 1


def test_a_model_is_saved_and_training_continues(tmp_path):
    data = DMatrix(ROWS, LABELS)
    whole = train(Logistic, rounds=4)
    half = train(Logistic, rounds=2)
    path = tmp_path / "half.json"
    half.save_model(path)
    for start in (half, path):
        more = hornbeam.train(
            PARAMS, data, 2, obj=Logistic, xgb_model=start, verbose_eval=False
        )
        assert more.digest() == whole.digest()
    expected = whole.predict(data)
    for same in (pickle.loads(pickle.dumps(whole)), copy.copy(whole), whole[:4]):
        np.testing.assert_array_equal(same.predict(data), expected)
    loaded = Booster(model_file=whole.save_raw())
    margins = loaded.predict(data, output_margin=True)
    np.testing.assert_array_equal(margins, whole.predict(data, output_margin=True))
    for predict in (loaded.predict, loaded.inplace_predict):
        with pytest.raises(ParameterError, match=r"need Logistic\.transform"):
            predict(data if predict == loaded.predict else ROWS)
    with pytest.raises(ParameterError, match=r"need Logistic\.transform"):
        loaded.eval(data)
    loaded.set_objective(Logistic)
    np.testing.assert_array_equal(loaded.predict(data), expected)
    assert loaded.digest() == whole.digest()


def test_xgboost_reads_the_margins(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    booster = train(Logistic)
    booster.save_model(tmp_path / "model.json")
    theirs = xgboost.Booster(model_file=tmp_path / "model.json")
    np.testing.assert_allclose(
        theirs.predict(xgboost.DMatrix(ROWS)),
        booster.predict(DMatrix(ROWS), output_margin=True),
        rtol=1e-6,
    )


def test_another_objective_checks_the_labels_again():
    data = DMatrix(ROWS, LABELS)
    booster = Booster(PARAMS)
    booster.update(data, 0)
    with pytest.raises(ParameterError, match="hessian is 3 in row 0"):
        booster.update(
            data, 1, SimpleNamespace(gradient=Squared.gradient, hessian=lambda y, m: 3)
        )


def test_the_model_is_the_same_on_any_number_of_threads():
    labels = np.tile(LABELS, 40)
    data = DMatrix(np.tile(ROWS, (40, 1)), labels)
    digests = {
        hornbeam.train(
            {"nthread": n, "max_depth": 4}, data, 2, obj=Logistic, verbose_eval=False
        ).digest()
        for n in (1, 2, 3, 7)
    }
    assert len(digests) == 1


def test_estimators_accept_formulas(tmp_path):
    pytest.importorskip("sklearn")
    from sklearn.base import clone

    options = {"n_estimators": 3, "max_depth": 3, "n_jobs": 1}
    expected = train(Logistic).predict(DMatrix(ROWS))
    model = clone(hornbeam.HornbeamRegressor(objective=Logistic(), **options))
    np.testing.assert_array_equal(model.fit(ROWS, LABELS).predict(ROWS), expected)
    model.save_model(tmp_path / "model.json")
    again = hornbeam.HornbeamRegressor(objective=Logistic())
    again.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(ROWS), expected)
    names = np.where(LABELS == 1, "yes", "no")
    classes = hornbeam.HornbeamClassifier(objective=Logistic, **options)
    classes.fit(ROWS, names)
    np.testing.assert_array_equal(classes.predict_proba(ROWS)[:, 1], expected)
    assert (classes.predict(ROWS) == names).mean() > 0.8


def wrong(**formulas):
    """Return a loss some of whose formulas are not as they should be."""
    right = {"gradient": lambda y, m: m - y, "hessian": lambda y, m: 1.0}
    return SimpleNamespace(**right | formulas)


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (
            wrong(hessian=lambda y, m: 2.0),
            r"hessian is 2 in row 0 \(label 0\) at margin -1\.7, but gradient changes "
            r"there by 1 a margin; correct one of them, or set exact_hessian = False",
        ),
        (
            wrong(gradient=lambda y, m: y - m, hessian=lambda y, m: 1.0),
            "hessian is 1 .* changes there by -1 a margin",
        ),
        (
            wrong(loss=lambda y, m: (m - y) ** 2),
            r"gradient is -1\.7 in row 0 .* but loss changes there by -3\.4 a margin; "
            "correct one of them$",
        ),
        (
            wrong(gradient=lambda y, m: math.log(m), hessian=lambda y, m: 1 / m),
            "gradient is nan and hessian is .* must be finite at any margin",
        ),
        (wrong(gradient=lambda m: m), "gradient must be a function of y and m, after"),
        (wrong(transform=lambda y, m: m, hessian=lambda: 1), "hessian must be a func"),
        (wrong(gradient=lambda y, m: ROWS[0, 0] * m), "uses ROWS, of the type ndarray"),
        (wrong(gradient=lambda y, m: recurring(m)), "uses recurring, which calls itse"),
        (
            wrong(gradient=lambda y, m: m - y + len(str(y) * 0)),
            "a formula of SimpleNamespace cannot be compiled",
        ),
    ],
)
def test_inconsistent_formulas_are_an_error(objective, words):
    with pytest.raises(ParameterError, match=words):
        train(objective)


def recurring(x):
    return recurring(x - 1) if x > 0 else x


def test_a_wrong_derivative_is_found_in_one_of_many_rows():
    labels = np.zeros(2000)
    labels[1500:] = 4.0
    objective = wrong(hessian=lambda y, m: 1.0 if y < 4 else 0.5)
    with pytest.raises(ParameterError, match=r"0\.5 in row 15\d\d \(label 4\)"):
        train(objective, labels)


def test_kinks_and_bounds_are_not_errors():
    train(Huber(1.7), np.round(ROWS[:, 0] * 2))
    train(Huber(0.5), ROWS[:, 0] * 1e9)
    bound = wrong(hessian=lambda y, m: 2.0, exact_hessian=False)
    assert train(bound).num_boosted_rounds() == 3


def test_num_class_is_an_error():
    with pytest.raises(ParameterError, match="num_class=3 requires more"):
        train(Squared, params={"objective": "multi:softprob", "num_class": 3})
    with pytest.raises(ParameterError, match="functions gradient"):
        Booster().set_objective("Huber")


# A module of a user's as it changes; in a process each, the digest of a model and the
# number of kernels of the module that come from the cache.
SCRIPT = """
import json, os, sys
import numpy as np
import hornbeam
from hornbeam.objectives import compiled

rows = np.linspace(0, 1, 200)[:, None]
data = hornbeam.DMatrix(rows, rows[:, 0])

def train():
    from losses import Mine
    booster = hornbeam.train({"nthread": 1}, data, 1, obj=Mine, verbose_eval=False)
    hits = sum(
        sum(k.stats.cache_hits.values()) for k in compiled._KERNELS.values()
    )
    print(json.dumps([booster.digest(), hits]), flush=True)

hornbeam.train({"nthread": 1}, data, 1, verbose_eval=False)  # loads the other kernels
for text in sys.argv[1:]:
    with open("losses.py", "w") as file:
        file.write(text)
    child = os.fork()
    if child == 0:
        train()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
LOSSES = """
FACTOR = 1.0

def grow(z):
    return FACTOR * z

class Mine:
    def gradient(y, m):
        return grow(m - y)

    def hessian(y, m):
        return grow(1.0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_machine_code_is_cached_until_a_formula_changes(tmp_path):
    # Numbers of this run's own: nothing of theirs is in the cache yet.
    numbers = 1.0 + np.random.default_rng().random(2)
    losses = [LOSSES.replace("1.0", repr(float(number)), 1) for number in numbers]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, losses[0], "# Down\n" + losses[0], losses[1]],
        env={"PYTHONPATH": f"{Path(hornbeam.__file__).parents[1]}:{tmp_path}"},
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (first, hits), again, (other, others) = map(json.loads, done.stdout.splitlines())
    assert hits == 0
    assert again == [first, 1]
    assert others == 0 and other != first
