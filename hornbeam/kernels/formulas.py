"""Custom formulas, prepared for compilation into kernels.

A formula is a plain Python function of numbers. It is compiled together with the
functions that it calls; global names have their values at that moment. `maths.exp` and
`maths.log` replace those of `math` and NumPy, so that results are bit-identical on all
machines.
"""

from __future__ import annotations

import dis
import hashlib
import math
import pickle
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels import maths
from hornbeam.kernels.jit import formula

__all__ = ["Formulas", "link_of_margin", "loss_of_row"]

Formula = Callable[..., Any]

_OURS: dict[Any, Any] = {
    math.exp: maths.exp,
    math.log: maths.log,
    np.exp: maths.exp,
    np.log: maths.log,
}


def _with_ours(module: ModuleType) -> ModuleType:
    """Return a copy of a module, with `maths.exp` and `maths.log`."""
    twin = ModuleType(module.__name__)
    vars(twin).update(vars(module), exp=maths.exp, log=maths.log)
    return twin


_OURS |= {math: _with_ours(math), np: _with_ours(np)}


def loss_of_row(gradient: Formula, hessian: Formula) -> Formula:
    """Return the function of gradient and hessian that kernels call for each row."""

    def loss(margin, target, _):  # type: ignore[no-untyped-def]
        return gradient(target, margin), max(
            hessian(target, margin), maths.LEAST_HESSIAN
        )

    return loss


def link_of_margin(transform: Formula) -> Formula:
    """Return the formula as a new function, which is named after its loss."""

    def link(margin):  # type: ignore[no-untyped-def]
        return transform(margin)

    return link


class Formulas:
    """The formulas of one custom objective or metric.

    Parameters
    ----------
    owner
        The name of the objective or metric, for error messages.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._hash = hashlib.sha256()
        self._open: list[FunctionType] = []

    def digest(self) -> str:
        """Return a digest of the formulas so far, the same in all processes."""
        return self._hash.hexdigest()[:16]

    def enter(self, part: Any) -> None:
        """Add a dependency of the formulas to the digest."""
        data = part if isinstance(part, bytes) else repr(part).encode()
        self._hash.update(len(data).to_bytes(8) + data)

    def adopt(self, name: str, function: Formula, numbers: Any = None) -> Formula:
        """Return the compiled formula; `numbers` become its first argument.

        The digest includes its code and dependencies, but not the numbers.
        """
        adopted: Formula = self._value(name, function)
        if numbers is None:
            return adopted

        def call(*arguments):  # type: ignore[no-untyped-def]
            return adopted(numbers, *arguments)

        return formula(call)

    def _value(self, name: str, value: Any) -> Any:
        """Return the value of a name in a formula."""
        self.enter(name)
        if getattr(value, "__module__", None) == maths.__name__:
            self.enter(value.__name__)
            return value
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType):
            return self._function(value)
        try:
            # A module is identified by its name, and so is a pickled member of one.
            is_module = isinstance(value, ModuleType)
            self.enter(value.__name__ if is_module else pickle.dumps(value))
            return _OURS.get(value, value)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise ParameterError(
                f"{self._owner} uses {name}, of the type {type(value).__name__}; a "
                "formula may use numbers, and functions of numbers",
                code=ErrorCode.INVALID_FORMULA,
            ) from None

    def _function(self, function: FunctionType) -> Formula:
        if function in self._open:
            raise ParameterError(
                f"{self._owner} uses {function.__name__}, which calls itself; write it "
                "as a loop",
                code=ErrorCode.INVALID_FORMULA,
            )
        self._open.append(function)
        code = function.__code__
        for part in _parts(code):
            self.enter(part)
        names = {i.argval for i in _instructions(code) if i.opname == "LOAD_GLOBAL"}
        known = {
            name: self._value(name, function.__globals__[name])
            for name in sorted(names & function.__globals__.keys())
        }
        # Cached machine code looks up the module of each of its functions, which may be
        # another one in a later process.
        known["__name__"] = __name__
        cells = tuple(
            CellType(self._value(name, cell.cell_contents))
            for name, cell in zip(
                code.co_freevars, function.__closure__ or (), strict=True
            )
        )
        defaults = self._value("defaults", function.__defaults__)
        self._open.pop()
        adopted = FunctionType(code, known, function.__name__, defaults, cells)
        return formula(adopted)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _parts(code: CodeType) -> Iterator[Any]:
    """Yield the parts of the code that determine results, without line numbers."""
    yield from (code.co_code, code.co_names, code.co_varnames)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
        else:
            yield repr(constant)
