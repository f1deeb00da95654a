"""How Numba compiles a kernel: with all that it calls, and once.

By itself Numba turns each function into machine code that Python can call, also one
that only other functions call, optimises it three times (so that it can take reference
counting out), and does so again for each function that it is inlined into. Kernels
count no references. So a kernel that another kernel calls stays as Numba's compiler has
left it, and is optimised and translated as a part of that kernel. This takes a third
less time. A phase, such as the search of the splits of a level, is called so seldom
that a call costs nothing: it has machine code of its own, in the cache on disk, which
all kernels share that call it. So the parts of a long kernel can be compiled in several
processes.

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
from typing import Any, Literal, NamedTuple
from weakref import WeakValueDictionary

from llvmlite.ir.instructions import LoadInstr
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError
from numba.core.imputils import impl_ret_new_ref
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.untyped_passes import InlineClosureLikes
from numba.extending import typeof_impl

from hornbeam.kernels.lowering import CalleeLower, KernelLower, call_callee
from hornbeam.kernels.sources import FOLDER, sources_digest

__all__ = [
    "KERNELS",
    "BinaryPart",
    "KernelDispatcher",
    "NumbaError",
    "PhaseDispatcher",
    "dispatcher_of",
    "formula",
    "overload",
    "recognise",
]

Kind = Literal["kernel", "phase", "inline", "inline_view"]

_FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,
    "fastmath": False,
    # Numba lets a kernel inherit it from whichever inline function is compiled first.
    "forceinline": False,
}
#: The kernels by module and qualified name.
KERNELS: WeakValueDictionary[str, KernelDispatcher | PhaseDispatcher] = (
    WeakValueDictionary()
)

if hasattr(DefaultOptions, "_nrt"):
    # Kernels allocate nothing, so that arrays need no reference counting: compiling
    # takes 10 % less time.
    _FLAGS["_nrt"] = False


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel and of the kernels that it calls, optimised once."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)

    def finalize(self) -> None:
        """Link all that the kernel calls; see Numba's method."""
        self._link_into(self._final_module)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _link_into(self, module: Any) -> None:
        """Link what the kernel calls, directly or not, into a module, each once."""
        for library in self._called():
            if isinstance(library, BinaryPart):
                continue
            if isinstance(library, _LoadedPhase):
                self._reload_init.add(library.load)
                continue
            self._reload_init.update(library._reload_init)
            is_callee = isinstance(library, _CalleeLibrary)
            linked = (
                library.own_module() if is_callee else library._get_module_for_linking()
            )
            module.link_in(linked, preserve=True)

    def _called(self) -> list[Any]:
        """Return the libraries of all that the kernel calls, callers first.

        LLVM links a function only into a module that refers to it, so that the code of
        a callee has to follow that of all its callers.
        """
        callees_first: list[Any] = []
        seen: set[Any] = set()
        waiting = [(library, False) for library in self._linking_libraries]
        while waiting:
            library, is_complete = waiting.pop()
            if is_complete:
                callees_first.append(library)
            elif library not in seen:
                seen.add(library)
                waiting.append((library, True))
                if isinstance(library, _CalleeLibrary):
                    called = library._linking_libraries
                    waiting += [(callee, False) for callee in called]
        return callees_first[::-1]


