"""Quantiles and expectiles: outputs that part the labels at given levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels import maths
from hornbeam.kernels.gradients import deviation, expectile_error, pinball
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.residuals import (
    ResidualScratch,
    absolute_error,
    quantile_error,
)
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import climb_rows
from hornbeam.objectives.base import Floats, Link, Objective, register
from hornbeam.objectives.config import ConfigGroup
from hornbeam.params import Parameters

__all__ = ["AbsoluteError", "ExpectileError", "QuantileError"]

_UNWEIGHTED: Floats = np.empty(0)
_CELLS_PER_ROW = 24
#: Least step between two expectiles to start from; its margin is finite.
_LEAST_STEP = 1e-6


def given_levels(parameters: Parameters, name: str) -> tuple[float, ...]:
    """Return the levels of quantile_alpha or expectile_alpha, which are needed."""
    levels: tuple[float, ...] | None = getattr(parameters, name)
    if levels is None:
        raise ParameterError(
            f"objective={parameters.objective!r} needs {name}: a level between 0 and "
            f"1, or a list of them, such as {name}=[0.1, 0.5, 0.9]",
            code=ErrorCode.MISSING_PARAMETER,
        )
    return levels


def rise(levels: tuple[float, ...]) -> bool:
    """Return whether each level is above the one before."""
    return all(low < high for low, high in itertools.pairwise(levels))


class SizedLoss(Objective):
    """A loss of residuals on the scale of what is typical among all rows.

    Where leaves are searched for, by the loss itself: each row pulls by its side alone.
    """

    reach = math.inf
    #: The kernel that writes on which side rows are.
    sides: Callable[..., None]

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self.by_row = parameters.leaf_solver == "line_search"
        if self.by_row:
            self.kernel = self.sides

    @property
    def leaf_levels(self) -> tuple[float, ...]:
        return self.levels

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.positive_weight, *self.levels)

    @property
    def levels(self) -> tuple[float, ...]:
        """The level of each output."""
        raise NotImplementedError

    def estimate_base_score(self, targets: Floats, weights: Floats | None) -> Floats:
        columns = np.broadcast_to(targets, (self.n_outputs, targets.shape[1]))
        return np.array(
            [
                _quantile(labels, weights, level)
                for labels, level in zip(columns, self.levels, strict=True)
            ]
        )

    def gradients(
        self, team: Team, scores: Floats, info: MetaInfo, iteration: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        targets = self.targets_of(info)
        weights = info.row_weights
        dtype = np.float32 if weights is None else np.float64
        gradients = np.empty(scores.shape, dtype)
        hessians = np.empty(scores.shape, dtype)
        members = team.members_for(_CELLS_PER_ROW * scores.size)
        columns = len(scores) + (weights is not None)
        blocks = -(-scores.shape[1] // TASK_ROWS)
        team.run(
            type(self).kernel,
            members,
            scores,
            targets,
            _UNWEIGHTED if weights is None else weights,
            np.array(self.levels, np.float64),
            gradients,
            hessians,
            ResidualScratch(
                np.empty((members, TASK_ROWS)),
                np.empty((columns, blocks)),
                np.empty((columns, blocks), np.int64),
            ),
        )
        return gradients, hessians


@register
class AbsoluteError(SizedLoss):
    """|margin - label|, by parabolas that touch a smoothed one from above."""

    name = "reg:absoluteerror"
    task = "regression"
    config_group = ConfigGroup()
    default_metric = "mae"
    link = Link("identity")
    warm_up_cases = ({}, {"leaf_solver": "line_search"})
    kernel = staticmethod(absolute_error)
    sides = staticmethod(deviation)
    many_targets = True

    @property
    def levels(self) -> tuple[float, ...]:
        return (0.5,) * self.n_outputs


@register
class QuantileError(SizedLoss):
    """What is below an output has the share of its level among the labels."""

    name = "reg:quantileerror"
    task = "quantiles"
    config_group = ConfigGroup("quantile_loss_param", ("quantile_alpha",))
    default_metric = "quantile"
    warm_up_cases = (
        {"quantile_alpha": 0.3},
        {"quantile_alpha": 0.3, "leaf_solver": "line_search"},
    )
    kernel = staticmethod(quantile_error)
    sides = staticmethod(pinball)

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._levels = given_levels(parameters, "quantile_alpha")
        #: Whether its predictions are to rise as well, from output to output.
        self.rises = rise(self._levels)

    @property
    def link(self) -> Link:
        return Link("rising" if self.rises else "identity")

    @property
    def levels(self) -> tuple[float, ...]:
        return self._levels

    @property
    def n_outputs(self) -> int:
        return len(self._levels)

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        if self.rises:
            margins.sort(axis=1)
        return margins


@register
class ExpectileError(Objective):
    """The squared error, with the errors below and above an output weighed apart.

    The first margin is the first expectile; each other one, by softplus, the step to
    the next.
    """

    name = "reg:expectileerror"
    task = "quantiles"
    config_group = ConfigGroup("expectile_loss_param", ("expectile_alpha",))
    default_metric = "expectile"
    link = Link("climbing")
    warm_up_cases = ({"expectile_alpha": [0.1, 0.9]},)
    kernel = staticmethod(expectile_error)

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._levels = given_levels(parameters, "expectile_alpha")
        if not rise(self._levels):
            raise ParameterError(
                f"expectile_alpha={list(self._levels)} must rise from each level to "
                "the next; sort it, and drop what is there twice",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )

    @property
    def levels(self) -> tuple[float, ...]:
        """The level of each output."""
        return self._levels

    @property
    def n_outputs(self) -> int:
        return len(self._levels)

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.positive_weight, *self._levels)

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        (labels,) = targets
        for column in (labels, labels * labels, np.ones(labels.size)):
            yield column if weights is None else column * weights

    def start_from(self, totals: Floats) -> Floats:
        # The expectiles of two values that have the mean and the spread of the labels.
        mean, square = totals[:2] / totals[2]
        spread = np.sqrt(max(square - mean * mean, 0.0))
        steps = 2.0 * np.array(self._levels) - 1.0
        return mean + spread * steps

    def to_margin(self, base_score: Floats) -> Floats:
        margins = base_score.copy()
        for k, step in enumerate(np.diff(base_score), 1):
            # The inverse of softplus, log(exp(x) - 1).
            x = max(float(step), _LEAST_STEP)
            margins[k] = x + maths.log(1.0 - maths.exp(-x))
        return margins

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        team.run(climb_rows, team.members_for(8 * margins.size), margins)
        return margins


def _quantile(labels: Floats, weights: Floats | None, level: float) -> float:
    """Return XGBoost's quantile: between two labels without weights, one with."""
    if weights is None:
        ordered = np.sort(labels)
        place = level * (labels.size + 1) - 1.0
        below = min(max(int(np.floor(place)), 0), labels.size - 1)
        above = min(below + 1, labels.size - 1)
        share = min(max(place - below, 0.0), 1.0)
        return float(ordered[below] + share * (ordered[above] - ordered[below]))
    order = np.lexsort((weights, labels))
    up_to = np.cumsum(weights[order])
    place = int(np.searchsorted(up_to, level * up_to[-1]))
    return float(labels[order[min(place, labels.size - 1)]])
