"""An objective of the caller's, as formulas that are compiled into our own loops."""

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
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.formulas import Formulas, link_of_margin, loss_of_row
from hornbeam.kernels.gradients import by_row
from hornbeam.kernels.jit import formula
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import by_cell
from hornbeam.objectives.base import Floats, Link, Objective
from hornbeam.objectives.differences import check_slope
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters

__all__ = ["OWNER", "CompiledObjective", "ScalarLoss"]

#: The attribute of a model that names whose formula its predictions need.
OWNER = "own_objective"

Formula = Callable[..., Any]


@runtime_checkable
class ScalarLoss(Protocol):
    """A loss of a label and a margin, as formulas in plain Python.

    They may take the object before their arguments, and read its numbers. Besides those
    below there may be:

    - ``loss(y, m)``, which `gradient` is then checked against;
    - ``transform(m)``, the prediction of a margin. Without it predictions are those of
      the parameter `objective`;
    - ``start(mean)``, the margin to begin from where labels have this mean; without it
      that is 0;
    - ``default_metric``, the name of a metric;
    - ``exact_hessian = False``, where `hessian` is meant to be something other than the
      slope of `gradient`.
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

#: Kernels by their kinds and the digests of their formulas.
_KERNELS: dict[tuple[str, str], Formula] = {}


class CompiledObjective(Objective):
    """A `ScalarLoss`; what it leaves open is as in the objective that is named.

    Parameters
    ----------
    parameters
        Those of the training.
    loss
        The caller's. Its numbers are read here, once.
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
                f"{parameters.num_class} asks for more; leave num_class out, or write "
                "the objective as a function of (predictions, data)",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        self._given = dict(_formulas_of(loss, self.owner))
        #: Whether predictions take a formula.
        self.has_transform = "transform" in self._given
        named = {"objective": "reg:squarederror"} if self.has_transform else {}
        self._named = create(parameters.updated(named))
        for attribute in _OF_NAMED:
            setattr(self, attribute, getattr(self._named, attribute))
        self._compile()

    def __reduce__(self) -> Any:
        return CompiledObjective, (self.parameters, self.loss)

    def _compile(self) -> None:
        """Make the formulas fit for kernels, and kernels of them."""
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
        """In files: of the objective that predicts as this does, or gives margins."""
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
        """Note in a model that predictions take a formula, which no file can hold."""
        if self.has_transform:
            attributes[OWNER] = self.owner

    # Targets and the base score

    def check_labels(self, labels: Floats) -> None:
        """Raise an error if the formulas do not belong together."""
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
        yield np.ones(targets.shape[1]) if weights is None else weights

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

    def write_gradients(self, *args: Any) -> None:
        with _compiling(self.owner):
            super().write_gradients(*args)

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        if not self.has_transform:
            return self._named.transform(team, margins)
        with _compiling(self.owner):
            team.run(self._link, team.members_for(8 * margins.size), margins)
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
    """Yield each formula by its name, and whether it takes the object, too."""
    for name, arguments in _FORMULAS.items():
        function = inspect.getattr_static(loss, name, None)
        if function is None:
            continue
        if isinstance(function, staticmethod):
            function = function.__func__
        try:
            parameters = inspect.signature(function).parameters.values()
            n_more = sum(p.default is p.empty for p in parameters) - len(arguments)
        except (TypeError, ValueError):  # of C, which says no more of itself
            n_more = 0
        if n_more not in (0, 1):
            raise ParameterError(
                f"{owner}.{name} must be a function of {' and '.join(arguments)}, with "
                "self before them where it reads numbers of the object",
                code=ErrorCode.INVALID_FORMULA,
            )
        yield name, (function, n_more == 1)


def _numbers_of(loss: ScalarLoss) -> Any:
    """Return the object's public numbers as a tuple with names."""
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
    """Return the kernel of a loop around this function, made once a process."""
    key = loop.__name__, name
    if key not in _KERNELS:
        inner.__name__ = name
        _KERNELS[key] = loop(formula(inner))
    return _KERNELS[key]


@contextmanager
def _compiling(owner: str) -> Iterator[None]:
    """Say whose formulas cannot be compiled."""
    try:
        yield
    except NumbaError as error:
        raise ParameterError(
            f"a formula of {owner} cannot be compiled: {error}; write it with "
            "numbers, if, functions of math, and functions outside its class",
            code=ErrorCode.INVALID_FORMULA,
        ) from error
