"""Builds the native binary: python -m native.build FOLDER [KERNEL ...].

Each kernel is compiled, for all its signatures, in one of as many processes as there
are cores. Objects are kept in a folder, by the digest of all that they are made from,
so that a build makes what has changed.
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
from itertools import chain
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype

import hornbeam
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.ahead import SIGNATURES, with_sets
from hornbeam.kernels.compiler import KERNELS, BinaryPart
from hornbeam.kernels.native import BINARY, LAST_BYTES
from hornbeam.kernels.signatures import read, type_of
from hornbeam.kernels.sources import sources_digest
from hornbeam.kernels.sync import STOP_WORD, SYNC_SIZE
from native.kernel_objects import (
    ENTRY,
    LEVELS,
    CompiledKernel,
    compile_kernel,
    compile_part,
    is_part,
)

__all__ = ["build"]

_HERE = Path(__file__).parent
#: Objects that earlier builds made.
_OBJECTS = _HERE.parent / "build" / "native"

# Codes of types, see calls.h.
_NUMBER, _NONE, _TUPLE, _ARRAY = 0x2000, 0x4000, 0x6000, 0x8000
_READ_ONLY, _FIRST_RECORD = 0x1000, 64
_LAYOUTS = "CFA"
_LETTERS = {"int64": "q", "uint64": "Q", "float64": "d", "bool": "?"}


class _Job(NamedTuple):
    """A kernel to compile."""

    name: str
    signatures: list[list[Any]]

    @property
    def folder(self) -> Path:
        """The folder of its objects, which depends on all that they are made from."""
        module = self.name.rpartition(".")[0].rpartition(".")[2]
        key = json.dumps([*self, sources_digest(module), _tools()])
        return _OBJECTS / hashlib.sha256(key.encode()).hexdigest()[:24]

    @property
    def codes(self) -> list[_Code]:
        """The code for each signature, and that of the parts that it calls."""
        listed = json.loads((self.folder / "codes.json").read_text())
        return [_Code(*one) for one in listed]


class _Code(NamedTuple):
    """The machine code of a kernel for a signature, or of a part."""

    symbol: str
    #: The levels that it has an object for.
    levels: list[str]
    #: The letters of a kernel's result, see calls.h; None for a part.
    result: str | None


@cache
def _tools() -> str:
    """Return a text that changes with the compiler."""
    own = (_HERE / "kernel_objects.py").read_text()
    return f"{numba.__version__} {llvmlite.__version__} {_levels()} {own}"


def _levels() -> dict[str, str]:
    return LEVELS[platform.machine()]


def build(target: Path, names: Collection[str] = ()) -> Path:
    """Write the binary to the folder `target`; return its path.

    It has the kernels of these names, or all of them.
    """
    jobs = [
        _Job(name, own)
        for name, own in sorted(read(SIGNATURES).items())
        if not names or name in names
    ]
    missing = [job for job in jobs if not job.folder.exists()]
    print(f"{len(jobs)} kernels, of which {len(missing)} are compiled", flush=True)
    for done, job in enumerate(_compile_all(missing), 1):
        print(f"[{done}/{len(missing)}] {job.name}", flush=True)
    if not names:
        _prune({job.folder for job in jobs})
    target.mkdir(parents=True, exist_ok=True)
    return _link(jobs, target / BINARY.name)


def _compile_all(jobs: list[_Job]) -> Iterator[_Job]:
    """Compile each kernel in one of the processes; yield what is done."""
    # Those with the most arguments take longest, and come first.
    jobs = sorted(jobs, key=lambda job: -len(json.dumps(job.signatures)))
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
    # Compiling makes many objects that stay; searching them takes time.
    gc.disable()
    for module in walk_packages(hornbeam.__path__, "hornbeam."):
        if module.name.split(".")[1] in ("kernels", "objectives", "metrics"):
            import_module(module.name)
    for name, kernel in KERNELS.items():
        kernel.is_part = is_part(name)
    gc.freeze()


def _compile(job: _Job) -> None:
    """Write the objects of a kernel, and of the parts that it calls."""
    unfinished = job.folder.with_suffix(f".{os.getpid()}")
    unfinished.mkdir(parents=True, exist_ok=True)
    codes: list[_Code] = []
    for made in _compiled(job):
        result = None if made.result is None else _letters(made.result)
        codes.append(_Code(made.symbol, [*made.objects], result))
        for level, code in made.objects.items():
            path = unfinished / f"{made.symbol}.{level}.o"
            path.write_bytes(code)
            # Other names are numbered, and would make the same code differ. Nothing
            # unwinds the stack through a kernel.
            unwinding = [
                "--remove-section=.eh_frame",
                "--remove-section=.rela.eh_frame",
            ]
            _run(["objcopy", "--strip-unneeded", *unwinding, path])
    (unfinished / "codes.json").write_text(json.dumps(codes))
    shutil.rmtree(job.folder, ignore_errors=True)
    unfinished.rename(job.folder)


def _compiled(job: _Job) -> Iterator[CompiledKernel]:
    """Compile a kernel for each signature, then each part that it calls, once.

    A signature of data without sets of categories has the code of that with sets, if
    there is one: their arrays have no words then.
    """
    kernel, waiting = KERNELS[job.name], list[BinaryPart]()
    compiled: dict[tuple[Any, ...], CompiledKernel] = {}
    for layouts in job.signatures:
        whole = with_sets(kernel, layouts)
        own = whole if whole in job.signatures else layouts
        types = tuple(map(type_of, own))
        if types not in compiled:
            compiled[types] = compile_kernel(job.name, kernel, types, _levels())
            waiting += compiled[types].parts
        yield compiled[types]
    seen: set[BinaryPart] = set()
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.add(part)
            yield (made := compile_part(part, _levels()))
            waiting += made.parts


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
    kernels: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    # Where the code is the same there is one of it.
    shared: dict[bytes, str] = {}
    for job in jobs:
        for code in job.codes:
            row = []
            for level in _levels():
                if level in code.levels:
                    own = job.folder / f"{code.symbol}.{level}.o"
                    name = f"{code.symbol}_{level}"
                    entry = shared.setdefault(own.read_bytes(), name)
                    object_ = folder / f"{name}.o"
                    if entry == name and not object_.exists():
                        # That name is the same in all objects.
                        rename = f"--redefine-sym={ENTRY}={name}"
                        _run(["objcopy", rename, own, object_])
                        objects.append(object_)
                row.append(entry)
            rows = parts if code.result is None else kernels
            rows.setdefault(code.symbol, row)
    (folder / "table.c").write_text(_table(jobs, kernels, parts))
    names = ", ".join(f'"{level}"' for level in _levels())
    _run(
        [
            os.environ.get("CC", "cc"),
            *("-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"),
            "-fno-asynchronous-unwind-tables",
            *("-DPy_LIMITED_API=0x030B0000", f"-DN_LEVELS={len(_levels())}"),
            f"-DLEVEL_NAMES={{{names}}}",
            *(f"-DSTOP_WORD={STOP_WORD}", f"-DSYNC_SIZE={SYNC_SIZE}"),
            f"-I{sysconfig.get_path('include')}",
            f"-I{np.get_include()}",
            f"-I{_HERE}",
            _HERE / "calls.c",
            _HERE / "threads.c",
            folder / "table.c",
            *objects,
            *("-o", binary, "-lm", "-pthread", "-s"),
            *("-Wl,--gc-sections", "-Wl,-z,noexecstack", "-Wl,-z,noseparate-code"),
        ]
    )


def _check_arithmetic(binary: Path) -> None:
    """Raise an error if an instruction multiplies and adds with one rounding."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(binary)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    fused = re.search(r"\tv?fn?m(add|sub)\w*|\tfmadd\w*|\tfmsub\w*|\tfmla\w*", listing)
    if fused is not None:
        raise SystemExit(f"{binary} has fused operations: {fused[0].strip()}")


