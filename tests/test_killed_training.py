"""Killed training resumes from its last checkpoint to the same model."""

from __future__ import annotations

import json
import os
import signal
import time

import numpy as np
import pytest
from checkpointed_training import train
from command_line import start_process
from selection import REPEATS

DRAWN = {"subsample": 0.7, "colsample_bynode": 0.6}
BOOSTERS = {
    "trees": {"max_depth": 4, **DRAWN},
    "dropout": {"booster": "dart", "rate_drop": 0.3, "max_depth": 3, **DRAWN},
    "weights": {"booster": "gblinear", "feature_selector": "shuffle"},
    "forests": {"num_parallel_tree": 3, "max_depth": 3, **DRAWN},
    "vectors": {
        "objective": "multi:softprob",
        "num_class": 2,
        "multi_strategy": "multi_output_tree",
        "max_depth": 3,
        **DRAWN,
    },
    "update": {"process_type": "update", "updater": "refresh"},
}


def start(folder, way, parameters):
    """Start a process that trains."""
    result = folder.with_suffix(".json")
    return start_process(train, folder, way, parameters, result), result


def finish(process, result):
    """Return what a process found, which must exit with 0."""
    process.join(timeout=120)
    assert process.exitcode == 0
    return json.loads(result.read_text())


def saved(folder):
    """Return the number of checkpoints."""
    return len(list(folder.glob("model_*.ubj")))


@pytest.mark.parametrize(
    ("way", "booster"),
    [
        ("pages", "trees"),
        *(pytest.param("memory", name, marks=REPEATS) for name in BOOSTERS),
    ],
)
def test_killed_training_resumes_to_the_same_model(tmp_path, way, booster):
    parameters = BOOSTERS[booster]
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    folder.mkdir()
    expected = finish(*start(whole, "memory", parameters))
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for kills in range(3 if way == "memory" else 2):
        before = saved(folder)
        process, _ = start(folder, way, parameters)
        # Some processes are killed while they write the cache, others in training.
        deadline = time.monotonic() + 60
        while kills and saved(folder) < before + 2:
            assert time.monotonic() < deadline and process.is_alive()
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.05)))
        process.kill()
        process.join(timeout=60)
        assert process.exitcode == -signal.SIGKILL
    assert 2 <= saved(folder) < saved(whole)
    assert finish(*start(folder, way, parameters)) == expected
    assert saved(folder) == saved(whole)
