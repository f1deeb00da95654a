"""Training resumed from any checkpoint gives the model of uninterrupted training."""

from __future__ import annotations

import numpy as np
import pytest
from samples import few_values, ranked
from selection import REPEATS

import hornbeam
from hornbeam import ParameterError

ROWS, LABELS = few_values(400, 5, missing=0.1)

BOOSTERS = {
    "trees": {"subsample": 0.6, "colsample_bynode": 0.5},
    "dropout": {"booster": "dart", "rate_drop": 0.4, "subsample": 0.6},
    "weights": {"booster": "gblinear", "feature_selector": "random"},
    "forests": {"num_parallel_tree": 3, "subsample": 0.6, "colsample_bynode": 0.5},
    "classes": {"objective": "multi:softprob", "num_class": 3, "subsample": 0.6},
}


@pytest.mark.parametrize("as_pickle", [False, True])
@pytest.mark.parametrize("name", BOOSTERS)
def test_training_resumes_from_each_checkpoint_to_the_same_model(
    name, as_pickle, tmp_path
):
    params = {"max_depth": 3, "seed": 3} | BOOSTERS[name]
    if params.get("booster") == "gblinear":
        del params["max_depth"]
    labels = ranked(LABELS, 3) if name == "classes" else LABELS
    data = hornbeam.DMatrix(ROWS, labels)
    point = hornbeam.TrainingCheckPoint(tmp_path, interval=1, as_pickle=as_pickle)
    whole = hornbeam.train(params, data, 7, callbacks=[point])
    for done in (2, 5):
        path = tmp_path / f"model_{done}.{'pkl' if as_pickle else 'ubj'}"
        start = np.load(path, allow_pickle=True) if as_pickle else path
        begun = hornbeam.Booster(params, model_file=start)
        rounds = 7 - begun.num_boosted_rounds()
        assert 0 < rounds < 7
        again = hornbeam.DMatrix(ROWS, labels)
        model = hornbeam.train(params, again, rounds, xgb_model=begun)
        assert model.digest() == whole.digest()


# --- Going on with everything that steers ---------------------------------------------

RESUMED = BOOSTERS | {
    "vectors": {
        "objective": "multi:softprob",
        "num_class": 3,
        "multi_strategy": "multi_output_tree",
        "sketch_outputs": 2,
        "subsample": 0.6,
    },
    "targets": {"subsample": 0.6},
    "thrifty weights": {
        "booster": "gblinear",
        "feature_selector": "thrifty",
        "top_k": 2,
        "tolerance": 1e-3,
    },
    "clicks": {"objective": "rank:ndcg", "lambdarank_unbiased": True},
    "goss": {"sampling_method": "goss"},
    "leaves first": {"grow_policy": "lossguide", "max_leaves": 5, "max_depth": 0},
    "paid features": {"feature_costs": [0, 1, 2, 3, 4]},
    "update": {"process_type": "update", "updater": "refresh,prune", "gamma": 1.0},
}


class BreakOff(hornbeam.TrainingCallback):
    """Interrupts training after a round, as a killed process would."""

    def __init__(self, epoch):
        self.epoch = epoch

    def before_iteration(self, model, epoch, evals_log):
        if epoch == self.epoch:
            raise KeyboardInterrupt
        return False


class Count(hornbeam.TrainingCallback):
    """Has a state, and sets an attribute of the model."""

    def before_training(self, model):
        self.seen = 0
        return model

    def after_iteration(self, model, epoch, evals_log):
        self.seen += epoch
        model.set_attr(seen=str(self.seen))
        return False

    def state(self):
        return {"seen": self.seen}

    def resume(self, model, state):
        self.seen = state["seen"]


