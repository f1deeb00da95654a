"""The kernel decorator: cache invalidation, and the number of compiled variants."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_calls import needs_compiler, run_with

import hornbeam
from hornbeam.kernels import jit
from hornbeam.kernels.sources import sources_digest

PACKAGE = Path(hornbeam.__file__).parent
KERNELS = PACKAGE / "kernels"


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the package without compiled kernels."""
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc")
    return shutil.copytree(PACKAGE, tmp_path / "hornbeam", ignore=ignored)


def run(copy, script, **environment):
    """Return what `script` prints with the copied package."""
    done = run_with(copy, script, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# One kernel that calls a formula of another file.
WEIGH = """
import json
import numpy as np
from hornbeam.kernels.layout import SPLIT_DTYPE, SplitRules
from hornbeam.kernels.leaves import weigh_nodes

weights, splits = np.empty(1), np.empty(0, SPLIT_DTYPE)
left, rules = np.array([-1], np.int32), SplitRules(1.0, 0.0, 0.0, 0.0)
sums, bounds, rows = np.array([[-3.0, 5.0]]), np.empty((0, 2)), np.empty(0)
weigh_nodes(left, splits, rules, 0.5, sums, bounds, rows, weights)
hits = sum(weigh_nodes.stats.cache_hits.values())
print(json.dumps({"weight": weights[0], "hits": hits}))
"""


# WEIGH with each of the texts of a file, in a process each. They are forked from one
# that has compiled already, since to begin takes longer than this kernel does.
WEIGH_WITH_EACH = f"""
import json, os, sys
import numba

numba.njit("i8(i8)")(lambda number: number)
path, *texts = json.load(sys.stdin)
for text in texts:
    with open(path, "w") as file:
        file.write(text)
    child = os.fork()
    if child == 0:
        exec({WEIGH!r})
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_an_edited_formula_is_compiled_again(copy):
    maths = copy / "kernels" / "maths.py"
    text = maths.read_text()
    formula = "-soft_threshold(gradient, reg_alpha) / (hessian"
    assert text.count(formula) == 1
    edited = text.replace(formula, formula.replace("-", "1000.0 - ", 1))
    texts = json.dumps([str(maths), text, edited, text])
    done = run_with(copy, WEIGH_WITH_EACH, texts)
    assert done.returncode == 0, done.stderr
    first, other, again = map(json.loads, done.stdout.splitlines())
    assert first == {"weight": 0.25, "hits": 0}
    assert other["hits"] == 0 and other["weight"] > 80
    assert again == {"weight": 0.25, "hits": 1}  # as it was compiled first


@pytest.mark.slow
@needs_compiler
def test_kernels_compile_without_a_cache_folder(copy, tmp_path):
    # Files in place of folders: not even root can write there.
    cache = copy / "kernels" / "__pycache__"
    shutil.rmtree(cache)
    cache.write_text("")
    home = tmp_path / "home"
    home.write_text("")
    nowhere = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    for _ in range(2):
        assert run(copy, WEIGH, **nowhere) == {"weight": 0.25, "hits": 0}


# The kernel of WEIGH, for weights of a given type.
WEIGH_AS = WEIGH.replace("np.empty(1)", "np.empty(1, KIND)").replace(
    "weights[0]", "float(weights[0])"
)


@pytest.mark.slow
@needs_compiler
def test_processes_that_compile_at_once_do_not_mix_types(copy):
    """Two processes write a kernel's index at the same time: one overwrites it."""
    as_float, as_integer = (
        WEIGH_AS.replace("KIND", name) for name in ("np.float64", "np.int64")
    )
    assert run(copy, as_float) == {"weight": 0.25, "hits": 0}
    (index,) = (copy / "kernels" / "__pycache__").glob("*weigh_nodes*.nbi")
    of_the_first = index.read_bytes()
    index.unlink()  # the second has read the index before the first wrote it
    assert run(copy, as_integer) == {"weight": 0.0, "hits": 0}
    index.write_bytes(of_the_first)
    assert run(copy, as_float) == {"weight": 0.25, "hits": 1}
    assert run(copy, as_integer) == {"weight": 0.0, "hits": 0}
    assert run(copy, as_integer) == {"weight": 0.0, "hits": 1}


# Two kernels of one loop with different formulas.
GRADIENTS = """
import json
import numpy as np
from hornbeam.kernels.gradients import LossRows, NewGradients, hinge, poisson
from hornbeam.kernels.team import Team

found = []
for kernel in (poisson, hinge):
    rows = LossRows.of(np.zeros((1, 1)), np.ones((1, 1)), None)
    g, h = np.empty((2, 1, 1), np.float32)
    new, scratch = NewGradients.of(g, h, 1), np.empty((1, 7, 1))
    Team(1).run(kernel, 1, rows, np.ones(1), new, scratch)
    hits = sum(kernel.stats.cache_hits.values())
    found.append([float(g[0, 0]), float(h[0, 0]), hits])
print(json.dumps(found))
"""


@pytest.mark.slow
@needs_compiler
def test_kernels_of_one_loop_are_cached_each_with_its_formula(copy):
    for hits in (0, 1):
        assert run(copy, GRADIENTS) == [[0.0, 2.0, hits], [-1.0, 1.0, hits]]


def digests_of(folder):
    """Return the digest of each kernel file in a folder, by name."""
    file = folder / "sources.py"
    spec = importlib.util.spec_from_file_location("sources_of_a_copy", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {path.stem: module.sources_digest(path.stem) for path in folder.glob("*.py")}


def imported_kernels(name):
    """Return the names of the kernel files that a process loads with this one.

    It loads the intrinsics when it compiles a kernel.
    """
    code = (
        "import sys, importlib\n"
        "import hornbeam.kernels.intrinsics\n"
        f"importlib.import_module('hornbeam.kernels.{name}')\n"
        "print(*[m.split('.')[2] for m in sys.modules"
        " if m.startswith('hornbeam.kernels.')])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(answer.stdout.split())


@pytest.mark.slow
@needs_compiler
def test_a_digest_changes_with_the_file_and_those_it_imports(copy):
    folder = copy / "kernels"
    before = digests_of(folder)
    assert digests_of(folder) == before
    names = ["split", "ranking", "cart", "residuals", "predict"]
    changing = {name: set() for name in names}
    for path in sorted(folder.glob("*.py")):
        text = path.read_text()
        path.write_text(text + "\n")
        after = digests_of(folder)
        path.write_text(text)
        for name in names:
            if after[name] != before[name]:
                changing[name].add(path.stem)
    for name in names:
        # Those that mark kernels and load them change no machine code.
        assert changing[name] == imported_kernels(name) - {"jit", "native"}


@needs_compiler
def test_kernels_carry_the_digest():
    @jit.kernel
    def nothing():
        return 0

    # It is outside of the package, so that it may import any of its files.
    assert nothing.__qualname__.endswith(sources_digest(None))
    assert nothing.targetoptions["nogil"]
    assert not nothing.targetoptions.get("fastmath")


def test_division_by_zero_is_no_error():
    @jit.kernel
    def divide(above, below):
        return above[0] / below[0]

    zero, one = np.zeros(1), np.ones(1)
    assert divide(one, zero) == np.inf
    assert divide(-one, zero) == -np.inf
    assert np.isnan(divide(zero, zero))


# The number of variants of each kernel that `warmup` loads: those that Python calls.
COUNT = """
import importlib, json, pkgutil
import hornbeam
from hornbeam import kernels

hornbeam.warmup()
counts = {}
for module in pkgutil.iter_modules(kernels.__path__, "hornbeam.kernels."):
    n_threads = vars(importlib.import_module(module.name))
    for name, value in n_threads.items():
        if value.__class__.__name__ == "KernelDispatcher":
            if value.__module__ == module.name:
                counts[name] = max(counts.get(name, 0), len(value.signatures))
print(json.dumps(counts))
"""
#: Kernels with two variants, and why: bins of one or two bytes; tables with or without
#: categories; floats of four or eight bytes.
TWO = {
    "write_bundles": "bins",
    "grow_exact_tree": "with or without limits",
    "mix_outputs": "floats",
    "add_multi_output_trees": "floats",
    "sort_by_bin": "bins",
    "transpose_entries": "bins",
    "interleave": "bins",
    "add_products": "floats",
    "add_binned_trees_to_entries": "floats",
    "add_binned_trees": "floats",
    "add_trees": "floats",
    "descend": "floats",
    "size_steps": "floats",
    "pack_nodes": "floats",
    "find_leaves": "floats",
    "find_ends": "floats",
    "find_largest": "floats",
    "weigh_rows": "floats",
    "draw_by_size": "floats",
    "draw_keyed_by_size": "floats",
    "quantise": "floats",
    "widen": "floats",
    "climb_rows": "floats",
    "cumulative_rows": "floats",
    "focal_rows": "floats",
    "positive_columns": "floats",
    "sum_leaves": "floats",
    "exp_rows": "floats",
    "sigmoid_rows": "floats",
    "softmax_rows": "floats",
    "_to_keys": "floats",
    "_sort_by_digit": "floats",
    "_from_keys": "floats",
    "add_binned_linear_trees": "floats",
    "add_linear_leaves": "floats",
    "add_linear_trees": "floats",
    "mark_symmetric": "floats",
}
FOUR = {
    "add_trees_to_few": "floats of features and of margins",
    "find_splits": "with or without categories, with or without limits",
    "find_multi_output_splits": "with or without categories, with or without limits",
    "bin_column": "bins and floats",
    "regress_leaves": "floats of features and of gradients",
    "grow_sparse_tree": "with or without limits, of one output or several",
}
SIX = {
    "grow_tree": "with or without categories, or with categories and limits, of one "
    "output or several",
}
#: The most variants of each kernel; of the others there is one.
MOST = {name: n for n, some in ((2, TWO), (4, FOUR), (6, SIX)) for name in some}


@pytest.mark.slow
@pytest.mark.whole
@needs_compiler
def test_kernels_have_few_variants():
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(
        command, cwd=PACKAGE.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert MOST.keys() <= counts.keys()
    too_many = {name for name in counts if counts[name] > MOST.get(name, 1)}
    assert not too_many, {name: counts[name] for name in too_many}
