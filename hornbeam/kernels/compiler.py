"""How Numba compiles a kernel: with all that it calls, and once.

By itself Numba turns each function into machine code that Python can call, also one
that only other functions call, optimises it three times (so that it can take reference
counting out), and does so again for each function that it is inlined into. Kernels
count no references. So a kernel that another kernel calls stays as Numba's compiler has
left it, and is optimised and translated as a part of that kernel. This takes a third
less time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering

__all__ = ["KernelDispatcher"]


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

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what a kernel needs that calls this one; see Numba's method."""
        return self._callee.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the key by which a kernel calls this one."""
        return self._callee.get_overload(sig)
