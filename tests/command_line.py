"""Runs the command line, and functions, in separate processes."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hornbeam.__main__ import main

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


def _run(words: list[str], said: list[Path], cwd: Path | None) -> None:
    """Run the command line with its output redirected to files."""
    for stream, path in zip((sys.stdout, sys.stderr), said, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["hornbeam", *words]
    main()
