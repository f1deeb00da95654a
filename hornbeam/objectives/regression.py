"""Objectives of regression: squared and similar errors, and logistic regression."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels import maths
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import (
    LossRows,
    logistic,
    pseudo_huber,
    squared_error,
    squared_log_error,
)
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import log1p_rows, sigmoid_rows
from hornbeam.objectives.base import (
    REACH_OF_LOGARITHMS,
    Floats,
    Link,
    Objective,
    Prediction,
    register,
)
from hornbeam.objectives.config import REG_LOSS, ConfigGroup

__all__ = [
    "LogisticLoss",
    "MeanStart",
    "NewtonStart",
    "Probability",
    "PseudoHuberError",
    "SquaredError",
    "SquaredLogError",
]

#: XGBoost's bound on a probability before its logarithm is computed.
_LEAST_PROBABILITY = 1e-6
#: scale_pos_weight within this distance of 1 is the same as 1.
_WEIGHT_TOLERANCE = 1e-6


class NewtonStart(Objective):
    """Base of objectives whose base score is one Newton step from a margin of 0."""

    many_targets = True

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        gradients = np.empty(targets.shape, np.float32)
        hessians = np.empty_like(gradients)
        rows = LossRows.of(np.zeros(targets.shape), targets, None)
        self.write_gradients(rows, GradientWriter(Team(1), gradients, hessians))
        if weights is not None:
            gradients *= weights
            hessians *= weights
        yield from gradients.astype(np.float64)
        yield from hessians.astype(np.float64)

    def start_from(self, totals: Floats) -> Floats:
        gradients, hessians = totals.reshape(2, -1)
        margins = -gradients / np.maximum(hessians, 1e-6)
        return self.transform(Team(1), margins[np.newaxis])[0]


class MeanStart(NewtonStart):
    """Base of objectives whose base score is the mean label.

    With scale_pos_weight other than 1 it is a Newton step.
    """

    @property
    def _starts_from_mean(self) -> bool:
        return abs(self.positive_weight - 1.0) <= _WEIGHT_TOLERANCE

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        if not self._starts_from_mean:
            yield from super().start_columns(targets, weights)
            return
        for labels in targets:
            yield labels if weights is None else labels * weights
        yield np.broadcast_to(1.0, targets.shape[1]) if weights is None else weights

    def start_from(self, totals: Floats) -> Floats:
        if not self._starts_from_mean:
            return super().start_from(totals)
        return totals[:-1] / totals[-1]


@register
class SquaredError(MeanStart):
    """(margin - label)**2 / 2."""

    name = "reg:squarederror"
    task = "regression"
    config_group = REG_LOSS
    default_metric = "rmse"
    link = Link("identity")
    probability_link = Link("shares")  # of forests, whose values are class shares
    kernel = staticmethod(squared_error)
    reach = math.inf
    is_quadratic = True


@register
class SquaredLogError(MeanStart):
    """(log(1 + margin) - log(1 + label))**2 / 2."""

    name = "reg:squaredlogerror"
    task = "regression"
    config_group = ConfigGroup()
    default_metric = "rmsle"
    link = Link("identity")
    kernel = staticmethod(squared_log_error)
    reach = math.inf

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        self.refuse(
            labels,
            labels <= -1.0,
            f"is not above -1, as {self.name} requires; it computes the logarithm of 1 "
            "plus the label",
            ErrorCode.LABEL_NOT_ABOVE_MINUS_ONE,
        )

    def start_columns(
        self, targets: Floats, weights: Floats | None
    ) -> Iterator[Floats]:
        # The mean logarithm minimises the loss.
        logarithms = targets.copy()
        Team(1).run(log1p_rows, 1, logarithms)
        yield from super().start_columns(logarithms, weights)

    def start_from(self, totals: Floats) -> Floats:
        return np.array([maths.exp(mean) for mean in super().start_from(totals)]) - 1.0


@register
class PseudoHuberError(NewtonStart):
    """Pseudo-Huber loss: about squared below huber_slope, about linear above."""

    name = "reg:pseudohubererror"
    task = "regression"
    config_group = ConfigGroup("pseudo_huber_param", ("huber_slope",))
    default_metric = "mphe"
    link = Link("identity")
    kernel = staticmethod(pseudo_huber)
    reach = math.inf

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.positive_weight, self.parameters.huber_slope)


class LogisticLoss(MeanStart):
    """The negative log-likelihood of a label in [0, 1] under sigmoid(margin)."""

    config_group = REG_LOSS
    prediction: ClassVar[Prediction] = "probability"
    has_probabilities = True
    link = Link("sigmoid")
    kernel = staticmethod(logistic)
    reach = REACH_OF_LOGARITHMS

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        self.refuse(
            labels,
            (labels < 0.0) | (labels > 1.0),
            f"is outside [0, 1], the range of {self.name}; encode the two classes as 0 "
            "and 1, or choose 'multi:softprob' for more classes or 'reg:squarederror' "
            "for amounts",
            ErrorCode.LABEL_NOT_PROBABILITY,
        )

    def to_margin(self, base_score: Floats) -> Floats:
        # In float32 like XGBoost, so that it predicts the same from our model files.
        p = np.clip(base_score, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)
        odds_against = np.float32(1.0) / p.astype(np.float32) - np.float32(1.0)
        margins = [-np.float32(maths.log(float(odds))) for odds in odds_against]
        return np.array(margins, np.float64)

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        team.run(sigmoid_rows, team.threads_for(8 * margins.size), margins)
        return margins


class BoundedBaseScore(LogisticLoss):
    """A logistic loss whose base_score is a probability."""

    _OPEN: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        given = parameters.base_score
        if given is None:
            return
        low, high = self._OPEN
        for value in np.atleast_1d(given):
            if not low < value < high:
                raise ParameterError(
                    f"base_score={value:g} must be above 0 and below 1 for {self.name}:"
                    " it is a probability",
                    code=ErrorCode.BASE_SCORE_NOT_PROBABILITY,
                )


@register
class Probability(BoundedBaseScore):
    """Logistic regression of a probability in [0, 1], evaluated by RMSE."""

    name = "reg:logistic"
    task = "regression"
    default_metric = "rmse"
