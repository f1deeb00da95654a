"""The decorators that compile Python loops into kernels.

Numba's cache of a function does not detect a change of a helper in another file: after
an upgrade it would run the old machine code. So the qualified name of each kernel,
which is part of the cache key, contains a digest of its file and of all kernel files
that this one imports, directly or not. Nor is that cache safe for processes that
compile at the same time: data files get names that do not clash.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import njit
from numba.core.caching import IndexDataCacheFile
from numba.core.options import DefaultOptions

from hornbeam.kernels.compiler import KernelDispatcher

__all__ = [
    "COMPILED",
    "formula",
    "inline",
    "inline_view",
    "kernel",
    "kernel_of",
    "prune_cache",
    "sources_digest",
]

Function = TypeVar("Function", bound=Callable[..., Any])

#: False under NUMBA_DISABLE_JIT=1, where kernels run as plain Python.
COMPILED: bool = not numba.config.DISABLE_JIT

_FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,
    "fastmath": False,
}
if hasattr(DefaultOptions, "_nrt"):
    # Kernels allocate nothing, so that arrays need no reference counting: compiling
    # takes 10 % less time.
    _FLAGS["_nrt"] = False

_FOLDER = Path(__file__).parent


_IMPORTS = re.compile(
    r"^ *from hornbeam\.kernels(?:\.(\w+) import| import ([\w, ]+|\([^)]*\)))",
    re.MULTILINE,
)


@cache
def _source(name: str) -> tuple[bytes, frozenset[str]]:
    """Return the text of a kernel file, and the names of those that it imports."""
    text = (_FOLDER / f"{name}.py").read_bytes()
    names: set[str] = set()
    for module, modules in _IMPORTS.findall(text.decode()):
        names.update([module] if module else re.findall(r"\w+", modules))
    return text, frozenset(names)


@cache
def sources_digest(name: str | None) -> str:
    """Return eight hex digits that change with a kernel file or those it imports.

    None stands for a kernel outside of this package: it may import any of its files.
    """
    waiting = {path.stem for path in _FOLDER.glob("*.py")} if name is None else {name}
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        found[name], names = _source(name)
        waiting |= names - found.keys()
    digest = hashlib.sha256()
    for name, text in sorted(found.items()):
        digest.update(name.encode())
        digest.update(text)
    return digest.hexdigest()[:8]


class _DataFilesByType(IndexDataCacheFile):
    """Cache files of a kernel's machine code, each named by its argument types.

    Numba numbers them in an index that processes write without a lock. Two processes
    that compile a kernel for different types at the same time would choose the same
    name, and the later reader would run code for the wrong types.
    """

    def save(self, key: Any, data: Any) -> None:
        digest = hashlib.sha256(repr(key).encode()).digest()
        name = self._data_name(int.from_bytes(digest[:6]))
        index = self._load_index()
        if index.get(key) != name:
            self._save_index({**index, key: name})
        self._save_data(name, data)


def _compile(function: Function, **flags: Any) -> Function:
    """Return `function` compiled; its name contains the formulas in its closure."""
    path = Path(function.__code__.co_filename)
    digest = sources_digest(path.stem if path.parent == _FOLDER else None)
    function.__qualname__ = f"{function.__qualname__}_{digest}"
    try:
        compiled = KernelDispatcher(function, targetoptions={**_FLAGS, **flags})
        compiled.enable_caching()
        cache = compiled._cache
        cache._cache_file = _DataFilesByType(
            cache._cache_path,
            cache._impl.filename_base,
            # The sources' content, not Numba's modification time: a copied folder or
            # a restored CI cache stays valid.
            digest,
        )
        if function.__closure__:
            # Numba would identify a formula by its address in this process.
            cache._index_key = lambda types, codegen: (types, codegen.magic_tuple())
    except RuntimeError as error:
        # No folder can hold the cache (a read-only home, some containers): the kernel
        # is compiled in each process, which is slower but correct.
        logging.getLogger(__name__).debug("no cache for %s: %s", function, error)
        compiled = KernelDispatcher(function, targetoptions={**_FLAGS, **flags})
    return compiled  # type: ignore[no-any-return]


def kernel(function: Function) -> Function:
    """Return `function` compiled on first call, without the GIL, cached on disk."""
    if not COMPILED:
        # As compiled: zero divided by zero is NaN without a warning.
        return np.errstate(divide="ignore", invalid="ignore")(function)
    return _compile(function)


def kernel_of(formula: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator of a loop that calls `formula` from its closure.

    It makes one kernel for each formula, which is compiled into the loop.
    """

    def decorate(loop: Function) -> Function:
        loop.__qualname__ = f"{loop.__name__}_{formula.__name__}"
        return kernel(loop)

    return decorate


def inline(function: Function) -> Function:
    """Return a function that is inlined into each kernel that calls it."""
    return _compile(function, forceinline=True) if COMPILED else function


def inline_view(function: Function) -> Function:
    """Return a function that is inlined, and returns a part of an array.

    Without reference counting only Numba can inline it, which takes longer to compile.
    """
    return _compile(function, inline="always") if COMPILED else function


def formula(function: Function) -> Function:
    """Return a custom formula, compiled with the kernel that calls it."""
    return njit(function, **_FLAGS) if COMPILED else function


def prune_cache() -> None:
    """Delete cached machine code of other versions of the kernels."""
    current = {sources_digest(path.stem) for path in _FOLDER.glob("*.py")}
    for path in (_FOLDER / "__pycache__").glob("*.nb[ic]"):
        if not any(f"_{digest}-" in path.name for digest in current):
            path.unlink(missing_ok=True)
