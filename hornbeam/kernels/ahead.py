"""Compiles kernels before they are called, in several processes.

What a process has compiled the others load from Numba's cache.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from hornbeam.cpu_count import available_threads
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.sources import FOLDER
from hornbeam.log import LOGGER

__all__ = [
    "FIRST_FIT",
    "compile_first_fit",
    "compile_in_processes",
    "first_fit",
    "work",
    "work_on",
]

#: The signatures that a first fit and its predictions call, of data without categories.
FIRST_FIT = FOLDER / "first_fit.json"
#: The fields of tuples that are sets of categories, which then have another type.
_SETS = "sets", "found_sets"
#: The kernel that is compiled after the phases, which it calls.
_LAST = "hornbeam.kernels.tree.grow_tree"
#: Of one thread that compiles for a first fit; folds are fitted by several at once.
_LOCK = Lock()
#: A worker imports what defines the kernels, and then compiles.
_WORKER = """
import hornbeam.training
from hornbeam.kernels import ahead

ahead.work(categories={categories})
"""


def compile_first_fit(says_so: bool = True, categories: bool = False) -> None:
    """Compile what a first fit needs, where its trees are not compiled yet.

    The processes share the work, which takes seconds; without them the first fit
    compiles its kernels one after the other.

    Parameters
    ----------
    says_so
        Whether to log a line, if stderr is a terminal.
    categories
        Whether the data has categorical columns.
    """
    if not COMPILED or NATIVE is not None or available_threads() < 2:
        return
    compiler = import_module("hornbeam.kernels.compiler")
    file = getattr(compiler.KERNELS.get(_LAST), "cache_file", None)
    with _LOCK:
        if file is not None and not file.exists():
            _compile(says_so, categories)


def _compile(says_so: bool, categories: bool) -> None:
    """Compile the kernels of a list, in this process and others."""
    jobs = _jobs(categories)
    if not jobs:  # they are being recorded
        return
    if says_so and sys.stderr.isatty():
        LOGGER.info(
            "compiling %d kernels for the first fit, which takes seconds and is done "
            "once",
            len(jobs),
        )
    *jobs, last = jobs
    missing = set(range(sum(_is_phase(name) for name, _ in _listed(categories))))
    with suppress(OSError):
        script = _WORKER.format(categories=categories)
        for number in compile_in_processes(script, jobs):
            missing.discard(number)
            if not missing:
                last()  # the others go on meanwhile; a second time it does nothing
    with _no_collection():
        last()


def _jobs(categories: bool) -> list[Callable[[], None]]:
    """Return the compilations of a first fit, in the order of `_listed`."""
    signatures = import_module("hornbeam.kernels.signatures")
    return [signatures.compilation(*job) for job in _listed(categories)]


def _listed(categories: bool) -> list[tuple[str, list[Any]]]:
    """Return the kernels of a first fit: phases, others, and the one that calls them.

    Of each kind those that take longest come first.
    """
    listed = [
        (name, types) for name, own in first_fit(categories).items() for types in own
    ]
    listed.sort(
        key=lambda job: (job[0] == _LAST, not _is_phase(job[0]), -len(repr(job)))
    )
    return listed


def first_fit(categories: bool) -> dict[str, list[list[Any]]]:
    """Return the signatures that a first fit and its predictions call, by kernel."""
    signatures = import_module("hornbeam.kernels.signatures")
    listed: dict[str, list[list[Any]]] = signatures.read(FIRST_FIT)
    if not categories:
        return listed
    return {
        name: [[*map(_with_sets, types)] for types in own]
        for name, own in listed.items()
    }


def _with_sets(layout: Any) -> Any:
    """Return the type of an argument where splits have sets of categories."""
    if not isinstance(layout, list):
        return layout
    module, _, name = layout[0].rpartition(".")
    fields = getattr(import_module(module), name)._fields
    items = dict(zip(fields, map(_with_sets, layout[1:]), strict=True))
    for field in items.keys() & _SETS:
        items[field] = {**items[field], "dtype": "uint64"}
    return [layout[0], *items.values()]


def _is_phase(name: str) -> bool:
    compiler = import_module("hornbeam.kernels.compiler")
    return isinstance(compiler.KERNELS.get(name), compiler.PhaseDispatcher)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from searching all objects that compiling makes.

    It makes many that stay: without the collector it takes 13 % less time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compile_in_processes(script: str, jobs: list[Callable[[], None]]) -> Iterator[int]:
    """Run jobs that compile in this process and others, one a core; yield the number.

    The failure of a process is not an error: others do its work, and what is missing
    is compiled by the process that needs it.

    Parameters
    ----------
    script
        Of the other processes; it calls `work_on` with the same jobs.
    jobs
        Functions without arguments.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in range(len(jobs)):
        waiting.put(number)
    done: SimpleQueue[int] = SimpleQueue()
    with ExitStack() as stack, _no_collection():
        feeders = []
        for _ in range(min(available_threads(), len(jobs)) - 1):
            process = stack.enter_context(_start(script))
            stack.callback(process.terminate)
            feeder = Thread(target=_feed, args=(process, waiting, done), daemon=True)
            feeder.start()
            feeders.append(feeder)
        for number in _taken(waiting):
            jobs[number]()
            yield number
            yield from _taken(done)
        for feeder in feeders:
            feeder.join()
        yield from _taken(done)


def _taken(queue: SimpleQueue[int]) -> Iterator[int]:
    """Take items until there are none."""
    with suppress(Empty):
        while True:
            yield queue.get_nowait()


def _start(script: str) -> subprocess.Popen[str]:
    paths = [str(FOLDER.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", script],  # -P: this package, not one in "."
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _feed(
    process: subprocess.Popen[str], waiting: SimpleQueue[int], done: SimpleQueue[int]
) -> None:
    """Give a process the number of one job after the other."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):
        for number in _taken(waiting):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            if not process.stdout.readline():
                return  # it has failed
            done.put(number)


def work_on(jobs: list[Callable[[], None]]) -> None:
    """Run the jobs whose numbers are read from standard input."""
    gc.disable()
    for line in sys.stdin:
        jobs[int(line)]()
        gc.collect()
        gc.freeze()
        sys.stdout.write(line)
        sys.stdout.flush()


def work(categories: bool) -> None:
    """Compile a part of what a first fit needs: a process of `compile_first_fit`."""
    work_on(_jobs(categories))
