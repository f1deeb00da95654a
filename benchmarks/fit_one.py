"""Train one library once in a separate process, and print the times as JSON.

`benchmarks.runs` runs it. Arguments: library, folder of arrays, classes, rounds,
threads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import load_npz

from benchmarks.libraries import LIBRARIES, Task
from benchmarks.machine import clock, memory

#: Enough rows and rounds to load every kernel and every cache before measuring.
WARM_ROWS = 2_000
WARM_ROUNDS = 3


def held_out_loss(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the binary or multiclass log loss."""
    predictions = np.asarray(predictions, np.float64)
    if predictions.ndim == 1:
        predictions = np.column_stack([1.0 - predictions, predictions])
    chosen = predictions[np.arange(len(labels)), labels.astype(int)]
    return float(-np.log(np.maximum(chosen, 1e-16)).mean())


def load(folder: Path, part: str) -> tuple[Any, np.ndarray]:
    """Return the features, an array or a sparse matrix, and the labels."""
    sparse = folder / f"x_{part}.npz"
    x = load_npz(sparse) if sparse.exists() else np.load(folder / f"x_{part}.npy")
    return x, np.load(folder / f"y_{part}.npy")


def main() -> None:
    """Warm up, measure the fit, evaluate, print."""
    name, folder, *numbers = sys.argv[1:]
    n_classes, rounds, threads = map(int, numbers)
    fit = LIBRARIES[name]
    x_train, y_train = load(Path(folder), "train")
    fit(x_train[:WARM_ROWS], y_train[:WARM_ROWS], Task(n_classes, WARM_ROUNDS, threads))

    with memory() as megabytes, clock() as seconds:
        predict = fit(x_train, y_train, Task(n_classes, rounds, threads))

    x_test, y_test = load(Path(folder), "test")
    loss = held_out_loss(predict(x_test), y_test)
    result = {
        "cpu_seconds": seconds.cpu,
        "wall_seconds": seconds.wall,
        "megabytes_peak": megabytes.peak,
        "megabytes_added": megabytes.peak - megabytes.before,
        "loss": loss,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
