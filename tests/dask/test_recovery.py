"""Workers of Dask that die, stop, join or answer wrongly: the model is the same."""

import functools
import os
import signal
import threading
import time

import distributed
import pytest
from clusters import process_of
from recovery import (
    PARAMS,
    PARTS,
    After,
    Recovery,
    features_of,
    gathered,
    labels_of,
    same_as_alone,
    trained,
)
from selection import IS_WHOLE

import hornbeam as hb
import hornbeam.dask.training
from hornbeam import ClusterError
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.training import train


def spread(client, parts=PARTS):
    """Return a matrix whose partitions Dask can compute again."""
    X = [client.submit(features_of, k, pure=False) for k in parts]
    y = [client.submit(labels_of, k, pure=False) for k in parts]
    return DaskDMatrix(client, X, y)


class Dask:
    """A Dask cluster, as the tests need it."""

    #: A nanny starts a worker again.
    restarts = True

    def __init__(self, client, monkeypatch):
        self.client, self._monkeypatch = client, monkeypatch

    def processes(self):
        return self.client.run(os.getpid)

    def watch(self, seen):
        class Watched(DaskCluster):
            def call(self, actors, operation, *args):
                for actor in actors:
                    seen(actor.place, operation, args)
                return super().call(actors, operation, *args)

        self._monkeypatch.setattr(hornbeam.dask.training, "DaskCluster", Watched)

    def add(self):
        n_workers = len(self.processes()) + 1
        self.client.cluster.scale(n_workers)
        self.client.wait_for_workers(n_workers, timeout=60)

    def train(self, params, parts, rounds, valid=None, **options):
        data = spread(self.client, parts)
        if valid is not None:
            options["evals"] = [(data, "train"), (spread(self.client, valid), "valid")]
        return train(self.client, params, data, rounds, verbose_eval=False, **options)


@pytest.fixture
def engine(own_cluster, monkeypatch):
    return lambda n_workers: Dask(own_cluster(n_workers), monkeypatch)


class TestDask(Recovery):
    pass


def misbehave(how, kind):
    """Make this worker's first answer to a kind of message wrong.

    It runs on the worker, which does not have this module.
    """
    import random
    import time

    from distributed.protocol.pickle import loads

    from hornbeam.dask.rpc import ReducingActor
    from hornbeam.distributed.connection import Connection

    transmit = Connection._transmit
    answer, perform = ReducingActor.answer, ReducingActor.perform
    kinds = []

    def is_due(method, args):
        if method == "run":
            verbs = [verb for verb, _ in args[1]]
            first = "gradients" if "gradient_ranges" in verbs else verbs[-1]
            method = {"build_histograms": "level"}.get(first, first)
        kinds.append(method)
        return method == kind and kinds.count(kind) == 1

    due = []

    def answer_wrongly(actor, call, shares_memory):
        due[:] = [is_due(*call)]
        return answer(actor, call, shares_memory)

    def transmit_wrongly(connection, parts):
        if due != [True]:
            return transmit(connection, parts)
        if how == "late":
            time.sleep(3)
        elif how == "garbage":
            return connection._socket.sendall(random.Random(0).randbytes(10_000))
        elif how == "half":
            return connection._socket.sendall(b"".join(map(bytes, parts))[:20])
        elif how == "changed":
            last = bytearray(parts[-1])
            last[-1] ^= 1
            parts = [*parts[:-1], last]
        transmit(connection, parts)
        if how == "twice":
            transmit(connection, parts)
        return None

    def perform_wrongly(actor, message):
        is_wrong = is_due(*loads(message))
        result = perform(actor, message)
        if is_wrong and how == "late":
            time.sleep(3)
        elif is_wrong:
            assert isinstance(result, bytes)
            garbage = random.Random(0).randbytes(len(result))
            changed = result[:-2] + bytes([result[-2] ^ 1]) + result[-1:]
            half = result[: len(result) // 2]
            return {"garbage": garbage, "changed": changed, "half": half}[how]
        return result

    Connection._transmit = transmit_wrongly
    ReducingActor.answer = answer_wrongly
    ReducingActor.perform = perform_wrongly


KINDS = [
    *("prepare", "check_labels", "sum_start", "column_passes", "bin", "unify_bins"),
    *("begin", "gradients", "level", "sum_leaves", "margins_after", "fields"),
    *("begin_margins", "margins_with"),
]
#: Ways to answer over a channel, and by a call of Dask, which repeats no answer.
WAYS = {"channel": ["late", "twice", "half", "garbage", "changed"]}
WAYS["dask"] = [way for way in WAYS["channel"] if way != "twice"]
TABLE = [(by, way, kind) for by, ways in WAYS.items() for kind in KINDS for way in ways]
#: One in eleven, with each way; all of them with WHOLE_TABLE=1 in the environment.
ANSWERS = TABLE if IS_WHOLE else TABLE[::11]


@pytest.mark.slow
@pytest.mark.parametrize(("by", "how", "kind"), ANSWERS)
def test_wrong_answers_change_nothing(engine, monkeypatch, by, how, kind):
    own = engine(2)
    if by == "dask":
        always_trees = functools.partial(DaskCluster, tree_from=1)
        monkeypatch.setattr(hornbeam.dask.training, "DaskCluster", always_trees)
    place = min(own.processes())
    own.client.run(misbehave, how, kind, workers=[place])
    same_as_alone(trained(own, patience=2.0))
    # A worker whose answer is wrong is no longer used; a late one is.
    assert (place in own.client.scheduler_info()["workers"]) == (how == "late")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_scheduler_is_an_error_with_a_checkpoint(own_scheduler, tmp_path, how):
    client, scheduler = own_scheduler(2)

    class Strike(hb.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 3:
                os.kill(scheduler.pid, how)
            return False

    begin = time.monotonic()
    with pytest.raises(ClusterError, match="scheduler") as error:
        train(
            client,
            PARAMS,
            spread(client),
            2_000,
            callbacks=[hb.TrainingCheckPoint(tmp_path, interval=2), Strike()],
            verbose_eval=False,
            patience=5.0,
        )
    assert time.monotonic() - begin < 60
    assert "xgb_model=" in str(error.value)
    path = sorted(tmp_path.glob("model_*.ubj"))[-1]
    data = gathered()
    booster = hb.train(PARAMS, data, 1, xgb_model=path, verbose_eval=False)
    done = booster.num_boosted_rounds()
    assert booster.digest() == hb.train(PARAMS, data, done, verbose_eval=False).digest()


@pytest.mark.slow
def test_a_client_that_is_closed_during_training(own_cluster):
    client = own_cluster(2)
    other = distributed.Client(client.scheduler.address)
    matrix = spread(other)
    threading.Timer(2.0, other.close).start()
    with pytest.raises(ClusterError, match="client was closed"):
        train(other, PARAMS, matrix, 100_000, verbose_eval=False, patience=5.0)


@pytest.mark.slow
def test_partitions_that_cannot_be_computed_again(own_cluster):
    client = own_cluster(2)
    places = sorted(client.scheduler_info()["workers"])
    X, y = (
        [client.scatter(f(k), workers=[places[k % 2]]) for k in PARTS]
        for f in (features_of, labels_of)
    )
    matrix = DaskDMatrix(client, X, y)
    process = process_of(client, places[1])

    kill = After(lambda: os.kill(process, signal.SIGKILL))
    with pytest.raises(ClusterError, match="cannot be computed again"):
        train(client, PARAMS, matrix, 10, callbacks=[kill], verbose_eval=False)