def _table(
    jobs: list[_Job], kernels: dict[str, list[str]], parts: dict[str, list[str]]
) -> str:
    """Return the C source of the tables in calls.h.

    `kernels` and `parts` have the symbols of their code, one for each level.
    """
    records: list[str] = []
    entries = sorted({entry for own in kernels.values() for entry in own})
    texts: dict[str, int] = {}
    codes: list[int] = []
    lines = ['#include "calls.h"']
    rows = []
    for job in jobs:
        own_codes = [code for code in job.codes if code.result is not None]
        for code, layouts in zip(own_codes, job.signatures, strict=True):
            kinds = _codes_of(map(type_of, layouts), records)
            name, result = (_place(text, texts) for text in (job.name, code.result))
            own = ", ".join(str(entries.index(each)) for each in kernels[code.symbol])
            place = _place_of(kinds, codes)
            rows.append(f"    {{{name}, {result}, {place}, {len(kinds)}, {{{own}}}}},")
    lines += ["const Overload overloads[] = {", *rows, "};"]
    lines.append(f"const int32_t n_overloads = {len(rows)};")
    lines += ["const char texts[] =", *(f'    "{text}\\0"' for text in texts), "    ;"]
    lines.append(f"const Code codes[] = {{{', '.join(map(hex, codes))}}};")
    lines += _distances("entries", entries)
    lines += [f"PartCode *{symbol}_address;" for symbol in parts]
    of_parts = [[f"{symbol}_address", *levels] for symbol, levels in parts.items()]
    lines += _distances("parts", chain.from_iterable(of_parts), "0")
    lines.append("const char *const records[] = {")
    lines += [f'    "{record}",' for record in records]
    lines += ["};", f"const int32_t n_records = {len(records)};"]
    lines.append(f'const char sources[] = "{sources_digest(None)}";')
    return "\n".join(lines) + "\n"


