"""Training that is killed goes on from its last checkpoint, to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hornbeam

#: Trains to the end, from the last checkpoint if there is one, and prints the digest.
TRAIN = """
import sys
from pathlib import Path
import numpy as np
import hornbeam

folder, way = Path(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 6)).astype(np.float32)
x[rng.random(x.shape) < 0.1] = np.nan
y = (np.nansum(x[:, :3], axis=1) + rng.normal(size=3000) > 0).astype(np.float32)
if way == "memory":
    data = hornbeam.DMatrix(x, y)
else:
    data = hornbeam.ExtMemQuantileDMatrix(x, y, cache=folder / "pages")
parameters = {
    "objective": "binary:logistic", "max_depth": 4, "subsample": 0.7,
    "colsample_bynode": 0.6, "seed": 3, "nthread": 1,
}
done = sorted(folder.glob("model_*.ubj"), key=lambda path: int(path.stem[6:]))
start = hornbeam.Booster(parameters, model_file=done[-1]) if done else None
rounds = 30 - (start.num_boosted_rounds() if start else 0)
print("from", 30 - rounds, flush=True)
model = hornbeam.train(
    parameters, data, rounds, evals=[(data, "train")], verbose_eval=False,
    xgb_model=start,
    callbacks=[hornbeam.TrainingCheckPoint(folder, interval=1)],
)
print(model.digest())
"""


def start(*arguments):
    """Start a process that trains."""
    root = str(Path(hornbeam.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Return the lines that a process printed, which must have ended well."""
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.split("\n")


@pytest.mark.parametrize(
    "way", ["pages", pytest.param("memory", marks=pytest.mark.slow)]
)
def test_killed_training_ends_with_the_same_bits(tmp_path, way):
    whole = tmp_path / "whole"
    whole.mkdir()
    digest = finish(start(whole, "memory"))[1]
    folder = tmp_path / "killed"
    folder.mkdir()
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for kills in range(2):
        process = start(folder, way)
        first = int(process.stdout.readline().split()[1])
        # Some kills come while the cache is made, others in mid-training.
        deadline = time.monotonic() + 60
        while kills and not (folder / f"model_{first + 2}.ubj").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.05)))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    begin, end = finish(start(folder, way))[:2]
    assert int(begin.split()[1]) >= 3
    assert end == digest
