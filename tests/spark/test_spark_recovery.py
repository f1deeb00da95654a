"""Tasks that die: Spark tries the stage again, and the model is the same."""

import numpy as np
import pytest
from tables import (
    NAMES,
    PARAMS,
    KeptStates,
    LostResult,
    Rounds,
    Strike,
    matrix,
    table,
)

import hornbeam
from hornbeam.spark import HornbeamRegressor

OPTIONS = {
    "features_col": NAMES,
    "label_col": "y",
    "row_key_col": "id",
    "num_workers": 2,
    "n_estimators": 9,
    "checkpoint_interval": 2,
    "verbose": False,
}


@pytest.fixture(scope="module")
def expected():
    data = matrix(row_key="id")
    return hornbeam.train(PARAMS, data, 9, verbose_eval=False).digest()


@pytest.mark.parametrize("on_driver", [True, False])
def test_a_worker_that_is_killed(spark, tmp_path, expected, on_driver):
    """The driver keeps checkpoints, or the disk of the executor."""
    frame = spark.createDataFrame(table())
    callbacks = [Rounds(tmp_path), Strike(tmp_path, 5, 1), Strike(tmp_path, 8, 0)]
    model = HornbeamRegressor(
        callbacks=callbacks, launch_tracker_on_driver=on_driver, **OPTIONS, **PARAMS
    ).fit(frame)
    assert model.get_booster().digest() == expected
    # The second attempt goes on after round 4, and the third after round 6, unless the
    # other task has a checkpoint of round 8 on the disk.
    rounds = [int(line) for line in (tmp_path / "rounds").read_text().split()]
    falls = np.flatnonzero(np.diff(rounds) < 1)
    first, *others = [rounds[fall + 1] for fall in falls]
    assert first == 5
    assert others == [7] or (others == [] and not on_driver)


def test_executors_that_are_killed(spark_cluster, tmp_path, expected):
    frame = spark_cluster.createDataFrame(table())
    callbacks = [Rounds(tmp_path), Strike(tmp_path, 5, 1, "executor")]
    estimator = HornbeamRegressor(callbacks=callbacks, **OPTIONS, **PARAMS)
    model = estimator.fit(frame)
    assert model.get_booster().digest() == expected
    rounds = [int(line) for line in (tmp_path / "rounds").read_text().split()]
    assert 0 not in rounds[1:]
    # Without a coordinator on the driver the other executor has the checkpoint.
    (tmp_path / "rounds").unlink()
    callbacks = [Rounds(tmp_path), Strike(tmp_path, 3, 0, "executor")]
    again = HornbeamRegressor(
        callbacks=callbacks, launch_tracker_on_driver=False, **OPTIONS, **PARAMS
    )
    assert again.fit(frame).get_booster().digest() == expected
    rounds = [int(line) for line in (tmp_path / "rounds").read_text().split()]
    assert 0 not in rounds[1:]


def test_a_result_that_is_lost_after_the_others_ended(
    spark_cluster, tmp_path, expected
):
    """Spark repeats the lost task alone, which asks for all; no round is lost."""
    frame = spark_cluster.createDataFrame(table())
    estimator = HornbeamRegressor(
        callbacks=[Rounds(tmp_path), LostResult(tmp_path)],
        launch_tracker_on_driver=False,
        **OPTIONS,
        **PARAMS,
    )
    assert estimator.fit(frame).get_booster().digest() == expected
    assert (tmp_path / "lost").exists()
    rounds = [int(line) for line in (tmp_path / "rounds").read_text().split()]
    assert rounds == list(range(9))


def test_states_on_disk_are_removed_by_the_next_training(spark, tmp_path):
    frame = spark.createDataFrame(table())
    estimator = HornbeamRegressor(
        callbacks=[KeptStates(tmp_path)],
        launch_tracker_on_driver=False,
        **OPTIONS,
        **PARAMS,
    )
    found = []
    for _ in range(2):
        estimator.fit(frame)
        found.append((tmp_path / "kept").read_text().split())
    assert [len(names) for names in found] == [1, 1]
    assert found[0] != found[1]
