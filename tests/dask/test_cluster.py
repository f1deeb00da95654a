"""Members on the workers of a real cluster: they answer, or are known to be lost."""

import contextlib
import os
import signal
import threading
import time

import dask
import distributed
import numpy as np
import pytest
from clusters import process_of

from hornbeam import ClusterError, DataError, ParameterError
from hornbeam.backends.cluster import ActorLostError
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.rpc import ReducingActor
from hornbeam.distributed.connection import Connection
from hornbeam.distributed.transport import Share


class SumActor(ReducingActor):
    """An actor with the sum of its arrays."""

    def __init__(self, numbers, parts, times=1):
        super().__init__()
        self.numbers, self.total = numbers, times * sum(part.sum() for part in parts)

    def add(self, value):
        return self.total + value

    def wait(self, seconds):
        time.sleep(seconds)
        return np.array([len(self.numbers)])

    def end(self, how):
        os.kill(os.getpid(), how)
        time.sleep(60)

    def end_at(self, address, how):
        if distributed.get_worker().address == address:
            self.end(how)
        return 0

    def places(self):
        return [distributed.get_worker().address]

    def refuse(self):
        raise DataError(f"part {self.numbers[0]} is refused")


def spread(client, n_parts=4, n_actors=2, **options):
    """Return a cluster, and actors with arrays of 1, 2, 3 ... in turn."""
    cluster = DaskCluster(client, SumActor, **options)
    places = cluster.alive()
    parts = [client.submit(np.full, 10, k + 1, pure=False) for k in range(n_parts)]
    shares = []
    for i in range(n_actors):
        numbers = tuple(range(i, n_parts, n_actors))
        shares.append(
            Share(numbers, places[i % len(places)], tuple(parts[k] for k in numbers))
        )
    return cluster, cluster.place(shares)


def test_actors_are_created_from_their_parts(client):
    cluster, actors = spread(client)
    assert [actor.parts for actor in actors] == [(0, 2), (1, 3)]
    assert sorted(actor.place for actor in actors) == cluster.alive()
    assert cluster.call(actors, "add", 1) == [41, 61]
    assert cluster.sum(actors, "add", 1) == 102
    cluster.close()


@pytest.mark.parametrize("width", [1, 2, 3])
def test_tree_reduction_returns_the_same_sum(client, width):
    cluster, actors = spread(client, 7, 7, tree_from=3, tree_width=width)
    assert cluster.sum(actors, "add", 1) == 10 * 28 + 7
    with pytest.raises(DataError, match="is refused"):
        cluster.sum(actors, "refuse")
    cluster.close()


def test_an_error_of_an_actor_is_raised(client):
    cluster, actors = spread(client)
    with pytest.raises(DataError, match="part 0 is refused"):
        cluster.call(actors, "refuse")
    cluster.close()


def test_options_of_place_are_passed_to_every_actor(client):
    cluster = DaskCluster(client, SumActor)
    place = cluster.alive()[0]
    actors = cluster.place([Share((0,), place, (np.ones(3),))], 5)
    assert cluster.call(actors, "add", 0) == [15]
    cluster.close()


def test_a_call_may_take_longer_than_patience(client):
    # So long that the signs of life of a busy machine are in time.
    cluster, actors = spread(client, patience=4.0)
    assert cluster.sum(actors, "wait", 6.0).item() == 4
    cluster.close()


def test_patience_is_a_setting_of_dask(client):
    with dask.config.set({"hornbeam.patience": "3s"}):
        assert DaskCluster(client, SumActor).patience == 3.0
    assert DaskCluster(client, SumActor).patience == 10.0
    with pytest.raises(ParameterError, match="patience"):
        DaskCluster(client, SumActor, patience=0)


@pytest.mark.slow
@pytest.mark.parametrize("tree_from", [2, 100])
def test_a_killed_worker_is_detected_at_once(own_cluster, tree_from):
    client = own_cluster(3)
    cluster, actors = spread(
        client, 6, 6, tree_from=tree_from, tree_width=1, patience=60.0
    )
    victim = actors[2].place
    begin = time.monotonic()
    with pytest.raises(ActorLostError) as lost:
        cluster.sum(actors, "end_at", victim, signal.SIGKILL)
    assert time.monotonic() - begin < 45  # and not after the patience
    assert {m.place for m in lost.value.actors} == {victim}
    rest = [m for m in actors if m.place != victim]
    assert cluster.sum(rest, "add", 0) == 10 * sum(k + 1 for m in rest for k in m.parts)
    with pytest.raises(ActorLostError):
        cluster.call(actors, "add", 0)
    # The nanny starts another worker, with another address.
    while len(cluster.alive()) < 3:
        time.sleep(0.1)
    assert victim not in cluster.alive()
    cluster.close()


def _workers_of(dask_scheduler):
    return list(dask_scheduler.workers)


