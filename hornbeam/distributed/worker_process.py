"""A worker process: it has actors with rows, and answers the calls of a client.

It connects to a `hornbeam.distributed.process_cluster.ProcessCluster`, and ends with
the connection. One thread receives; each actor computes in a
thread of its own, and a thread says a few times a second that the process is alive.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from hornbeam import __version__
from hornbeam.cpu_count import available_threads
from hornbeam.distributed.connection import Connection, HandshakeError, connect
from hornbeam.distributed.messages import sendable
from hornbeam.distributed.partition_rows import Worker
from hornbeam.distributed.partitions import Partition
from hornbeam.distributed.shard import Shard
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError

__all__ = ["ALIVE", "TOKEN", "PartitionSource", "WorkerProcess", "serve"]

#: The variable of the environment in which a worker finds the token.
TOKEN = "HORNBEAM_TOKEN"
#: The number of a message that is no answer: the worker is alive.
ALIVE = -1
#: Seconds between two of them.
_ALIVE_INTERVAL = 0.25
#: Seconds to connect, and for the client's first message.
_CONNECT_TIMEOUT = 10.0


class PartitionSource:
    """A partition, as a function that a worker calls whenever it needs the rows.

    Parameters
    ----------
    number
        Of the partition.
    read
        Returns a dict of ``"data"``, and of ``"label"`` and other fields of the rows.
    """

    def __init__(self, number: int, read: Callable[[], dict[str, Any]]) -> None:
        try:
            #: Loaded where it is called: its module may take long to import.
            self._pickled = pickle.dumps(read)
        except Exception as error:
            raise ClusterError(
                f"partition {number}: {read!r} cannot be sent to a worker: {error}; "
                "pass a function of a module, or functools.partial of one",
                code=ErrorCode.UNSUPPORTED_COLLECTION,
            ) from error
        self.number = number

    def read(self) -> Partition:
        """Return the partition; raise a `ClusterError` if the function fails."""
        try:
            fields = dict(pickle.loads(self._pickled)())
            return Partition(self.number, fields.pop("data"), fields)
        except HornbeamError:
            raise
        except Exception as error:
            raise ClusterError(
                f"partition {self.number} cannot be read: {type(error).__name__}: "
                f"{error}",
                code=ErrorCode.PARTITION_LOST,
            ) from error


class WorkerProcess:
    """What a worker process does with the messages of its client.

    Parameters
    ----------
    connection
        To the client, authenticated.
    worker
        The name that the client has given, and the number of threads.
    """

    def __init__(self, connection: Connection, worker: Worker) -> None:
        self._connection, self._worker = connection, worker
        self._tasks = ThreadPoolExecutor(1)
        #: By the actor's number: the thread that computes, and the actor once it is
        #: there.
        self._threads: dict[int, ThreadPoolExecutor] = {}
        self._actors: dict[int, Any] = {}

    def run(self) -> None:
        """Answer messages until the client closes the connection."""
        threading.Thread(target=self._say_alive, daemon=True).start()
        while True:
            try:
                number, verb, args = self._connection.receive()
            except OSError:
                return
            getattr(self, f"_{verb}")(number, *args)

    def _say_alive(self) -> None:
        try:
            while True:
                time.sleep(_ALIVE_INTERVAL)
                self._connection.send((ALIVE, True, None))
        except OSError:
            return  # the client is gone

    # What a client asks for

    def _place(
        self,
        number: int,
        actor: int,
        numbers: tuple[int, ...],
        sources: tuple[PartitionSource, ...],
        options: tuple[Any, ...],
    ) -> None:
        def make() -> None:
            parts = [source.read() for source in sources]
            (reader,) = options
            self._actors[actor] = Shard(numbers, parts, reader, self._worker)

        self._threads[actor] = ThreadPoolExecutor(1)
        self._threads[actor].submit(self._answer, number, make)

    def _call(
        self, number: int, actor: int, method: str, args: tuple[Any, ...]
    ) -> None:
        def call() -> Any:
            return getattr(self._actors[actor], method)(*args)

        self._threads[actor].submit(self._answer, number, call)

    def _drop(self, number: int, actor: int) -> None:
        threads = self._threads.pop(actor, None)
        if threads is not None:
            threads.submit(self._actors.pop, actor, None)
            threads.shutdown(wait=False)
        self._answer(number, lambda: None)

    def _map(
        self,
        number: int,
        task: Callable[..., Any],
        source: PartitionSource,
        args: tuple[Any, ...],
    ) -> None:
        compute = partial(_on_partition, task, source, args)
        self._tasks.submit(self._answer, number, compute)

    def _answer(self, number: int, compute: Callable[[], Any]) -> None:
        """Send a result, or the error instead of it."""
        is_result, result = True, None
        try:
            result = compute()
        except Exception as error:
            is_result, result = False, sendable(error, self._worker.place)
        try:
            self._connection.send((number, is_result, result))
        except OSError:
            return  # the client is gone
        except Exception as error:
            text = f"on {self._worker.place}: {result!r} cannot be sent: {error}"
            failed = ClusterError(text, code=ErrorCode.CLUSTER_FAILURE)
            self._connection.send((number, False, failed))


def _on_partition(
    task: Callable[..., Any], source: PartitionSource, args: tuple[Any, ...]
) -> Any:
    return task(source.read(), *args)


def serve(host: str, port: int, token: str, n_threads: int = 0) -> None:
    """Work for the client that listens at an address, until it closes the connection.

    Parameters
    ----------
    host, port, token
        Of the client.
    n_threads
        Of an actor; 0: all that this process may use.
    """
    try:
        connection = connect(host, port, token, _CONNECT_TIMEOUT)
    except HandshakeError as error:
        raise ClusterError(
            f"the client at {host}, port {port} has refused this worker: {error}; set "
            f"{TOKEN} to its token",
            code=ErrorCode.GROUP_TOKEN_REFUSED,
        ) from error
    except OSError as error:
        raise ClusterError(
            f"there is no client at {host}, port {port}: {error}",
            code=ErrorCode.TRACKER_NOT_FOUND,
        ) from error
    n_threads = n_threads or available_threads()
    connection.send_text(version=__version__, pid=os.getpid(), threads=n_threads)
    try:
        welcome = connection.receive_text()
    except OSError as error:
        raise ClusterError(
            f"the client at {host}, port {port} has ended: {error}",
            code=ErrorCode.TRACKER_NOT_FOUND,
        ) from error
    if "place" not in welcome:
        raise ClusterError(
            f"the client at {host}, port {port} has Hornbeam {welcome['version']}, and "
            f"this worker {__version__}; install the same everywhere",
            code=ErrorCode.WORKER_VERSION_MISMATCH,
        )
    connection.wait_at_most(None)
    WorkerProcess(connection, Worker(str(welcome["place"]), n_threads)).run()
