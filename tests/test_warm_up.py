"""Training and prediction compile nothing after the warm-up."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import hornbeam
from hornbeam import kernels
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.compiler import KernelDispatcher
from hornbeam.kernels.jit import COMPILED


def compiled() -> dict[str, int]:
    """Return the number of compiled signatures of each kernel in this process."""
    counts = {}
    for module in pkgutil.iter_modules(kernels.__path__, "hornbeam.kernels."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, KernelDispatcher):
                counts[f"{module.name}.{name}"] = len(value.signatures)
    return counts


@pytest.fixture(scope="module", autouse=True)
def steps():
    """Return the progress that the warm-up reports."""
    steps = []
    hornbeam.warmup(lambda done, total: steps.append((done, total)))
    return steps


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
def test_without_loading_nothing_is_done_where_kernels_are_compiled():
    steps = []
    hornbeam.warmup(lambda *step: steps.append(step), load=False)
    assert steps == []


def test_warm_up_reports_its_progress(steps):
    total = steps[0][1]
    assert steps == [(done, total) for done in range(1, total + 1)]


def run(script, stderr=subprocess.PIPE, **environment):
    """Return what a new process prints, as JSON, and what it writes to stderr."""
    # A Dask cluster that this process started has set OMP_NUM_THREADS.
    kept = {key: os.environ[key] for key in os.environ if "_NUM_THREADS" not in key}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(hornbeam.__file__).parents[1],
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


#: Compiles some kernels; prints the seconds of each other process when the last kernel
#: is done, and how many kernels this one has compiled.
COLD = """
import json
import psutil
import hornbeam
from hornbeam import warm_up
from hornbeam.kernels.compiler import KERNELS

jobs = warm_up.compilations()[-60:]
warm_up.compilations = lambda: jobs
theirs = []

def progress(done, total):
    if done == len(jobs):
        processes = psutil.Process().children()
        theirs.extend(sum(process.cpu_times()[:2]) for process in processes)

hornbeam.warmup(progress)
missed = [sum(kernel.stats.cache_misses.values()) for kernel in KERNELS.values()]
print(json.dumps([theirs, sum(missed)]))
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
@pytest.mark.skipif(available_threads() < 2, reason="one process compiles")
def test_a_new_installation_compiles_on_all_cores(tmp_path):
    figures, errors = run(COLD, NUMBA_CACHE_DIR=str(tmp_path))
    theirs, compiled = figures
    assert len(theirs) == min(available_threads(), 2) - 1, (figures, errors)
    # They have compiled: to load the package takes one or two seconds. So has this.
    assert min(theirs) > 2.5, (figures, errors)
    assert compiled > 3, (figures, errors)
    assert errors == ""  # it is not a terminal


#: Compiles for first fits, of which nothing is left to compile, in silence and not.
LINE = """
import sys
import hornbeam.training
from hornbeam.kernels import ahead

nothing = ahead.Compilation("hornbeam.kernels.tree.nothing", [])
ahead._compilations = lambda signatures: [nothing, nothing]
for says_so in (False, True):
    ahead.compile_first_fit(says_so=says_so)
    sys.stderr.write("end")
print("[]")
"""


@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
@pytest.mark.skipif(available_threads() < 2, reason="one process compiles")
def test_a_terminal_says_what_a_first_fit_waits_for(tmp_path):
    terminal, stderr = pty.openpty()
    try:
        run(LINE, stderr=stderr, NUMBA_CACHE_DIR=str(tmp_path))
        line = os.read(terminal, 1000).decode()
    finally:
        os.close(stderr)
        os.close(terminal)
    assert line.startswith("endhornbeam: compiling 2 kernels") and line.endswith("end")


#: Does in a fork each what is recorded as a first fit, of numbers and with categories;
#: prints the signatures called and those listed.
FIRST = """
import json
from multiprocessing import get_context
from hornbeam.kernels.ahead import first_fit
from hornbeam.kernels.signatures import called
from native.record import fit_first

def first(categories):
    fit_first(categories)
    return called(), first_fit(categories)

with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print(json.dumps(pool.map(first, [False, True], chunksize=1)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
def test_the_lists_of_first_fits_have_what_they_call():
    for calls, listed in run(FIRST)[0]:
        assert calls.keys() == listed.keys()  # else `make signatures` makes it anew
        assert {name: sorted(map(str, own)) for name, own in calls.items()} == {
            name: sorted(map(str, own)) for name, own in listed.items()
        }


#: Warms up; prints the kernels that are neither called then, nor by those.
UNREACHED = """
import json, sys
import hornbeam

