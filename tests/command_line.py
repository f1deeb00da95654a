"""Runs the command line, and functions, in separate processes."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hornbeam.__main__ import main
from hornbeam.distributed.process_cluster import ProcessCluster
from hornbeam.distributed.worker_process import serve

# Each process is forked from one that has imported the common modules and has loaded
# kernels, which a command takes half a second for. This module has few imports because
# every process loads it in addition.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["command_preload"])


def command(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Run ``hornbeam`` with these arguments; return its exit code and its output."""
    words = [*map(str, arguments)]
    with TemporaryDirectory() as folder:
        said = [Path(folder) / name for name in ("stdout", "stderr")]
        process = start_process(_run, words, said, cwd)
        process.join()
        return subprocess.CompletedProcess(
            words, process.exitcode, *(path.read_text() for path in said)
        )


def start_process(function: Callable[..., None], *args: object) -> BaseProcess:
    """Call a function of a module in another process; return the process."""
    # The process to fork from, which is started once, finds modules by PYTHONPATH only.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        ensure_running()
    process = _PROCESSES.Process(target=function, args=args)
    process.start()
    return process


def command_on(terminal: int, *arguments: object) -> BaseProcess:
    """Start ``hornbeam`` with its output on a terminal, which is closed here."""
    # A connection, because multiprocessing sends its descriptor to the process.
    with Connection(terminal, readable=False) as sent:
        return start_process(_run_on_terminal, [*map(str, arguments)], sent)


def _run_on_terminal(words: list[str], terminal: Connection) -> None:
    for stream in (sys.stdout, sys.stderr):
        os.dup2(terminal.fileno(), stream.fileno())
    terminal.close()
    os.environ |= {"TERM": "xterm", "COLUMNS": "120"}
    sys.argv = ["hornbeam", *words]
    main()


def start_workers(cluster: ProcessCluster, n_workers: int) -> list[BaseProcess]:
    """Fork workers of a cluster, and wait until they have joined it."""
    address = cluster.host, cluster.port, cluster.token
    new = [start_process(serve, *address, 1) for _ in range(n_workers)]
    end = time.monotonic() + 60
    while not {process.pid for process in new} <= {*cluster.pids().values()}:
        assert time.monotonic() < end
        time.sleep(0.01)
    return new


def _run(words: list[str], said: list[Path], cwd: Path | None) -> None:
    """Run the command line with its output redirected to files."""
    for stream, path in zip((sys.stdout, sys.stderr), said, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["hornbeam", *words]
    main()
