"""A process's place in a group, and what the processes of a group compute together.

There is one operation: every process contributes a value, and all get these, merged.
They are merged by recursive doubling: pairs of processes exchange their values, pairs
of pairs exchange what these have merged, and so on, so that nobody waits for a result
that another process computes. An error of one process takes the place of its value, so
that it is raised in all of them, and the connections stay usable.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam import __version__
from hornbeam.distributed.connection import (
    Connection,
    HandshakeError,
    connect,
    listen,
)
from hornbeam.distributed.messages import GarbledMessageError
from hornbeam.distributed.tracker import PROTOCOL
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError

__all__ = [
    "Group",
    "active_group",
    "error_of_workers",
    "is_group_failure",
    "join",
    "leave",
    "member",
    "training_group",
]

Value = TypeVar("Value")
Result = TypeVar("Result")

#: Seconds that a process which has lost another one waits for the tracker's reason.
_REASON_TIMEOUT = 1.0
#: Bytes of an array that is reduced at a time.
_BLOCK_BYTES = 1 << 22
#: Seconds by which a wait for a process is longer than that process's own waits.
_LONGER = 0.5
#: Seconds between two checks that the group has not failed.
_CHECK_INTERVAL = 0.1
#: Seconds between two attempts to reach the tracker.
_RETRY_DELAY = 0.5
#: The codes of errors that other processes lead to.
_OTHERS_FAILED = (ErrorCode.GROUP_FAILED, ErrorCode.TRACKER_NOT_FOUND)


class _Failure:
    """Takes the place of a value that a process could not compute."""

    def __init__(self, error: HornbeamError) -> None:
        self.error = error


class Group:
    """A process of a group.

    Parameters
    ----------
    host, port, token
        Of the tracker.
    task
        A name by which ranks can be ordered.
    own_port
        The port at which this process listens for others; 0: any that is free.
    retries
        How often to try to reach the tracker again.
    timeout
        Seconds without a byte from another process that is waited for, after which it
        is given up; None: no limit.

    Attributes
    ----------
    rank, size
        The number of this process, and the number of processes.
    names
        Of all processes, in the order of ranks.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        *,
        task: str = "",
        own_port: int = 0,
        retries: int = 3,
        timeout: float | None = 300.0,
    ) -> None:
        self._timeout, self._token, self._calls = timeout, token, 0
        #: By rank.
        self._peers: dict[int, Connection] = {}
        self._reason: str | None = None
        self._has_reason = threading.Event()
        self._tracker = self._reach(host, port, retries)
        try:
            # Where others reach this machine.
            self._listener = listen("this process", self._tracker.local_host, own_port)
            self._join_tracker(task)
            # Already while the processes connect, since one of them may fail then.
            hearing = threading.Thread(target=self._hear, daemon=True)
            hearing.start()
            self._connect_peers()
        except BaseException:
            self.close()
            raise

    # Joining

    def _reach(self, host: str, port: int, retries: int) -> Connection:
        """Return the connection to the tracker."""
        wait = min(self._timeout or 10.0, 10.0)
        for attempt in range(retries + 1):
            try:
                return connect(host, port, self._token, wait)
            except HandshakeError as error:
                raise ClusterError(
                    f"the tracker at {host}, port {port}, does not accept this "
                    "process: it has another token; pass the arguments that "
                    "worker_args of this very tracker returns",
                    code=ErrorCode.GROUP_TOKEN_REFUSED,
                ) from error
            except OSError as error:
                if attempt == retries:
                    raise ClusterError(
                        f"there is no tracker at {host}, port {port}: {error}; start "
                        "it before, and see that this machine may connect to it",
                        code=ErrorCode.TRACKER_NOT_FOUND,
                    ) from error
                time.sleep(_RETRY_DELAY)
        raise AssertionError("unreachable")

    def _join_tracker(self, task: str) -> None:
        """Join, and wait until all processes have."""
        self._tracker.wait_at_most(None)  # the tracker has a time-out of its own
        try:
            self._tracker.send_text(
                host=self._tracker.local_host,
                port=self._listener.getsockname()[1],
                pid=os.getpid(),
                task=task,
                version=__version__,
                protocol=PROTOCOL,
            )
            reply = self._tracker.receive_text()
        except OSError as error:
            raise self._lost("the tracker ended before the group was there") from error
        if "failure" in reply:
            raise self._lost(str(reply["failure"]))
        self.rank, self.size = int(reply["rank"]), len(reply["addresses"])
        self._addresses: list[tuple[str, int]] = [
            (host, port) for host, port in reply["addresses"]
        ]
        self.names: list[str] = reply["names"]

    def _connect_peers(self) -> None:
        """Connect to the processes that this one exchanges values with.

        The steps of a call are the exchanges with processes whose rank differs in one
        bit. Processes beyond a power of two have one each that exchanges for them.
        """
        wait = min(self._timeout or 60.0, 60.0)
        self._cube = 1 << (self.size.bit_length() - 1)
        beyond = [self.rank ^ self._cube] if self.size > self._cube else []
        self._steps = [1 << bit for bit in range(self._cube.bit_length() - 1)]
        if self.rank >= self._cube:
            self._steps.clear()
        partners = [self.rank ^ step for step in self._steps]
        partners += [rank for rank in beyond if rank < self.size]
        try:
            for rank in partners:
                if rank < self.rank:
                    peer = connect(*self._addresses[rank], self._token, wait)
                    self._peers[rank] = peer
                    peer.send_text(rank=self.rank)
            self._accept_peers(set(partners), time.monotonic() + wait)
        except OSError as error:
            self._has_reason.wait(_REASON_TIMEOUT)
            reason = f"its processes cannot connect to each other: {error}"
            raise self._lost(self._reason or reason) from error
        for rank in partners:
            self._limit_waits(rank)

    def _limit_waits(self, rank: int, *, for_result: bool = False) -> None:
        """Limit the waits for the value of another process, or for the result from it.

        Who waits for a process that waits for a third one waits longer than that, so
        that the process which is silent is the one that is reported.
        """
        waits = 0 if rank >= self._cube else (self.rank ^ rank).bit_length()
        if for_result:  # after all values, and by as many processes as bits are set
            waits = self._cube.bit_length() + self.rank.bit_count()
        limit = None if self._timeout is None else self._timeout + waits * _LONGER
        self._peers[rank].wait_at_most(limit)

    def _accept_peers(self, partners: set[int], deadline: float) -> None:
        """Accept the connections of partners of higher ranks."""
        self._listener.settimeout(_CHECK_INTERVAL)
        while absent := partners - self._peers.keys():
            if self._reason is not None or time.monotonic() > deadline:
                raise TimeoutError(f"worker {min(absent)} is not there")
            try:
                accepted, _ = self._listener.accept()
            except TimeoutError:
                continue
            peer = Connection(accepted)
            try:
                peer.accept(self._token)
                peer.wait_at_most(max(_CHECK_INTERVAL, deadline - time.monotonic()))
                self._peers[int(peer.receive_text()["rank"])] = peer
            except (OSError, ValueError, KeyError):
                peer.close()  # a stranger

    # Failures

    def _hear(self) -> None:
        """Wait for what the tracker tells: that the group has failed."""
        try:
            while True:
                message = self._tracker.receive_text()
                if "failure" in message:
                    self._reason = str(message["failure"])
                    break
        except OSError:
            return  # the tracker ended; the group can do without
        finally:
            self._has_reason.set()
        for peer in list(self._peers.values()):  # others may still connect
            peer.shut_down()  # wakes the thread that waits for it

    def _lost(self, reason: str) -> ClusterError:
        return ClusterError(
            f"the group of processes cannot go on: {reason}",
            code=ErrorCode.GROUP_FAILED,
        )

    def _broken(self, rank: int, error: OSError) -> ClusterError:
        """Return the error for a process that cannot be reached any more."""
        if isinstance(error, TimeoutError):
            reason = f"{self.names[rank]} sent nothing for {self._timeout:g} seconds"
        elif isinstance(error, GarbledMessageError):
            reason = f"{self.names[rank]} has sent a wrong message: {error}"
        else:
            self._has_reason.wait(_REASON_TIMEOUT)
            reason = f"{self.names[rank]} has left it, or was lost"
        if self._reason is None:
            self._tell(failure=reason)
            self._reason = reason
        for peer in self._peers.values():
            peer.shut_down()  # others wait for this process
        return self._lost(self._reason)

    def fail(self, reason: str) -> None:
        """Tell the other processes that this one cannot go on."""
        self._tell(failure=f"{self.names[self.rank]} failed: {reason}")

    def _tell(self, **message: Any) -> None:
        """Send a message to the tracker, if it is still there."""
        try:
            self._tracker.send_text(**message)
        except OSError:
            return

    # Working together

    def combine(
        self,
        what: str,
        compute: Callable[[], Value],
        merge: Callable[[Value, Value], Value],
        finish: Callable[[Value], Any] | None = None,
    ) -> Any:
        """Return the values of all processes, merged; the same in all of them.

        Parameters
        ----------
        what
            The name of the operation: that of all processes must be the same.
        compute
            Returns the value of this process. What it raises is raised in all.
        merge
            Merges two values, of lower and of higher ranks, and leaves both as they
            are: others may read them.
        finish
            Turns the merged value into the result, in the first process only; the
            values then go to that process alone.
        """
        if self._reason is not None:
            raise self._lost(self._reason)
        self._calls += 1
        call = f"{what} (call {self._calls})"
        own, raised = _attempt(compute)
        if isinstance(own, _Failure):
            own.error.details.setdefault("worker", self.names[self.rank])
        # Who waits for the result of this process, and where it may come from itself.
        waiting, source = [], None
        beyond = self.rank ^ self._cube
        if self.rank >= self._cube:
            source = beyond
        elif beyond in self._peers:
            waiting.append(beyond)
            own = self._merge(own, self._receive(beyond), merge, call, beyond)
        for step in self._steps:
            rank = self.rank ^ step
            if finish is None:
                answer = self._exchange(rank, (call, own))
            elif rank < self.rank:
                source = rank
                break
            else:
                waiting.append(rank)
                answer = self._receive(rank)
            own = self._merge(own, answer, merge, call, rank)
        if source is not None:
            self._send(source, (call, own))
            self._limit_waits(source, for_result=True)
            answered, own = self._receive(source)
            self._limit_waits(source)
            if answered != call and not isinstance(own, _Failure):
                own = self._mismatch(call, answered, source)
        elif finish is not None and not isinstance(own, _Failure):
            merged = own
            own, raised = _attempt(lambda: finish(merged))
        for rank in reversed(waiting):
            self._send(rank, (call, own))
        if raised is not None:
            raise raised
        if isinstance(own, _Failure):
            raise own.error
        return own

    def gather(self, what: str, compute: Callable[[], Value]) -> list[Value]:
        """Return the values of all processes, in the order of ranks."""
        found: dict[int, Value] = self.combine(
            what, lambda: {self.rank: compute()}, lambda a, b: a | b
        )
        return [found[rank] for rank in range(self.size)]

    def reduce(
        self, what: str, array: NDArray[Any], operation: np.ufunc
    ) -> NDArray[Any]:
        """Return the reduction of flat arrays of all processes, which it overwrites.

        It is that of one block after the other, so that it needs little memory.
        """
        call = f"{what} of {array.size} {array.dtype}"
        n_blocks = max(1, -(-array.nbytes // _BLOCK_BYTES))
        for block in np.array_split(array, n_blocks):
            block[:] = self.combine(call, partial(np.asarray, block), operation)
        return array

    def _merge(
        self,
        own: Any,
        answer: tuple[str, Any],
        merge: Callable[[Any, Any], Any],
        call: str,
        rank: int,
    ) -> Any:
        """Return what this process has merged with what another one has sent."""
        other_call, other = answer
        pair = (own, other) if self.rank < rank else (other, own)
        failures = [value for value in pair if isinstance(value, _Failure)]
        if failures:
            return failures[0]
        if call != other_call:
            return self._mismatch(call, other_call, rank)
        merged, _ = _attempt(lambda: merge(*pair))
        return merged

    def _mismatch(self, call: str, other_call: str, rank: int) -> _Failure:
        """Return the failure that another process makes another call."""
        (one, called), (other, calls) = sorted(((self.rank, call), (rank, other_call)))
        return _Failure(
            self._lost(
                f"{self.names[one]} calls {called}, and {self.names[other]} calls "
                f"{calls}; all processes must make the same calls in the same order"
            )
        )

    def _send(self, rank: int, value: Any) -> None:
        self._carry(rank, Connection.send, value)

    def _receive(self, rank: int) -> Any:
        return self._carry(rank, Connection.receive)

    def _exchange(self, rank: int, value: Any) -> Any:
        """Send a value, and return that of the other process."""
        return self._carry(rank, Connection.exchange, value, self.rank < rank)

    def _carry(self, rank: int, step: Callable[..., Any], *args: Any) -> Any:
        """Return what a connection does; if it fails, its process is lost."""
        try:
            return step(self._peers[rank], *args)
        except OSError as error:
            raise self._broken(rank, error) from error

    def print(self, text: str) -> None:
        """Print a text where the tracker is."""
        self._tell(print=text)

    def close(self) -> None:
        """Leave the group."""
        self._tell(done=True)
        for connection in (*self._peers.values(), self._tracker):
            connection.close()
        if hasattr(self, "_listener"):
            self._listener.close()


def _attempt(
    compute: Callable[[], Result],
) -> tuple[Result | _Failure, BaseException | None]:
    """Return a result, or a failure and the error that this process raises for it."""
    try:
        return compute(), None
    except HornbeamError as error:
        return _Failure(error), error
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return _Failure(ClusterError(text, code=ErrorCode.GROUP_FAILED)), error


class _Place(threading.local):
    """The group that this thread is in: as in XGBoost, other threads are not."""

    group: Group | None = None


_place = _Place()


def active_group() -> Group | None:
    """Return the group that this thread is in; None: it is alone."""
    return _place.group


def training_group() -> Group | None:
    """Return the group whose processes share the rows; None: this one has all."""
    group = _place.group
    return None if group is None or group.size == 1 else group


def join(*args: Any, **options: Any) -> Group:
    """Join a group, with the arguments of `Group`; leave the one before."""
    leave()
    group = _place.group = Group(*args, **options)
    return group


def leave(error: BaseException | None = None) -> None:
    """Leave the group, if this thread is in one.

    Other processes get the error that made this one leave as the reason why they cannot
    go on.
    """
    group, _place.group = _place.group, None
    if group is None:
        return
    # The reason why a group failed is known in all its processes.
    if error is not None and not is_group_failure(error):
        group.fail(f"{type(error).__name__}: {error}")
    group.close()


@contextmanager
def member(*args: Any, **options: Any) -> Iterator[Group]:
    """Be in a group, as `join` joins it, while the block runs."""
    try:
        yield join(*args, **options)
    except BaseException as error:
        leave(error)
        raise
    leave()


def is_group_failure(error: BaseException) -> bool:
    """Return whether the error says that other processes are lost or have failed.

    Before all have joined the group, its tracker may have ended for that.
    """
    return isinstance(error, HornbeamError) and error.code in _OTHERS_FAILED


def error_of_workers(errors: Mapping[str, BaseException]) -> HornbeamError:
    """Return the error to raise for those of workers: the one that led to the others.

    It names the worker, unless several have the same, which is then of none of them.

    Parameters
    ----------
    errors
        By the names of the workers, in the order of ranks.
    """
    worker, error = min(errors.items(), key=lambda item: is_group_failure(item[1]))
    if not isinstance(error, HornbeamError):
        failed = ClusterError(
            f"{worker} raised {type(error).__name__}: {error}",
            code=ErrorCode.CLUSTER_FAILURE,
            worker=worker,
        )
        failed.__cause__ = error
        return failed
    known = error.details.get("worker")
    if known is None and len({str(one) for one in errors.values()}) < len(errors):
        return error
    details = error.details | {"worker": known or worker}
    text = f"{error} (in {details['worker']})"
    return type(error)(text, code=error.code, **details)
