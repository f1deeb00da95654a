"""What a report of a fault needs to know about an installation."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib import metadata

import numpy as np

from hornbeam import __version__
from hornbeam.cpu_count import available_threads, processor_count
from hornbeam.kernels import sync
from hornbeam.kernels.jit import COMPILED, NATIVE

__all__ = ["describe"]

_EXTRA = re.compile(r"""^([\w.-]+).*;.*\bextra\s*==\s*['"](\w+)['"]""")
#: Extras for those who work on Hornbeam itself, or that contain others.
_NOT_LISTED = {"all", "bench", "demo", "dev", "docs", "test"}


def describe() -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each thing that is worth reporting."""
    yield "hornbeam", __version__
    yield "python", f"{platform.python_version()} ({platform.platform()})"
    yield "numpy", np.__version__
    yield "kernels", _kernels()
    yield "threads", f"{available_threads()} of {processor_count()} processors"
    yield "cache", _cache()
    found, missing = _extras()
    yield "extras", ", ".join(found) or "none"
    yield "not installed", ", ".join(missing) or "none"


def _kernels() -> str:
    if not COMPILED:
        return "plain Python (NUMBA_DISABLE_JIT is set)"
    if NATIVE is None:
        return f"compiled by Numba {metadata.version('numba')} when they are called"
    return f"native, for the CPU level {NATIVE.level}"


def _cache() -> str:
    """Return the folder and the size of the machine code that Numba has written."""
    file = getattr(sync.threads_for, "cache_file", None)
    if file is None:
        return "none"
    sizes = [path.stat().st_size for path in file.parent.glob("*.nb[ic]")]
    return f"{file.parent} ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)"


def _extras() -> tuple[list[str], list[str]]:
    """Return the names of the extras that are installed, and of the others."""
    packages: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("hornbeam") or []
    except metadata.PackageNotFoundError:
        return [], []
    for requirement in requirements:
        match = _EXTRA.match(requirement)
        if match is not None and match[2] not in _NOT_LISTED:
            packages.setdefault(match[2], []).append(match[1])
    complete = [name for name, own in packages.items() if all(map(_is_installed, own))]
    return sorted(complete), sorted(packages.keys() - complete)


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
