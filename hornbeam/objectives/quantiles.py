"""Objectives of quantiles and expectiles, with an output for each level."""

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
from hornbeam.kernels.gradients import (
    LossRows,
    NewGradients,
    deviation,
    expectile_error,
    pinball,
)
from hornbeam.kernels.lanes import LANE_ROWS
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

#: The cost of a row, as a number of histogram updates.
_COST_PER_ROW = 24
#: The least step between two expectiles in the base score, so that margins are finite.
_LEAST_STEP = 1e-6


def given_levels(parameters: Parameters, name: str) -> tuple[float, ...]:
    """Return quantile_alpha or expectile_alpha; raise an error if it is not given."""
    levels: tuple[float, ...] | None = getattr(parameters, name)
    if levels is None:
        raise ParameterError(
            f"objective={parameters.objective!r} requires {name}: a level between 0 "
            f"and 1, or a list of them, such as {name}=[0.1, 0.5, 0.9]",
            code=ErrorCode.MISSING_PARAMETER,
        )
    return levels


def rise(levels: tuple[float, ...]) -> bool:
    """Return whether the levels are strictly increasing."""
    return all(low < high for low, high in itertools.pairwise(levels))


class SizedLoss(Objective):
    """Base of losses of residuals that are smoothed by their typical size.

    With leaf_solver="line_search" the gradients are those of the loss without
    smoothing, which depend on the sign of the residual only.
    """

    reach = math.inf
    #: The kernel of the gradients without smoothing.
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
        self, team: Team, margins: Floats, info: MetaInfo, iteration: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        targets = self.targets_of(info)
        weights = info.row_weights
        dtype = np.float32 if weights is None else np.float64
        gradients = np.empty(margins.shape, dtype)
        hessians = np.empty(margins.shape, dtype)
        rows = LossRows.of(margins, targets, weights)
        n_threads = team.threads_for(_COST_PER_ROW * margins.size)
        outputs, n_rows = margins.shape
        columns = outputs + (weights is not None)
        team.run(
            type(self).kernel,
            n_threads,
            rows,
            np.array(self.levels, np.float64),
            NewGradients.of(gradients, hessians, n_threads),
            ResidualScratch.of(n_rows, outputs, columns, LANE_ROWS, n_threads),
        )
        return gradients, hessians


@register
class AbsoluteError(SizedLoss):
    """|margin - label|, by quadratic upper bounds of a smoothed absolute error."""

    name = "reg:absoluteerror"
    task = "regression"
    config_group = ConfigGroup()
    default_metric = "mae"
    link = Link("identity")
    kernel = staticmethod(absolute_error)
    sides = staticmethod(deviation)
    many_targets = True

    @property
    def levels(self) -> tuple[float, ...]:
        return (0.5,) * self.n_outputs


@register
class QuantileError(SizedLoss):
    """The pinball loss of quantile_alpha; predictions are quantiles of the label."""

    name = "reg:quantileerror"
    task = "quantiles"
    config_group = ConfigGroup("quantile_loss_param", ("quantile_alpha",))
    default_metric = "quantile"
    kernel = staticmethod(quantile_error)
    sides = staticmethod(pinball)

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._levels = given_levels(parameters, "quantile_alpha")
        #: Whether predictions are sorted, since the levels are increasing.
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
    """The asymmetric squared error of expectile_alpha; predictions are expectiles.

    The first margin is the first expectile; the softplus of each other margin is the
    step from the expectile before.
    """

    name = "reg:expectileerror"
    task = "quantiles"
    config_group = ConfigGroup("expectile_loss_param", ("expectile_alpha",))
    default_metric = "expectile"
    link = Link("climbing")
    kernel = staticmethod(expectile_error)

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._levels = given_levels(parameters, "expectile_alpha")
        if not rise(self._levels):
            raise ParameterError(
                f"expectile_alpha={list(self._levels)} must be strictly increasing; "
                "sort it, and drop duplicates",
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
        for column in (labels, labels * labels, np.broadcast_to(1.0, labels.size)):
            yield column if weights is None else column * weights

    def start_from(self, totals: Floats) -> Floats:
        # The expectiles of a two-point distribution with the labels' mean and variance.
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
        team.run(climb_rows, team.threads_for(8 * margins.size), margins)
        return margins


def _quantile(labels: Floats, weights: Floats | None, level: float) -> float:
    """Return XGBoost's quantile: interpolated without weights, a label with weights."""
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
