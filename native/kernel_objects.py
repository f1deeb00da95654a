"""Compiles a kernel for one signature to an object file for each CPU level.

Numba infers the types and lowers the kernel to LLVM IR, together with all kernels that
it calls; that IR is then optimised for each level as Numba does for the host. A module
has one visible function, the entry, whose C signature is

    int32_t entry(const int64_t *words, int64_t *result, void **error)

It rebuilds the arguments from words: a number is one word, an array its address, its
shape and its strides, a tuple the words of its items.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.llvm_bindings import create_pass_builder
from numba.np.arrayobj import make_array, populate_array

__all__ = ["LEVELS", "compile_kernel"]

#: The names of the CPU levels of each architecture, and LLVM's names of them.
LEVELS = {
    "x86_64": {"v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"},
    "aarch64": {"v8": "generic"},
}

_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()
_ENTRY = ir.FunctionType(
    ir.IntType(32),
    [_WORD.as_pointer(), _WORD.as_pointer(), _POINTER.as_pointer()],
)


class _EntryLibrary(JITCodeLibrary):
    """LLVM IR that is linked, and neither optimised nor loaded here."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@global_compiler_lock
def compile_kernel(
    kernel: Any, signature: tuple[Any, ...], symbol: str, levels: dict[str, str]
) -> tuple[Any, dict[str, bytes]]:
    """Return the type of the kernel's result, and an object file for each level.

    Parameters
    ----------
    kernel
        A `KernelDispatcher`.
    signature
        The Numba types of its arguments.
    symbol
        The name of the entry in each of the objects.
    levels
        An item of `LEVELS`.
    """
    callee = kernel._callee
    callee.compile(signature)
    compiled = callee.overloads[signature]
    target = compiled.target_context
    library = _EntryLibrary(target.codegen(), symbol)
    module = library.create_ir_module(symbol)
    _write_entry(module, symbol, target, compiled)
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    library.finalize()
    bitcode = library._final_module.as_bitcode()
    objects = {
        level: _translate(bitcode, symbol, processor)
        for level, processor in levels.items()
    }
    return compiled.signature.return_type, objects


def _write_entry(module: ir.Module, symbol: str, target: Any, compiled: Any) -> None:
    """Write the function that rebuilds the arguments, and calls the kernel."""
    function = ir.Function(module, _ENTRY, symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    words, result, error = function.args
    reader = _Reader(target, builder, words)
    description = compiled.fndesc
    callee = target.declare_function(module, description)
    status, value = target.call_conv.call_function(
        builder,
        callee,
        description.restype,
        description.argtypes,
        [reader.value(kind) for kind in description.argtypes],
    )
    code = builder.select(status.is_error, status.code, status.code.type(0))
    with builder.if_then(status.is_user_exc):
        builder.store(builder.bitcast(status.excinfoptr, _POINTER), error)
    with builder.if_then(builder.not_(status.is_error)):
        _store_result(builder, target, description.restype, value, result)
    builder.ret(code)


class _Reader:
    """Reads arguments from words, one after the other."""

    def __init__(self, target: Any, builder: ir.IRBuilder, words: Any) -> None:
        self._target, self._builder, self._words = target, builder, words
        self._count = 0

    def value(self, kind: Any) -> Any:
        """Return the LLVM value of the next argument."""
        builder, target = self._builder, self._target
        if isinstance(kind, types.NoneType):
            return target.get_dummy_value()
        if isinstance(kind, types.BaseTuple):
            return target.make_tuple(builder, kind, [self.value(t) for t in kind.types])
        if isinstance(kind, types.Array):
            return self._array(kind)
        word = self._word()
        if isinstance(kind, types.Boolean):
            return builder.icmp_unsigned("!=", word, word.type(0))
        if isinstance(kind, types.Integer):
            return (
                builder.trunc(word, ir.IntType(kind.bitwidth))
                if (kind.bitwidth < 64)
                else word
            )
        if kind == types.float64:
            return builder.bitcast(word, ir.DoubleType())
        if kind == types.float32:
            return builder.bitcast(builder.trunc(word, ir.IntType(32)), ir.FloatType())
        raise TypeError(f"an argument of the type {kind} cannot be made from words")

    def _word(self) -> Any:
        builder = self._builder
        pointer = builder.gep(self._words, [_WORD(self._count)])
        self._count += 1
        return builder.load(pointer)

    def _array(self, kind: Any) -> Any:
        builder, target = self._builder, self._target
        array = make_array(kind)(target, builder)
        data = builder.inttoptr(self._word(), array.data.type)
        shape = [self._word() for _ in range(kind.ndim)]
        strides = [self._word() for _ in range(kind.ndim)]
        populate_array(
            array,
            data=data,
            shape=cgutils.pack_array(builder, shape, ty=_WORD),
            strides=cgutils.pack_array(builder, strides, ty=_WORD),
            itemsize=_WORD(target.get_abi_sizeof(target.get_data_type(kind.dtype))),
            meminfo=None,
        )
        return array._getvalue()


def _store_result(
    builder: ir.IRBuilder, target: Any, kind: Any, value: Any, result: Any
) -> None:
    """Write each item of the result to a word of its own."""
    if isinstance(kind, types.NoneType):
        return
    items = (
        [(value, kind)]
        if not isinstance(kind, types.BaseTuple)
        else zip(cgutils.unpack_tuple(builder, value), kind.types, strict=True)
    )
    for place, (item, of) in enumerate(items):
        if of == types.float64:
            word = builder.bitcast(item, _WORD)
        elif isinstance(of, types.Boolean):
            word = builder.zext(item, _WORD)
        elif isinstance(of, types.Integer):
            widen = builder.sext if of.signed else builder.zext
            word = widen(item, _WORD) if of.bitwidth < 64 else item
        else:
            raise TypeError(f"a result of the type {of} cannot be stored in words")
        builder.store(word, builder.gep(result, [_WORD(place)]))


def _translate(bitcode: bytes, entry: str, processor: str) -> bytes:
    """Return the object file of a module."""
    module = llvm.parse_bitcode(bitcode, llvm.create_context())
    for function in module.functions:
        if not function.is_declaration:
            if function.name == entry:
                function.linkage = llvm.Linkage.external
                # The linker finds it, and the finished binary does not name it.
                function.visibility = llvm.Visibility.hidden
            else:
                function.linkage = llvm.Linkage.internal
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = llvm.Linkage.internal
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=processor, opt=3, reloc="pic", codemodel="default"
    )
    for passes in (_loop_rotation, _full_optimisation):
        passes(module, machine)
    return bytes(machine.emit_object(module))


def _loop_rotation(module: Any, machine: Any) -> None:
    # Numba's first passes, without which some loops are not vectorised.
    builder = create_pass_builder(
        machine, opt=0, loop_vectorize=False, slp_vectorize=False
    )
    passes = builder.getModulePassManager()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_jump_threading_pass()
    passes.run(module, builder)


def _full_optimisation(module: Any, machine: Any) -> None:
    builder = create_pass_builder(
        machine, opt=3, loop_vectorize=True, slp_vectorize=False
    )
    builder.getModulePassManager().run(module, builder)
