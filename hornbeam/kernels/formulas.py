"""Formulas of the caller's, made fit for kernels.

A formula is a plain Python function of numbers. It is compiled together with the
functions that it calls, all other names as they are at that moment. Our own exp and log
take the place of those of `math` and NumPy, so that the bits are the same everywhere.
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

from hornbeam.errors import ParameterError
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
    """Return a module of the same names, with our exp and log."""
    twin = ModuleType(module.__name__)
    vars(twin).update(vars(module), exp=maths.exp, log=maths.log)
    return twin


_OURS |= {math: _with_ours(math), np: _with_ours(np)}


def loss_of_row(gradient: Formula, hessian: Formula) -> Formula:
    """Return both together, as kernels take the loss of a row."""

    def loss(margin, target, _):  # type: ignore[no-untyped-def]
        return gradient(target, margin), max(
            hessian(target, margin), maths.LEAST_HESSIAN
        )

    return loss


def link_of_margin(transform: Formula) -> Formula:
    """Return the formula as a function of its own, to be named after its loss."""

    def link(margin):  # type: ignore[no-untyped-def]
        return transform(margin)

    return link


class Formulas:
    """Formulas that belong together.

    Parameters
    ----------
    owner
        Whose they are, for messages.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._hash = hashlib.sha256()
        self._open: list[FunctionType] = []

    def digest(self) -> str:
        """Return what tells the formulas so far from all others, in any process."""
        return self._hash.hexdigest()[:16]

    def enter(self, part: Any) -> None:
        """Make something that formulas depend on a part of the digest."""
        data = part if isinstance(part, bytes) else repr(part).encode()
        self._hash.update(len(data).to_bytes(8) + data)

    def adopt(self, name: str, function: Formula, numbers: Any = None) -> Formula:
        """Return the formula, with the first argument filled in if there are numbers.

        The digest has its code and what it uses, but not the numbers.
        """
        adopted: Formula = self._value(name, function)
        if numbers is None:
            return adopted

        def call(*arguments):  # type: ignore[no-untyped-def]
            return adopted(numbers, *arguments)

        return formula(call)

    def _value(self, name: str, value: Any) -> Any:
        """Return what a name stands for in a formula."""
        self.enter(name)
        if getattr(value, "__module__", None) == maths.__name__:
            self.enter(value.__name__)
            return value
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType):
            return self._function(value)
        try:
            # A module is known by its name, and so is what a pickle finds in one.
            is_module = isinstance(value, ModuleType)
            self.enter(value.__name__ if is_module else pickle.dumps(value))
            return _OURS.get(value, value)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise ParameterError(
                f"{self._owner} uses {name}, of the type {type(value).__name__}; a "
                "formula may use numbers, and functions of numbers"
            ) from None

    def _function(self, function: FunctionType) -> Formula:
        if function in self._open:
            raise ParameterError(
                f"{self._owner} uses {function.__name__}, which calls itself; write it "
                "as a loop"
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
        # Machine code from the cache asks for the module of each of its functions,
        # which may be another one by then.
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
    """Yield what decides what a function does, but not where it is written."""
    yield from (code.co_code, code.co_names, code.co_varnames)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
        else:
            yield repr(constant)