class _CalleeLibrary(_KernelLibrary):
    """The code of a kernel for those that call it: not linked, nor translated."""

    def finalize(self) -> None:
        """Leave everything to the kernel that calls this one."""
        self._finalized = True

    def own_module(self) -> Any:
        """Return the code without that of the kernels that it calls."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        # Numba calls it for an overload's implementation that calls the kernel.
        module = self.own_module().clone()
        self._link_into(module)
        return module


class _LoadPhase(NamedTuple):
    """Loads the machine code of a phase, before that of a kernel that calls it."""

    module: str
    name: str
    signature: tuple[Any, ...]

    def __call__(self) -> None:
        phase = getattr(import_module(self.module), self.name)
        typeof(phase).dispatcher.compile(self.signature)


class _LoadedPhase:
    """What a kernel is linked with that calls a phase: nothing, but it loads it."""

    def __init__(self, load: _LoadPhase) -> None:
        self.load = load

    def _ensure_finalized(self) -> None:
        pass


class BinaryPart:
    """What a kernel of a binary is linked with that calls a part of it: nothing.

    The part has machine code of its own, and the binary sets its address.
    """

    def __init__(self, name: str, compiled: Any) -> None:
        #: Module and qualified name, and the types of its arguments.
        self.name, self.types = name, tuple(compiled.signature.args)
        #: The names of its function and of the variable with its address.
        self.function = compiled.fndesc.mangled_name
        self.address = f"{self.function}.address"
        #: Its LLVM IR.
        self.library = compiled.library

    def _ensure_finalized(self) -> None:
        pass


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):
    _name = "hornbeam_lower_kernel"
    lowering_class = KernelLower
    _library: type[_KernelLibrary] = _KernelLibrary

    def run_pass(self, state: Any) -> bool:
        codegen, name = state.targetctx.codegen(), state.func_id.func_qualname
        state.library = self._library(codegen, name)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerCallee(_LowerKernel):
    _name = "hornbeam_lower_callee"
    lowering_class = CalleeLower
    _library = _CalleeLibrary

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        lowered = state["cr"]
        key = object()  # by which callers find the function
        call = _call_of(lowered.fndesc, state.library, state.metadata["raises"])
        state.targetctx._defns[key].append(call, lowered.fndesc.argtypes)
        state["cr"] = lowered._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPhase(_LowerKernel):
    _name = "hornbeam_lower_phase"
    lowering_class = CalleeLower

    def run_pass(self, state: Any) -> bool:
        # Machine code on disk calls it by its name, which Numba would number.
        state.func_id.unique_id = 0
        return super().run_pass(state)


def _passes(state: Any, lowering: type[NativeLowering]) -> list[Any]:
    """Return Numba's passes, with another one for lowering.

    Those are left out that rewrite closures and expressions of whole arrays.
    """
    manager = DefaultPassBuilder.define_nopython_pipeline(state)
    manager.passes = [
        (lowering if step is NativeLowering else step, text)
        for step, text in manager.passes
        if step not in (InlineClosureLikes, IRLegalization, NopythonRewrites)
    ]
    manager.finalize()
    return [manager]


#: The signatures of calls of Numba's functions, by function and arguments.
_SIGNATURES: dict[Any, Any] = {}


def _signature_of_call(function: Any, context: Any, args: Any, kws: Any) -> Any:
    key = function, args, *kws.items()
    signature = _SIGNATURES.get(key)
    if signature is None:
        signature = super(types.Function, function).get_call_type(context, args, kws)
        _SIGNATURES[key] = signature
    return signature


class _Compiler(CompilerBase):
    """Finds the signature of a call once.

    Numba tries all that may implement an operator anew for each of its uses, which
    takes a sixth of the time.
    """

    def _compile_core(self) -> Any:
        # Numba's lock is held; kernels compile others.
        is_outer = "get_call_type" not in vars(types.Function)
        if is_outer:
            types.Function.get_call_type = _signature_of_call
        try:
            return super()._compile_core()
        finally:
            if is_outer:
                del types.Function.get_call_type


class _KernelCompiler(_Compiler):
    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, _LowerKernel)


class _CalleeCompiler(_Compiler):
    def define_pipelines(self) -> list[Any]:
        self.state.flags.no_compile = True
        return _passes(self.state, _LowerCallee)


class _PhaseCompiler(_Compiler):
    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, _LowerPhase)


class _Callee(CPUDispatcher):
    """A kernel as those see it that call it."""

    def add_overload(self, cres: Any) -> None:
        # Python can't call it: Numba's own method would want machine code.
        self.overloads[tuple(cres.signature.args)] = cres


class _CachedDispatcher(CPUDispatcher):
    """Compiles with the intrinsics, and keeps machine code on disk."""

    #: The function as kernels see it that contain its code.
    _callee: _Callee
    #: While a binary is built, whether it has machine code of its own there, which the
    #: kernels that call it share; else None.
    is_part: bool | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: By which kernels find it that do not contain its code, by signature.
        self._keys: dict[tuple[Any, ...], object] = {}

    @property
    def cache_file(self) -> Path | None:
        """The index of the machine code on disk; None where no folder can hold it."""
        file = getattr(self._cache, "_cache_file", None)
        return None if file is None else Path(file._index_path)

    def compile(self, sig: Any) -> Any:
        """Compile the kernel for a signature; see Numba's method."""
        import_module("hornbeam.kernels.intrinsics")
        return super().compile(sig)

    def _add_call(self, compiled: Any, library: Any) -> None:
        """Keep how kernels call it apart, and what they are linked with then."""
        types_of_call = tuple(compiled.signature.args)
        key = self._keys[types_of_call] = object()
        call = _call_of(compiled.fndesc, library, True)
        self.targetctx._defns[key].append(call, types_of_call)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which a kernel calls this one; see Numba's method."""
        if not self.is_part:
            return self._callee.get_overload(sig)
        if sig not in self._keys:
            name = f"{self.__module__}.{self.__name__}"
            compiled = self._callee.overloads[sig]
            self._add_call(compiled, BinaryPart(name, compiled))
        return self._keys[sig]