def is_kernel(value):
    compiled = value.__class__.__name__ in ("KernelDispatcher", "PhaseDispatcher")
    return compiled and not value.targetoptions.get("forceinline")

def names(code):
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names(constant)

def follow(function):
    if getattr(function, "__module__", "").startswith("hornbeam.kernels."):
        python = getattr(function, "py_func", function)
        if hasattr(python, "__code__") and python not in reached:
            reached.add(python)
            for name in names(python.__code__):
                follow(python.__globals__.get(name))

hornbeam.warmup()
modules = [m for name, m in sys.modules.items() if name.startswith("hornbeam.kernels.")]
kernels = [k for module in modules for k in vars(module).values() if is_kernel(k)]
reached = set()
for kernel in kernels:
    if kernel.signatures:
        follow(kernel)
unreached = {k.py_func.__name__ for k in kernels if k.py_func not in reached}
print(json.dumps(sorted(unreached)))
"""


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
def test_the_warm_up_reaches_the_kernels():
    # Those that it leaves are for rows on disk and on workers.
    left = {"allow_nodes", "bring_home", "decode_rows", "find_splits"}
    assert set(run(UNREACHED)[0]) <= left


FITS = [
    {"objective": "reg:squarederror", "max_leaves": 8, "grow_policy": "lossguide"},
    {"objective": "binary:logistic", "subsample": 0.5, "eval_metric": "auc"},
    {"objective": "multi:softprob", "num_class": 3, "colsample_bylevel": 0.5},
    {
        "objective": "multi:softmax",
        "num_class": 3,
        "multi_strategy": "multi_output_tree",
        "sketch_outputs": 1,
    },
    {"objective": "reg:pseudohubererror", "grow_policy": "symmetric"},
    {"objective": "dist:normal"},
    {"objective": "dist:negbinomial"},
    {"objective": "survival:cox"},
    {"objective": "survival:aft", "aft_loss_distribution": "extreme"},
]


@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("params", FITS, ids=lambda params: params["objective"])
def test_a_fit_after_the_warm_up_compiles_nothing(params, dtype):
    before = compiled()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    y, info = rng.integers(params.get("num_class", 2), size=len(X)), {}
    if params["objective"].startswith("survival"):
        y += 1
        info = {"label_lower_bound": y, "label_upper_bound": y + 1}
    matrix = hornbeam.DMatrix(X, y, weight=rng.uniform(size=len(X)), **info)
    booster = hornbeam.train(params, matrix, 3, evals=[(matrix, "data")])
    booster.predict(hornbeam.DMatrix(X))
    assert compiled() == before


def categorical(rng):
    codes = rng.integers(300, size=(1000, 3)).astype(np.float32)
    return codes, {"feature_types": ["c", "float", "c"]}


def one_hot(rng):
    rows, columns = np.arange(2000), rng.integers(50, size=2000)
    return scipy.sparse.csc_matrix((np.ones(2000), (rows, columns))), {}


def few_cells(rng):
    return scipy.sparse.random(2000, 900, 0.01, "csr", rng=rng), {}


@pytest.mark.skipif(not COMPILED, reason="there is nothing to compile")
@pytest.mark.parametrize("table", [categorical, one_hot, few_cells])
def test_a_fit_of_categories_or_sparse_rows_compiles_nothing(table):
    before = compiled()
    X, more = table(np.random.default_rng(0))
    y = np.random.default_rng(1).integers(2, size=X.shape[0])
    matrix = hornbeam.DMatrix(X, y, **more)
    policies = ["depthwise", "lossguide"]
    if table is categorical:
        policies.append("symmetric")
    for policy in policies:
        params = {"grow_policy": policy, "objective": "binary:logistic"}
        hornbeam.train(params, matrix, 3, evals=[(matrix, "data")]).predict(matrix)
    assert compiled() == before