@pytest.mark.slow
@pytest.mark.parametrize("tree_from", [2, 100])
def test_a_stopped_worker_is_detected_after_patience(own_cluster, tree_from):
    client = own_cluster(3)
    cluster, actors = spread(
        client, 6, 6, tree_from=tree_from, tree_width=2, patience=2.0
    )
    victim = actors[2].place
    process = process_of(client, victim)
    try:
        begin = time.monotonic()
        with pytest.raises(ActorLostError) as lost:
            cluster.sum(actors, "end_at", victim, signal.SIGSTOP)
        assert 1.0 < time.monotonic() - begin < 45
        assert {m.place for m in lost.value.actors} == {victim}
        assert victim not in cluster.alive()
        assert victim not in client.run_on_scheduler(_workers_of)
        # Dask runs tasks on the other workers.
        moved = client.submit(np.sum, np.ones(3))
        assert moved.result(timeout=10) == 3
    finally:
        os.kill(process, signal.SIGKILL)
    cluster.close()


@pytest.mark.slow
def test_a_worker_that_dies_while_actors_are_created_is_lost(own_cluster):
    client = own_cluster(2)
    cluster = DaskCluster(client, SumActor, patience=2.0)
    first, second = cluster.alive()
    slow = client.submit(time.sleep, 30, workers=[first])
    time.sleep(0.5)
    os.kill(process_of(client, first), signal.SIGKILL)
    with pytest.raises(ActorLostError) as lost:
        cluster.place([Share((0,), first, (slow,)), Share((1,), second, (np.ones(1),))])
    assert [m.parts for m in lost.value.actors] == [(0,)]
    cluster.close()


def test_a_part_that_cannot_be_computed_is_an_error(client):
    cluster = DaskCluster(client, SumActor)
    part = client.submit(np.ones, "three")
    with pytest.raises(TypeError):
        cluster.place([Share((0,), cluster.alive()[0], (part,))])
    cluster.close()


def _close(dask_worker):
    dask_worker.loop.add_callback(dask_worker.close)


@pytest.mark.slow
@pytest.mark.parametrize("tree_from", [2, 100])
def test_a_worker_that_closes_is_lost(own_cluster, tree_from):
    client = own_cluster(3)
    cluster, actors = spread(client, 6, 6, tree_from=tree_from, tree_width=1)
    victim = actors[2]
    assert cluster.sum(actors, "add", 0) == 210

    # A closing worker finishes its call, and rejects others.
    close = threading.Timer(0.3, client.run, (_close,), {"workers": [victim.place]})
    close.start()
    with contextlib.suppress(ActorLostError):
        cluster.call(actors, "wait", 2)
    close.join()
    with pytest.raises(ActorLostError) as lost:
        cluster.sum(actors, "add", 0)
    assert {m.place for m in lost.value.actors} == {victim.place}
    cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("during_a_call", [False, True])
def test_a_client_that_is_closed_is_an_error(own_cluster, during_a_call):
    client = own_cluster(2)
    other = distributed.Client(client.scheduler.address)
    cluster, actors = spread(other, patience=2.0)
    if during_a_call:
        threading.Timer(0.7, other.close).start()
    else:
        other.close()
    with pytest.raises(ClusterError, match="client was closed"):
        try:
            cluster.call(actors, "wait", 4)
        except ActorLostError:
            cluster.alive()
    cluster.close()


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_that_dies_is_an_error_in_time(own_scheduler, how):
    client, process = own_scheduler(2)
    cluster, actors = spread(client, patience=5.0)
    os.kill(process.pid, how)
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"scheduler at tcp://.* does not answer"):
        try:
            cluster.call(actors, "wait", 5)
        except ActorLostError:
            cluster.alive()
        else:
            cluster.alive()
    assert time.monotonic() - begin < 30
    cluster.close()


def _no_call(*_):
    raise AssertionError("called by Dask")


def _channels():
    return sum(thread.name == "hornbeam-channel" for thread in threading.enumerate())


def test_answers_come_over_channels(client, monkeypatch):
    cluster, actors = spread(client)
    monkeypatch.setattr(DaskCluster, "_call_one", _no_call)
    assert cluster.call(actors, "add", 0) == [40, 60]
    for value in (1, 2, 3):
        assert cluster.sum(actors, "add", value) == 100 + 2 * value
    with pytest.raises(DataError, match="is refused"):
        cluster.sum(actors, "refuse")
    assert cluster.sum(actors, "add", np.ones(50_000)).tolist() == [102.0] * 50_000
    assert sum(client.run(_channels).values()) == 2
    cluster.close()
    end = time.monotonic() + 60
    while sum(client.run(_channels).values()) > 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_code_of_a_channel_finds_its_worker(client):
    cluster, actors = spread(client)
    assert sorted(cluster.sum(actors, "places")) == cluster.alive()
    cluster.close()


def test_an_interrupted_sum_leaves_no_answer_behind(client, monkeypatch):
    cluster, actors = spread(client)
    assert cluster.sum(actors, "add", 0) == 100

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cluster.sum(actors, "add", 1)
    assert cluster.sum(actors, "add", 2) == 104
    cluster.close()


def test_without_sockets_answers_come_by_dask():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as threads,
        distributed.Client(threads) as client,
    ):
        cluster, actors = spread(client)
        assert cluster.sum(actors, "add", 1) == 102
        assert _channels() == 0
        cluster.close()
