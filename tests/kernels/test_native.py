"""The native binary: what it serves, what it leaves to Numba, and binaries that do not
fit. It is built here with four kernels; `make test-wheel` tests the whole of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from kernel_calls import needs_compiler, run_with

import hornbeam

ROOT = Path(hornbeam.__file__).parents[1]
BINARY = "_native.abi3.so"

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(not (ROOT / "native").exists(), reason="not a checkout"),
]


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """Return the path of a binary with four kernels."""
    folder = tmp_path_factory.mktemp("native")
    names = [
        "sync.threads_for",
        "leaves.weigh_nodes",
        "partition.partition_rows",
        "transform.replace_sigmoid",
    ]
    kernels = [f"hornbeam.kernels.{name}" for name in names]
    command = [sys.executable, "-m", "native.build", folder, *kernels]
    # In one process: to begin to compile takes longer than these kernels do.
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=alone, check=True, stdout=subprocess.DEVNULL)
    return folder / BINARY


def copy_of(binary, folder):
    """Return a copy of the package with the binary."""
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc")
    copy = shutil.copytree(ROOT / "hornbeam", folder / "hornbeam", ignore=ignored)
    shutil.copy(binary, copy / "kernels")
    return copy


@pytest.fixture(scope="module")
def package(binary, tmp_path_factory):
    """Return a copy of the package with the binary, for tests that do not change it."""
    return copy_of(binary, tmp_path_factory.mktemp("package"))


@pytest.fixture
def own_package(binary, tmp_path):
    """Return a copy of the package with the binary, for one test."""
    return copy_of(binary, tmp_path)


def says(package, script, **environment):
    """Return what the script prints, as JSON."""
    done = run_with(package, script, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


HEAD = """
import json, sys
import numpy as np
from hornbeam.kernels.jit import NATIVE
"""
#: A kernel of the binary: whether it is native, its result, and whether Numba is there.
WEIGH = f"""{HEAD}
from hornbeam.kernels.layout import SPLIT_DTYPE, SplitRules
from hornbeam.kernels.leaves import weigh_nodes

weights, splits = np.empty(1), np.empty(0, SPLIT_DTYPE)
left, rules = np.array([-1], np.int32), SplitRules(*[0.0] * LENGTH)
rules = rules._replace(reg_lambda=1.0)
sums, bounds, rows = np.array([[-3.0, 5.0]]), np.empty((0, 2)), np.empty(0)
weigh_nodes(left, splits, rules, 0.5, sums, bounds, rows, weights)
print(json.dumps([NATIVE is not None, weights[0], "numba" in sys.modules]))
""".replace("LENGTH", "len(SplitRules._fields)")

#: As if Numba were not installed.
WITHOUT_NUMBA = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name in ("numba", "llvmlite") else found(name, package)
importlib.util.find_spec = find_spec
"""


@pytest.mark.parametrize("level", ["", "v2", "v3", "v4"])
def test_a_native_kernel_needs_no_numba(package, level):
    wanted = {"HORNBEAM_CPU_LEVEL": level} if level else {}
    assert says(package, WITHOUT_NUMBA + WEIGH, **wanted) == [True, 0.25, False]


#: A kernel with code of its own for each level, and one that is a part of the binary:
#: it moves the rows of a node whose bin is 0 or 1 to the left.
LEVELS = f"""{HEAD}
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.layout import NODE_DTYPE
from hornbeam.kernels.partition import partition_rows
from hornbeam.kernels.team import lease
from hornbeam.kernels.transform import sigmoid_rows

margins = np.linspace(-4, 4, 100)[None]
tasks, counts = np.array([[0, 0, 8, 0, 1]]), np.zeros(1, np.int64)
nodes, lefts = np.zeros(1, NODE_DTYPE), np.zeros((1, 1), np.uint64)
nodes["end"], nodes["count"] = 8, 2
bins = Bins.of(np.array([[0, 3, 1, 2, 0, 5, 1, 4]], np.uint8))
rows = np.array([np.arange(8), np.arange(8)], np.uint32)
with lease(1) as team:
    team.run(sigmoid_rows, 1, margins)
    team.run(partition_rows, 1, tasks, nodes, lefts, bins, rows, counts)
print(json.dumps([NATIVE.level, margins.tobytes().hex(), rows[1].tolist()]))
"""


