"""Custom objectives from scalar formulas, which are compiled into the kernels."""

from __future__ import annotations

import inspect
import itertools
import keyword
import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.formulas import Formulas, link_of_margin, loss_of_row
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows, by_row
from hornbeam.kernels.jit import compile_errors, formula
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import by_cell
from hornbeam.objectives.base import Floats, Link, Objective
from hornbeam.objectives.gradient_check import check_slope
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters

__all__ = ["OWNER", "CompiledObjective", "ScalarLoss"]

#: The model attribute with the class whose `transform` predictions need.
OWNER = "own_objective"

Formula = Callable[..., Any]


@runtime_checkable
class ScalarLoss(Protocol):
    """A loss of a label and a margin, as formulas in plain Python.

    The formulas may be methods with ``self``, and read numbers of the object. Optional
    attributes are:

    - ``loss(y, m)``, by which `gradient` is checked;
    - ``transform(m)``, the prediction of a margin; by default that of the parameter
      `objective`;
    - ``start(mean)``, the initial margin for labels with this mean; by default 0;
    - ``default_metric``, the name of a metric;
    - ``exact_hessian = False``, if `hessian` is not the derivative of `gradient`.
    """

    gradient: Formula
    hessian: Formula


#: The arguments of each formula.
_FORMULAS = {
    "loss": ("y", "m"),
    "gradient": ("y", "m"),
    "hessian": ("y", "m"),
    "transform": ("m",),
    "start": ("mean",),
}

#: Attributes that are those of the named objective.
_OF_NAMED = (
    "config_group",
    "has_probabilities",
    "prediction",
    "probability_link",
    "task",
)

#: Compiled kernels by the loop and the digest of the formulas.
_KERNELS: dict[tuple[str, str], Formula] = {}


