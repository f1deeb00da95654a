"""The meeting of the tasks of an attempt: they find each other, and the last state.

A barrier stage is tried again when a task is lost. The driver keeps the states of the
first task. Where tasks cannot reach the driver, each of them keeps its own on the disk
of its executor, since all have the whole model: the next attempt takes the latest that
any of its tasks finds. A task that has ended does not remove them, since Spark may lose
the result of another one and repeat all; the next training on the executor does.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark import BarrierTaskContext

from hornbeam.distributed.attempts import Attempts
from hornbeam.distributed.connection import (
    Address,
    Connection,
    HandshakeError,
    Listener,
    connect,
)
from hornbeam.distributed.messages import GarbledMessageError
from hornbeam.distributed.run_state import RunState, latest
from hornbeam.distributed.tracker import Tracker
from hornbeam.errors import ClusterError, ErrorCode
from hornbeam.files import replace_file

__all__ = ["Coordinator", "Place", "meet"]

#: Seconds for a task to reach the driver.
_TIMEOUT = 60.0
#: Seconds for the tasks to leave the group, once the first one has.
_LAST_WORDS = 10.0
#: The folders of an executor, which Spark removes when it ends.
_LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"


class Coordinator(Attempts):
    """Listens on the driver while a training runs: a context manager.

    The first task of each attempt asks it to begin, and sends the states to keep.

    Parameters
    ----------
    n_workers, host, port, timeout
        As for `Attempts`.

    Attributes
    ----------
    address
        Of the coordinator.
    """

    def __init__(self, n_workers: int, host: str, port: int, timeout: float) -> None:
        super().__init__(n_workers, host, port, timeout)
        self._listener = Listener("the driver", host, 0, self._serve)
        self.address = self._listener.address

    def __enter__(self) -> Coordinator:
        self._listener.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        self.end("the training has ended")

    def _serve(self, connection: Connection) -> None:
        try:
            connection.accept(self.address.token)
            connection.send(self.begin())
            while True:
                self.keep(connection.receive())
        except (OSError, HandshakeError, GarbledMessageError):
            pass  # the task has ended, or it is a stranger
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Place:
    """What a task knows once all have met.

    Attributes
    ----------
    name
        Of the task, in the order of ranks.
    tracker
        The address of the tracker of this attempt.
    start
        The last state of the attempts before that this task finds.
    keep
        A function that keeps a state for the next attempt; None: another task does.
    end
        A function that tells that this training is done, so that the next one may
        remove what was kept; None: the task keeps nothing.
    """

    name: str
    tracker: Address
    start: RunState | None
    keep: Callable[[RunState], None] | None
    end: Callable[[], None] | None


@contextmanager
def meet(
    context: BarrierTaskContext,
    n_tasks: int,
    coordinator: Address | None,
    run: str,
    timeout: float | None,
) -> Iterator[Place]:
    """Exchange the address of the tracker with the tasks of this attempt.

    Parameters
    ----------
    context, n_tasks
        Of this task, and the number of all.
    coordinator
        Of the driver; None: the first task has the tracker.
    run
        A random name of the training.
    timeout
        Seconds for all tasks to join such a tracker; None: no limit.
    """
    infos = context.getTaskInfos()
    if len(infos) < n_tasks:
        # A task was lost after others had ended, and Spark repeats those that are
        # missing, which would wait for the others. An error repeats all.
        raise ClusterError(
            f"Spark runs {len(infos)} of {n_tasks} tasks; training needs all",
            code=ErrorCode.WORKERS_LOST,
        )
    is_first, name = context.partitionId() == 0, f"{context.partitionId():06d}"
    address, start, end = None, None, None
    keep: Callable[[RunState], None] | None = None
    with ExitStack() as opened:
        if coordinator is None:
            states = _StatesOnDisk(run, name)
            start, keep, end = states.latest(), states.keep, states.end
            if is_first:
                host = infos[0].address.rpartition(":")[0]
                tracker = Tracker(n_tasks, host, by_task=True, timeout=timeout or 0)
                tracker.start()
                address = tracker.address
                opened.callback(tracker.close, "the training has ended")
                opened.callback(tracker.wait, _LAST_WORDS)
        elif is_first:
            link = connect(*coordinator, _TIMEOUT)
            opened.callback(link.close)
            address, start = link.receive()
            keep = link.send
        found = context.allGather(json.dumps(address))
        yield Place(name, Address(*json.loads(found[0])), start, keep, end)


class _StatesOnDisk:
    """The states that the tasks of an executor keep; those of other runs are removed.

    Parameters
    ----------
    run
        A random name of the training.
    task
        The name of the task.
    """

    def __init__(self, run: str, task: str) -> None:
        folders = os.environ.get(_LOCAL_FOLDERS) or tempfile.gettempdir()
        parent = Path(folders.split(",")[0])
        self._folder = parent / f"hornbeam-{run}"
        self._ended = parent / f"hornbeam-{run}.ended"
        self._task = task
        with suppress(FileNotFoundError):  # of an attempt whose result was lost
            self._ended.rename(self._folder)
        for other in parent.glob("hornbeam-*.ended"):
            shutil.rmtree(other, ignore_errors=True)

    def latest(self) -> RunState | None:
        files = self._folder.glob("[0-9]*")
        return latest(*(pickle.loads(path.read_bytes()) for path in files))

    def keep(self, state: RunState) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        replace_file(self._folder / self._task, [pickle.dumps(state)])

    def end(self) -> None:
        with suppress(FileNotFoundError):  # nothing was kept, or another task has ended
            self._folder.rename(self._ended)
