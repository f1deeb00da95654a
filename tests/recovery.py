"""Workers that die, stop or join during training, on any transport: the same model.

A file of tests derives a class from `Recovery`, and has a fixture `engine`: a function
that starts workers and returns an object with

- `processes()`: the process of each worker, by its name;
- `watch(seen)`: call `seen(place, operation, args)` before each message to an actor;
- `train(params, parts, rounds, valid=None, **options)`: the result of the transport's
  `train`; `parts` and `valid` are numbers of partitions;
- `add()`: start one more worker, and return its process.
"""

import contextlib
import os
import signal
import time

import numpy as np
import pytest

import hornbeam as hb

ROUNDS = 4
PARAMS = {"objective": "binary:logistic", "subsample": 0.8, "max_depth": 3}
DART = {**PARAMS, "booster": "dart", "rate_drop": 0.5}
CLASSES = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3}
VECTORS = {**CLASSES, "multi_strategy": "multi_output_tree", "num_parallel_tree": 2}
APPROX = {**PARAMS, "tree_method": "approx", "max_bin": 16}
PARTS = range(6)
VALID = [7, 8, 9]


def rows_of(seed, n_rows=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0).astype(float)


def features_of(seed):
    return rows_of(seed)[0]


def labels_of(seed):
    return rows_of(seed)[1]


def gathered(parts=PARTS):
    X = np.concatenate([features_of(k) for k in parts])
    return hb.DMatrix(X, np.concatenate([labels_of(k) for k in parts]))


_known = {}


def expected(params):
    """Return digest and history of one machine."""
    key = tuple(params.items())
    if key not in _known:
        history = {}
        data = gathered()
        evals = [(data, "train"), (gathered(VALID), "valid")]
        booster = hb.train(
            params, data, ROUNDS, evals=evals, evals_result=history, verbose_eval=False
        )
        _known[key] = booster.digest(), history
    return _known[key]


def same_as_alone(result, params=PARAMS):
    """Check that a result is that of one machine."""
    assert (result["booster"].digest(), result["history"]) == expected(params)


def kind_of(operation, args):
    """Return the kind of a message: its method, or the step of a round."""
    if operation != "run":
        return operation
    verbs = [call[0] for call in args[1]]
    if "gradient_ranges" in verbs:
        return "gradients"
    return {"build_histograms": "level"}.get(verbs[-1], verbs[-1])


def strike(engine, how, kind, number, n_victims=1, processes=None):
    """Signal workers when they get a kind of message for this time; return them."""
    processes = engine.processes() if processes is None else processes
    struck, seen = [], []

    def look(place, operation, args):
        if kind_of(operation, args) != kind or place not in processes:
            return
        seen.append(place)
        due = len(seen) >= number and len(struck) < n_victims
        if due and (n_victims == 1 or place not in struck):
            struck.append(place)
            os.kill(processes[place], how)

    engine.watch(look)
    return struck


def trained(engine, params=PARAMS, **options):
    options = {"patience": 5.0} | options
    return engine.train(params, PARTS, ROUNDS, valid=VALID, **options)


@contextlib.contextmanager
def ending(processes, struck):
    """Kill the struck processes, which may be stopped, at the end."""
    try:
        yield
    finally:
        for place in struck:
            with contextlib.suppress(ProcessLookupError):
                os.kill(processes[place], signal.SIGKILL)


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
SIGNALS = [signal.SIGKILL, signal.SIGSTOP]


class After(hb.TrainingCallback):
    """Calls a function after the second round."""

    def __init__(self, act):
        self.act = act

    def after_iteration(self, model, epoch, evals_log):
        if epoch == 1:
            self.act()
        return False


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


def trained_until(engine, callback, params=PARAMS):
    """Train; return the actors that the callback found first and last."""
    booster = engine.train(params, PARTS, 2_000, callbacks=[callback])["booster"]
    rounds = booster.num_boosted_rounds()
    assert rounds < 2_000
    same = hb.train(params, gathered(), rounds, verbose_eval=False)
    assert booster.digest() == same.digest()
    return callback.actors[1], callback.actors[rounds - 1]


def numbers_of(actors):
    return sorted(number for actor in actors for number in actor.parts)


