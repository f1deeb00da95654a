"""A worker process: it has actors with rows, and answers the calls of a client.

It connects to a `hornbeam.distributed.process_cluster.ProcessCluster`, and ends with
the connection. One thread receives; each actor computes in a thread of its own, and a
thread says a few times a second that the process is alive. Other workers may connect,
too, for the sums of a tree reduction.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, reduce
from operator import add
from typing import Any

from hornbeam import __version__
from hornbeam.backends.cluster import ActorLostError
from hornbeam.cpu_count import available_threads
from hornbeam.distributed.connection import (
    Address,
    Connection,
    HandshakeError,
    Listener,
    connect,
)
from hornbeam.distributed.messages import sendable
from hornbeam.distributed.partitions import Partition
from hornbeam.distributed.peer import ALIVE, Peer
from hornbeam.distributed.reduction_tree import ReductionTree
from hornbeam.distributed.shard import Shard, Worker
from hornbeam.distributed.transport import WorkerLostError, first_error
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError

__all__ = ["TOKEN", "PartitionSource", "WorkerProcess", "serve"]

#: The variable of the environment in which a worker finds the token.
TOKEN = "HORNBEAM_TOKEN"
#: Seconds between two messages that say that the worker is alive.
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


#: A connection, and the number of a message that came over it.
Caller = tuple[Connection, int]


class WorkerProcess:
    """What a worker process does with the messages of its client and of other workers.

    Parameters
    ----------
    host
        The address of this machine, where other workers connect.
    n_threads
        Of an actor.

    Attributes
    ----------
    address
        Where other workers connect.
    """

    def __init__(self, host: str, n_threads: int) -> None:
        self._listener = Listener("this worker", host, 0, self._welcome)
        self.address = self._listener.address
        self._worker = Worker("a worker", n_threads)
        self._tasks = ThreadPoolExecutor(1)
        #: By the actor's number: the thread that computes, and the actor once it is
        #: there.
        self._threads: dict[int, ThreadPoolExecutor] = {}
        self._actors: dict[int, Any] = {}
        #: The workers below this one in a tree, by where they listen.
        self._below: dict[Address, Peer] = {}
        self._connecting = threading.Lock()

    def run(self, client: Connection, place: str) -> None:
        """Answer messages until the client, which names this worker, closes."""
        self._worker = Worker(place, self._worker.n_threads)
        self._listener.start()
        self._serve(client)
        self._listener.close()

    def _welcome(self, other: Connection) -> None:
        """Answer messages of another worker."""
        try:
            other.accept(self.address.token)
            self._serve(other)
        except (HandshakeError, OSError):
            pass  # a stranger
        finally:
            other.close()

    def _serve(self, connection: Connection) -> None:
        threading.Thread(
            target=self._say_alive, args=(connection,), daemon=True
        ).start()
        while True:
            try:
                number, verb, args = connection.receive()
            except OSError:
                return
            getattr(self, f"_{verb}")((connection, number), *args)

    def _say_alive(self, connection: Connection) -> None:
        try:
            while True:
                time.sleep(_ALIVE_INTERVAL)
                connection.send((ALIVE, True, None))
        except OSError:
            return  # the other end is gone

    # What a client asks for

    def _place(
        self,
        caller: Caller,
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
        self._threads[actor].submit(self._answer, caller, make)

    def _call(
        self,
        caller: Caller,
        actor: int,
        packed: bytes,
        children: Sequence[ReductionTree] = (),
        patience: float | None = None,
    ) -> None:
        """Answer with an actor's result, and those of the subtrees added to it.

        `packed` is a pickle of the name of its method and of the arguments.
        """

        def call() -> Any:
            below = [(child, self._ask(child, packed, patience)) for child in children]
            results, errors = [], []
            try:
                method, args = pickle.loads(packed)
                results.append(getattr(self._actors[actor], method)(*args))
            except Exception as error:
                errors.append(error)
            for child, answer in below:
                try:
                    results.append(answer.result())
                except WorkerLostError:
                    errors.append(ActorLostError([child.actor]))
                except Exception as error:
                    errors.append(error)
            if errors:
                raise first_error(errors)
            return reduce(add, results) if children else results[0]

        self._threads.get(actor, self._tasks).submit(self._answer, caller, call)

    def _ask(
        self,
        tree: ReductionTree,
        packed: bytes,
        patience: float | None,
    ) -> Future[Any]:
        """Send a call to the actor at the root of a subtree, on another worker."""
        try:
            peer = self._peer(tree.key, tree.actor.place, patience)
        except OSError:
            lost: Future[Any] = Future()
            lost.set_exception(WorkerLostError(tree.actor.place))
            return lost
        number, children = tree.actor.number, tree.children
        return peer.ask("call", number, packed, children, patience)

    def _peer(self, address: Address, place: str, patience: float | None) -> Peer:
        with self._connecting:
            peer = self._below.get(address)
            if peer is None or peer.is_lost:
                connection = connect(*address, _CONNECT_TIMEOUT)
                connection.wait_at_most(patience)
                peer = self._below[address] = Peer(connection, place)
            return peer

    def _drop(self, caller: Caller, actor: int) -> None:
        threads = self._threads.pop(actor, None)
        if threads is not None:
            threads.submit(self._actors.pop, actor, None)
            threads.shutdown(wait=False)
        self._answer(caller, lambda: None)

    def _map(
        self,
        caller: Caller,
        task: Callable[..., Any],
        source: PartitionSource,
        args: tuple[Any, ...],
    ) -> None:
        compute = partial(_on_partition, task, source, args)
        self._tasks.submit(self._answer, caller, compute)

    def _answer(self, caller: Caller, compute: Callable[[], Any]) -> None:
        """Send a result, or the error instead of it."""
        is_result, result = True, None
        connection, number = caller
        try:
            result = compute()
        except Exception as error:
            is_result, result = False, sendable(error, self._worker.place)
        try:
            connection.send((number, is_result, result))
        except OSError:
            return  # the caller is gone
        except Exception as error:
            text = f"on {self._worker.place}: {result!r} cannot be sent: {error}"
            failed = ClusterError(text, code=ErrorCode.CLUSTER_FAILURE)
            connection.send((number, False, failed))


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
    process = WorkerProcess(connection.local_host, n_threads or available_threads())
    connection.send_text(
        version=__version__,
        pid=os.getpid(),
        address=process.address,
    )
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
    process.run(connection, str(welcome["place"]))
