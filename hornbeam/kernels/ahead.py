"""Compiles kernels before they are called, in several processes.

What a process has compiled the others load from Numba's cache.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

from hornbeam.cpu_count import available_threads
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.sources import FOLDER
from hornbeam.log import LOGGER

__all__ = [
    "FIRST_FIT",
    "SIGNATURES",
    "Compilation",
    "compilations",
    "compile_first_fit",
    "compile_in_processes",
    "first_fit",
    "with_sets",
    "work",
]

#: The signatures that Python calls: all those of the package. A binary has their code.
SIGNATURES = FOLDER / "signatures.json"
#: Those that a first fit and its predictions call, of data without categories, and
#: those of the phases that these call.
FIRST_FIT = FOLDER / "first_fit.json"
#: The arguments, and fields of tuples, that are sets of categories, which then have
#: another type.
_SETS = "sets", "found_sets"
#: The kernel that is compiled after the phases, which it calls.
_LAST = "hornbeam.kernels.tree.grow_tree"
#: Of one thread that compiles for a first fit; folds are fitted by several at once.
_LOCK = Lock()
_WORKER = "from hornbeam.kernels import ahead; ahead.work()"


class Compilation(NamedTuple):
    """A kernel to compile, or to load, for the types of its arguments.

    Attributes
    ----------
    name
        Of the kernel, with its module.
    layouts
        The types, see `signatures`.
    """

    name: str
    layouts: list[Any]

    def compile(self) -> None:
        """Compile the kernel, or load it.

        Nothing is done where there is no such kernel, or it does not take these types:
        it has changed since the signature was recorded.
        """
        signatures = import_module("hornbeam.kernels.signatures")
        with suppress(AttributeError, IndexError, signatures.NumbaError):
            types = tuple(map(signatures.type_of, self.layouts))
            self.kernel.compile(types)

    @property
    def kernel(self) -> Any:
        """The kernel; None where there is none of that name."""
        with suppress(ImportError):
            import_module(self.name.rpartition(".")[0])
        return import_module("hornbeam.kernels.compiler").KERNELS.get(self.name)

    @property
    def is_phase(self) -> bool:
        """Whether it is a part of other kernels that is compiled by itself."""
        compiler = import_module("hornbeam.kernels.compiler")
        return isinstance(self.kernel, compiler.PhaseDispatcher)

    @property
    def is_on_disk(self) -> bool:
        """Whether there is machine code of the kernel, or no folder to hold it."""
        file = getattr(self.kernel, "cache_file", None)
        return file is None or file.exists()


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
    with _LOCK:
        if not Compilation(_LAST, []).is_on_disk:
            _compile(says_so, categories)


def _compile(says_so: bool, categories: bool) -> None:
    """Compile the kernels of a list, in this process and others."""
    jobs = _compilations(first_fit(categories))
    if not jobs:  # they are being recorded
        return
    if says_so and sys.stderr.isatty():
        LOGGER.info(
            "compiling %d kernels for the first fit, which takes seconds and is done "
            "once",
            len(jobs),
        )
    # The phases, others, and the kernel that calls the phases.
    jobs.sort(key=lambda job: (job.name == _LAST, not job.is_phase))
    *jobs, last = jobs
    missing = sum(job.is_phase for job in jobs)
    with suppress(OSError):
        for job in compile_in_processes(jobs):
            missing -= job.is_phase
            if not missing:
                # The others go on meanwhile; a second time it does nothing.
                last.compile()
    with _no_collection():
        last.compile()


def compilations() -> list[Compilation]:
    """Return what compiles all kernels: phases, which several kernels call, first."""
    signatures = import_module("hornbeam.kernels.signatures")
    phases = [job for job in _compilations(first_fit(False)) if job.is_phase]
    return phases + _compilations(signatures.read(SIGNATURES))


def _compilations(signatures: dict[str, list[list[Any]]]) -> list[Compilation]:
    """Return the compilations of signatures; those that take longest come first."""
    jobs = [Compilation(name, one) for name, own in signatures.items() for one in own]
    return sorted(jobs, key=lambda job: -len(repr(job)))


def first_fit(categories: bool) -> dict[str, list[list[Any]]]:
    """Return the signatures that a first fit and its predictions call, by kernel."""
    signatures = import_module("hornbeam.kernels.signatures")
    listed: dict[str, list[list[Any]]] = signatures.read(FIRST_FIT)
    if not categories:
        return listed
    return {
        name: [with_sets(Compilation(name, types).kernel, types) for types in own]
        for name, own in listed.items()
    }


def with_sets(kernel: Any, layouts: list[Any]) -> list[Any]:
    """Return the types of a kernel's arguments where splits have sets of categories."""
    code = kernel.py_func.__code__
    return _with_sets(code.co_varnames[: code.co_argcount], layouts)


def _with_sets(names: tuple[str, ...], layouts: list[Any]) -> list[Any]:
    items = dict(zip(names, layouts, strict=True))
    for name, layout in items.items():
        if isinstance(layout, list):
            of, *fields = layout
            module, _, tuple_type = of.rpartition(".")
            known = getattr(import_module(module), tuple_type)._fields
            items[name] = [of, *_with_sets(known, fields)]
        elif name in _SETS:
            items[name] = re.sub(r"\w+\[", "u8[", layout)
    return [*items.values()]


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


def compile_in_processes(jobs: list[Compilation]) -> Iterator[Compilation]:
    """Compile in this process and others, one a core; yield what is done.

    The failure of a process is not an error: others do its work, and what is missing
    is compiled by the process that needs it.
    """
    waiting: SimpleQueue[Compilation] = SimpleQueue()
    for job in jobs:
        waiting.put(job)
    done: SimpleQueue[Compilation] = SimpleQueue()
    with ExitStack() as stack, _no_collection():
        feeders = []
        for _ in range(min(available_threads(), len(jobs)) - 1):
            process = stack.enter_context(_start())
            stack.callback(process.terminate)
            feeder = Thread(target=_feed, args=(process, waiting, done), daemon=True)
            feeder.start()
            feeders.append(feeder)
        for job in _taken(waiting):
            job.compile()
            yield job
            yield from _taken(done)
        for feeder in feeders:
            feeder.join()
        yield from _taken(done)


def _taken(queue: SimpleQueue[Compilation]) -> Iterator[Compilation]:
    """Take items until there are none."""
    with suppress(Empty):
        while True:
            yield queue.get_nowait()


def _start() -> subprocess.Popen[str]:
    paths = [str(FOLDER.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _WORKER],  # -P: this package, not one in "."
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _feed(
    process: subprocess.Popen[str],
    waiting: SimpleQueue[Compilation],
    done: SimpleQueue[Compilation],
) -> None:
    """Give a process one compilation after the other."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):
        for job in _taken(waiting):
            process.stdin.write(f"{json.dumps(job)}\n")
            process.stdin.flush()
            if not process.stdout.readline():
                return  # it has failed
            done.put(job)


def work() -> None:
    """Compile what is read from standard input: a process of `compile_in_processes`."""
    gc.disable()
    for line in sys.stdin:
        Compilation(*json.loads(line)).compile()
        gc.collect()
        gc.freeze()
        sys.stdout.write("\n")
        sys.stdout.flush()