@pytest.mark.alone
@pytest.mark.strikes
class Recovery:
    """The tests."""

    def test_a_killed_worker_changes_nothing(self, engine):
        own = engine(2)
        struck = strike(own, signal.SIGKILL, "level", 5)
        same_as_alone(trained(own))
        assert len(struck) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("params", "number"),
        # In the second round, when its first tree is in the margins of the others.
        [(CLASSES, 9), (VECTORS, 7)],
        ids=["classes", "multi-output"],
    )
    def test_a_round_of_several_trees_is_rewound(self, engine, params, number):
        own = engine(2)
        struck = strike(own, signal.SIGKILL, "sum_leaves", number)
        same_as_alone(trained(own, params), params)
        assert len(struck) == 1

    @pytest.mark.slow
    @pytest.mark.repeats
    @pytest.mark.parametrize("kind", ["begin", "gradients", "level", "margins_after"])
    def test_a_round_with_dropout_is_repeated(self, engine, kind):
        own = engine(2)
        struck = strike(own, signal.SIGKILL, kind, 2 if kind == "begin" else 5)
        same_as_alone(trained(own, DART), DART)
        assert len(struck) == 1

    @pytest.mark.slow
    @pytest.mark.repeats
    @pytest.mark.parametrize(
        "kind", ["weigh_cuts", "column_passes", "set_tree_bins", "level"]
    )
    def test_per_tree_bins(self, engine, kind):
        own = engine(2)
        struck = strike(own, signal.SIGKILL, kind, 8)
        same_as_alone(trained(own, APPROX), APPROX)
        assert len(struck) == 1

    @pytest.mark.slow
    @pytest.mark.repeats
    @pytest.mark.parametrize(("kind", "how"), AT)
    def test_at_every_kind_of_message(self, engine, kind, how):
        own = engine(3)
        processes = own.processes()
        struck = strike(own, how, kind, 2)
        with ending(processes, struck):
            same_as_alone(trained(own))
            assert len(struck) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("how", SIGNALS)
    def test_two_workers_lost_at_once(self, engine, how):
        own = engine(3)
        processes = own.processes()
        struck = strike(own, how, "level", 4, n_victims=2)
        with ending(processes, struck):
            same_as_alone(trained(own))
            assert len(struck) == 2

    @pytest.mark.slow
    def test_a_worker_lost_during_the_recovery_of_another(self, engine):
        own = engine(3)
        first, *others = own.processes().items()
        struck = strike(own, signal.SIGKILL, "rewind", 1, processes=dict(others))
        kill = After(lambda: os.kill(first[1], signal.SIGKILL))
        same_as_alone(trained(own, callbacks=[kill]))
        assert len(struck) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("params", [PARAMS, {**DART, "rate_drop": 0.05}])
    def test_workers_that_join_are_used(self, engine, params):
        own = engine(1)
        before, after = trained_until(own, UntilTwoWorkers(lambda _: own.add()), params)
        assert len(before) == 1
        assert [len(actor.parts) for actor in after] == [3, 3]
        assert numbers_of(after) == list(PARTS)

    @pytest.mark.slow
    def test_a_new_worker_takes_the_partitions_of_a_lost_one(self, engine):
        own = engine(2)
        processes = own.processes()

        def replace(actors):
            os.kill(processes[actors[0].place], signal.SIGKILL)
            if not own.restarts:
                own.add()

        before, after = trained_until(own, UntilTwoWorkers(replace))
        assert before[1] in after  # unchanged
        assert numbers_of(after) == list(PARTS)

    @pytest.mark.slow
    def test_a_new_worker_that_dies_while_it_prepares(self, engine):
        own = engine(1)
        processes = {}

        def add(_):
            known = own.processes()
            own.add()
            new = own.processes()
            processes.update({p: pid for p, pid in new.items() if p not in known})

        struck = strike(own, signal.SIGKILL, "bin", 1, processes=processes)

        def until_replaced(actors):
            add(actors)
            if not own.restarts:
                own.add()

        _, after = trained_until(own, UntilTwoWorkers(until_replaced))
        assert len(struck) == 1
        assert numbers_of(after) == list(PARTS)
