"""Records the signatures that Python calls kernels with, while the tests run.

As a plugin of pytest (``-p native.record``) it writes those of each process, Dask's
workers included, to a file of the folder HORNBEAM_SIGNATURES. ``python -m native.record
FOLDER`` then writes the files of all signatures, and of those that a first fit calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
import numpy as np

import hornbeam
from hornbeam.kernels.ahead import FIRST_FIT, SIGNATURES
from hornbeam.kernels.compiler import KERNELS, PhaseDispatcher
from hornbeam.kernels.signatures import called, read, write

__all__ = ["dask_teardown", "fit_first", "pytest_sessionfinish", "pytest_sessionstart"]


def pytest_sessionstart() -> None:
    """Let Dask's workers load this module, too."""
    dask.config.set({"distributed.worker.preload": ["native.record"]})


def dask_teardown(worker: Any) -> None:
    """Write the signatures of a worker, which ends."""
    pytest_sessionfinish()


def pytest_sessionfinish() -> None:
    """Write the signatures of this process."""
    folder = Path(os.environ["HORNBEAM_SIGNATURES"])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"{os.getpid()}.json", called())


def fit_first(categories: bool) -> None:
    """Do what most programs do first: fit a table, and predict it.

    Its columns are floats; with `categories` the last one is categorical.
    """
    X = np.random.default_rng(0).normal(size=(1000, 10))
    y, types = X[:, 0] > 0, ["float"] * 10
    if categories:
        X[:, 9], types[9] = np.arange(1000) % 7, "c"
    data = hornbeam.DMatrix(X, y, feature_types=types)
    booster = hornbeam.train({"objective": "binary:logistic"}, data, 3)
    booster.predict(data)


def _merge(folder: Path) -> None:
    """Write the signatures of all files of a folder."""
    every: dict[str, dict[str, list[Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        for name, own in read(path).items():
            every.setdefault(name, {}).update((json.dumps(one), one) for one in own)
    kernels = {name: [*own.values()] for name, own in every.items()}
    for name in every:
        import_module(name.rpartition(".")[0])
        if isinstance(KERNELS.get(name), PhaseDispatcher):
            del kernels[name]  # the builder finds it where a kernel calls it
    write(SIGNATURES, kernels)


def record_first_fit() -> None:
    """Write the signatures of a first fit, in a process that has called no others."""
    fit_first(categories=False)
    write(FIRST_FIT, called())


if __name__ == "__main__":
    script = "from native.record import record_first_fit; record_first_fit()"
    subprocess.run([sys.executable, "-c", script], check=True)
    _merge(Path(sys.argv[1]))
