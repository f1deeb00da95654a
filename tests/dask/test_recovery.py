"""Workers that die, stop or join during training: the model is the same."""

import contextlib
import os
import signal
import threading
import time

import distributed
import numpy as np
import pytest
from clusters import process_of
from distributed.protocol.pickle import loads

import hornbeam as hb
import hornbeam.dask.training
from hornbeam import ClusterError
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.training import train

ROUNDS = 4
PARAMS = {"objective": "binary:logistic", "subsample": 0.8, "max_depth": 3}
DART = {**PARAMS, "booster": "dart", "rate_drop": 0.5}
CLASSES = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3}


def rows_of(seed, n_rows=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0).astype(float)


def features_of(seed):
    return rows_of(seed)[0]


def labels_of(seed):
    return rows_of(seed)[1]


PARTS = range(6)


def spread(client, parts=PARTS):
    """Return a matrix whose partitions Dask can compute again."""
    X = [client.submit(features_of, k, pure=False) for k in parts]
    y = [client.submit(labels_of, k, pure=False) for k in parts]
    return DaskDMatrix(client, X, y)


def gathered(parts=PARTS):
    X = np.concatenate([features_of(k) for k in parts])
    return hb.DMatrix(X, np.concatenate([labels_of(k) for k in parts]))


@pytest.fixture(scope="module")
def expected():
    """Return a function of parameters to digest and history of one machine."""
    known = {}

    def of(params):
        key = tuple(params.items())
        if key not in known:
            history = {}
            data = gathered()
            evals = [(data, "train"), (gathered([7, 8, 9]), "valid")]
            booster = hb.train(
                params,
                data,
                ROUNDS,
                evals=evals,
                evals_result=history,
                verbose_eval=False,
            )
            known[key] = booster.digest(), history
        return known[key]

    return of


def kind_of(operation, args):
    """Return the kind of a message: its method, or the step of a round."""
    if operation != "run":
        return operation
    verbs = [call[0] for call in args[1]]
    if "gradient_ranges" in verbs:
        return "gradients"
    return {"build_histograms": "level"}.get(verbs[-1], verbs[-1])


@pytest.fixture
def strike(monkeypatch):
    """Return a function that signals workers when they get a kind of message."""
    struck = []

    def prepare(processes, how, kind, number, n_victims=1):
        seen = []

        def strike(place, call):
            if kind_of(*call) != kind or place not in processes:
                return
            seen.append(place)
            due = len(seen) >= number and len(struck) < n_victims
            if due and (n_victims == 1 or place not in struck):
                struck.append(place)
                os.kill(processes[place], how)

        class Watched(DaskCluster):
            def sum(self, actors, operation, *args):
                for actor in actors:
                    strike(actor.place, (operation, args))
                return super().sum(actors, operation, *args)

            async def _call_one(self, actor, message, tree=None):
                packed = message if isinstance(message, bytes) else message.data
                strike(actor.place, loads(packed))
                return await super()._call_one(actor, message, tree)

        monkeypatch.setattr(hornbeam.dask.training, "DaskCluster", Watched)
        return struck

    return prepare


def trained(client, params=PARAMS, patience=5.0, **options):
    matrix, valid = spread(client), spread(client, [7, 8, 9])
    evals = [(matrix, "train"), (valid, "valid")]
    return train(
        client,
        params,
        matrix,
        ROUNDS,
        evals=evals,
        verbose_eval=False,
        patience=patience,
        **options,
    )


def processes_of(client):
    return client.run(os.getpid)