def test_levels_give_the_same_bits(package):
    levels = "v2", "v3", "v4"
    found = [
        says(package, WITHOUT_NUMBA + LEVELS, HORNBEAM_CPU_LEVEL=level)
        for level in levels
    ]
    assert all(used <= level for (used, *_), level in zip(found, levels, strict=True))
    assert [rows for *_, rows in found] == [[0, 2, 4, 6, 7, 5, 3, 1]] * 3
    assert len({bits for _, bits, _ in found}) == 1


def test_the_lists_of_levels_name_kernels():
    """A name that no kernel has would make one slower, and nobody would see it."""
    from hornbeam.kernels.compiler import KERNELS
    from native.kernel_objects import FASTER, PARTS, SMALL, UNROLLED

    for module in walk_packages(hornbeam.__path__, "hornbeam."):
        if module.name.startswith("hornbeam.kernels."):
            import_module(module.name)
    names = {name.removeprefix("hornbeam.kernels.") for name in KERNELS}
    modules = {name.partition(".")[0] for name in names}
    assert names.isdisjoint(modules)
    assert names >= PARTS
    for listed in (*FASTER.values(), SMALL, UNROLLED):
        assert names | modules >= listed
    assert modules >= FASTER["v3"] - names


@pytest.mark.slow
def test_by_request_numba_compiles(own_package):
    assert says(own_package, WEIGH, HORNBEAM_KERNELS="jit") == [False, 0.25, True]
    assert says(own_package, WEIGH, NUMBA_DISABLE_JIT="1") == [False, 0.25, False]


#: A kernel that the binary does not have, which calls two that are inlined: by LLVM,
#: and by Numba.
OTHER = f"""{HEAD}
from hornbeam.kernels.categories import order_key
from hornbeam.kernels.jit import inline_view, kernel
from hornbeam.kernels.maths import exp

@inline_view
def end_of(values):
    return values[1:]

@kernel
def total(values):
    return exp(values[0]) + end_of(values)[0]

found = total(np.array([0.0, 2.0]))
print(json.dumps([NATIVE is not None, found, "numba" in sys.modules]))
"""


AS_INTEGERS = WEIGH.replace("np.empty(1)", "np.ones(1, np.int64)").replace(
    "weights[0],", "int(weights[0]),"
)


@pytest.mark.slow
def test_numba_compiles_what_the_binary_does_not_have(own_package):
    assert says(own_package, OTHER) == [True, 3.0, True]


@pytest.mark.slow
def test_other_types_are_compiled(own_package):
    assert says(own_package, AS_INTEGERS) == [True, 0, True]


#: An array of a type that another library has registered, whose number in NumPy has the
#: same low bits as that of bool, in place of one of bool.
OF_A_USERS_TYPE = f"""{HEAD}
from numpy._core._rational_tests import rational
from hornbeam.kernels.binned_trees import TOP_DTYPE, TopScratch, choose_top_splits

integers, bits = np.empty(0, np.int64), np.empty(0, np.uint64)
kinds, moves = np.zeros(1, rational), np.empty((0, 0), np.int64)
choose_top_splits(
    np.empty((0, 0), np.int32),
    bits,
    np.empty(0, np.float32),
    np.empty(0, TOP_DTYPE),
    integers,
    bits,
    np.empty(0, np.uint32),
    TopScratch(integers, np.empty(0), integers, integers, kinds, moves),
)
"""


