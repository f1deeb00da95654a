"""The state of a training between two rounds, by which it goes on elsewhere."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import CallbackContainer, EvalsLog, TrainingCallback
from hornbeam.files import replace_file
from hornbeam.forest.model import Model
from hornbeam.forest.model_file import encode

__all__ = ["KeepState", "RunState", "StatesOnDisk", "latest"]


@dataclass(frozen=True, slots=True)
class RunState:
    """A training after a round.

    Attributes
    ----------
    epoch
        The index of the round.
    model
        The model, as the bytes of a file.
    parameters
        The parameters, which callbacks may have changed.
    callbacks
        The history of metrics, and the states of callbacks.
    """

    epoch: int
    model: bytes
    parameters: dict[str, Any]
    callbacks: dict[str, Any]


def latest(*states: RunState | None) -> RunState | None:
    """Return the state that came farthest; None: there is none."""
    given = [state for state in states if state is not None]
    return max(given, key=lambda state: state.epoch, default=None)


class KeepState(TrainingCallback):
    """Keep the state after the last whole round; begin with a state kept before.

    Training then goes on as if it had not been interrupted.

    Parameters
    ----------
    start
        Of an interrupted training with the same data, parameters and callbacks; None:
        training begins.
    interval, keep
        A function that gets the state after every so many rounds; None: none does.
    """

    runs_last = True

    def __init__(
        self,
        start: RunState | None = None,
        interval: int = 1,
        keep: Callable[[RunState], None] | None = None,
    ) -> None:
        self._start, self._interval, self._keep = start, interval, keep
        self._container: CallbackContainer | None = None
        self._last: tuple[int, Model, dict[str, Any]] | None = None

    def join(self, container: CallbackContainer) -> None:
        self._container = container

    def before_training(self, model: Booster) -> Booster:
        start = self._start
        if start is not None:
            assert self._container is not None
            model.resume(start.model)
            model.set_param(start.parameters)
            self._container.resume(model, start.epoch, start.callbacks)
        return model

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        # The copy shares the trees.
        self._last = epoch, model.model.copy(), model.params.changed()
        if self._keep is not None and epoch > 0 and epoch % self._interval == 0:
            state = self.kept()
            assert state is not None
            self._keep(state)
        return False

    def state(self) -> None:
        """Nothing: this callback is no part of the states that it keeps."""

    def kept(self) -> RunState | None:
        """Return the state after the last whole round; None before the first one."""
        if self._last is None:
            return self._start
        assert self._container is not None
        epoch, model, parameters = self._last
        return RunState(
            epoch, encode(model, "ubj"), parameters, self._container.state()
        )


class StatesOnDisk:
    """The states that workers on a machine keep; those of ended trainings are removed.

    Each worker keeps its own, since all have the whole model. One that has ended does
    not remove them, since the result of another one may be lost, and all repeated; the
    next training does.

    Parameters
    ----------
    folder
        Of the machine; None: that of temporary files.
    run
        A random name of the training.
    task
        The name of the worker.
    """

    def __init__(self, folder: str | None, run: str, task: str) -> None:
        parent = Path(folder or tempfile.gettempdir())
        self._folder = parent / f"hornbeam-{run}"
        self._ended = parent / f"hornbeam-{run}.ended"
        self._task = task
        with suppress(FileNotFoundError):  # of an attempt whose result was lost
            self._ended.rename(self._folder)
        for other in parent.glob("hornbeam-*.ended"):
            shutil.rmtree(other, ignore_errors=True)

    def latest(self) -> RunState | None:
        """Return the state that came farthest; None: there is none."""
        files = self._folder.glob("[0-9]*")
        return latest(*(pickle.loads(path.read_bytes()) for path in files))

    def keep(self, state: RunState) -> None:
        """Keep a state, instead of the one before."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        replace_file(self._folder / self._task, [pickle.dumps(state)])

    def end(self) -> None:
        """Tell that this training has ended."""
        with suppress(FileNotFoundError):  # nothing was kept, or another has ended
            self._folder.rename(self._ended)
