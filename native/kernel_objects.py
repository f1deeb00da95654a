"""Compiles a kernel for one signature to an object file for each CPU level.

Numba infers the types and lowers the kernel to LLVM IR, together with all kernels that
it calls; that IR is then optimised for each level as Numba does for the host. A module
has one visible function, the entry, whose C signature is

    int32_t entry(const int64_t *words, int64_t *result, void **error)

It rebuilds the arguments from words: a number is one word, an array its address, its
shape and its strides, a tuple the words of its items. A part of several kernels has a
module of its own, whose visible function is the part. They call it through an address
that the binary sets to the code of the processor's level.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.llvm_bindings import create_pass_builder
from numba.np.arrayobj import make_array, populate_array

from hornbeam.kernels.compiler import BinaryPart
from hornbeam.kernels.lowering import CalleeConvention

__all__ = [
    "ENTRY",
    "FASTER",
    "LEVELS",
    "PARTS",
    "SMALL",
    "UNROLLED",
    "WIDE",
    "CompiledKernel",
    "compile_kernel",
    "compile_part",
    "is_part",
]

#: The names of the CPU levels of each architecture, and LLVM's names of them.
LEVELS = {
    "x86_64": {"v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"},
    "aarch64": {"v8": "generic"},
}

#: Kernels and parts with code of their own for a level, where that was measured to take
#: at least 5 % less time than the code of the level below, and to make a fit faster, or
#: a prediction. All others have the code of the lowest level. A module stands for all
#: its kernels; docs/decisions/0027 says why.
FASTER = {
    "v3": frozenset(
        {
            "binned_trees._write_slots",
            "binned_trees.add_binned_trees",
            "binning",
            "exact.find_exact_splits",
            "exact.partition_entries",
            "gradients",
            "histogram.build_histograms",
            "multi_output._add_gains",
            "multi_output._rank_categories",
            "multi_output._weigh_categories",
            "multi_output.mix_outputs",
            "multi_output.search_columns",
            "multi_output.weigh_children",
            "node_constraints.score_limited",
            "partition.mark_leaves",
            "partition.sum_leaves",
            "ranking.lambda_gradients",
            "residuals",
            "sorted_columns.bin_entries",
            "sparse.find_sparse_splits",
            "sparse.sort_by_bin",
            "split.search_node",
            "survival.proportional_hazards",
            "symmetric_tree.add_node_gains",
            "transform.positive_columns",
            "transform.replace_exp",
            "transform.replace_log",
            "transform.replace_log1p",
            "transform.replace_sigmoid",
            "tree._search_nodes",
            "tree_shap.explain_rows",
            "value_counts",
        }
    ),
    "v4": frozenset(
        {
            "exact.find_exact_splits",
            "multi_output._add_gains",
            "node_constraints.score_limited",
            "partition.partition_rows",
            "split.search_node",
            "symmetric_tree.add_node_gains",
            "transform.replace_sigmoid",
            "tree._search_nodes",
        }
    ),
}
#: Kernels that others call seldom. They have code of their own, which those share.
PARTS = frozenset(
    {
        "binned_trees._write_slots",
        "exact.begin_root",
        "exact.find_exact_splits",
        "exact.partition_entries",
        "exact.send_rows",
        "gradients._complete_margins",
        "gradients.finish_lanes",
        "histogram.build_histograms",
        "multi_output._add_gains",
        "multi_output._rank_categories",
        "multi_output._search_categories",
        "multi_output._weigh_categories",
        "multi_output.search_columns",
        "node_constraints.score_limited",
        "partition.look_up_leaves",
        "partition.mark_leaves",
        "partition.partition_rows",
        "partition.sum_leaves",
        "predict._descend_deep",
        "residuals._measure_sizes",
        "sparse.find_sparse_splits",
        "sparse.gather_bins",
        "sparse.mark_rows",
        "sparse.send_rows",
        "sparse_columns.find_sparse_column_splits",
        "sparse_columns.interleave_columns",
        "sparse_tree._plan",
        "split._search_categories",
        "split.search_node",
        "symmetric_tree.add_node_gains",
        "tree._plan",
        "tree._search_columns",
        "tree._search_nodes",
        "tree_end.sum_and_weigh",
    }
)
#: Kernels and parts whose loops may do several passes at once: searches of splits, what
#: was measured to take less time so, and explanations and metrics, which were not
#: measured. Loops of the others do one pass at a time, or those that one vector holds;
#: of these about ten small kernels were not measured.
UNROLLED = frozenset(
    {
        "binned_trees",
        "binning",
        "exact.find_exact_splits",
        "gradients",
        "histogram.build_histograms",
        "interventional_shap",
        "linear_leaves.add_binned_linear_trees",
        "linear_leaves.add_linear_trees",
        "linear_leaves.list_path_features",
        "linear_shap",
        "margins",
        "metrics",
        "multi_output._add_gains",
        "multi_output.mix_outputs",
        "multi_output.search_columns",
        "multi_output.weigh_children",
        "node_constraints.score_limited",
        "partition",
        "predict",
        "ranking",
        "residuals",
        "sampling.draw_bag",
        "sampling.draw_rows",
        "sort",
        "sparse.find_sparse_splits",
        "sparse_columns.find_sparse_column_splits",
        "split.search_node",
        "symmetric_growth",
        "symmetric_tree.add_node_gains",
        "tree._search_nodes",
        "value_counts",
    }
)
#: Kernels and parts that were measured to take no longer where LLVM keeps code small,
#: and one whose twin was, `draw_keyed_by_size`: the frames of whole trees, whose loops
#: are short, and loops without vectors.
SMALL = frozenset(
    {
        "exact_tree.grow_exact_tree",
        "linear_leaves.regress_leaves",
        "multi_output.add_multi_output_trees",
        "rounds",
        "sampling.draw_by_size",
        "sampling.draw_keyed_by_size",
        "sparse_tree",
        "transform.focal_rows",
        "tree._plan",
        "tree._search_columns",
        "tree.grow_tree",
        "tree_end.sum_and_weigh",
    }
)
#: Parts whose loops do eight passes at once on x86-64, in vectors of 512 bits where the
#: processor has them: LLVM prefers 256, with which these took more time on each level.
WIDE = frozenset({"multi_output._add_gains", "node_constraints.score_limited"})
_PACKAGE = "hornbeam.kernels."
#: The symbol of the visible function of each object.
ENTRY = "entry"

_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()
_ENTRY_TYPE = ir.FunctionType(
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


class CompiledKernel(NamedTuple):
    """A kernel for one signature, or a part.

    Attributes
    ----------
    symbol
        Its name in the binary. The variable with the address of a part has the suffix
        ``_address``.
    objects
        The object file of each level for which it has code of its own.
    result
        The Numba type of the result of a kernel; None for a part.
    parts
        Those that it calls itself.
    """

    symbol: str
    objects: dict[str, bytes]
    result: Any
    parts: list[BinaryPart]


def own_levels(name: str, levels: dict[str, str]) -> dict[str, str]:
    """Return the levels for which a kernel or a part has code of its own.

    Parameters
    ----------
    name
        Of the kernel or the part, with its module.
    levels
        An item of `LEVELS`.
    """
    lowest = next(iter(levels))
    return {
        level: processor
        for level, processor in levels.items()
        if level == lowest or _is_in(FASTER[level], name)
    }


def _is_in(kernels: frozenset[str], name: str) -> bool:
    """Return whether a set has a kernel, or the module of it."""
    name = name.removeprefix(_PACKAGE)
    return name in kernels or name.partition(".")[0] in kernels


def is_part(name: str) -> bool:
    """Return whether the kernels that call a kernel share its code."""
    return name.removeprefix(_PACKAGE) in PARTS


def symbol_of(name: str, signature: tuple[Any, ...]) -> str:
    """Return the name in the binary, which is the same in all processes."""
    digest = hashlib.sha256(f"{name}{signature}".encode()).hexdigest()
    return f"hornbeam_{digest[:16]}"


@global_compiler_lock
def compile_kernel(
    name: str, kernel: Any, signature: tuple[Any, ...], levels: dict[str, str]
) -> CompiledKernel:
    """Return the code of a kernel.

    Parameters
    ----------
    name
        Of the kernel, with its module.
    kernel
        A `KernelDispatcher`.
    signature
        The Numba types of its arguments.
    levels
        An item of `LEVELS`.
    """
    callee = kernel._callee
    callee.compile(signature)
    compiled = callee.overloads[signature]
    library = _EntryLibrary(compiled.target_context.codegen(), ENTRY)
    module = library.create_ir_module(ENTRY)
    part = BinaryPart(name, compiled) if kernel.is_part else None
    _write_entry(module, compiled, part)
    library.add_ir_module(module)
    if part is None:
        library.add_linking_library(compiled.library)
    library.finalize()
    parts = _parts_of(compiled.library) if part is None else [part]
    objects = _objects(name, library._final_module, parts, levels)
    symbol = f"{symbol_of(name, signature)}_entry"
    return CompiledKernel(symbol, objects, compiled.signature.return_type, parts)


@global_compiler_lock
def compile_part(part: BinaryPart, levels: dict[str, str]) -> CompiledKernel:
    """Return the code of a part."""
    module = part.library._get_module_for_linking()
    module.get_function(part.function).name = ENTRY
    parts = _parts_of(part.library)
    objects = _objects(part.name, module, parts, levels)
    return CompiledKernel(symbol_of(part.name, part.types), objects, None, parts)


def _parts_of(library: Any) -> list[BinaryPart]:
    return [called for called in library._called() if isinstance(called, BinaryPart)]


def _objects(
    name: str, module: Any, parts: list[BinaryPart], levels: dict[str, str]
) -> dict[str, bytes]:
    for part in parts:
        symbol = symbol_of(part.name, part.types)
        module.get_global_variable(part.address).name = f"{symbol}_address"
    bitcode = module.as_bitcode()
    return {
        level: _translate(name, bitcode, processor)
        for level, processor in own_levels(name, levels).items()
    }


def _write_entry(module: ir.Module, compiled: Any, part: BinaryPart | None) -> None:
    """Write the function that rebuilds the arguments, and calls the kernel.

    `part` is the kernel where it is a part of the binary.
    """
    function = ir.Function(module, _ENTRY_TYPE, ENTRY)
    builder = ir.IRBuilder(function.append_basic_block())
    words, result, error = function.args
    target, description = compiled.target_context, compiled.fndesc
    reader = _Reader(target, builder, words)
    # As kernels call it: LLVM inlines it, and reads only the arguments that it uses.
    convention = CalleeConvention(target, description)
    callee = convention.declare(module, description)
    if part is not None:
        address = cgutils.add_global_variable(module, callee.type, part.address)
        callee = builder.load(address)
    status, value = convention.call_function(
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


def _translate(name: str, bitcode: bytes, processor: str) -> bytes:
    """Return the object file of the module of a kernel or a part."""
    module = llvm.parse_bitcode(bitcode, llvm.create_context())
    for function in module.functions:
        if not function.is_declaration:
            if _is_in(SMALL, name):
                function.add_function_attribute("optsize")
            if function.name == ENTRY:
                function.linkage = llvm.Linkage.external
                # The linker finds it, and the finished binary does not name it.
                function.visibility = llvm.Visibility.hidden
            else:
                function.linkage = llvm.Linkage.internal
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = llvm.Linkage.internal
    machine = of_loops = _machine(module, processor)
    if _is_in(WIDE, name) and processor in LEVELS["x86_64"].values():
        of_loops = _machine(module, "x86-64-v4", "-prefer-256-bit")
    _loop_rotation(module, machine)
    _full_optimisation(module, of_loops, is_unrolled=_is_in(UNROLLED, name))
    return bytes(machine.emit_object(module))


def _machine(module: Any, processor: str, features: str = "") -> Any:
    """Return what LLVM knows of a processor."""
    return llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=processor, features=features, opt=3, reloc="pic", codemodel="default"
    )


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


def _full_optimisation(module: Any, machine: Any, is_unrolled: bool) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    options.loop_unrolling = options.loop_interleaving = is_unrolled
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
