"""Tables of the tests, and callbacks that their tasks run."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import hornbeam

ROWS = 600
NAMES = ["a", "b", "c", "d"]
_random = np.random.default_rng(0)
X = np.round(_random.normal(size=(ROWS, 4)), 2)
X[_random.random(X.shape) < 0.1] = np.nan
SCORE = (
    np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + _random.normal(size=ROWS) / 3
)
COLUMNS = {
    "y": np.round(SCORE, 3),
    "two": (SCORE > 1).astype(float),
    "three": np.digitize(SCORE, [0.5, 1.5]).astype(float),
    "grade": np.digitize(SCORE, [0.5, 1.5]).astype(float),
    "w": np.round(_random.random(ROWS) + 0.1, 2),
    "margin": np.round(_random.normal(size=ROWS), 2),
    "query": np.arange(ROWS) // 12,
    "id": 1000 + np.arange(ROWS),
    "held": np.arange(ROWS) % 5 == 0,
}
PARAMS = {"max_depth": 3, "subsample": 0.6}


def table(order=None, **more):
    """Return an Arrow table of all columns, and of features as arrays."""
    order = np.arange(ROWS) if order is None else order
    columns = {name: pa.array(X[order, f]) for f, name in enumerate(NAMES)}
    columns |= {name: pa.array(own[order]) for name, own in (COLUMNS | more).items()}
    columns["array"] = pa.array(X[order].tolist())
    return pa.table(columns)


def matrix(label="y", rows=slice(None), names=NAMES, **fields):
    """Return the matrix of one machine."""
    given = {name: COLUMNS[column][rows] for name, column in fields.items()}
    features = X[rows]
    if names is not None:
        features = table().select(NAMES).take(np.arange(ROWS)[rows])
    return hornbeam.DMatrix(features, COLUMNS[label][rows], **given)


class Strike(hornbeam.TrainingCallback):
    """Kill a process once, after a round, in the task of a rank."""

    def __init__(self, folder, epoch, rank, what="worker"):
        self.mark = Path(folder, f"struck-{epoch}")
        self.epoch, self.rank, self.what = epoch, rank, what

    def before_training(self, model):
        self.first = model.num_boosted_rounds()
        return model

    def after_iteration(self, model, epoch, evals_log):
        from hornbeam.distributed import joined_group

        own = joined_group().rank == self.rank
        if own and epoch == self.epoch and not self.mark.exists():
            self.mark.write_text(str(model.num_boosted_rounds()))
            os.kill(_victim(self.what), signal.SIGKILL)
        return False


class Rounds(hornbeam.TrainingCallback):
    """Write the rounds that are trained in this attempt."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def after_iteration(self, model, epoch, evals_log):
        from hornbeam.distributed import joined_group

        if joined_group().rank == 0:
            with open(self.folder / "rounds", "a") as file:
                file.write(f"{epoch}\n")
        return False


class KeptStates(hornbeam.TrainingCallback):
    """Write the names of the folders of states on the disk of the executor."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def after_training(self, model):
        local = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0])
        names = sorted(path.name for path in local.glob("hornbeam-*"))
        (self.folder / "kept").write_text(" ".join(names))
        return model


def _victim(what):
    """Return the process to kill: the worker, or the executor that it belongs to."""
    if what == "worker":
        return os.getpid()
    daemon = os.getppid()
    status = Path(f"/proc/{daemon}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


class LostResult(hornbeam.TrainingCallback):
    """Lose a result once: the executor of the first task dies after the others end."""

    def __init__(self, folder):
        self.mark = Path(folder, "lost")

    def before_training(self, model):
        from hornbeam.distributed import joined_group
        from hornbeam.spark import task

        cells = task._cells

        def die(outcome):
            if not self.mark.exists():
                self.mark.touch()
                time.sleep(2.0)  # in which the other tasks end
                os.kill(_victim("executor"), signal.SIGKILL)
            return cells(outcome)

        if joined_group().rank == 0:
            task._cells = die
        return model


class OtherVersion(hornbeam.TrainingCallback):
    """Lets the worker of the second task join once as one of another version."""

    def __reduce__(self):
        return _in_another_version, ()


def _in_another_version():
    from pyspark import TaskContext

    from hornbeam.distributed import group

    own, join = group.__version__, group.Group._join_tracker

    def pretend(*args):
        group.__version__, group.Group._join_tracker = "9.9", join
        try:
            join(*args)
        finally:
            group.__version__ = own

    context = TaskContext.get()
    is_second = context is not None and context.partitionId() == 1
    if is_second and join.__name__ != "pretend":
        group.Group._join_tracker = pretend
    return OtherVersion()
