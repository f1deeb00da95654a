"""The decorators that turn Python loops into kernels.

A kernel is run in one of three ways, which give the same bits:

- native: its machine code is in the binary that a wheel contains (see `native`), for
  the types of arguments that Hornbeam calls it with. Numba is not imported;
- compiled by Numba (see `compiler`), where there is no such binary, as in a source
  checkout, and for a user's own formulas;
- as plain Python, under ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from hornbeam.errors import ErrorCode, HornbeamError, MissingExtraError
from hornbeam.kernels import native

__all__ = [
    "COMPILED",
    "NATIVE",
    "compile_errors",
    "formula",
    "inline",
    "inline_view",
    "kernel",
    "kernel_of",
    "overload",
    "phase",
]

Function = TypeVar("Function", bound=Callable[..., Any])

#: False under NUMBA_DISABLE_JIT=1, where kernels run as plain Python.
COMPILED: bool = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")

#: The binary with the machine code of the kernels, if they are native.
NATIVE: ModuleType | None = native.load() if COMPILED else None

#: Kernels and other functions by module and qualified name, in native mode.
_NAMED: dict[str, Any] = {}

#: The functions that have an overload, each with it, until Numba is imported.
_OVERLOADS: list[tuple[Callable[..., Any], Callable[..., Any]]] = []


def _compiler() -> Any:
    """Return the module that compiles kernels, which imports Numba."""
    if find_spec("numba") is None:
        raise MissingExtraError(
            "a kernel has no machine code here and needs the package 'numba', which is "
            'not installed; install it with: pip install "hornbeam[jit]"',
            code=ErrorCode.MISSING_EXTRA,
        )
    compiler = import_module("hornbeam.kernels.compiler")
    compiler.recognise(Uncompiled)
    while _OVERLOADS:
        compiler.overload(*_OVERLOADS.pop())
    return compiler


class Uncompiled:
    """A function that is compiled when Python calls it, or a kernel that is compiled.

    In native mode kernels call each other inside the binary, so that most functions
    stay like this.

    Parameters
    ----------
    function
        In Python.
    kind
        The decorator.
    """

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        update_wrapper(self, function)
        self.py_func, self._kind = function, kind
        #: The machine code of a function that Python calls and kernels inline.
        self.native: Any = None
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """The function as Numba's dispatcher."""
        if self._dispatcher is None:
            self._dispatcher = _compiler().dispatcher_of(self.py_func, self._kind)
        return self._dispatcher

    @property
    def targetoptions(self) -> dict[str, Any]:
        """How it is compiled, by which Numba knows what to inline itself."""
        options: dict[str, Any] = self.dispatcher.targetoptions
        return options

    def __call__(self, *args: Any) -> Any:
        return (self.native or self.compile_and_call)(*args)

    def compile_and_call(self, *args: Any) -> Any:
        """Return what the function returns, compiled for these types."""
        if native.STRICT:
            kinds = ", ".join(map(_kind, args))
            raise HornbeamError(
                f"the kernel {self.name} has no machine code "
                f"for the arguments ({kinds}), and {native.VARIABLE}=native forbids to "
                "compile it; leave the variable out",
                code=ErrorCode.MISSING_KERNEL,
            )
        return self.dispatcher(*args)

    @property
    def name(self) -> str:
        """Its module and qualified name."""
        return f"{self.__module__}.{self.__qualname__}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _NAMED.__getitem__, (self.name,)

    def reduce_native(self) -> tuple[Any, ...]:
        """Return how a native kernel is pickled of which this is the fallback."""
        return _native_kernel, (self.name,)


def _native_kernel(name: str) -> Any:
    return _NAMED[name].__self__


def _kind(argument: Any) -> str:
    """Return a short name of the type of an argument."""
    if isinstance(argument, np.ndarray):
        read_only = "" if argument.flags.writeable else " read-only"
        return f"{argument.dtype}[{argument.ndim}d]{read_only}"
    if isinstance(argument, tuple):
        return f"{type(argument).__name__}({', '.join(map(_kind, argument))})"
    return type(argument).__name__


def _compile(function: Function, kind: str) -> Function:
    """Return `function` as a kernel of this kind; see the compiler."""
    if NATIVE is None:
        compiled: Function = _compiler().dispatcher_of(function, kind)
        return compiled
    uncompiled: Any = Uncompiled(function, kind)
    if kind.startswith("inline"):
        # Kernels know it by its attributes; the machine code of a function has none.
        uncompiled.native = NATIVE.kernel(uncompiled.name, uncompiled.compile_and_call)
        named = uncompiled
    else:
        named = NATIVE.kernel(uncompiled.name, uncompiled) or uncompiled
    _NAMED[uncompiled.name] = named
    return named


def kernel(function: Function) -> Function:
    """Return `function` compiled on first call, without the GIL, cached on disk.

    In native mode it is the machine code of the binary.
    """
    if not COMPILED:
        # As compiled: zero divided by zero is NaN without a warning.
        return np.errstate(divide="ignore", invalid="ignore")(function)
    return _compile(function, "kernel")


def phase(function: Function) -> Function:
    """Return a kernel that only kernels call, and seldom, as for a level of a tree.

    Compiled by Numba it has machine code of its own, which those kernels share.
    """
    return _compile(function, "phase") if COMPILED else function


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
    return _compile(function, "inline") if COMPILED else function


def inline_view(function: Function) -> Function:
    """Return a function that is inlined, and returns a part of an array.

    Without reference counting only Numba can inline it, which takes longer to compile.
    """
    return _compile(function, "inline_view") if COMPILED else function


def overload(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator of what chooses the kernel that a call of `function` is.

    It returns a kernel for the types of the arguments. Numba is not imported before it
    is needed.
    """

    def declare(chooser: Function) -> Function:
        _OVERLOADS.append((function, chooser))
        if COMPILED and NATIVE is None:
            _compiler()
        return chooser

    return declare


def formula(function: Function) -> Function:
    """Return a custom formula, compiled with the kernel that calls it."""
    if not COMPILED:
        return function
    compiled: Function = _compiler().formula(function)
    return compiled


def compile_errors() -> tuple[type[Exception], ...]:
    """Return the errors of Numba; none before it is imported."""
    compiler = sys.modules.get("hornbeam.kernels.compiler")
    return () if compiler is None else (compiler.NumbaError,)