def labelled(name, rows, labels):
    """Return training data for these parameters."""
    if name in ("classes", "vectors"):
        return hornbeam.DMatrix(rows, ranked(labels, 3))
    if name == "targets":
        return hornbeam.DMatrix(rows, np.column_stack([labels, -labels, labels**2]))
    if name == "clicks":
        return hornbeam.DMatrix(rows, ranked(labels, 3), qid=np.arange(len(rows)) // 10)
    return hornbeam.DMatrix(rows, labels)


def steered(name, folder, broken=None, *, as_pickle=False, prefix="model"):
    """Return the digest and all other results of a training."""
    params = {"max_depth": 3, "seed": 3, "learning_rate": 0.6} | RESUMED[name]
    if params.get("booster") == "gblinear":
        del params["max_depth"]
    train = labelled(name, ROWS[:300], LABELS[:300])
    start, rounds = None, 14
    if name == "update":
        grown = {"max_depth": 4, "subsample": 0.5}
        start = hornbeam.train(grown, train, rounds, verbose_eval=False)
    rates = [0.6 / (1 + epoch) for epoch in range(rounds)]
    stop = hornbeam.EarlyStopping(rounds=6, save_best=True, min_delta=1e-3)
    point = hornbeam.TrainingCheckPoint(
        folder, prefix, as_pickle, interval=2, resume=True
    )
    callbacks = [
        point,
        hornbeam.LearningRateScheduler(rates),
        stop,
        Count(),
    ]
    log = {}
    model = hornbeam.train(
        params,
        train,
        rounds,
        evals=[(labelled(name, ROWS[300:], LABELS[300:]), "valid")],
        callbacks=[*callbacks, *([BreakOff(broken)] if broken else [])],
        evals_result=log,
        verbose_eval=False,
        xgb_model=start,
    )
    rest = stop.best_iteration, stop.best_score, stop.current_rounds
    return model.digest(), log, model.attributes(), rest


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=REPEATS if number % 2 else [])
        for number, name in enumerate(RESUMED)
    ],
)
def test_interrupted_training_resumes_to_the_same_model(name, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    folder.mkdir()
    expected = steered(name, whole)
    for broken in (3, 6):  # after the checkpoints of 2 and 4
        with pytest.raises(KeyboardInterrupt):
            steered(name, folder, broken)
    assert steered(name, folder) == expected
    # The last checkpoint may be that of the last round.
    assert steered(name, folder) == expected
    for path in folder.glob("*.ubj"):
        assert path.read_bytes() == (whole / path.name).read_bytes()


def test_training_resumes_from_pickled_checkpoints(tmp_path):
    expected = steered("dropout", tmp_path, as_pickle=True, prefix="a")
    with pytest.raises(KeyboardInterrupt):
        steered("dropout", tmp_path, 5, as_pickle=True)
    assert steered("dropout", tmp_path, as_pickle=True) == expected


def test_incomplete_checkpoints_are_ignored(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        steered("trees", tmp_path, 7)
    (tmp_path / "model_6.ubj").unlink()  # as if killed between the two files
    expected = steered("trees", tmp_path, prefix="a")
    assert steered("trees", tmp_path) == expected


def resuming(params, folder, rounds=6, data=None, start=None):
    data = data or hornbeam.DMatrix(ROWS, LABELS)
    point = hornbeam.TrainingCheckPoint(folder, interval=2, resume=True)
    return hornbeam.train(params, data, rounds, callbacks=[point], xgb_model=start)


def test_a_checkpoint_of_another_training_is_rejected(tmp_path):
    params = {"max_depth": 3, "nthread": 1}
    model = resuming(params, tmp_path)
    assert resuming(params | {"nthread": 2}, tmp_path).digest() == model.digest()
    with pytest.raises(ParameterError, match="max_depth=3, and this training has 4"):
        resuming({"max_depth": 4}, tmp_path)
    with pytest.raises(ParameterError, match="has 5 rounds, and num_boost_round is 3"):
        resuming(params, tmp_path, 3)
    assert resuming(params, tmp_path, 9).num_boosted_rounds() == 9
    # The numbers in file names include the rounds of the continued model.
    begun = hornbeam.train(params, hornbeam.DMatrix(ROWS, LABELS), 2)
    other = hornbeam.train(params, hornbeam.DMatrix(ROWS, -LABELS), 2)
    folder = tmp_path / "on"
    folder.mkdir()
    longer = resuming(params, folder, start=begun)
    assert resuming(params, folder, start=begun).digest() == longer.digest()
    assert longer.num_boosted_rounds() == 8
    with pytest.raises(ParameterError, match="of a training with xgb_model="):
        resuming(params, folder, start=other)


def test_callback_states_must_be_json(tmp_path):
    class Odd(hornbeam.TrainingCallback):
        def state(self):
            return {1j}

    point = hornbeam.TrainingCheckPoint(tmp_path, interval=1, resume=True)
    data = hornbeam.DMatrix(ROWS, LABELS)
    with pytest.raises(ParameterError, match="return numbers, strings, lists"):
        hornbeam.train({}, data, 3, callbacks=[Odd(), point])
    assert not list(tmp_path.iterdir())


def test_cv_rejects_checkpoints(tmp_path):
    data = hornbeam.DMatrix(ROWS, LABELS)
    with pytest.raises(ParameterError, match="cross-validation trains several"):
        hornbeam.cv({}, data, 2, callbacks=[hornbeam.TrainingCheckPoint(tmp_path)])
