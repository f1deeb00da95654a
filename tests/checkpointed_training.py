"""A training with checkpoints, in a process that test_killed_training.py kills."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import hornbeam

ROUNDS = 30


class Slow(hornbeam.TrainingCallback):
    """Leaves time to kill the process between two rounds."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Wait, and go on."""
        time.sleep(0.01)
        return False


def train(folder: Path, way: str, parameters: dict[str, Any], result: Path) -> None:
    """Train from the last checkpoint, if there is one; write the digest to a file."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    y = (np.nansum(x[:, :3], axis=1) + rng.normal(size=3000) > 0).astype(np.float32)
    trained, valid = slice(0, 2400), slice(2400, 3000)
    if way == "memory":
        data = hornbeam.DMatrix(x[trained], y[trained])
    else:
        cache = folder / "pages"
        data = hornbeam.ExtMemQuantileDMatrix(x[trained], y[trained], cache=cache)
    start = None
    if parameters.get("process_type") == "update":
        start = hornbeam.train({"max_depth": 5}, data, ROUNDS, verbose_eval=False)
    log: dict[str, Any] = {}
    model = hornbeam.train(
        {"objective": "binary:logistic", "seed": 3, "nthread": 1, **parameters},
        data,
        ROUNDS,
        evals=[(hornbeam.DMatrix(x[valid], y[valid]), "valid")],
        evals_result=log,
        early_stopping_rounds=8,
        verbose_eval=False,
        xgb_model=start,
        callbacks=[
            hornbeam.TrainingCheckPoint(folder, interval=1, resume=True),
            hornbeam.LearningRateScheduler([0.5 / (1 + k) for k in range(ROUNDS)]),
            Slow(),
        ],
    )
    result.write_text(json.dumps([model.digest(), model.attributes(), log]))
