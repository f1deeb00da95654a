"""Where the checkpoints of a training are, from which the next attempt goes on.

The driver keeps those of the first task. Where tasks cannot reach the driver, each of
them keeps its own on the disk of its executor, since all have the whole model: the next
attempt takes the newest that any of its tasks finds.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from hornbeam.callbacks import EvalsLog
from hornbeam.callbacks.checkpoint import TrainingCheckPoint
from hornbeam.files import replace_file
from hornbeam.spark.coordinator import DriverLink

__all__ = [
    "Checkpoints",
    "DriverCheckpoints",
    "Files",
    "KeptCheckPoint",
    "LocalCheckpoints",
    "newer",
]

#: The content of the files of a checkpoint, by name; none: there is no checkpoint.
Files = dict[str, bytes]
#: The folders of an executor, which Spark removes when it ends.
_LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"


class Checkpoints(ABC):
    """The checkpoints that a task knows of."""

    #: Whether this task keeps checkpoints.
    keeps: bool

    @abstractmethod
    def latest(self) -> Files:
        """Return the last checkpoint of the attempts before."""

    @abstractmethod
    def keep(self, files: Files) -> None:
        """Keep a checkpoint instead of the one before."""

    @abstractmethod
    def remove(self) -> None:
        """Remove them: the training is done."""


class DriverCheckpoints(Checkpoints):
    """Those that the driver keeps.

    Parameters
    ----------
    link
        The connection of the first task; None in others, which keep none.
    latest
        That the driver had at the beginning.
    """

    def __init__(self, link: DriverLink | None, latest: Files) -> None:
        self.keeps = link is not None
        self._link, self._latest = link, latest

    def latest(self) -> Files:
        return self._latest

    def keep(self, files: Files) -> None:
        assert self._link is not None
        self._link.keep(files)

    def remove(self) -> None:
        """Nothing: the driver forgets them."""


class LocalCheckpoints(Checkpoints):
    """Those on the disk of the executor.

    Parameters
    ----------
    run
        A random name of the training.
    task
        The name of the task.
    """

    keeps = True

    def __init__(self, run: str, task: str) -> None:
        folders = os.environ.get(_LOCAL_FOLDERS) or tempfile.gettempdir()
        self._folder = Path(folders.split(",")[0], f"hornbeam-{run}")
        self._own = self._folder / task

    def latest(self) -> Files:
        found: Files = {}
        for state in self._folder.glob("*/*.run"):
            model = state.with_suffix(f".{TrainingCheckPoint.default_format}")
            if model.exists():  # it is written last
                files = (model, state)
                found = newer(found, {path.name: path.read_bytes() for path in files})
        return found

    def keep(self, files: Files) -> None:
        self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = set(self._own.iterdir())
        for name in sorted(files):  # the state, .run, before the model
            replace_file(self._own / name, [files[name]])
        for path in before:
            if path.name not in files:
                path.unlink()

    def remove(self) -> None:
        shutil.rmtree(self._own, ignore_errors=True)


def newer(one: Files, other: Files) -> Files:
    """Return the checkpoint of the later round."""
    return max(one, other, key=_round)


def _round(names: Iterable[str]) -> int:
    found = [re.search(r"_(\d+)\.", name) for name in names]
    return max((int(match[1]) for match in found if match), default=-1)


class KeptCheckPoint(TrainingCheckPoint):
    """Saves checkpoints in a folder of the task, and keeps the last for other attempts.

    Parameters
    ----------
    folder, interval
        As for `TrainingCheckPoint`.
    checkpoints
        Where they are kept.
    """

    def __init__(self, folder: Path, interval: int, checkpoints: Checkpoints) -> None:
        super().__init__(folder, interval=interval, resume=True)
        self._checkpoints = checkpoints

    def _saves(self) -> bool:
        return self._checkpoints.keeps

    def after_iteration(self, model: object, epoch: int, evals_log: EvalsLog) -> bool:
        before = self.latest
        super().after_iteration(model, epoch, evals_log)  # type: ignore[arg-type]
        if self.latest is not None and self.latest != before:
            files = (self.latest, self.latest.with_suffix(".run"))
            self._checkpoints.keep({path.name: path.read_bytes() for path in files})
            if before is not None:
                before.unlink()
                before.with_suffix(".run").unlink()
        return False
