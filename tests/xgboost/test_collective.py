"""Groups of processes in the drop-in: collective operations, and training."""

import re
from concurrent.futures import ThreadPoolExecutor

import group_tasks
import numpy as np
import pytest
import xgboost as theirs
from group_processes import call_in_processes, call_in_threads
from group_tasks import ROWS, TASKS

import hornbeam.xgboost as ours
from hornbeam.distributed.group import Group

N_WORKERS = 3


def run(task, *options, n_workers=2, call=call_in_threads):
    """Return the results of a task in each worker; errors are text."""
    tracker = ours.RabitTracker(n_workers, "127.0.0.1", sortby="task")
    tracker.start()
    found = call(group_tasks.run_one, n_workers, tracker.worker_args(), task, *options)
    if not any(isinstance(result, str) for result in found):
        tracker.wait_for(10)
        tracker.free()
    return found


# Collective operations


def test_operations_have_the_results_of_all_processes():
    found = run(group_tasks.communicate, n_workers=N_WORKERS, call=call_in_processes)
    for rank, results in enumerate(found):
        assert results.pop("rank") == rank
        assert results == found[0]
    assert found[0]["broadcast"] == [{"of": rank} for rank in range(N_WORKERS)]
    assert found[0]["allreduce"] == {
        "MAX": [2, 1, 2, 3],
        "MIN": [0, 1, 2, 3],
        "SUM": [3, 3, 6, 9],
        "BITWISE_AND": [0, 1, 2, 3],
        "BITWISE_OR": [3, 1, 2, 3],
        "BITWISE_XOR": [3, 1, 2, 3],
    }
    assert found[0]["float"] == [1.5]
    assert found[0]["is_distributed"]


def test_messages_are_printed_by_the_process_of_the_tracker(capsys):
    run(group_tasks.print_rank)
    assert sorted(capsys.readouterr().out.splitlines()) == ["worker 0", "worker 1"]


def test_a_group_of_one(monkeypatch):
    tracker = ours.RabitTracker(n_workers=1, host_ip=None)
    tracker.start()
    args = {name.upper(): value for name, value in tracker.worker_args().items()}
    with ours.collective.CommunicatorContext(**args):
        assert ours.collective.is_distributed()
        assert ours.collective.get_world_size() == 1
        assert ours.collective.broadcast("a", 0) == "a"
        with pytest.raises(ValueError, match="Floating point is not supported"):
            ours.collective.allreduce(np.ones(2), ours.collective.Op.BITWISE_OR)
    assert not ours.collective.is_distributed()
    tracker.wait_for()
    tracker.free()
    with pytest.raises(ValueError, match="was freed"):
        tracker.worker_args()


def test_only_the_thread_that_has_joined_is_in_the_group():
    tracker = ours.RabitTracker(n_workers=1, host_ip="127.0.0.1")
    tracker.start()
    with ours.collective.CommunicatorContext(**tracker.worker_args()):
        with ThreadPoolExecutor() as threads:
            others = threads.submit(ours.collective.is_distributed).result()
        assert not others
        assert ours.collective.is_distributed()
    tracker.wait_for()


# The tracker


def test_the_tracker_fails_as_that_of_xgboost():
    def failures(xgb):
        tracker = xgb.RabitTracker(n_workers=2, host_ip="127.0.0.1")
        tracker.start()
        args = tracker.worker_args()
        port = args["dmlc_tracker_port"]
        with pytest.raises(ValueError, match="Failed to bind socket") as bound:
            xgb.RabitTracker(n_workers=1, host_ip="127.0.0.1", port=port)
        with pytest.raises(ValueError, match="Timeout waiting for the tracker"):
            tracker.wait_for(1)
        with pytest.raises(ValueError, match="Failed to accept"):
            tracker.free()
        return bound.type.__mro__[1:]

    failures(ours)
    failures(theirs)


def test_a_process_without_the_tracker_or_its_token():
    tracker = ours.RabitTracker(n_workers=2, host_ip="127.0.0.1")
    tracker.start()
    args = tracker.worker_args()
    init = ours.collective.init
    with pytest.raises(ValueError, match=r"Failed to bootstrap the communication\."):
        init(**args | {"dmlc_tracker_port": 0, "dmlc_retry": 0})
    with pytest.raises(ValueError, match="it has another token"):
        init(**args | {"dmlc_tracker_token": "1"})
    del args["dmlc_tracker_token"]
    with pytest.raises(ValueError, match="dmlc_tracker_token is missing"):
        init(**args)
    with pytest.raises(ValueError, match="only 'rabit'"):
        init(dmlc_communicator="federated")
    with pytest.raises(ValueError, match="n_workers must be 1 or more"):
        ours.RabitTracker(n_workers=0, host_ip=None)
    assert not ours.collective.is_distributed()


