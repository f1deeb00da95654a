"""A group over several machines: network namespaces with addresses of their own."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent

PROGRAM = """
import json, sys
import group_tasks
from hornbeam import xgboost as xgb
number, args = int(sys.argv[1]), json.loads(sys.argv[2])
with xgb.collective.CommunicatorContext(**args, dmlc_task_id=str(number)):
    task, *options = group_tasks.TASKS["plain"]
    rows = slice(number * 200, number * 200 + 200)
    print(json.dumps([*task(rows, *options), xgb.collective.get_rank()]))
"""

TRACKER = """
import json
from hornbeam import xgboost as xgb
tracker = xgb.RabitTracker(3, "10.77.0.1", sortby="task", timeout=60)
tracker.start()
print(json.dumps(tracker.worker_args()), flush=True)
tracker.wait_for(60)
print("done", flush=True)
"""


ALONE = """
import json
import group_tasks
task, *options = group_tasks.TASKS["plain"]
print(json.dumps(task(slice(600), *options)))
"""

ENDLESS = """
import json, sys
import group_tasks
from hornbeam import xgboost as xgb

class Tell(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        if epoch == 2:
            print("trains", flush=True)

number, args = int(sys.argv[1]), json.loads(sys.argv[2])
with xgb.collective.CommunicatorContext(**args, dmlc_task_id=str(number)):
    data = xgb.DMatrix(group_tasks.X, group_tasks.Y)
    xgb.train(group_tasks.PARAMS, data, 10**6, callbacks=[Tell()])
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@pytest.fixture
def machines():
    """The names of three namespaces with the addresses 10.77.0.1 to 3."""
    if shutil.which("ip") is None:
        pytest.skip("there is no iproute2")
    prefix = f"hb{os.getpid() % 100_000}"
    names = [f"{prefix}-{number}" for number in range(4)]  # the last is a switch
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            *hosts, switch = names
            ip("-n", switch, "link", "add", "br0", "type", "bridge")
            ip("-n", switch, "link", "set", "br0", "up")
            for number, host in enumerate(hosts, 1):
                port = f"p{number}"
                ends = "type", "veth", "peer", "name", port, "netns", switch
                ip("-n", host, "link", "add", "eth0", *ends)
                ip("-n", switch, "link", "set", port, "master", "br0", "up")
                ip("-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
                ip("-n", host, "link", "set", "eth0", "up")
                ip("-n", host, "link", "set", "lo", "up")
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"no network namespaces can be made here: {error}")
        yield hosts
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def start():
    """Return a function that starts a program on a machine."""
    started = []

    def run(machine, program, *arguments):
        path = os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])
        command = ["ip", "netns", "exec", machine, sys.executable, "-c", program]
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_group_over_three_machines(machines, start):
    tracker = start(machines[0], TRACKER)
    args = tracker.stdout.readline()
    assert "10.77.0.1" in args, tracker.communicate()
    workers = [
        start(machine, PROGRAM, str(number), args)
        for number, machine in enumerate(machines)
    ]
    found = [worker.communicate(timeout=100) for worker in workers]
    assert all(out for out, _ in found), found
    results = [json.loads(out) for out, _ in found]
    assert [result.pop() for result in results] == [0, 1, 2]
    assert tracker.stdout.readline() == "done\n"
    alone = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert results == [json.loads(alone.stdout)] * 3


@pytest.mark.slow
def test_a_machine_that_vanishes_is_an_error_on_the_others(machines, start):
    tracker = start(machines[0], TRACKER)
    args = json.dumps(json.loads(tracker.stdout.readline()) | {"dmlc_timeout": 3})
    workers = [
        start(machine, ENDLESS, str(number), args)
        for number, machine in enumerate(machines)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "trains\n"
    # Nothing is closed: packets are no longer delivered.
    ip("-n", machines[1], "link", "set", "eth0", "down")
    begin = time.monotonic()
    texts = [workers[number].communicate(timeout=30)[1] for number in (0, 2)]
    assert time.monotonic() - begin < 30
    for text in texts:
        assert "cannot go on: worker 1 (10.77.0.2, " in text
        assert "sent nothing for 3 seconds" in text
