"""Signatures of kernels, as JSON: the Numba types of the arguments of a call."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype, from_dtype

from hornbeam.kernels.compiler import KERNELS, NumbaError

__all__ = [
    "Signatures",
    "called",
    "compilation",
    "layout_of",
    "layouts_of",
    "read",
    "type_of",
    "write",
]

_OF_FORMULAS = re.compile(r"_[0-9a-f]{16}$")

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
        dtype = as_dtype(kind.dtype)
        element = dtype.name if dtype.names is None else repr(_fields(dtype))
        return {
            "dtype": element,
            "ndim": kind.ndim,
            "layout": kind.layout,
            "mutable": kind.mutable,
        }
    return str(kind)


def type_of(layout: Any) -> Any:
    """Return the Numba type of an argument from JSON."""
    if layout is None:
        return types.none
    if isinstance(layout, list):
        items = [type_of(item) for item in layout[1:]]
        module, _, name = layout[0].rpartition(".")
        if layout[0] == "builtins.tuple":
            return types.Tuple(items)
        made = getattr(import_module(module), name)
        if len(set(items)) == 1:
            return types.NamedUniTuple(items[0], len(items), made)
        return types.NamedTuple(items, made)
    if isinstance(layout, dict):
        element = layout["dtype"]
        if element.startswith("{"):
            element = ast.literal_eval(element)
        kind = from_dtype(np.dtype(element))
        return types.Array(
            kind, layout["ndim"], layout["layout"], readonly=not layout["mutable"]
        )
    return types.boolean if layout == "bool" else getattr(types, layout)


def _fields(dtype: np.dtype) -> dict[str, Any]:
    """Return a record type as a dictionary that `numpy.dtype` takes."""
    assert dtype.names is not None and dtype.fields is not None
    of = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [field[0].str for field in of],
        "offsets": [field[1] for field in of],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


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


def compilation(name: str, layouts: list[Any]) -> Callable[[], None]:
    """Return a function that compiles a kernel for the types of its arguments.

    It does nothing where there is no such kernel, or it does not take these types: it
    has changed since the signature was recorded.
    """

    def compile_kernel() -> None:
        with suppress(KeyError, AttributeError, IndexError, NumbaError):
            KERNELS[name].compile(tuple(map(type_of, layouts)))

    return compile_kernel


def read(path: Path) -> Signatures:
    """Return the signatures in a file."""
    found: Signatures = json.loads(path.read_text())
    return found


def write(path: Path, signatures: Signatures) -> None:
    """Write a file of signatures, one a line."""
    kernels = []
    for name, own in sorted(signatures.items()):
        lines = ",\n    ".join(sorted(json.dumps(one) for one in own))
        kernels.append(f"  {json.dumps(name)}: [\n    {lines}\n  ]")
    path.write_text("{\n" + ",\n".join(kernels) + "\n}\n")
