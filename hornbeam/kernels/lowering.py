"""How the LLVM instructions of a kernel are written: Numba's, with short accesses.

For each access of an array Numba copies the array's description, adds the length to an
index that is negative, and clears variables that are not used any more. LLVM removes
most of it again, which takes time. Kernels index from the start and count no
references: here an element is an address, and a part of an array is an address with
lengths. Kernels compile in four fifths of the time, and those are faster for whose
indices LLVM cannot prove that they are not negative.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import Constant, IRBuilder, LiteralStructType, Undefined
from llvmlite.ir.instructions import Ret
from numba import types
from numba.core import cgutils, ir
from numba.core.callconv import CPUCallConv
from numba.core.lowering import Lower
from numba.np.arrayobj import load_item, store_item

__all__ = ["CalleeConvention", "CalleeLower", "KernelLower", "call_callee"]


class KernelLower(Lower):
    """Writes the instructions of a kernel.

    Indices count from the start of an array, as do the limits of slices; only a
    constant index may count from its end. Numba's check of bounds finds all others.
    """

    def delvar(self, name: str) -> None:
        """Leave a variable as it is: nothing counts references to its value."""

    def lower_inst(self, inst: Any) -> Any:
        """Write a statement; see Numba's method."""
        if isinstance(inst, ir.StaticSetItem) and inst.index_var is not None:
            place = inst.target, inst.index_var
            if self._is_number(*place):
                return self._store(*place, inst.value)
        return super().lower_inst(inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Write an expression; see Numba's method."""
        if expr.op == "static_getitem" and expr.index_var is not None:
            if self._is_short(resty, expr.value, expr.index_var):
                return self._get(resty, expr.value, expr.index_var)
        elif expr.op == "getattr" and expr.attr in ("shape", "size", "itemsize"):
            array_type = self.typeof(expr.value.name)
            if isinstance(array_type, types.Array):
                if expr.attr == "itemsize":
                    size = _size(self.context, array_type)
                    return self.context.get_constant(types.intp, size)
                field = {"shape": "shape", "size": "nitems"}[expr.attr]
                return self._field(expr.value, field)
        return super().lower_expr(resty, expr)

    def lower_getitem(
        self, resty: Any, expr: Any, value: Any, index: Any, signature: Any
    ) -> Any:
        """Write the access of an element or of a part; see Numba's method."""
        if self._is_short(resty, value, index):
            return self._get(resty, value, index)
        return super().lower_getitem(resty, expr, value, index, signature)

    def lower_setitem(
        self, target_var: Any, index_var: Any, value_var: Any, signature: Any
    ) -> Any:
        """Write an assignment to an element or to a part; see Numba's method."""
        if self._is_number(target_var, index_var):
            return self._store(target_var, index_var, value_var)
        return super().lower_setitem(target_var, index_var, value_var, signature)

    def lower_call(self, resty: Any, expr: Any) -> Any:
        """Write a call; see Numba's method."""
        function = self.typeof(expr.func.name)
        if getattr(function, "typing_key", None) == "array.view":
            old, new = function.this, self.fndesc.calltypes[expr].return_type
            if old.layout == new.layout == "C":
                return self._view(self.loadvar(expr.func.name), old, new)
        return super().lower_call(resty, expr)

    # What is accessed

    def _is_short(self, result_type: Any, array: Any, index: Any) -> bool:
        """Return whether an access is an element, or a contiguous part of an array."""
        array_type = self.typeof(array.name)
        if not isinstance(array_type, types.Array) or array_type.layout != "C":
            return False
        *first, last = index_types = self._index_types(index)
        if isinstance(result_type, types.Array):
            is_result = result_type.layout == "C"
        else:
            scalar = types.Number | types.Boolean | types.Record
            is_result = isinstance(array_type.dtype, scalar)
        is_slice = isinstance(last, types.SliceType) and not last.has_step
        return (
            is_result
            and len(index_types) <= array_type.ndim
            and all(map(_counts_from_start, first))
            and (is_slice or _counts_from_start(last))
        )

    def _is_number(self, array: Any, index: Any) -> bool:
        """Return whether what is assigned to is one number of a contiguous array."""
        array_type = self.typeof(array.name)
        return (
            isinstance(array_type, types.Array)
            and isinstance(array_type.dtype, types.Number | types.Boolean)
            and self._is_short(array_type.dtype, array, index)
            and len(self._index_types(index)) == array_type.ndim
            and not isinstance(self._index_types(index)[-1], types.SliceType)
        )

    def _index_types(self, index: Any) -> tuple[Any, ...]:
        index_type = self.typeof(index.name)
        if isinstance(index_type, types.BaseTuple):
            return tuple(index_type.types) or (None,)
        return (index_type,)

    # Instructions

    def _get(self, result_type: Any, array: Any, index: Any) -> Any:
        array_type = self.typeof(array.name)
        pointer, lengths = self._place(array, index)
        if lengths:
            strides = self._field(array, "strides")
            first = array_type.ndim - len(lengths)
            return _array(
                self.context,
                self.builder,
                result_type,
                pointer,
                lengths,
                [
                    self.builder.extract_value(strides, axis)
                    for axis in range(first, array_type.ndim)
                ],
            )
        value = load_item(self.context, self.builder, array_type, pointer)
        return self.context.cast(self.builder, value, array_type.dtype, result_type)

    def _store(self, array: Any, index: Any, value: Any) -> None:
        array_type, value_type = self.typeof(array.name), self.typeof(value.name)
        pointer, _ = self._place(array, index)
        number = self.context.cast(
            self.builder, self.loadvar(value.name), value_type, array_type.dtype
        )
        store_item(self.context, self.builder, array_type, number, pointer)

    def _place(self, array: Any, index: Any) -> tuple[Any, list[Any]]:
        """Return the address of an element or a part, and the lengths of the part."""
        builder, shape = self.builder, self._field(array, "shape")
        index_types, given = self._index_types(index), self.loadvar(index.name)
        is_tuple = isinstance(self.typeof(index.name), types.BaseTuple)
        offset, lengths = self.context.get_constant(types.intp, 0), []
        for axis in range(self.typeof(array.name).ndim):
            length = builder.extract_value(shape, axis)
            if axis > 0:
                offset = builder.mul(offset, length)
            if axis >= len(index_types):
                lengths.append(length)
                continue
            number = builder.extract_value(given, axis) if is_tuple else given
            if isinstance(index_types[axis], types.SliceType):
                number, length = self._limits(index_types[axis], number, length)
                lengths.append(length)
            else:
                word = types.intp if index_types[axis].signed else types.uintp
                number = self.context.cast(builder, number, index_types[axis], word)
                if self.context.enable_boundscheck:
                    cgutils.do_boundscheck(self.context, builder, number, length, axis)
            offset = builder.add(offset, number)
        return builder.gep(self._field(array, "data"), [offset]), lengths

    def _limits(self, slice_type: Any, value: Any, length: Any) -> tuple[Any, Any]:
        """Return the first index of a slice, and the number of indices."""
        builder = self.builder
        limits = self.context.make_helper(builder, slice_type, value=value)

        def within(limit: Any) -> Any:
            is_less = builder.icmp_signed("<", limit, length)
            return builder.select(is_less, limit, length)

        start, stop = within(limits.start), within(limits.stop)
        has_any = builder.icmp_signed("<", start, stop)
        return start, builder.select(has_any, builder.sub(stop, start), length.type(0))

    def _field(self, array: Any, name: str) -> Any:
        model = self.context.data_model_manager[self.typeof(array.name)]
        place = model.get_field_position(name)
        return self.builder.extract_value(self.loadvar(array.name), place)

    def _view(self, described: Any, old: Any, new: Any) -> Any:
        """Return an array as one of another type of numbers, of any size."""
        builder = self.builder
        model = self.context.data_model_manager[old]

        def field(name: str, *axis: int) -> Any:
            place = [model.get_field_position(name), *axis]
            return builder.extract_value(described, place)

        lengths = [field("shape", axis) for axis in range(old.ndim)]
        strides = [field("strides", axis) for axis in range(old.ndim)]
        sizes = [lengths[-1].type(_size(self.context, each)) for each in (old, new)]
        lengths[-1] = builder.udiv(builder.mul(lengths[-1], sizes[0]), sizes[1])
        strides[-1] = sizes[1]
        pointer = self.context.get_data_type(new.dtype).as_pointer()
        data = builder.bitcast(field("data"), pointer)
        return _array(self.context, builder, new, data, lengths, strides)


class _WholeArguments:
    """Passes each argument as one value."""

    def __init__(self, context: Any, argument_types: list[Any]) -> None:
        self.argument_types = [context.get_value_type(each) for each in argument_types]

    def as_arguments(self, builder: Any, values: Any) -> Any:
        """Return what a call passes."""
        return values

    def from_arguments(self, builder: Any, values: Any) -> Any:
        """Return the arguments in the function."""
        return values

    def assign_names(self, values: Any, names: Any) -> None:
        """Leave the arguments without names."""


class _ShortArguments(_WholeArguments):
    """Passes each argument as one value, and of an array what the others follow from.

    This is its address and its shape, in place of seven words for one dimension.
    """

    def __init__(self, context: Any, argument_types: list[Any]) -> None:
        self._context, self._types = context, argument_types
        self.argument_types = [self._short_type(each) for each in argument_types]

    def as_arguments(self, builder: Any, values: Any) -> Any:
        """Return what a call passes."""
        return [
            self._shorten(builder, kind, value)
            for kind, value in zip(self._types, values, strict=True)
        ]

    def from_arguments(self, builder: Any, values: Any) -> Any:
        """Return the arguments in the function."""
        return [
            self._complete(builder, kind, value)
            for kind, value in zip(self._types, values, strict=True)
        ]

    def _short_type(self, kind: Any) -> Any:
        if isinstance(kind, types.BaseTuple) and len(kind) > 0:
            return LiteralStructType([self._short_type(item) for item in kind.types])
        whole = self._context.get_value_type(kind)
        if not _is_contiguous(kind):
            return whole
        model = self._context.data_model_manager[kind]
        place = [model.get_field_position(name) for name in ("data", "shape")]
        return LiteralStructType([whole.elements[each] for each in place])

    def _shorten(self, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple) and len(kind) > 0:
            items = [
                self._shorten(builder, item, builder.extract_value(value, place))
                for place, item in enumerate(kind.types)
            ]
        elif _is_contiguous(kind):
            model = self._context.data_model_manager[kind]
            items = [
                builder.extract_value(value, model.get_field_position(name))
                for name in ("data", "shape")
            ]
        else:
            return value
        return cgutils.pack_struct(builder, items)

    def _complete(self, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple) and len(kind) > 0:
            whole = self._context.get_value_type(kind)(Undefined)
            for place, item in enumerate(kind.types):
                short = builder.extract_value(value, place)
                completed = self._complete(builder, item, short)
                whole = builder.insert_value(whole, completed, place)
            return whole
        if not _is_contiguous(kind):
            return value
        data, shape = (builder.extract_value(value, place) for place in range(2))
        lengths = [builder.extract_value(shape, axis) for axis in range(kind.ndim)]
        strides = [shape.type.element(_size(self._context, kind))]
        for length in lengths[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        return _array(self._context, builder, kind, data, lengths, strides)


class CalleeConvention(CPUCallConv):
    """How kernels call each other: Numba's way, but for the arguments.

    Numba passes each word of an array and of a tuple of arrays, so that half of all
    instructions would take tuples apart and put them together. An inline function takes
    its arguments as they are.
    """

    def __init__(self, context: Any, description: Any) -> None:
        super().__init__(context)
        self._packer = _WholeArguments if description.inline else _ShortArguments

    def _get_arg_packer(self, argtypes: Any) -> _WholeArguments:
        return self._packer(self.context, argtypes)

    def declare(self, module: Any, description: Any) -> Any:
        """Return the function of a description in a module."""
        function = cgutils.get_or_insert_function(
            module,
            self.get_function_type(description.restype, description.argtypes),
            description.mangled_name,
        )
        self.decorate_function(function, description.args, description.argtypes)
        if description.inline:
            function.attributes.add("alwaysinline")
        return function


class CalleeLower(KernelLower):
    """Writes the instructions of a kernel that kernels call."""

    @property
    def call_conv(self) -> CalleeConvention:
        """How it is called; see Numba's attribute."""
        return CalleeConvention(self.context, self.fndesc)

    def setup_function(self, fndesc: Any) -> None:
        """Begin the function; see Numba's method."""
        self.function = self.call_conv.declare(self.module, fndesc)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def lower_normal_function(self, fndesc: Any) -> None:
        """Write the function, and note whether it raises; see Numba's method."""
        super().lower_normal_function(fndesc)
        ends = [block.terminator for block in self.function.blocks]
        codes = [end.return_value for end in ends if isinstance(end, Ret)]
        self.metadata["raises"] = not all(
            isinstance(code, Constant) and code.constant == 0 for code in codes
        )


def call_callee(
    context: Any,
    builder: Any,
    description: Any,
    args: Any,
    raises: bool,
    place: Any = None,
) -> Any:
    """Return the result of a kernel that a kernel calls.

    `place` returns its address, if it is not in the same module.
    """
    convention = CalleeConvention(context, description)
    function = convention.declare(builder.module, description)
    if place is not None:
        function = place(function)
    types_of_call = description.restype, description.argtypes
    if raises:
        status, result = convention.call_function(
            builder, function, *types_of_call, args
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return result
    result, error = convention.get_function_type(*types_of_call).args[:2]
    returned = cgutils.alloca_once(builder, result.pointee, zfill=True)
    passed = convention._get_arg_packer(description.argtypes)
    args = passed.as_arguments(builder, args)
    builder.call(function, [returned, Constant(error, None), *args])
    value = builder.load(returned)
    return context.get_returned_value(builder, description.restype, value)


def _is_contiguous(kind: Any) -> bool:
    """Return whether a type is of arrays whose rows follow each other."""
    return isinstance(kind, types.Array) and kind.layout == "C" and kind.ndim > 0


def _array(
    context: Any,
    builder: Any,
    array_type: Any,
    data: Any,
    lengths: list[Any],
    strides: list[Any],
) -> Any:
    """Return the description of an array, which owns no memory."""
    n_items = lengths[0]
    for length in lengths[1:]:
        n_items = builder.mul(n_items, length)
    fields = {
        "nitems": n_items,
        "itemsize": n_items.type(_size(context, array_type)),
        "data": data,
        "shape": cgutils.pack_array(builder, lengths),
        "strides": cgutils.pack_array(builder, strides),
    }
    model = context.data_model_manager[array_type]
    array = cgutils.get_null_value(context.get_value_type(array_type))
    for name, field in fields.items():
        array = builder.insert_value(array, field, model.get_field_position(name))
    return array


def _size(context: Any, array_type: Any) -> int:
    """Return the bytes of an element."""
    return int(context.get_abi_sizeof(context.get_data_type(array_type.dtype)))


def _counts_from_start(index_type: Any) -> bool:
    if isinstance(index_type, types.IntegerLiteral):
        return bool(index_type.literal_value >= 0)
    return isinstance(index_type, types.Integer)