@pytest.mark.parametrize(
    "script",
    [OTHER, WEIGH.replace("np.empty(1)", "np.ones(1, 'i8')"), OF_A_USERS_TYPE],
)
def test_in_strict_mode_nothing_is_compiled(package, script):
    done = run_with(package, script, HORNBEAM_KERNELS="native")
    assert done.returncode == 1
    assert "has no machine code for the arguments (" in done.stderr
    assert "HORNBEAM_KERNELS=native forbids" in done.stderr


def test_without_numba_the_error_names_the_extra(package):
    done = run_with(package, WITHOUT_NUMBA + OTHER)
    assert done.returncode == 1
    assert 'pip install "hornbeam[jit]"' in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda data: data[: len(data) // 2], "is not complete"),
        (lambda data: b"", "is not complete"),
        (lambda data: b"\x7fELF" + bytes(200) + data[-200:], "does not load"),
    ],
)
def test_a_damaged_binary_is_not_used(own_package, damage, fault):
    file = own_package / "kernels" / BINARY
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(damage(data))
    done = run_with(own_package, WEIGH)
    assert json.loads(done.stdout) == [False, 0.25, True]
    assert fault in done.stderr and "RuntimeWarning" in done.stderr
    done = run_with(own_package, WITHOUT_NUMBA + WEIGH)
    assert done.returncode == 1
    assert fault in done.stderr and 'pip install "hornbeam[jit]"' in done.stderr


def test_a_binary_of_other_sources_is_not_used(own_package):
    leaves = own_package / "kernels" / "leaves.py"
    leaves.write_text(leaves.read_text() + "\n")
    done = run_with(own_package, WEIGH)
    assert json.loads(done.stdout) == [False, 0.25, True]
    assert "made from other sources" in done.stderr


def test_an_unknown_choice_is_an_error(package):
    done = run_with(package, WEIGH, HORNBEAM_KERNELS="fast")
    assert done.returncode == 1
    assert "HORNBEAM_KERNELS='fast' is not known" in done.stderr
    done = run_with(package, WEIGH, HORNBEAM_CPU_LEVEL="v9")
    assert done.returncode == 1
    assert "HORNBEAM_CPU_LEVEL='v9' is not known" in done.stderr


def test_a_native_kernel_is_pickled_by_its_name(package):
    script = f"""{HEAD}
import pickle
from hornbeam.kernels.sync import threads_for
copy = pickle.loads(pickle.dumps(threads_for))
print(json.dumps([copy(4, 1 << 20), threads_for(4, 1 << 20)]))
"""
    first, second = says(package, WITHOUT_NUMBA + script)
    assert first == second > 1


#: Runs a kernel in a team of three, in a fork as well, and lets the team go.
THREADS = f"""{HEAD}
import os, threading, time
from pathlib import Path
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import sigmoid_rows

def own_threads():
    names = [one.read_text().strip() for one in Path("/proc/self/task").glob("*/comm")]
    return sorted(name for name in names if name.startswith("hornbeam"))

def result(n_threads):
    margins = np.linspace(-4, 4, 100_000)[None]
    team.run(sigmoid_rows, n_threads, margins)
    return margins.tobytes()

team = Team(3)
expected = result(1)
before = own_threads()
same = all(result(n_threads) == expected for n_threads in [2, 3, 1, 3, 2] * 40)
started, in_python = own_threads(), threading.active_count()
child = os.fork()
if child == 0:
    os._exit(0 if result(3) == expected and own_threads() == started else 1)
failed = os.waitpid(child, 0)[1]
same = same and result(3) == expected
del team
end = time.monotonic() + 20
while own_threads() and time.monotonic() < end:
    time.sleep(0.001)
print(json.dumps([before, same, started, in_python, failed, own_threads()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed in /proc")
@pytest.mark.parametrize("policy", ["active", "passive"])
def test_kernels_run_in_threads_of_the_binary(package, policy):
    started = ["hornbeam_0", "hornbeam_1"]
    found = says(package, WITHOUT_NUMBA + THREADS, OMP_WAIT_POLICY=policy)
    assert found == [[], True, started, 1, 0, []]
