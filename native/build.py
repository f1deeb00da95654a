"""Builds the native binary: python -m native.build FOLDER [KERNEL ...].

Each signature is compiled in one of as many processes as there are cores. Objects are
kept in a folder, by the digest of all that they are made from, so that a build makes
what has changed.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np

import hornbeam
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.compiler import KERNELS, PhaseDispatcher
from hornbeam.kernels.native import BINARY, LAST_BYTES
from hornbeam.kernels.signatures import read, type_of
from hornbeam.kernels.sources import sources_digest
from native.kernel_objects import LEVELS, compile_kernel

__all__ = ["SIGNATURES", "build"]

_HERE = Path(__file__).parent
#: The signatures that the binary has machine code for: all that the package calls.
SIGNATURES = _HERE / "signatures.json"
#: Objects that earlier builds made.
_OBJECTS = _HERE.parent / "build" / "native"

# Codes of types, see calls.h.
_NUMBER, _NONE, _TUPLE, _ARRAY = 0x1000000, 0x2000000, 0x3000000, 0x4000000
_READ_ONLY, _FIRST_RECORD = 0x100000, 64
_LAYOUTS = "CFA"
_LETTERS = {"int64": "q", "uint64": "Q", "float64": "d", "bool": "?"}


class _Job(NamedTuple):
    """A kernel to compile for a signature."""

    name: str
    types: list[Any]
    symbol: str

    @property
    def folder(self) -> Path:
        """The folder of its objects, which depends on all that they are made from."""
        module = self.name.rpartition(".")[0].rpartition(".")[2]
        key = json.dumps([self.name, self.types, sources_digest(module), _tools()])
        return _OBJECTS / hashlib.sha256(key.encode()).hexdigest()[:24]


@cache
def _tools() -> str:
    """Return a text that changes with the compiler."""
    own = (_HERE / "kernel_objects.py").read_text()
    return f"{numba.__version__} {llvmlite.__version__} {_levels()} {own}"


def _levels() -> tuple[str, ...]:
    return LEVELS[platform.machine()]


def build(target: Path, names: Collection[str] = ()) -> Path:
    """Write the binary to the folder `target`; return its path.

    It has the kernels of these names, or all of them.
    """
    signatures = read(SIGNATURES)
    jobs = [
        _Job(name, types, f"hornbeam_{number}_{place}")
        for number, (name, own) in enumerate(sorted(signatures.items()))
        if not names or name in names
        for place, types in enumerate(own)
    ]
    missing = [job for job in jobs if not (job.folder / "result").exists()]
    print(f"{len(jobs)} signatures, of which {len(missing)} are compiled", flush=True)
    for done, job in enumerate(_compile_all(missing), 1):
        print(f"[{done}/{len(missing)}] {job.name}", flush=True)
    if not names:
        _prune({job.folder for job in jobs})
    target.mkdir(parents=True, exist_ok=True)
    return _link(jobs, target / BINARY.name)


def _compile_all(jobs: list[_Job]) -> Iterator[_Job]:
    """Compile each kernel in one of the processes; yield what is done."""
    # Those with the most arguments take longest, and come first.
    jobs = sorted(jobs, key=lambda job: -len(json.dumps(job.types)))
    if not jobs:
        return
    workers = min(len(jobs), available_threads())
    with ProcessPoolExecutor(workers, initializer=_start) as processes:
        futures = {processes.submit(_compile, job): job for job in jobs}
        for future in as_completed(futures):
            future.result()
            yield futures[future]


def _start() -> None:
    """Find the kernels, in a new process."""
    PhaseDispatcher.is_apart = False
    # Compiling makes many objects that stay; searching them takes time.
    gc.disable()
    for module in walk_packages(hornbeam.__path__, "hornbeam."):
        if module.name.split(".")[1] in ("kernels", "objectives", "metrics"):
            import_module(module.name)
    gc.freeze()


def _compile(job: _Job) -> None:
    """Write the objects of a kernel, one for each level."""
    types = tuple(map(type_of, job.types))
    result, objects = compile_kernel(KERNELS[job.name], types, "entry", _levels())
    unfinished = job.folder.with_suffix(f".{os.getpid()}")
    unfinished.mkdir(parents=True, exist_ok=True)
    for level, code in objects.items():
        (unfinished / f"{level}.o").write_bytes(code)
    (unfinished / "result").write_text(_letters(result))
    shutil.rmtree(job.folder, ignore_errors=True)
    unfinished.rename(job.folder)


def _letters(result: Any) -> str:
    """Return the letters of a result's type; see calls.h."""
    if str(result) == "none":
        return ""
    if hasattr(result, "types"):
        return f"({''.join(_LETTERS[str(item)] for item in result.types)})"
    return _LETTERS[str(result)]


