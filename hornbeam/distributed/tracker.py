"""The tracker of a group of processes: gathers them, numbers them, reports failures."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from hornbeam.distributed.connection import Connection, HandshakeError, Listener
from hornbeam.distributed.messages import GarbledMessageError

__all__ = ["LAST_WORDS", "PROTOCOL", "Tracker"]

#: Increased when messages change: processes of other versions are refused.
PROTOCOL = 2
#: Seconds in which a process that has connected must send its first message.
_HELLO_TIMEOUT = 10.0
#: Seconds for the processes to leave at the end, whose lines are printed then.
LAST_WORDS = 10.0


@dataclass(eq=False, slots=True)
class _Worker:
    """A process that has joined."""

    connection: Connection
    host: str
    port: int
    pid: int
    task: str
    version: str
    rank: int = -1
    is_done: bool = False

    @property
    def name(self) -> str:
        number = "a worker" if self.rank < 0 else f"worker {self.rank}"
        return f"{number} ({self.host}, process {self.pid})"

    def tell(self, **message: Any) -> None:
        try:
            self.connection.send_text(**message)
        except OSError:
            return  # reported by the thread that listens to it


class Tracker:
    """Gathers the processes of a group and tells each of them who the others are.

    It stays connected to all of them: when one is lost or fails, it tells the others.
    As a context manager it runs while the block does, and until they have left.

    Parameters
    ----------
    n_workers
        The number of processes.
    host
        The address to listen at, by which the processes reach this machine.
    port
        The port; 0: any that is free.
    by_task
        Whether ranks follow the names of tasks; otherwise the addresses of machines,
        then the names of tasks.
    timeout
        Seconds for all processes to join, and for all to leave once one has left; 0:
        no limit.

    Attributes
    ----------
    address
        What a process needs to join: the host, port and token.
    """

    def __init__(
        self,
        n_workers: int,
        host: str,
        port: int = 0,
        *,
        by_task: bool = False,
        timeout: float = 0,
    ) -> None:
        self._n_workers, self._by_task = n_workers, by_task
        self._timeout = timeout
        self._listener = Listener(
            "the tracker", host, port, self._serve, self._check_deadline
        )
        self.address = self._listener.address
        self.host, self.port, self.token = self.address
        #: Guards all below, and is notified when the tracker ends.
        self._changed = threading.Condition()
        self._workers: list[_Worker] = []
        self._refused: list[str] = []
        self._deadline: float | None = None
        self._failure: str | None = None
        self._is_running = self._has_ended = False

    # For the process that has created it

    def start(self) -> None:
        """Begin to accept processes, in threads."""
        with self._changed:
            if self._is_running:
                return
            self._is_running = True
            self._set_deadline()
        self._listener.start()

    def __enter__(self) -> Tracker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.wait(LAST_WORDS)
        self.close("the training has ended")

    @property
    def is_running(self) -> bool:
        """Whether it was started, and some processes have not left yet."""
        with self._changed:
            return self._is_running and not self._has_ended

    @property
    def failure(self) -> str | None:
        """Why the group failed; None if it did not."""
        with self._changed:
            return self._failure

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all processes have left, or one failed; return whether that is so.

        `timeout` is in seconds; None: as long as it takes.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._has_ended, timeout)

    def close(self, reason: str) -> None:
        """Stop; processes that have not left get this as the reason."""
        self._fail(reason)
        self._end()

    # Threads

    def _set_deadline(self) -> None:
        if self._timeout > 0:
            self._deadline = time.monotonic() + self._timeout

    def _check_deadline(self) -> None:
        with self._changed:
            late = self._deadline and time.monotonic() > self._deadline
        if late:
            self.close(f"not all processes were there in time: {self._state()}")

    def _state(self) -> str:
        with self._changed:
            done = sum(worker.is_done for worker in self._workers)
            found = f"{len(self._workers)} of {self._n_workers} have joined"
            if done:
                found += f", {done} have left"
            if self._refused:
                found += f"; connections without the token came from {self._refused}"
        return found

    def _serve(self, connection: Connection) -> None:
        """Talk to one process until it leaves or is lost."""
        host = "an unknown address"
        try:
            host = connection.remote_host
            connection.accept(self.token)
            connection.wait_at_most(_HELLO_TIMEOUT)
            hello = connection.receive_text()
            connection.wait_at_most(None)
            worker = self._join(connection, hello)
            if worker is not None:
                self._listen_to(worker)
        except HandshakeError:
            with self._changed:
                self._refused = [*self._refused[-9:], host]
        except (GarbledMessageError, ValueError, KeyError, TypeError) as error:
            self._fail(f"a process at {host} has sent a wrong message: {error}")
        except OSError:
            pass  # it went away before it has joined
        finally:
            connection.close()

    def _listen_to(self, worker: _Worker) -> None:
        try:
            while not worker.is_done:
                self._take(worker, worker.connection.receive_text())
        except GarbledMessageError as error:
            self._fail(f"{worker.name} has sent a wrong message: {error}", worker)
        except OSError:
            self._fail(f"{worker.name} was lost: its process ended", worker)

    def _join(self, connection: Connection, hello: dict[str, Any]) -> _Worker | None:
        """Enter a process; once all are there, tell each its rank and its peers."""
        worker = _Worker(
            connection,
            str(hello["host"]),
            int(hello["port"]),
            int(hello["pid"]),
            str(hello["task"]),
            f"{hello['version']}, protocol {hello['protocol']}",
        )
        with self._changed:
            is_late = self._has_ended or len(self._workers) >= self._n_workers
            failure = self._failure
            if not is_late:
                self._workers.append(worker)
            workers = list(self._workers)
        if is_late:
            reason = failure or f"all {self._n_workers} processes have joined before"
            worker.tell(failure=reason)
            return None
        if worker.version != workers[0].version:
            self._fail(
                f"{worker.name} runs Hornbeam {worker.version}, and "
                f"{workers[0].name} {workers[0].version}; install the same everywhere"
            )
        elif len(workers) == self._n_workers:
            self._number(workers)
        return worker

    def _number(self, workers: list[_Worker]) -> None:
        """Number the processes and tell each of them all addresses."""
        with self._changed:
            self._deadline = None
            # Stable: processes of equal keys keep the order in which they came.
            if self._by_task:
                workers.sort(key=lambda worker: worker.task)
            else:
                workers.sort(key=lambda worker: (worker.host, worker.task))
            for rank, worker in enumerate(workers):
                worker.rank = rank
        addresses = [[worker.host, worker.port] for worker in workers]
        names = [worker.name for worker in workers]
        for worker in workers:
            worker.tell(rank=worker.rank, addresses=addresses, names=names)

    def _take(self, worker: _Worker, message: dict[str, Any]) -> None:
        """Take a message of a process: text to print, a failure, or that it leaves."""
        if "print" in message:
            sys.stdout.write(str(message["print"]))
            sys.stdout.flush()
        if "failure" in message:
            self._fail(str(message["failure"]), worker)
        if "done" in message:
            with self._changed:
                worker.is_done = True
                all_done = len(self._workers) == self._n_workers and all(
                    other.is_done for other in self._workers
                )
                self._set_deadline()
            if all_done:
                self._end()

    def _fail(self, reason: str, by: _Worker | None = None) -> None:
        """Record the first failure, and tell the processes that are still there."""
        with self._changed:
            if self._has_ended or self._failure is not None:
                return
            self._failure = reason
            others = [w for w in self._workers if not (w.is_done or w is by)]
        for worker in others:
            worker.tell(failure=reason)
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        self._listener.close()
