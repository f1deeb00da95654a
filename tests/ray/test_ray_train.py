"""Ray Train and Ray Tune: trainers, reports, checkpoints, and stopped trials."""

import os

import numpy as np
import pytest
import ray
import ray.train
import ray.tune
from rows import FRAME, alone, matrix

import hornbeam
import hornbeam.ray
from hornbeam.errors import ErrorCode

pytestmark = pytest.mark.usefixtures("cluster")

ROWS = FRAME.drop(columns=["q", "w"])
PARAMS = {"max_depth": 3, "subsample": 0.5}


def dataset(frame=ROWS):
    return ray.data.from_pandas([frame.iloc[:500], frame.iloc[500:]])


def loop(config):
    """Train on the rows of all workers; fail once after a checkpoint."""
    dtrain = hornbeam.ray.to_dmatrix(ray.train.get_dataset_shard("train"), label="y")
    before, left = None, 6
    if checkpoint := ray.train.get_checkpoint():
        before = hornbeam.ray.RayTrainReportCallback.get_model(checkpoint)
        left -= before.num_boosted_rounds()
    fail = []
    if before is None and config.get("fails"):
        fail.append(Fail())
    hornbeam.train(
        PARAMS,
        dtrain,
        left,
        evals=[(dtrain, "train")],
        xgb_model=before,
        verbose_eval=False,
        callbacks=[hornbeam.ray.RayTrainReportCallback(frequency=2), *fail],
    )


class Fail(hornbeam.TrainingCallback):
    def before_iteration(self, model, epoch, evals_log):
        if epoch == 4 and ray.train.get_context().get_world_rank() == 1:
            os._exit(1)
        return False


def fit(tmp_path, n_workers, train_loop=loop, **config):
    trainer = hornbeam.ray.HornbeamTrainer(
        train_loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=n_workers),
        run_config=ray.train.RunConfig(
            storage_path=str(tmp_path),
            failure_config=ray.train.FailureConfig(max_failures=1),
        ),
        datasets={"train": dataset()},
    )
    return trainer.fit()


def test_a_trainer_whose_worker_dies(tmp_path):
    result = fit(tmp_path, 2, fails=True)
    model = hornbeam.ray.RayTrainReportCallback.get_model(result.checkpoint)
    expected = alone(PARAMS, 6, ROWS)
    assert model.digest() == expected.digest()
    assert np.isclose(
        result.metrics["train-rmse"], float(expected.eval(matrix(ROWS)).split(":")[1])
    )


def test_one_worker_gets_all_rows():
    (shards,) = hornbeam.ray.RowRanges().configure({"train": dataset()}, 1, None, None)
    data = hornbeam.ray.to_dmatrix(shards["train"], label="y")
    assert np.array_equal(data.get_label(), matrix(ROWS).get_label())


def test_a_trainer_with_more_workers_than_cpus(tmp_path):
    with pytest.raises(hornbeam.HornbeamError, match=r"9 CPU.*has 3") as caught:
        fit(tmp_path, 9)
    assert caught.value.code == ErrorCode.TOO_FEW_SLOTS


def trial(config):
    data = matrix(ROWS)
    hornbeam.train(
        {"max_depth": 2, "learning_rate": config["rate"], "nthread": 1},
        data,
        8,
        evals=[(data, "train")],
        verbose_eval=False,
        callbacks=[
            hornbeam.ray.TuneReportCheckpointCallback(
                {"loss": "train-rmse"}, frequency=1
            )
        ],
    )


def test_asha_stops_trials_that_are_behind(tmp_path):
    tuner = ray.tune.Tuner(
        trial,
        param_space={"rate": ray.tune.grid_search([0.3, 0.001])},
        tune_config=ray.tune.TuneConfig(
            metric="loss",
            mode="min",
            max_concurrent_trials=1,
            scheduler=ray.tune.schedulers.ASHAScheduler(
                max_t=8, grace_period=2, reduction_factor=2
            ),
        ),
        run_config=ray.tune.RunConfig(storage_path=str(tmp_path)),
    )
    results = tuner.fit()
    best = results.get_best_result()
    assert best.config["rate"] == 0.3
    rounds = {one.config["rate"]: one.metrics["training_iteration"] for one in results}
    assert rounds[0.001] < 8
    model = hornbeam.ray.TuneReportCheckpointCallback.get_model(best.checkpoint)
    assert model.num_boosted_rounds() == 8
