"""Signatures of kernels, as JSON: the Numba types of the arguments of a call.

A number has NumPy's code of its type, and an array is written as Numba writes it in a
signature: ``f8[:, ::1]`` has rows one after the other, and ``const`` is one that is not
written to. Records are named by the constant of `hornbeam.kernels.layout`, or of
another module of kernels, that is their NumPy type. A tuple is a list, of its class and
its items.

A file has a signature in a line, with semicolons between the types, and each tuple
once, under the name by which signatures and other tuples refer to it. Names of the
package of kernels begin with a point.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype, from_dtype

from hornbeam.kernels.compiler import KERNELS, NumbaError

__all__ = [
    "NumbaError",
    "Signatures",
    "called",
    "layout_of",
    "layouts_of",
    "read",
    "type_of",
    "write",
]

_OF_FORMULAS = re.compile(r"_[0-9a-f]{16}$")
_ARRAY = re.compile(r"(const )?([\w.]+)\[(.*)\]")
_KERNELS = "hornbeam.kernels."
#: The point that a file has in its place.
_SHORT = re.compile(r"^(const )?\.")

#: The signatures of each kernel, by its module and qualified name.
Signatures = dict[str, list[list[Any]]]


def layout_of(kind: Any) -> Any:
    """Return the type of an argument as JSON: what `type_of` reads."""
    if isinstance(kind, types.NoneType):
        return None
    if isinstance(kind, types.BaseTuple):
        of = getattr(kind, "instance_class", tuple)
        return [f"{of.__module__}.{of.__qualname__}", *map(layout_of, kind.types)]
    if isinstance(kind, types.Array):
        axes = [":"] * kind.ndim
        if kind.layout != "A":
            axes[-1 if kind.layout == "C" else 0] = "::1"
        constant = "" if kind.mutable else "const "
        return f"{constant}{_element(as_dtype(kind.dtype))}[{', '.join(axes)}]"
    return _element(as_dtype(kind))


@cache
def _element(dtype: np.dtype) -> str:
    """Return the name of the type of an array's elements."""
    if dtype.names is None:
        return dtype.str[1:]
    for module, name, constant in _constants():
        if isinstance(constant, np.dtype) and constant == dtype:
            return f"{module}.{name}"
    raise TypeError(f"no module of kernels has a constant that is the type {dtype}")


def _constants() -> Iterator[tuple[str, str, Any]]:
    """Yield what the modules of kernels define: their names, its name, and itself."""
    for module in sorted(name for name in sys.modules if name.startswith(_KERNELS)):
        for name, value in vars(sys.modules[module]).items():
            yield module, name, value


def type_of(layout: Any) -> Any:
    """Return the Numba type of an argument from JSON."""
    if layout is None:
        return types.none
    if isinstance(layout, list):
        items = [type_of(item) for item in layout[1:]]
        if layout[0] == "builtins.tuple":
            return types.Tuple(items)
        made = _named(layout[0])
        if len(set(items)) == 1:
            return types.NamedUniTuple(items[0], len(items), made)
        return types.NamedTuple(items, made)
    if array := _ARRAY.fullmatch(layout):
        constant, element, axes = array.groups()
        dtype = np.dtype(_named(element) if "." in element else element)
        order = {"::1": "F", ":": "A"}[axes.partition(", ")[0]]
        if axes.endswith("::1"):
            order = "C"
        return types.Array(
            from_dtype(dtype), axes.count(",") + 1, order, readonly=bool(constant)
        )
    return getattr(types, layout)


def _named(name: str) -> Any:
    """Return what has a name in a module."""
    module, _, name = name.rpartition(".")
    return getattr(import_module(module), name)


def called() -> Signatures:
    """Return the signatures that this process has called, of Hornbeam's kernels.

    Those of a user's formulas, whose names end with a digest, are not among them.
    """
    every = {name: layouts_of(name, kernel) for name, kernel in KERNELS.items()}
    return {name: own for name, own in every.items() if own}


def layouts_of(name: str, kernel: Any) -> list[list[Any]]:
    """Return the signatures that this process has called of one of Hornbeam's kernels.

    A user's kernels, and kernels of a user's formulas, have none.
    """
    if not name.startswith("hornbeam.") or _OF_FORMULAS.search(name):
        return []
    return [[*map(layout_of, types)] for types in kernel.overloads]


def read(path: Path) -> Signatures:
    """Return the signatures in a file."""
    listed = json.loads(path.read_text())

    @cache
    def tuple_of(name: str) -> list[Any]:
        return layouts(listed["tuples"][name])

    def layouts(line: str) -> list[Any]:
        return [*map(whole, line.split("; "))]

    def whole(text: str) -> Any:
        if text in listed["tuples"]:
            return tuple_of(text)
        return None if text == "None" else _SHORT.sub(rf"\1{_KERNELS}", text)

    return {
        whole(name): [layouts(line) for line in own]
        for name, own in listed["kernels"].items()
    }


def write(path: Path, signatures: Signatures) -> None:
    """Write a file of signatures, one a line."""
    tuples: dict[str, str] = {}
    names: dict[str, str] = {}

    def short(layout: Any) -> str:
        if not isinstance(layout, list):
            return str(layout).replace(_KERNELS, ".")
        of = line(layout)
        if of not in names:
            own = layout[0].rpartition(".")[2]
            place = sum(name.partition(" ")[0] == own for name in tuples)
            names[of] = f"{own} {place + 1}"
            tuples[names[of]] = of
        return names[of]

    def line(layouts: list[Any]) -> str:
        return "; ".join(map(short, layouts))

    kernels = {
        short(name): [line(one) for one in sorted(own, key=json.dumps)]
        for name, own in sorted(signatures.items())
    }
    rows = [f"{json.dumps(name)}: {json.dumps(of)}" for name, of in tuples.items()]
    lists = [
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, own)) + "]"
        for name, own in kernels.items()
    ]
    parts = ",\n".join(rows), '\n}, "kernels": {\n', ",\n".join(lists)
    path.write_text("".join(['{"tuples": {\n', *parts, "\n}}\n"]))