def _distances(table: str, symbols: Iterable[str], *numbers: str) -> list[str]:
    """Return C source of a table of the distances of symbols from it, then of numbers.

    C has no constants for differences of addresses; the assembler has.
    """
    values = *(f"{symbol} - {table}" for symbol in symbols), *numbers
    rows = (f"    .long {value}" for value in values)
    text = [
        "    .pushsection .rodata",
        "    .balign 4",
        f"    .globl {table}",
        f"    .hidden {table}",
        f"{table}:",
        *rows,
        "    .popsection",
    ]
    return ["__asm__(", *(f'    "{line}\\n"' for line in text), "    );"]


def _place(text: str, texts: dict[str, int]) -> int:
    """Return where a text begins; one that is new is added to those that there are."""
    return texts.setdefault(text, sum(len(before) + 1 for before in texts))


def _place_of(own: list[int], codes: list[int]) -> int:
    """Return where codes begin among others; they are added unless they are there."""
    for place in range(len(codes) - len(own) + 1):
        if codes[place : place + len(own)] == own:
            return place
    codes += own
    return len(codes) - len(own)


def _codes_of(kinds: Iterable[Any], records: list[str]) -> list[int]:
    """Return the codes of arguments; record types that are new are added to a list."""
    codes: list[int] = []
    for kind in kinds:
        if isinstance(kind, types.NoneType):
            codes.append(_NONE)
        elif isinstance(kind, types.BaseTuple):
            codes.append(_TUPLE | len(kind))
            codes += _codes_of(kind.types, records)
        elif isinstance(kind, types.Array):
            element = as_dtype(kind.dtype)
            number = element.num if element.names is None else _record(element, records)
            read_only = 0 if kind.mutable else _READ_ONLY
            place = _LAYOUTS.index(kind.layout) << 10 | kind.ndim << 7
            codes.append(_ARRAY | read_only | place | number)
        else:
            codes.append(_NUMBER | as_dtype(kind).num)
    return codes


def _record(dtype: np.dtype, records: list[str]) -> int:
    """Return the code of a record type, which is written as `numpy.dtype` takes it."""
    assert dtype.names is not None and dtype.fields is not None
    of = [dtype.fields[name] for name in dtype.names]
    fields = {
        "names": list(dtype.names),
        "formats": [field[0].str for field in of],
        "offsets": [field[1] for field in of],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }
    if repr(fields) not in records:
        records.append(repr(fields))
    return _FIRST_RECORD + records.index(repr(fields))


def _run(command: list[Any]) -> None:
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), sys.argv[2:]))
