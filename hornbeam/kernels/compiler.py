"""How Numba compiles a kernel: with all that it calls, and once.

By itself Numba turns each function into machine code that Python can call, also one
that only other functions call, optimises it three times (so that it can take reference
counting out), and does so again for each function that it is inlined into. Kernels
count no references. So a kernel that another kernel calls stays as Numba's compiler has
left it, and is optimised and translated as a part of that kernel. This takes a third
less time.

Numba's cache of a function does not detect a change of a helper in another file: after
an upgrade it would run the old machine code. So the qualified name of each kernel,
which is part of the cache key, contains a digest of its file and of all kernel files
that this one imports, directly or not. Nor is that cache safe for processes that
compile at the same time: data files get names that do not clash.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import BuiltinMethodType
from typing import Any
from weakref import WeakValueDictionary

from numba import njit, types
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.extending import overload as numba_overload
from numba.extending import typeof_impl

from hornbeam.kernels.sources import FOLDER, sources_digest

__all__ = [
    "KERNELS",
    "KernelDispatcher",
    "NumbaError",
    "dispatcher_of",
    "formula",
    "overload",
    "recognise",
]

_FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,
    "fastmath": False,
}
#: The kernels by module and qualified name.
KERNELS: WeakValueDictionary[str, KernelDispatcher] = WeakValueDictionary()

if hasattr(DefaultOptions, "_nrt"):
    # Kernels allocate nothing, so that arrays need no reference counting: compiling
    # takes 10 % less time.
    _FLAGS["_nrt"] = False


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel and of the kernels that it calls, optimised once."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class _CalleeLibrary(_KernelLibrary):
    """The code of a kernel for those that call it: not optimised, not translated."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):
    _name = "hornbeam_lower_kernel"
    _library: type[_KernelLibrary] = _KernelLibrary

    def run_pass(self, state: Any) -> bool:
        codegen, name = state.targetctx.codegen(), state.func_id.func_qualname
        state.library = self._library(codegen, name)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerCallee(_LowerKernel):
    _name = "hornbeam_lower_callee"
    _library = _CalleeLibrary

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        lowered = state["cr"]
        key = object()  # by which callers find the function
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


def _passes(state: Any, lowering: type[NativeLowering]) -> list[Any]:
    """Return Numba's passes, with another one for lowering."""
    manager = DefaultPassBuilder.define_nopython_pipeline(state)
    manager.passes = [
        (lowering if step is NativeLowering else step, text)
        for step, text in manager.passes
    ]
    manager.finalize()
    return [manager]


class _KernelCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, _LowerKernel)


class _CalleeCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        self.state.flags.no_compile = True
        return _passes(self.state, _LowerCallee)


class _Callee(CPUDispatcher):
    """A kernel as those see it that call it."""

    def add_overload(self, cres: Any) -> None:
        # Python can't call it: Numba's own method would want machine code.
        self.overloads[tuple(cres.signature.args)] = cres


class KernelDispatcher(CPUDispatcher):
    """Compiles a kernel for the types of its arguments, when it is first called.

    Parameters
    ----------
    py_func
        The kernel as a Python function.
    targetoptions
        Numba's options.
    """

    def __init__(
        self, py_func: Any, locals: Any = None, targetoptions: Any = None, **_: Any
    ) -> None:
        options = {"nopython": True, "no_cfunc_wrapper": True, **targetoptions}
        super().__init__(py_func, locals or {}, options, _KernelCompiler)
        self._callee = _Callee(
            py_func,
            locals or {},
            {**options, "no_cpython_wrapper": True},
            _CalleeCompiler,
        )

    @property
    def cache_file(self) -> Path | None:
        """The index of the machine code on disk; None where no folder can hold it."""
        file = getattr(self._cache, "_cache_file", None)
        return None if file is None else Path(file._index_path)

    def compile(self, sig: Any) -> Any:
        """Compile the kernel for a signature; see Numba's method."""
        import_module("hornbeam.kernels.intrinsics")
        return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what a kernel needs that calls this one; see Numba's method."""
        return self._callee.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which a kernel calls this one."""
        return self._callee.get_overload(sig)


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


def dispatcher_of(function: Any, flags: dict[str, Any]) -> KernelDispatcher:
    """Return `function` as a kernel; its name contains the formulas in its closure."""
    path = Path(function.__code__.co_filename)
    digest = sources_digest(path.stem if path.parent == FOLDER else None)
    name = f"{function.__module__}.{function.__qualname__}"
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
    KERNELS[name] = compiled
    return compiled


def formula(function: Callable[..., Any]) -> Any:
    """Return a custom formula, compiled with the kernel that calls it."""
    return njit(function, **_FLAGS)


def overload(function: Callable[..., Any], chooser: Callable[..., Any]) -> None:
    """Let `chooser` return what Numba compiles where a kernel calls `function`."""
    numba_overload(function)(chooser)


@cache
def recognise(uncompiled: type) -> None:
    """Let kernels call functions that are not compiled, or native.

    `uncompiled` is their class, with the attribute ``dispatcher``; a native kernel has
    one as its ``fallback``.
    """

    def type_of(value: Any, context: Any) -> Any:
        return types.Dispatcher(value.dispatcher)

    def type_of_native(value: Any, context: Any) -> Any:
        fallback = getattr(value.__self__, "fallback", None)
        if isinstance(fallback, uncompiled):
            return type_of(fallback, context)
        return of_builtin(value, context)

    of_builtin = typeof_impl.dispatch(BuiltinMethodType)
    typeof_impl.register(uncompiled, type_of)
    typeof_impl.register(BuiltinMethodType, type_of_native)