class KernelDispatcher(_CachedDispatcher):
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

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what a kernel needs that calls this one; see Numba's method."""
        return self._callee.get_call_template(tuple(map(types.unliteral, args)), kws)


class PhaseDispatcher(_CachedDispatcher):
    """Compiles a phase for the types of its arguments, when a kernel is that calls it.

    Parameters
    ----------
    py_func
        The phase as a Python function.
    targetoptions
        Numba's options.
    """

    def __init__(
        self, py_func: Any, locals: Any = None, targetoptions: Any = None, **_: Any
    ) -> None:
        options = {
            "nopython": True,
            "no_cfunc_wrapper": True,
            "no_cpython_wrapper": True,
            **targetoptions,
        }
        super().__init__(py_func, locals or {}, options, _PhaseCompiler)
        self._callee = _Callee(py_func, locals or {}, options, _CalleeCompiler)

    def add_overload(self, cres: Any) -> None:
        """Keep what is compiled, or loaded, where kernels find it."""
        signature = tuple(cres.signature.args)
        self.overloads[signature] = cres
        load = _LoadPhase(self.__module__, self.__name__, signature)
        self._add_call(cres, _LoadedPhase(load))

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what a kernel needs that calls this phase; see Numba's method."""
        if self.is_part is None:
            return super().get_call_template(args, kws)
        return self._callee.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which a kernel calls this phase."""
        if self.is_part is None:
            return self._keys[sig]
        return super().get_overload(sig)


class _VolatileLoad(LoadInstr):
    """Loads an address that LLVM cannot replace by the function at this address."""

    def descr(self, buf: list[str]) -> None:
        """Write the instruction; see llvmlite's method."""
        super().descr(buf)
        buf[-1] = buf[-1].replace("load", "load volatile", 1)


def _call_of(description: Any, library: Any, raises: bool) -> Any:
    """Return what writes the call of a kernel that a kernel calls."""

    def call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def address(function: Any) -> Any:
            # A near call would reach two gigabytes only, so that its address is data.
            name = f"{function.name}.address"
            variable = builder.module.globals.get(name)
            if variable is None:
                variable = cgutils.add_global_variable(
                    builder.module, function.type, name
                )
                if not isinstance(library, BinaryPart):
                    variable.initializer, variable.linkage = function, "private"
            load = _VolatileLoad(builder.block, variable)
            builder._insert(load)
            return load

        is_apart = isinstance(library, _LoadedPhase | BinaryPart)
        result = call_callee(
            context, builder, description, args, raises, address if is_apart else None
        )
        return impl_ret_new_ref(context, builder, description.restype, result)

    call.signature = description.argtypes  # type: ignore[attr-defined]
    call.libs = (library,)  # type: ignore[attr-defined]
    return call


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


#: How Numba compiles what the decorators of `jit` mark: the class and further flags.
_KINDS: dict[Kind, tuple[Any, dict[str, Any]]] = {
    "kernel": (KernelDispatcher, {}),
    "phase": (PhaseDispatcher, {}),
    "inline": (KernelDispatcher, {"forceinline": True}),
    "inline_view": (KernelDispatcher, {"inline": "always"}),
}


def dispatcher_of(function: Any, kind: Kind) -> KernelDispatcher | PhaseDispatcher:
    """Return `function` as a kernel; its name contains the formulas in its closure."""
    dispatcher, flags = _KINDS[kind]
    path = Path(function.__code__.co_filename)
    digest = sources_digest(path.stem if path.parent == FOLDER else None)
    name = f"{function.__module__}.{function.__qualname__}"
    function.__qualname__ = f"{function.__qualname__}_{digest}"
    try:
        compiled = dispatcher(function, targetoptions={**_FLAGS, **flags})
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
        compiled = dispatcher(function, targetoptions={**_FLAGS, **flags})
    KERNELS[name] = compiled
    return compiled


def formula(function: Callable[..., Any]) -> Any:
    """Return a custom formula, compiled with the kernel that calls it."""
    return njit(function, **_FLAGS)


def overload(function: Callable[..., Any], chooser: Callable[..., Any]) -> None:
    """Let `chooser` return the kernel that a kernel calls for `function`."""

    class Chosen(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            return typeof(chooser(*args)).get_call_type(self.context, args, kws)

        def get_impl_key(self, sig: Any) -> Any:
            return typeof(chooser(*sig.args)).get_impl_key(sig)

    infer_global(function, types.Function(Chosen))


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
