"""Calls that save or read files, with each of their I/O operations failing in turn.

``python io_faults.py`` runs under the preloaded library of io_faults.c, which makes the
k-th operation on the files of a folder fail, for every k and in every way. It reads
lines from standard input, each a JSON list: a scenario, and maybe one way, or a number:
that way and each third after it. For each it forks a process, which prints a line: the
number of points and what was found wrong. See test_io_faults.py.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hornbeam
from hornbeam.backends import memory_plan
from hornbeam.binning import external_build
from hornbeam.errors import HornbeamError
from hornbeam.memory import resident_bytes

OPEN, CREATE, WRITE, SYNC, RENAME, READ = 1, 2, 4, 8, 16, 32
SHORT, KILL = -1, -2
WRITES = CREATE | WRITE | SYNC | RENAME
ALL = WRITES | OPEN | READ


class Fault(NamedTuple):
    """Which operations are counted, how one fails, and whether all later ones do."""

    kinds: int
    how: int
    lasting: bool = False

    @property
    def is_harmless(self) -> bool:
        """Whether a call must succeed: operations that are repeated or continued."""
        return self.how in (errno.EINTR, SHORT)


FAULTS = {
    "a full disk for a moment": Fault(WRITES, errno.ENOSPC),
    "a full disk": Fault(WRITES, errno.ENOSPC, lasting=True),
    "a failing disk": Fault(ALL, errno.EIO),
    "a failed disk": Fault(ALL, errno.EIO, lasting=True),
    "signals": Fault(ALL & ~RENAME, errno.EINTR),
    "short transfers": Fault(READ | WRITE, SHORT),
    "a killed process": Fault(ALL, KILL),
}

#: Most bytes that the process may grow by after its first points.
MAX_GROWTH = 32 << 20

# One thread: a child made by fork has only the thread that made it.
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4)).astype(np.float32)
Y = (X[:, 0] + rng.normal(size=200) > 0).astype(np.float32)
DATA = hornbeam.DMatrix(X, Y, nthread=1)
MODEL = hornbeam.train(PARAMS, DATA, 3)
#: With the names of the columns of `write_csv`.
NAMED = MODEL.copy()
NAMED.feature_names = [*"abcd"]
QUIET = {"verbose_eval": False}


class Scenario(NamedTuple):
    """What is done in a folder.

    Attributes
    ----------
    act
        Called with the folder; returns what does not depend on faults.
    prepare
        Called with the new folder first.
    output
        The file that is replaced, which has other content before. None: `act` may leave
        files at any time, such as checkpoints, and goes on from them when it is
        repeated.
    """

    act: Callable[[Path], Any]
    prepare: Callable[[Path], object] = lambda folder: None
    output: str | None = None


def saves(name: str, save: Callable[[Path], object]) -> Scenario:
    """Return the scenario of a call that writes one file."""
    return Scenario(
        lambda folder: save(folder / name),
        lambda folder: (folder / name).write_bytes(b"old"),
        name,
    )


def resume(folder: Path) -> str:
    checkpoint = hornbeam.TrainingCheckPoint(folder, interval=1, resume=True)
    return hornbeam.train(PARAMS, DATA, 4, callbacks=[checkpoint], **QUIET).digest()


def build(folder: Path) -> str:
    data = hornbeam.ExtMemQuantileDMatrix(X, Y, cache=folder / "cache", nthread=1)
    return hornbeam.train(PARAMS, data, 1, **QUIET).digest()


def build_from_file(folder: Path) -> str:
    path = str(folder / "data.csv")
    data = hornbeam.ExtMemQuantileDMatrix(
        path, label="y", cache=folder / "cache", nthread=1
    )
    return hornbeam.train(PARAMS, data, 1, **QUIET).digest()


def write_csv(folder: Path) -> None:
    np.savetxt(
        folder / "data.csv", np.c_[X, Y], "%g", ",", header="a,b,c,d,y", comments=""
    )


def train_on(ending: str) -> Callable[[Path], str]:
    def train(folder: Path) -> str:
        name = str(folder / f"data.{ending}")
        data = hornbeam.DMatrix(name, label=None if ending == "libsvm" else "y")
        return hornbeam.train(PARAMS, data, 1).digest()

    return train


def write_table(ending: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        import pyarrow
        from pyarrow import feather, parquet

        table = pyarrow.table({**dict(zip("abcd", X.T, strict=True)), "y": Y})
        path = folder / f"data.{ending}"
        if ending == "parquet":
            parquet.write_table(table, path, row_group_size=80)
        elif ending == "arrow":
            feather.write_feather(table, str(path))
        else:
            from sklearn.datasets import dump_svmlight_file

            dump_svmlight_file(X, Y, str(path))

    return write


def train_rounds(folder: Path) -> str:
    """Train in external memory, on matrices that are there before."""
    return hornbeam.train(PARAMS, MATRICES[folder], 1, **QUIET).digest()


MATRICES: dict[Path, hornbeam.ExtMemQuantileDMatrix] = {}


def prepare_rounds(folder: Path) -> None:
    MATRICES.clear()
    MATRICES[folder] = hornbeam.ExtMemQuantileDMatrix(
        X, Y, cache=folder / "cache", nthread=1
    )


def run_command(*words: str) -> Callable[[Path], None]:
    """Return a call of the command line; {} in a word is the folder."""

    def run(folder: Path) -> None:
        from hornbeam.cli.app import app

        arguments = [word.format(folder) for word in words]
        app(arguments, standalone_mode=False)

    return run


def writes(name: str, *words: str) -> Scenario:
    """Return the scenario of a command that writes one file."""

    def prepare(folder: Path) -> None:
        write_csv(folder)
        NAMED.save_model(folder / "model.ubj")
        (folder / name).write_bytes(b"old")

    return Scenario(run_command(*words), prepare, name)


def report(path: Path) -> None:
    """Write a report of one feature, which is drawn faster."""
    data = hornbeam.DMatrix(X[:, :1], Y, nthread=1)
    hornbeam.train(PARAMS, data, 1, **QUIET).report(data, path=path)


def save_as_xgboost(path: Path) -> None:
    import hornbeam.xgboost as xgb

    booster = xgb.Booster(model_file=bytearray(MODEL.save_raw()))
    booster.save_model(path)


def read_models(folder: Path) -> list[str]:
    import hornbeam.xgboost as xgb

    found = [hornbeam.Booster(model_file=folder / "m.ubj").digest()]
    found.append(hornbeam.Booster(model_file=folder / "m.json").digest())
    other = xgb.Booster(model_file=folder / "m.ubj")
    found.append(str(other.save_raw()))
    found += MODEL.get_dump(folder / "names.txt")
    return found


def write_models(folder: Path) -> None:
    MODEL.save_model(folder / "m.ubj")
    MODEL.save_model(folder / "m.json")
    lines = "".join(f"{k} name_{k} q\n" for k in range(4))
    (folder / "names.txt").write_text(lines)


def read_matrix(folder: Path) -> str:
    return hornbeam.train(PARAMS, hornbeam.DMatrix(folder / "data"), 1).digest()


SCENARIOS = {
    "save_model": saves("m.ubj", MODEL.save_model),
    "save_model in JSON": saves("m.json", MODEL.save_model),
    "save_model of the drop-in": saves("m.json", save_as_xgboost),
    "save_binary": saves("data", DATA.save_binary),
    "dump_model": saves("dump.txt", MODEL.dump_model),
    "report": saves("report.html", report),
    **{
        f"export of {ending}": saves(f"m.{ending}", MODEL.export)
        for ending in ("onnx", "c", "py", "json")
    },
    "hornbeam predict to CSV": writes(
        "p.csv", "predict", "{}/data.csv", "--model", "{}/model.ubj", "--output",
        "{}/p.csv",
    ),
    "hornbeam predict to Parquet": writes(
        "p.parquet", "predict", "{}/data.csv", "--model", "{}/model.ubj", "--output",
        "{}/p.parquet",
    ),
    "hornbeam train": writes(
        "new.ubj", "train", "{}/data.csv", "--target", "y", "--model", "{}/new.ubj",
        "--rounds", "1",
    ),
    "hornbeam export": writes(
        "m.onnx", "export", "{}/model.ubj", "--output", "{}/m.onnx"
    ),
    "checkpoints": Scenario(resume),
    "building a cache": Scenario(build),
    "building a cache from a file": Scenario(build_from_file, write_csv),
    "rounds in external memory": Scenario(train_rounds, prepare_rounds),
    "loading models": Scenario(read_models, write_models),
    "loading a matrix": Scenario(
        read_matrix, lambda folder: DATA.save_binary(folder / "data")
    ),
    "reading CSV": Scenario(train_on("csv"), write_csv),
    **{
        f"reading {ending}": Scenario(train_on(ending), write_table(ending))
        for ending in ("parquet", "arrow", "libsvm")
    },
}  # fmt: skip


class Machine:
    """Runs a scenario with one fault after the other, and checks what is left."""

    def __init__(self, scenario: Scenario, root: Path) -> None:
        self.scenario, self.root = scenario, root
        self.faults = ctypes.CDLL(None)
        self.wrong: list[str] = []
        self.points = 0
        folder = self.fresh()
        self.expected = self.act(folder)
        self.left = names_of(folder)

    def fresh(self) -> Path:
        """Return a new folder that is prepared."""
        MATRICES.clear()
        gc.collect()
        folder = self.root / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.scenario.prepare(folder)
        return folder

    def act(self, folder: Path) -> Any:
        """Return the file that is written, or else what the scenario returns."""
        try:
            result = self.scenario.act(folder)
        finally:
            self.n_seen = self.faults.fault_disarm()
        output = self.scenario.output
        return (folder / output).read_bytes() if output else result

    def arm(self, folder: Path, fault: Fault, at: int) -> None:
        path = os.fsencode(folder)
        self.faults.fault_arm(path, fault.kinds, at, fault.how, fault.lasting)

    def run(self, name: str, fault: Fault) -> None:
        """Let every operation of the scenario fail."""
        at, is_over = 0, False
        while not is_over:
            at += 1
            if fault.how == KILL:
                is_over, found = self.kill(fault, at)
            else:
                is_over, found = self.fail(fault, at)
            self.points += not is_over
            self.wrong += [f"{name} at {at}: {text}" for text in found]
            assert len(self.wrong) < 20, self.wrong

    def fail(self, fault: Fault, at: int) -> tuple[bool, list[str]]:
        """Return whether there is no such operation, and what is wrong."""
        folder = self.fresh()
        before = names_of(folder), resources()
        found: list[str] = []
        self.arm(folder, fault, at)
        try:
            result = self.act(folder)
        except Exception as error:
            found += self.check_error(folder, fault, error)
        else:
            if result != self.expected:
                found.append("another result")
        n_seen = self.n_seen
        if not within_seconds(lambda: not resources() - before[1]):
            found.append(f"left open: {resources() - before[1]}")
        found += self.check_files(folder, before[0])
        return n_seen < at, found + self.check_again(folder)

    def kill(self, fault: Fault, at: int) -> tuple[bool, list[str]]:
        """As `fail` in a process that is killed."""
        folder = self.fresh()
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            self.arm(folder, fault, at)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            self.scenario.act(folder)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return True, []
        found = [] if status == -signal.SIGKILL else [f"status {status}"]
        if self.scenario.output:
            found += self.check_content(folder)
        return False, found + self.check_again(folder)

    def check_error(self, folder: Path, fault: Fault, error: Exception) -> list[str]:
        text = f"{type(error).__name__}: {error}"
        if fault.is_harmless:
            return [f"an error: {text}"]
        if not isinstance(error, (HornbeamError, OSError)):
            return [f"no clear error: {text}"]
        if str(folder) not in text and (self.scenario.output or "?") not in text:
            return [f"the error names no file: {text}"]
        return []

    def check_files(self, folder: Path, before: set[str]) -> list[str]:
        found = names_of(folder)
        more = found - before - (set() if self.scenario.output else self.left)
        wrong = [f"left behind: {sorted(more)}"] if more else []
        return wrong + (self.check_content(folder) if self.scenario.output else [])

    def check_content(self, folder: Path) -> list[str]:
        content = (folder / self.scenario.output).read_bytes()
        return [] if content in (b"old", self.expected) else ["a broken file"]

    def check_again(self, folder: Path) -> list[str]:
        """Check that the same call works now, and that no file is left behind."""
        try:
            result = self.act(folder)
        except Exception as error:
            return [f"the next call fails: {type(error).__name__}: {error}"]
        wrong = [] if result == self.expected else ["the next call has another result"]
        more = names_of(folder) - self.left
        return wrong + ([f"left behind for good: {sorted(more)}"] if more else [])


def names_of(folder: Path) -> set[str]:
    """Return the files and folders below a folder; all blocks count as one."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {"cache/block" if name.endswith(".block") else name for name in found}


