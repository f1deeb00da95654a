"""Killed training resumes from its last checkpoint to the same model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hornbeam

#: Trains from the last checkpoint, if there is one, and prints the digest.
TRAIN = """
import json, sys, time
from pathlib import Path
import numpy as np
import hornbeam

folder, way, parameters = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 6)).astype(np.float32)
x[rng.random(x.shape) < 0.1] = np.nan
y = (np.nansum(x[:, :3], axis=1) + rng.normal(size=3000) > 0).astype(np.float32)
train, valid = slice(0, 2400), slice(2400, 3000)
if way == "memory":
    data = hornbeam.DMatrix(x[train], y[train])
else:
    data = hornbeam.ExtMemQuantileDMatrix(x[train], y[train], cache=folder / "pages")
start = None
if parameters.get("process_type") == "update":
    start = hornbeam.train({"max_depth": 5}, data, 30, verbose_eval=False)

class Slow(hornbeam.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        time.sleep(0.01)
        return False

log = {}
model = hornbeam.train(
    {"objective": "binary:logistic", "seed": 3, "nthread": 1, **parameters},
    data,
    30,
    evals=[(hornbeam.DMatrix(x[valid], y[valid]), "valid")],
    evals_result=log,
    early_stopping_rounds=8,
    verbose_eval=False,
    xgb_model=start,
    callbacks=[
        hornbeam.TrainingCheckPoint(folder, interval=1, resume=True),
        hornbeam.LearningRateScheduler([0.5 / (1 + k) for k in range(30)]),
        Slow(),
    ],
)
print(json.dumps([model.digest(), model.attributes(), log]))
"""

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
    root = str(Path(hornbeam.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(folder), way, json.dumps(parameters)],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Return the output of a process, which must exit with 0."""
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return json.loads(out)


def saved(folder):
    """Return the number of checkpoints."""
    return len(list(folder.glob("model_*.ubj")))


@pytest.mark.parametrize(
    ("way", "booster"),
    [
        ("pages", "trees"),
        *(pytest.param("memory", name, marks=pytest.mark.slow) for name in BOOSTERS),
    ],
)
def test_killed_training_resumes_to_the_same_model(tmp_path, way, booster):
    parameters = BOOSTERS[booster]
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    folder.mkdir()
    expected = finish(start(whole, "memory", parameters))
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for kills in range(3 if way == "memory" else 2):
        before = saved(folder)
        process = start(folder, way, parameters)
        # Some processes are killed while they write the cache, others in training.
        deadline = time.monotonic() + 60
        while kills and saved(folder) < before + 2:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.05)))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    assert 2 <= saved(folder) < saved(whole)
    assert finish(start(folder, way, parameters)) == expected
    assert saved(folder) == saved(whole)