class CompiledObjective(Objective):
    """An objective with the formulas of a `ScalarLoss`.

    The parameter `objective` determines what the loss does not define.

    Parameters
    ----------
    parameters
        The training parameters.
    loss
        The loss; its numbers are read once, here.
    """

    many_targets = True
    reach = math.inf

    def __init__(self, parameters: Parameters, loss: ScalarLoss) -> None:
        super().__init__(parameters)
        self.loss = loss
        self.owner = loss.__name__ if isinstance(loss, type) else type(loss).__name__
        if parameters.num_class > 1:
            raise ParameterError(
                f"{self.owner} is a loss of one margin, and num_class="
                f"{parameters.num_class} requires more; leave num_class out, or write "
                "the objective as a function of (predictions, data)",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        self._given = dict(_formulas_of(loss, self.owner))
        #: Whether the loss has a formula for predictions.
        self.has_transform = "transform" in self._given
        named = {"objective": "reg:squarederror"} if self.has_transform else {}
        self._named = create(parameters.updated(named))
        for attribute in _OF_NAMED:
            setattr(self, attribute, getattr(self._named, attribute))
        self._compile()

    def __reduce__(self) -> Any:
        return CompiledObjective, (self.parameters, self.loss)

    def _compile(self) -> None:
        """Compile the formulas, and kernels that call them."""
        adopted = Formulas(self.owner)
        own = _numbers_of(self.loss)
        adopted.enter(tuple(own._asdict().items()))
        formulas = {
            name: adopted.adopt(name, function, own if takes_self else None)
            for name, (function, takes_self) in self._given.items()
            if name != "loss"
        }
        name = f"{self.owner}_{adopted.digest()}"
        self._start = formulas.get("start")
        loss = loss_of_row(formulas["gradient"], formulas["hessian"])
        self.kernel = _kernel(by_row, loss, name)
        if self.has_transform:
            self._link = _kernel(by_cell, link_of_margin(formulas["transform"]), name)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name in model files: an objective that predicts the same, or margins."""
        return self._named.name

    @property
    def default_metric(self) -> str:
        metric: str = getattr(self.loss, "default_metric", self._named.default_metric)
        return metric

    @property
    def link(self) -> Link:
        return self._named.link

    def config(self) -> dict[str, dict[str, str]]:
        return self._named.config()

    def mark(self, attributes: dict[str, str]) -> None:
        """Mark a model whose predictions need a formula, which files cannot store."""
        if self.has_transform:
            attributes[OWNER] = self.owner

    # Targets and the base score

    def check_labels(self, labels: Floats) -> None:
        """Raise an error if a formula is not the derivative of the one before."""
        given = {
            name: partial(function, self.loss) if takes_self else function
            for name, (function, takes_self) in self._given.items()
        }
        names = [name for name in ("loss", "gradient", "hessian") if name in given]
        if not getattr(self.loss, "exact_hessian", True):
            names.remove("hessian")
        for of, slope in itertools.pairwise(names):
            check_slope(self.owner, (of, given[of]), (slope, given[slope]), labels)

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        for labels in targets:
            yield labels if weights is None else labels * weights
        yield np.broadcast_to(1.0, targets.shape[1]) if weights is None else weights

    def start_from(self, totals: Floats) -> Floats:
        means = totals[:-1] / totals[-1]
        margins = np.zeros((1, means.size))
        if self._start is not None:
            with _compiling(self.owner):
                margins[0] = [self._start(mean) for mean in means]
        return self._named.transform(Team(1), margins)[0]

    def to_margin(self, base_score: Floats) -> Floats:
        return self._named.to_margin(base_score)

    # Kernels

    @property
    def numbers(self) -> tuple[float, ...]:
        return (1.0,)

    def write_gradients(self, rows: LossRows, writer: GradientWriter) -> Floats:
        with _compiling(self.owner):
            return super().write_gradients(rows, writer)

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        if not self.has_transform:
            return self._named.transform(team, margins)
        with _compiling(self.owner):
            team.run(self._link, team.threads_for(8 * margins.size), margins)
        return margins

    def class_probabilities(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        return self._named.class_probabilities(team, margins)

    def to_output(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        if self.has_transform:
            return self.transform(team, margins)
        return self._named.to_output(team, margins)


def _formulas_of(
    loss: ScalarLoss, owner: str
) -> Iterator[tuple[str, tuple[Formula, bool]]]:
    """Yield the name of each formula, its function, and whether it takes ``self``."""
    for name, arguments in _FORMULAS.items():
        function = inspect.getattr_static(loss, name, None)
        if function is None:
            continue
        if isinstance(function, staticmethod):
            function = function.__func__
        try:
            parameters = inspect.signature(function).parameters.values()
            n_more = sum(p.default is p.empty for p in parameters) - len(arguments)
        except (TypeError, ValueError):  # C functions may have no signature
            n_more = 0
        if n_more not in (0, 1):
            raise ParameterError(
                f"{owner}.{name} must be a function of {' and '.join(arguments)}, "
                "after self if it reads numbers of the object",
                code=ErrorCode.INVALID_FORMULA,
            )
        yield name, (function, n_more == 1)


def _numbers_of(loss: ScalarLoss) -> Any:
    """Return the public numbers of the object as a named tuple."""
    numbers = {}
    for name in dir(loss):
        value = None if name.startswith("_") else getattr(loss, name)
        if isinstance(value, Real | np.bool) and not keyword.iskeyword(name):
            numbers[name] = _plain(value)
    return namedtuple("Numbers", numbers)(**numbers)


def _plain(value: Any) -> float:
    if isinstance(value, bool | np.bool):
        return bool(value)
    return int(value) if isinstance(value, Integral) else float(value)


def _kernel(loop: Formula, inner: Formula, name: str) -> Formula:
    """Return the kernel of a loop that calls `inner`, created once in a process."""
    key = loop.__name__, name
    if key not in _KERNELS:
        inner.__name__ = name
        _KERNELS[key] = loop(formula(inner))
    return _KERNELS[key]


@contextmanager
def _compiling(owner: str) -> Iterator[None]:
    """Raise a ParameterError with the class of formulas that do not compile."""
    try:
        yield
    except compile_errors() as error:
        raise ParameterError(
            f"a formula of {owner} cannot be compiled: {error}; write it with "
            "numbers, if, functions of math, and functions outside its class",
            code=ErrorCode.INVALID_FORMULA,
        ) from error
