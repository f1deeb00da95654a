"""OptunaPruning in training, estimators and cross-validation."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from sklearn.datasets import load_breast_cancer

import hornbeam
from hornbeam import HornbeamClassifier, OptunaPruning, ParameterError
from hornbeam import xgboost as xgb

optuna.logging.set_verbosity(optuna.logging.WARNING)
ROUNDS = 8
X, Y = load_breast_cancer(return_X_y=True)
PARAMS = {"objective": "binary:logistic", "max_depth": 2}


def by_train(trial, rate):
    train, valid = (hornbeam.DMatrix(X[i::2], Y[i::2]) for i in (0, 1))
    scores = {}
    hornbeam.train(
        {**PARAMS, "learning_rate": rate},
        train,
        ROUNDS,
        evals=[(valid, "valid")],
        evals_result=scores,
        callbacks=[OptunaPruning(trial, "valid-logloss")],
        verbose_eval=False,
    )
    return scores["valid"]["logloss"]


def by_cv(trial, rate):
    scores = hornbeam.cv(
        {**PARAMS, "learning_rate": rate},
        hornbeam.DMatrix(X, Y),
        ROUNDS,
        callbacks=[OptunaPruning(trial, "test-logloss")],
    )
    return scores["test-logloss-mean"].tolist()


def by_estimator(trial, rate):
    model = HornbeamClassifier(
        max_depth=2,
        learning_rate=rate,
        n_estimators=ROUNDS,
        callbacks=[OptunaPruning(trial, "validation_0-logloss")],
    )
    model.fit(X[::2], Y[::2], eval_set=[(X[1::2], Y[1::2])], verbose=False)
    return model.evals_result()["validation_0"]["logloss"]


def by_face(trial, rate):
    train, valid = (xgb.DMatrix(X[i::2], Y[i::2]) for i in (0, 1))
    scores = {}
    xgb.train(
        {**PARAMS, "learning_rate": rate},
        train,
        ROUNDS,
        evals=[(valid, "valid")],
        evals_result=scores,
        callbacks=[OptunaPruning(trial, "valid-logloss")],
        verbose_eval=False,
    )
    return scores["valid"]["logloss"]


@pytest.mark.parametrize("way", [by_train, by_cv, by_estimator, by_face])
def test_an_unpromising_trial_is_pruned(way):
    known = []

    def objective(trial):
        scores = way(trial, [0.5, 0.001][trial.number])
        known.append(scores)
        return scores[-1]

    pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=3)
    study = optuna.create_study(direction="minimize", pruner=pruner)
    study.optimize(objective, n_trials=2)
    first, second = study.trials
    assert first.state == optuna.trial.TrialState.COMPLETE
    assert list(first.intermediate_values) == list(range(ROUNDS))
    reported = [first.intermediate_values[k] for k in range(ROUNDS)]
    np.testing.assert_allclose(reported, known[0])
    assert second.state == optuna.trial.TrialState.PRUNED
    assert max(second.intermediate_values) == 3
    assert len(known) == 1


def test_an_unknown_metric_is_an_error():
    trial = optuna.create_study().ask()
    data = hornbeam.DMatrix(X, Y)
    for evals, told in ((None, r"\[\]"), ([(data, "a")], "'a-logloss'")):
        with pytest.raises(ParameterError, match=f"'valid-auc', which is not.*{told}"):
            hornbeam.train(
                PARAMS,
                data,
                2,
                evals=evals,
                callbacks=[OptunaPruning(trial, "valid-auc")],
                verbose_eval=False,
            )