def end(processes):
    """Kill processes, which may be stopped."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


#: Messages before, in and after rounds, one for each code path.
AT = [
    ("prepare", signal.SIGKILL),
    ("prepare", signal.SIGSTOP),
    ("column_passes", signal.SIGKILL),
    ("bin", signal.SIGSTOP),
    ("begin", signal.SIGKILL),
    ("gradients", signal.SIGSTOP),
    ("level", signal.SIGKILL),
    ("sum_leaves", signal.SIGSTOP),
    ("margins_after", signal.SIGKILL),
    ("fields", signal.SIGSTOP),
    ("begin_margins", signal.SIGKILL),
    ("margins_with", signal.SIGSTOP),
]


@pytest.mark.alone
def test_a_killed_worker_changes_nothing(own_cluster, strike, expected):
    client = own_cluster(2)
    struck = strike(processes_of(client), signal.SIGKILL, "level", 5)
    result = trained(client)
    assert len(struck) == 1
    assert (result["booster"].digest(), result["history"]) == expected(PARAMS)


@pytest.mark.slow
def test_a_round_of_several_trees_is_rewound(own_cluster, strike, expected):
    client = own_cluster(2)
    # In the second round, when its first tree is in the margins of the others.
    struck = strike(processes_of(client), signal.SIGKILL, "sum_leaves", 9)
    result = trained(client, CLASSES)
    assert len(struck) == 1
    assert (result["booster"].digest(), result["history"]) == expected(CLASSES)


@pytest.mark.slow
def test_a_round_of_multi_output_trees_is_rewound(own_cluster, strike, expected):
    client = own_cluster(2)
    params = {**CLASSES, "multi_strategy": "multi_output_tree", "num_parallel_tree": 2}
    struck = strike(processes_of(client), signal.SIGKILL, "sum_leaves", 7)
    result = trained(client, params)
    assert len(struck) == 1
    assert (result["booster"].digest(), result["history"]) == expected(params)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["begin", "gradients", "level", "margins_after"])
def test_a_round_with_dropout_is_repeated(own_cluster, strike, expected, kind):
    client = own_cluster(2)
    number = 2 if kind == "begin" else 5
    struck = strike(processes_of(client), signal.SIGKILL, kind, number)
    result = trained(client, DART)
    assert len(struck) == 1
    assert (result["booster"].digest(), result["history"]) == expected(DART)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["weigh_cuts", "column_passes", "set_tree_bins", "level"]
)
def test_per_tree_bins(own_cluster, strike, expected, kind):
    client = own_cluster(2)
    params = {**PARAMS, "tree_method": "approx", "max_bin": 16}
    struck = strike(processes_of(client), signal.SIGKILL, kind, 8)
    result = trained(client, params)
    assert len(struck) == 1
    assert (result["booster"].digest(), result["history"]) == expected(params)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("kind", "how"), AT)
def test_at_every_kind_of_message(own_cluster, strike, expected, kind, how):
    client = own_cluster(3)
    processes = processes_of(client)
    struck = strike(processes, how, kind, 2)
    try:
        result = trained(client)
        assert len(struck) == 1
        assert (result["booster"].digest(), result["history"]) == expected(PARAMS)
    finally:
        end(processes[place] for place in struck)


def misbehave(how, kind):
    """Make this worker's first answer to a kind of message wrong.

    It runs on the worker, which does not have this module.
    """
    import random
    import time

    from distributed.protocol.pickle import loads

    from hornbeam.dask.channel import Channel
    from hornbeam.dask.rpc import ReducingActor

    send, answer, perform = Channel.send, ReducingActor.answer, ReducingActor.perform
    kinds = []

    def is_due(method, args):
        if method == "run":
            verbs = [verb for verb, _ in args[1]]
            first = "gradients" if "gradient_ranges" in verbs else verbs[-1]
            method = {"build_histograms": "level"}.get(first, first)
        kinds.append(method)
        return method == kind and kinds.count(kind) == 1

    due = []

    def answer_wrongly(actor, call):
        due[:] = [is_due(*call)]
        return answer(actor, call)

    def send_wrongly(channel, frames):
        if due != [True]:
            return send(channel, frames)
        connection = channel._connection
        if how == "late":
            time.sleep(3)
        elif how == "garbage":
            return connection.sendall(random.Random(0).randbytes(10_000))
        elif how == "half":
            return connection.sendall(b"".join(frames)[:20])
        elif how == "changed":
            last = bytearray(frames[-1])
            last[-1] ^= 1
            frames = [*frames[:-1], last]
        send(channel, frames)
        if how == "twice":
            channel._n_sent -= 1
            send(channel, frames)
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

    Channel.send, ReducingActor.answer = send_wrongly, answer_wrongly
    ReducingActor.perform = perform_wrongly


#: Kinds of messages that are answered over a channel, and by a call of Dask.
OVER_CHANNELS = ["check_labels", "sum_start", "gradients", "level", "sum_leaves"]
BY_DASK = [
    *("prepare", "column_passes", "bin", "unify_bins", "begin"),
    *("fields", "begin_margins", "margins_with", "margins_after"),
]
#: Ways to answer. Dask itself repeats no answer.
WAYS = ["late", "twice", "half", "garbage", "changed"]
TABLE = [
    *((way, kind) for kind in OVER_CHANNELS for way in WAYS),
    *((way, kind) for kind in BY_DASK for way in WAYS if way != "twice"),
]
#: One in six, with each way; all of them with WHOLE_TABLE=1 in the
#: environment.
ANSWERS = TABLE if os.environ.get("WHOLE_TABLE") else TABLE[::6]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("how", "kind"), ANSWERS)
def test_wrong_answers_change_nothing(own_cluster, expected, how, kind):
    client = own_cluster(2)
    place = min(client.scheduler_info()["workers"])
    client.run(misbehave, how, kind, workers=[place])
    result = trained(client, patience=2.0)
    assert (result["booster"].digest(), result["history"]) == expected(PARAMS)
    # A worker whose answer is wrong is no longer used; a late one is.
    assert (place in client.scheduler_info()["workers"]) == (how == "late")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_two_workers_lost_at_once(own_cluster, strike, expected, how):
    client = own_cluster(3)
    processes = processes_of(client)
    struck = strike(processes, how, "level", 4, n_victims=2)
    try:
        result = trained(client)
        assert len(struck) == 2
        assert (result["booster"].digest(), result["history"]) == expected(PARAMS)
    finally:
        end(processes[place] for place in struck)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_worker_lost_during_the_recovery_of_another(own_cluster, strike, expected):
    client = own_cluster(3)
    processes = processes_of(client)
    hit = []

    class Both(hb.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 1:
                os.kill(next(iter(processes.values())), signal.SIGKILL)
                hit.append(0)
            return False

    struck = strike(dict(list(processes.items())[1:]), signal.SIGKILL, "rewind", 1)
    result = trained(client, callbacks=[Both()])
    assert hit and len(struck) == 1
    assert (result["booster"].digest(), result["history"]) == expected(PARAMS)


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


class UntilTwoWorkers(hb.TrainingCallback):
    """Calls a function after a round; stops training when two workers have rows."""

    def __init__(self, act):
        self.act, self.actors = act, {}

    def after_iteration(self, model, epoch, evals_log):
        time.sleep(0.02)
        self.actors[epoch] = model.actors
        if epoch == 1:
            self.act(self.actors[epoch])
            return False
        return epoch > 2 and len({actor.place for actor in self.actors[epoch]}) == 2


def trained_until(client, callback, params=PARAMS):
    """Train; return the actors that the callback found first and last."""
    data = spread(client)
    booster = train(
        client, params, data, 2_000, callbacks=[callback], verbose_eval=False
    )["booster"]
    rounds = booster.num_boosted_rounds()
    assert rounds < 2_000
    same = hb.train(params, gathered(), rounds, verbose_eval=False)
    assert booster.digest() == same.digest()
    return callback.actors[1], callback.actors[rounds - 1]


def numbers_of(actors):
    return sorted(number for actor in actors for number in actor.parts)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("params", [PARAMS, {**DART, "rate_drop": 0.05}])
def test_workers_that_join_are_used(own_cluster, params):
    client = own_cluster(1)
    before, after = trained_until(
        client, UntilTwoWorkers(lambda _: client.cluster.scale(2)), params
    )
    assert len(before) == 1
    assert [len(actor.parts) for actor in after] == [3, 3]
    assert numbers_of(after) == list(PARTS)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_restarted_worker_takes_its_partitions_back(own_cluster):
    client = own_cluster(2)
    processes = processes_of(client)
    before, after = trained_until(
        client,
        UntilTwoWorkers(lambda actors: os.kill(processes[actors[0].place], 9)),
    )
    assert before[1] in after  # unchanged
    assert numbers_of(after) == list(PARTS)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_new_worker_that_dies_while_it_prepares(own_cluster, strike):
    client = own_cluster(1)

    def add(_):
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
        new = processes_of(client)
        del new[next(iter(before))]
        processes.update(new)

    before, processes = processes_of(client), {}
    struck = strike(processes, signal.SIGKILL, "bin", 1)
    _, after = trained_until(client, UntilTwoWorkers(add))
    assert len(struck) == 1
    assert numbers_of(after) == list(PARTS)


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

    class Strike(hb.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 1:
                os.kill(process, signal.SIGKILL)
            return False

    with pytest.raises(ClusterError, match="cannot be computed again"):
        train(client, PARAMS, matrix, 10, callbacks=[Strike()], verbose_eval=False)
