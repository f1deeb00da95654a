"""Whatever I/O operation fails, files are old or new, and the next call works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest
from selection import IS_WHOLE, REPEATS

import hornbeam

HERE = Path(__file__).parent
#: Scenarios of io_faults.py.
SLOW = [
    "save_model in JSON",
    "save_model of the drop-in",
    "save_binary",
    "dump_model",
    "export of onnx",
    "export of c",
    "export of py",
    "export of json",
    "hornbeam predict to CSV",
    "hornbeam predict to Parquet",
    "hornbeam train",
    "hornbeam export",
    "checkpoints",
    "building a cache",
    "building a cache from a file",
    "rounds in external memory",
    "loading models",
    "loading a matrix",
    "reading CSV",
    "reading parquet",
    "reading arrow",
    "reading libsvm",
]


def scenarios():
    """Yield arguments of io_faults.py: slow ones have a third of its faults in turn."""
    yield ["save_model"]
    # Each page is drawn, which takes a second.
    slow = [["report", "a full disk"]]
    for scenario, third in zip(SLOW, cycle(range(3)), strict=False):
        slow.append([scenario] if IS_WHOLE else [scenario, third])
    yield from (pytest.param(one, marks=REPEATS) for one in slow)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return a function that runs a scenario under the library of io_faults.c."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and Linux")
    path = tmp_path_factory.mktemp("library") / "io_faults.so"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(path)]
    subprocess.run([compiler, *options, str(HERE / "io_faults.c"), "-ldl"], check=True)
    root = str(Path(hornbeam.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, str(HERE / "io_faults.py")],
        env={**os.environ, "PYTHONPATH": root, "LD_PRELOAD": str(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def run(arguments):
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


@pytest.mark.parametrize("arguments", [*scenarios()], ids=lambda own: own[0])
def test_each_operation_fails_in_turn(found, arguments):
    n_points, wrong = found(arguments)
    assert wrong == []
    assert n_points >= 5