# Training


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("group"))


@pytest.fixture(scope="module")
def alone(folder):
    """The results of each task in one process that has all rows."""
    return call_in_processes(group_tasks.run_all, 1, {}, (0, ROWS), folder)[0]


@pytest.fixture(
    scope="module",
    params=[(0, 200, ROWS), (0, 10, 410, ROWS)],
    ids=["two processes", "three processes"],
)
def together(request, folder):
    """The results of each task in each process of a group."""
    bounds = request.param
    tracker = ours.RabitTracker(len(bounds) - 1, "127.0.0.1", sortby="task")
    tracker.start()
    found = call_in_processes(
        group_tasks.run_all, len(bounds) - 1, tracker.worker_args(), bounds, folder
    )
    assert all(isinstance(result, dict) for result in found), found
    tracker.wait_for(10)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_models_and_metrics_are_those_of_one_process(task, alone, together):
    for results in together:
        assert results[task] == alone[task]


def test_a_process_without_rows(alone, folder):
    bounds = 0, 300, 300, ROWS
    tracker = ours.RabitTracker(3, "127.0.0.1", sortby="task")
    tracker.start()
    args = tracker.worker_args()
    found = call_in_threads(group_tasks.run_without_rows, 3, args, bounds)
    for results in found:
        assert results == {name: alone[name] for name in group_tasks.WITHOUT_ROWS}


def test_only_the_first_process_saves_checkpoints():
    assert run(group_tasks.save_checkpoints) == [
        (0, ["model_1.ubj", "model_2.ubj", "model_3.ubj"]),
        (1, []),
    ]


def test_a_booster_goes_on_without_the_group():
    (first, rounds), (second, _) = run(group_tasks.train_after_leaving)
    assert first == second
    assert rounds == 3


# Errors


FAILURES = {
    "labels": (group_tasks.wrong_labels, (), "discrete values"),
    "parameters": (
        group_tasks.other_parameters,
        (),
        "worker 1 trains with max_depth=3, and worker 0 with 2",
    ),
    "columns": (group_tasks.other_columns, (), "partition 1 has 5 columns"),
    "linear": (
        group_tasks.unsupported,
        ({"booster": "gblinear"},),
        "does not train on a cluster",
    ),
    "exact": (
        group_tasks.unsupported,
        ({"tree_method": "exact"},),
        "doesn't support distributed training",
    ),
    "folds": (group_tasks.fold, (), "should not be used in distributed environment"),
    "cuts": (group_tasks.other_cuts, (), "binned their rows by different cuts"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_error_of_the_data_or_the_parameters_is_raised_in_all(case):
    task, options, words = FAILURES[case]
    for text in run(task, *options):
        assert words in text


def test_a_signal_is_an_error_in_all():
    found = run(group_tasks.signal, n_workers=3)
    assert "has signalled an error" in found.pop(1)
    for text in found:
        assert re.search(r"worker 1 .* has called signal_error", text)


def test_a_process_that_is_killed_is_an_error_in_all_others():
    found = run(group_tasks.killed_in_training, n_workers=3, call=call_in_processes)
    assert found.pop(1) is None
    for text in found:
        assert re.search(r"worker 1 \(.*\) was lost: its process ended", text)


@pytest.mark.parametrize("way", ["lost: its process ended", "failed: MemoryError: no"])
def test_a_process_that_ends_at_any_message_is_an_error_in_all_others(way, monkeypatch):
    combine, last = Group.combine, -1

    def stop(group, *args, **options):
        """Make a call, unless the worker 1 has made the calls before the last."""
        if group.rank == 1 and group._calls == last:
            if "lost" in way:  # as the system closes the connections of a process
                for connection in (*group._peers.values(), group._tracker):
                    connection.close()
            raise MemoryError("no")
        return combine(group, *args, **options)

    monkeypatch.setattr(Group, "combine", stop)
    (digest, n_calls), *others = run(group_tasks.train_shortly, n_workers=3)
    assert others == [(digest, n_calls)] * 2
    assert n_calls > 15
    for number in range(n_calls):
        last = number
        found = run(group_tasks.train_shortly, n_workers=3)
        assert found.pop(1) == "MemoryError: no"
        for text in found:
            assert "cannot go on: worker 1 " in text
            assert way in text
