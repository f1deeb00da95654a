"""Plain processes that die, stop, join or answer wrongly: the model is the same."""

import contextlib
import os
import pickle
import signal
import time
from functools import partial

import pytest
from command_line import start_workers
from recovery import (
    AT,
    PARTS,
    Recovery,
    features_of,
    kind_of,
    labels_of,
    same_as_alone,
    trained,
)
from selection import IS_WHOLE

import hornbeam
from hornbeam.distributed.process_cluster import ProcessCluster
from hornbeam.distributed.processes import ProcessDMatrix, train


def read(number):
    return {"data": features_of(number), "label": labels_of(number)}


class Watched(ProcessCluster):
    """A cluster that tells what it sends."""

    seen = staticmethod(lambda *_: None)

    def _ask(self, actor, verb, *args):
        if verb == "call":
            self.seen(actor.place, *pickle.loads(args[0]))
        return super()._ask(actor, verb, *args)


class Processes:
    """Worker processes, as the tests need them."""

    restarts = False

    def __init__(self, n_workers, **options):
        self.cluster, self._started = Watched(**options), []
        self.processes = self.cluster.pids
        self._start(n_workers)

    def _start(self, n_workers):
        self._started += start_workers(self.cluster, n_workers)

    def watch(self, seen):
        self.cluster.seen = seen

    def add(self):
        self._start(1)

    def end(self):
        self.cluster.end()
        for process in self._started:
            process.kill()
            process.join()

    def matrix(self, parts):
        return ProcessDMatrix(self.cluster, [partial(read, k) for k in parts])

    def train(self, params, parts, rounds, valid=None, patience=5.0, **options):
        self.cluster.patience = patience
        data = self.matrix(parts)
        if valid is not None:
            options["evals"] = [(data, "train"), (self.matrix(valid), "valid")]
        return train(self.cluster, params, data, rounds, verbose_eval=False, **options)


@pytest.fixture
def engine():
    started = []

    def start(n_workers, **options):
        started.append(Processes(n_workers, **options))
        return started[-1]

    yield start
    for one in started:
        one.end()


class TestProcesses(Recovery):
    pass


class LoseTheLast(hornbeam.TrainingCallback):
    """Signals the worker at the end of the tree after the second round."""

    def __init__(self, processes, how):
        self.processes, self.how, self.lost = processes, how, None

    def after_iteration(self, model, epoch, evals_log):
        if epoch == 1:
            self.lost = model.actors[-1].place
            os.kill(self.processes[self.lost], self.how)
        return False


@pytest.mark.alone
@pytest.mark.strikes
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
def test_a_worker_that_others_add_to_theirs_is_lost(engine, how):
    own = engine(3, tree_from=2, tree_width=1)
    processes = own.processes()
    lose = LoseTheLast(processes, how)
    result = trained(own, patience=2.0, callbacks=[lose])
    with contextlib.suppress(ProcessLookupError):
        os.kill(processes[lose.lost], signal.SIGKILL)
    same_as_alone(result)
    assert lose.lost not in own.processes()


def misbehave(part, how, kind):
    """Make this worker's first answer to a kind of message wrong."""
    import pickle
    import random

    from hornbeam.distributed.connection import Connection
    from hornbeam.distributed.worker_process import WorkerProcess

    call, transmit = WorkerProcess._call, Connection._transmit
    kinds, due = [], []

    def call_noted(worker, caller, actor, packed, *tree):
        found = kind_of(*pickle.loads(packed))
        kinds.append(found)
        if found == kind and kinds.count(kind) == 1:
            if how == "late":
                time.sleep(3)
            else:
                due.append(caller)
        return call(worker, caller, actor, packed, *tree)

    def transmit_wrongly(connection, parts):
        # Signs of life go unharmed; the answer is the first longer message after it.
        if not due or sum(map(len, parts)) < 80:
            return transmit(connection, parts)
        due.clear()
        if how == "garbage":
            return connection._socket.sendall(random.Random(0).randbytes(10_000))
        if how == "half":
            connection._socket.sendall(b"".join(map(bytes, parts))[:20])
            return connection.shut_down()
        if how == "changed":
            last = bytearray(parts[-1])
            last[-1] ^= 1
            parts = [*parts[:-1], last]
        transmit(connection, parts)
        if how == "twice":
            transmit(connection, parts)
        return None

    WorkerProcess._call, Connection._transmit = call_noted, transmit_wrongly
    return os.getpid()


KINDS = [kind for kind, _ in AT]
TABLE = [
    (way, kind)
    for kind in dict.fromkeys(KINDS)
    for way in ("late", "twice", "half", "garbage", "changed")
]
#: One in eleven, with each way; all of them with WHOLE_TABLE=1 in the environment.
ANSWERS = TABLE if IS_WHOLE else TABLE[::11]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.strikes
@pytest.mark.parametrize(("how", "kind"), ANSWERS)
def test_wrong_answers_change_nothing(engine, how, kind):
    own = engine(2)
    (victim,) = own.cluster.map(
        partial(misbehave, how=how, kind=kind), own.matrix(list(PARTS)[:1]).parts
    )
    same_as_alone(trained(own, patience=2.0))
    # A worker whose answer is wrong is no longer used; a late one is.
    assert (victim in own.processes().values()) == (how == "late")
