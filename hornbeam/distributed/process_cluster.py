"""The `Transport` of plain processes: a client, and workers that connect to it."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import reduce
from operator import add
from typing import Any, Self

from hornbeam import __version__
from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.distributed.connection import (
    Address,
    Connection,
    HandshakeError,
    Listener,
)
from hornbeam.distributed.peer import Peer
from hornbeam.distributed.reduction_tree import (
    TREE_FROM,
    TREE_WIDTH,
    ReductionTree,
    reduction_trees,
)
from hornbeam.distributed.training_rows import CustomObjective
from hornbeam.distributed.transport import (
    NO_WORKER_TIMEOUT,
    Share,
    Transport,
    WorkerLostError,
    first_error,
    no_worker_error,
)
from hornbeam.distributed.worker_process import TOKEN
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError, ParameterError

__all__ = ["ProcessCluster"]

#: Seconds for the first message of a worker that has connected.
_HELLO_TIMEOUT = 10.0
#: Seconds for the workers that are started to connect: they import the package.
_START_TIMEOUT = 120.0
#: Seconds between two checks that the workers are alive.
_CHECK_INTERVAL = 0.25


class ProcessCluster(Transport):
    """Worker processes that connect to this one, the client.

    Both ends of a connection prove that they know the token before anything else is
    read; see `hornbeam.distributed.connection`. Workers may connect at any time.

    Parameters
    ----------
    n_workers
        The number of workers to start on this machine.
    n_threads
        Of each of them.
    host, port
        Where this process listens; port 0: any that is free. With an address that other
        machines reach, workers can be started there:
        ``python -m hornbeam.distributed HOST PORT``, with the token in
        the environment variable ``HORNBEAM_TOKEN``.
    patience
        Seconds without a sign of life after which a worker is considered lost.
    tree_from, tree_width
        The number of actors from which sums are computed by tree reduction, and the
        children of each node of the tree.

    Attributes
    ----------
    host, port, token
        What a worker needs to connect.
    """

    def __init__(
        self,
        n_workers: int = 0,
        n_threads: int = 1,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        patience: float = 10.0,
        tree_from: int = TREE_FROM,
        tree_width: int = TREE_WIDTH,
    ) -> None:
        if not patience > 0:
            raise ParameterError(
                f"patience must be above 0 seconds, not {patience!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self.patience = patience
        self._tree_from, self._tree_width = tree_from, tree_width
        self._listener = Listener("the client", host, port, self._welcome)
        self.host, self.port, self.token = self._listener.address
        #: Guards the workers, and is notified when one joins.
        self._changed = threading.Condition()
        self._peers: dict[str, Peer] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        #: Versions of workers that were refused.
        self._refused: list[str] = []
        self._n_joined = 0
        self._numbers = itertools.count()
        self._has_ended = threading.Event()
        self._listener.start()
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            self.start(n_workers, n_threads)
        except BaseException:
            self.end()
            raise

    # The workers

    def start(self, n_workers: int, n_threads: int = 1) -> None:
        """Start workers on this machine, and wait until they have connected."""
        command = [sys.executable, "-m", "hornbeam.distributed"]
        command += [self.host, str(self.port), "--threads", str(n_threads)]
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = os.environ | {TOKEN: self.token, "PYTHONPATH": paths}
        new = [
            subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
            for _ in range(n_workers)
        ]
        self._processes |= {process.pid: process for process in new}

        def known() -> set[int]:
            return {peer.pid for peer in self._peers.values()}

        deadline = time.monotonic() + _START_TIMEOUT
        with self._changed:
            while missing := [one for one in new if one.pid not in known()]:
                ended = [one.returncode for one in missing if one.poll() is not None]
                if ended or time.monotonic() > deadline:
                    refused = f"; refused: {self._refused}" if self._refused else ""
                    raise ClusterError(
                        f"{len(missing)} of {n_workers} workers did not connect (exit "
                        f"codes {ended}); see what they have written{refused}",
                        code=ErrorCode.WORKERS_LOST,
                    )
                self._changed.wait(_CHECK_INTERVAL)

    def pids(self) -> dict[str, int]:
        """Return the process of each worker, by the worker's name."""
        with self._changed:
            return {p.place: p.pid for p in self._peers.values() if not p.is_lost}

    def end(self) -> None:
        """Close all connections and stop listening; the workers then end."""
        self._has_ended.set()
        self._listener.close()
        with self._changed:
            peers = list(self._peers.values())
        for peer in peers:
            peer.lose()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()

    def _welcome(self, connection: Connection) -> None:
        """Enter a worker that knows the token and has this version."""
        try:
            connection.accept(self.token)
            connection.wait_at_most(_HELLO_TIMEOUT)
            hello = connection.receive_text()
            version, pid = str(hello["version"]), int(hello["pid"])
            connection.wait_at_most(None)
            with self._changed:
                number, self._n_joined = self._n_joined, self._n_joined + 1
            place = f"worker {number} ({connection.remote_host}, process {pid})"
            if version != __version__:
                self._refused.append(f"{place} with Hornbeam {version}")
                connection.send_text(version=__version__)
                connection.close()
                return
            host, port, token = hello["address"]
            address = Address(str(host), int(port), str(token))
            connection.send_text(place=place)
        except (HandshakeError, OSError, KeyError, ValueError, TypeError):
            connection.close()  # a stranger, or a worker that has ended meanwhile
            return
        with self._changed:
            peer = Peer(connection, place, pid, address, self._lose)
            self._peers[place] = peer
            self._changed.notify_all()
        if self._has_ended.is_set():
            peer.lose()

    def _lose(self, peer: Peer) -> None:
        """Do what is due once a worker is lost: others take its partitions."""

    def _watch(self) -> None:
        """Give up workers that say nothing, until the end."""
        while not self._has_ended.wait(min(_CHECK_INTERVAL, self.patience / 4)):
            with self._changed:
                peers = [peer for peer in self._peers.values() if not peer.is_lost]
            for peer in peers:
                if time.monotonic() - peer.connection.last_heard > self.patience:
                    peer.lose()

    def _peer(self, place: str) -> Peer:
        with self._changed:
            return self._peers[place]

    # The contract

    def alive(self) -> list[str]:
        return sorted(self.pids())

    def check(self, shares: Sequence[Share], *, overdue: bool = False) -> None:
        """Nothing: versions are checked as workers connect; functions are not lost."""

    def locate(self, partitions: Sequence[Any]) -> list[str | None]:
        return [None] * len(partitions)  # a worker reads them when it needs them

    def map(self, task: Any, partitions: Sequence[Any], *args: Any) -> list[Any]:
        found: dict[int, Any] = {}
        errors: dict[int, BaseException] = {}
        while missing := [k for k in range(len(partitions)) if k not in found]:
            places = self._some_places()
            asked = {
                k: self._peer(places[k % len(places)]).ask(
                    "map", task, partitions[k], args
                )
                for k in missing
            }
            wait(asked.values())
            for k, answer in asked.items():
                error = answer.exception()
                if isinstance(error, WorkerLostError):
                    continue  # another worker computes it
                found[k] = None if error is not None else answer.result()
                if error is not None:
                    errors[k] = error
        if errors:
            ordered = [errors[k] for k in sorted(errors)]
            own = [error for error in ordered if isinstance(error, HornbeamError)]
            raise (own or ordered)[0]
        return [found[k] for k in range(len(partitions))]

    def _some_places(self) -> list[str]:
        """Return the workers; wait for one if there is none."""
        deadline = time.monotonic() + NO_WORKER_TIMEOUT
        while not (places := self.alive()):
            if time.monotonic() > deadline:
                raise no_worker_error()
            time.sleep(_CHECK_INTERVAL)
        return places

    def place(self, shares: Sequence[Share], *options: Any) -> list[RowActor]:
        actors = [
            RowActor(next(self._numbers), share.place, share.numbers)
            for share in shares
        ]
        placing = [
            self._ask(actor, "place", share.numbers, share.parts, options)
            for actor, share in zip(actors, shares, strict=True)
        ]
        try:
            self._answers(actors, placing)
        except BaseException:
            self.drop(actors)
            raise
        return actors

    def call(self, actors: Sequence[RowActor], operation: str, *args: Any) -> list[Any]:
        packed = pickle.dumps((operation, args), protocol=5)  # once for all
        asked = [self._ask(actor, "call", packed) for actor in actors]
        return self._answers(actors, asked)

    def sum(self, actors: Sequence[RowActor], operation: str, *args: Any) -> Any:
        if len(actors) < self._tree_from:
            return super().sum(actors, operation, *args)
        leaves = [
            ReductionTree(actor, self._peer(actor.place).address, ())
            for actor in actors
        ]
        trees = reduction_trees(leaves, self._tree_width)
        packed = pickle.dumps((operation, args), protocol=5)
        asked = [
            self._ask(tree.actor, "call", packed, tree.children, self.patience)
            for tree in trees
        ]
        return reduce(add, self._answers([tree.actor for tree in trees], asked))

    def drop(self, actors: Sequence[RowActor]) -> None:
        for actor in actors:
            self._ask(actor, "drop")

    def _ask(self, actor: RowActor, verb: str, *args: Any) -> Future[Any]:
        return self._peer(actor.place).ask(verb, actor.number, *args)

    def _answers(
        self, actors: Sequence[RowActor], asked: Sequence[Future[Any]]
    ) -> list[Any]:
        """Return all answers, once each is there or its worker is lost."""
        wait(asked)
        errors: list[BaseException] = []
        for actor, answer in zip(actors, asked, strict=True):
            error = answer.exception()
            if isinstance(error, WorkerLostError):
                errors.append(ActorLostError([actor]))
            elif error is not None:
                errors.append(error)
        if errors:
            raise first_error(errors)
        return [answer.result() for answer in asked]

    def custom_objective(self, function: Callable[..., Any]) -> CustomObjective:
        try:
            return CustomObjective(pickle.dumps(function), pickle.loads)
        except Exception as error:
            raise ParameterError(
                f"the custom objective cannot be sent to a worker: {error}; define it "
                "as a function of a module that workers have",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            ) from error

    def close(self) -> None:
        """Nothing: the rows of a training are released by `drop`; see `end`."""