def _prune(kept: set[Path]) -> None:
    for folder in _OBJECTS.iterdir():
        if folder.is_dir() and folder not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _link(jobs: list[_Job], binary: Path) -> Path:
    """Link the objects, the table of them, and the layer that calls them."""
    unfinished = binary.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        _link_in(Path(folder), jobs, unfinished)
    _check_arithmetic(unfinished)
    with unfinished.open("ab") as file:
        file.write(LAST_BYTES)
    return unfinished.replace(binary)


def _link_in(folder: Path, jobs: list[_Job], binary: Path) -> None:
    objects = []
    # Levels share their code where it is the same.
    entries: dict[bytes, str] = {}
    rows = []
    for job in jobs:
        row = []
        for level in _levels():
            own = job.folder / f"{level}.o"
            name = f"{job.symbol}_{level}"
            entry = entries.setdefault(own.read_bytes(), name)
            row.append(entry)
            if entry == name:
                # The entries of all kernels have the same name in their objects.
                objects.append(folder / f"{name}.o")
                _run(["objcopy", "--redefine-sym", f"entry={name}", own, objects[-1]])
        rows.append(row)
    (folder / "table.c").write_text(_table(jobs, rows))
    names = ", ".join(f'"{level}"' for level in _levels())
    _run(
        [
            os.environ.get("CC", "cc"),
            *("-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"),
            *("-DPy_LIMITED_API=0x030B0000", f"-DN_LEVELS={len(_levels())}"),
            f"-DLEVEL_NAMES={{{names}}}",
            f"-I{sysconfig.get_path('include')}",
            f"-I{np.get_include()}",
            f"-I{_HERE}",
            _HERE / "calls.c",
            folder / "table.c",
            *objects,
            *("-o", binary, "-lm", "-Wl,--gc-sections", "-Wl,-z,noexecstack", "-s"),
        ]
    )


def _check_arithmetic(binary: Path) -> None:
    """Raise an error if an instruction multiplies and adds with one rounding."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(binary)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    fused = re.search(r"\tv?fn?m(add|sub)\w*|\tfmadd\w*|\tfmsub\w*|\tfmla\w*", listing)
    if fused is not None:
        raise SystemExit(f"{binary} has fused operations: {fused[0].strip()}")


def _table(jobs: list[_Job], entries: list[list[str]]) -> str:
    """Return the C source of the table in calls.h.

    `entries` has for each job the symbols of its code, one for each level.
    """
    records: list[str] = []
    lines = ['#include "calls.h"']
    rows = []
    for entry in sorted({entry for own in entries for entry in own}):
        lines.append(f"int32_t {entry}(const int64_t *, int64_t *, void **);")
    for job, own in zip(jobs, entries, strict=True):
        codes = _codes_of(job.types, records)
        values = ", ".join(f"{code:#x}" for code in codes)
        lines.append(f"static const uint32_t {job.symbol}[] = {{{values}}};")
        result = (job.folder / "result").read_text()
        rows.append(
            f'    {{"{job.name}", {job.symbol}, {len(codes)}, "{result}", '
            f"{{{', '.join(own)}}}}},"
        )
    lines += ["const Overload overloads[] = {", *rows, "};"]
    lines.append(f"const int32_t n_overloads = {len(rows)};")
    lines += ["const char *const records[] = {"]
    lines += [f'    "{record}",' for record in records]
    lines += ["};", f"const int32_t n_records = {len(records)};"]
    lines.append(f'const char sources[] = "{sources_digest(None)}";')
    return "\n".join(lines) + "\n"


def _codes_of(layouts: Iterable[Any], records: list[str]) -> list[int]:
    """Return the codes of arguments; record types that are new are added to a list."""
    codes: list[int] = []
    for layout in layouts:
        if layout is None:
            codes.append(_NONE)
        elif isinstance(layout, list):
            codes.append(_TUPLE | len(layout) - 1)
            codes += _codes_of(layout[1:], records)
        elif isinstance(layout, dict):
            element = layout["dtype"]
            if element.startswith("{"):
                if element not in records:
                    records.append(element)
                number = _FIRST_RECORD + records.index(element)
            else:
                number = np.dtype(element).num
            read_only = 0 if layout["mutable"] else _READ_ONLY
            place = _LAYOUTS.index(layout["layout"]) << 16 | layout["ndim"] << 8
            codes.append(_ARRAY | read_only | place | number)
        else:
            codes.append(_NUMBER | np.dtype(layout).num)
    return codes


def _run(command: list[Any]) -> None:
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), sys.argv[2:]))
