"""MLflowLogger with a file store and with a database."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hornbeam
from hornbeam import HornbeamRegressor, MLflowLogger, ParameterError

ROUNDS = 12
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 4))
LABELS = ROWS[:, 0] + ROWS[:, 1] ** 2
DATA = hornbeam.DMatrix(ROWS, LABELS, feature_names=list("abcd"))

pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy",
    "ignore:.*unclosed database:ResourceWarning",
)


@pytest.fixture(scope="module", autouse=True)
def _import_mlflow():
    """Import MLflow only in the process that runs these tests: it takes seconds."""
    global mlflow
    import mlflow


@pytest.fixture
def tracked(tmp_path, monkeypatch):
    """Have MLflow write to a folder."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    assert mlflow.active_run() is None
    mlflow.set_tracking_uri(None)


def history(run_id, name):
    """Return the steps and the values of a metric."""
    found = mlflow.MlflowClient().get_metric_history(run_id, name)
    return [entry.step for entry in found], [entry.value for entry in found]


def check_training():
    logger, scores = MLflowLogger(), {}
    booster = hornbeam.train(
        {"eta": 0.5, "eval_metric": ["rmse", "mae"], "max_depth": 3},
        DATA,
        ROUNDS,
        evals=[(DATA, "train")],
        evals_result=scores,
        early_stopping_rounds=5,
        callbacks=[logger],
        verbose_eval=False,
    )
    run = mlflow.get_run(logger.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["learning_rate"] == "0.5"
    assert run.data.params["max_bin"] == "256"
    assert run.data.tags["hornbeam.digest"] == booster.digest()
    for metric in ("rmse", "mae"):
        steps, values = history(logger.run_id, f"train-{metric}")
        assert steps == list(range(ROUNDS))
        assert values == scores["train"][metric]
    assert run.data.metrics["best_iteration"] == booster.best_iteration
    assert run.data.metrics["best_score"] == booster.best_score

    def artifact(name):
        return mlflow.artifacts.download_artifacts(
            run_id=logger.run_id, artifact_path=name
        )

    with open(artifact("feature_importance_gain.json")) as file:
        found = json.load(file)
    assert found == pytest.approx(booster.get_score(importance_type="gain"))
    loaded = hornbeam.Booster(model_file=artifact("model.ubj"))
    assert loaded.digest() == booster.digest()


def test_a_training_is_logged(tracked):
    check_training()


@pytest.mark.slow
def test_a_training_is_logged_in_a_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    check_training()
    mlflow.set_tracking_uri(None)


def test_an_active_run_is_used_and_not_ended(tracked):
    data = hornbeam.DMatrix(ROWS, np.abs(LABELS.round()), group=[30] * 10)
    with mlflow.start_run() as run:
        logger = MLflowLogger(model_file="ranks.json", importance_type="weight")
        hornbeam.train(
            {"objective": "rank:ndcg", "eval_metric": "ndcg@5"},
            data,
            3,
            evals=[(data, "train")],
            callbacks=[logger],
            verbose_eval=False,
        )
        assert mlflow.active_run().info.run_id == run.info.run_id == logger.run_id
    assert history(logger.run_id, "train-ndcg_at_5")[0] == [0, 1, 2]
    listed = mlflow.artifacts.list_artifacts(run_id=logger.run_id)
    assert sorted(entry.path for entry in listed) == [
        "feature_importance_weight.json",
        "ranks.json",
    ]


def test_cross_validation_is_logged(tracked):
    logger = MLflowLogger()
    table = hornbeam.cv({"max_depth": 2}, DATA, 4, callbacks=[logger])
    for name, column in (("test-rmse", "mean"), ("test-rmse-std", "std")):
        _, values = history(logger.run_id, name)
        np.testing.assert_allclose(values, table[f"test-rmse-{column}"])
    assert mlflow.get_run(logger.run_id).data.params["max_depth"] == "2"
    assert not mlflow.artifacts.list_artifacts(run_id=logger.run_id)


def test_an_error_ends_the_run_as_failed(tracked):
    class Stumble(hornbeam.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 3:
                raise RuntimeError("stumbled")

    logger = MLflowLogger()
    with pytest.raises(RuntimeError, match="stumbled"):
        hornbeam.train(
            {},
            DATA,
            9,
            evals=[(DATA, "train")],
            callbacks=[logger, Stumble()],
            verbose_eval=False,
        )
    assert mlflow.get_run(logger.run_id).info.status == "FAILED"
    assert len(history(logger.run_id, "train-rmse")[0]) >= 3


def test_a_linear_estimator_is_logged(tracked):
    logger = MLflowLogger(model_file=None)
    model = HornbeamRegressor(booster="gblinear", n_estimators=3, callbacks=[logger])
    model.fit(ROWS, LABELS, eval_set=[(ROWS, LABELS)], verbose=False)
    assert len(history(logger.run_id, "validation_0-rmse")[0]) == 3
    listed = mlflow.artifacts.list_artifacts(run_id=logger.run_id)
    assert [entry.path for entry in listed] == ["feature_importance_weight.json"]


def test_model_file_must_not_be_a_path():
    with pytest.raises(ParameterError, match=r"without a folder, not 'a/b.ubj'"):
        MLflowLogger(model_file="a/b.ubj")