def within_seconds(is_true: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true; Arrow closes files in the background."""
    for _ in range(100):
        if is_true():
            return True
        gc.collect()
        time.sleep(0.05)
    return False


def resources() -> Counter[str]:
    """Return the numbers of open files, by name, and of threads."""
    files = ["a thread"] * threading.active_count()
    for link in Path("/proc/self/fd").iterdir():
        try:
            files.append(os.readlink(link))
        except FileNotFoundError:  # that of this very loop
            continue
    return Counter(files)


def run(name: str, chosen: str | int | None = None) -> None:
    """Let a scenario fail in all ways, or in the chosen ones; print what was found."""
    ways = [chosen] if isinstance(chosen, str) else [*FAULTS]
    if isinstance(chosen, int):
        ways = ways[chosen::3]
    external_build.BLOCK_ROWS = 110
    external_build._SLICE_VALUES = 800
    plan = memory_plan.plan_memory

    def plan_on_disk(*arguments: Any, **options: Any) -> Any:
        found = plan(*arguments, **options)
        return replace(found, on_disk=frozenset(["margins", "gradients", "row_lists"]))

    memory_plan.plan_memory = plan_on_disk
    # In memory, where syncing a file takes no time.
    with tempfile.TemporaryDirectory(dir=Path("/dev/shm")) as root:
        machine = Machine(SCENARIOS[name], Path(os.path.realpath(root)))
        gc.collect()
        gc.freeze()  # the imported modules, which would be searched again and again
        taken = []
        for fault in ways:
            machine.run(fault, FAULTS[fault])
            taken.append(resident_bytes())
        MATRICES.clear()
    if taken[-1] > taken[0] + MAX_GROWTH:
        machine.wrong.append(f"memory that does not come back: {taken}")
    print(json.dumps([machine.points, machine.wrong]), flush=True)  # noqa: T201


def main() -> None:
    """Run each line in a process that has imported and loaded what all of them need."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(*json.loads(line))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise SystemExit(f"{line.strip()} ended with status {status}")


if __name__ == "__main__":
    main()
