"""Objectives of counts and amounts with a log link: Poisson, gamma and Tweedie."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels import maths
from hornbeam.kernels.gradients import gamma, poisson, tweedie
from hornbeam.kernels.team import Team
from hornbeam.kernels.transform import exp_rows
from hornbeam.objectives.base import (
    REACH_OF_LOGARITHMS,
    Floats,
    Link,
    Objective,
    register,
)
from hornbeam.objectives.config import REG_LOSS, ConfigGroup
from hornbeam.objectives.regression import MeanStart
from hornbeam.params import Parameters

__all__ = ["Gamma", "LogLink", "Poisson", "Tweedie"]

#: The base score if all labels are 0, since 0 has no logarithm.
_LEAST_MEAN = 1e-16


class LogLink(Objective):
    """Base of objectives whose margins are logarithms of predictions."""

    link = Link("exponential")

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        for value in (
            ()
            if parameters.base_score is None
            else np.atleast_1d(parameters.base_score)
        ):
            if not value > 0.0:
                raise ParameterError(
                    f"base_score={value:g} must be above 0 for {self.name}: the "
                    "margin is its logarithm",
                    code=ErrorCode.BASE_SCORE_NOT_POSITIVE,
                )

    def to_margin(self, base_score: Floats) -> Floats:
        # Rounded like XGBoost, so that it predicts the same from our model files.
        return np.array(
            [np.float32(maths.log(score)) for score in base_score], np.float64
        )

    def transform(self, team: Team, margins: NDArray[Any]) -> NDArray[Any]:
        team.run(exp_rows, team.threads_for(8 * margins.size), margins)
        return margins


class LogMean(LogLink, MeanStart):
    """Base of objectives with a log link whose predictions are means."""

    task = "regression"
    reach = REACH_OF_LOGARITHMS
    #: Whether labels may be 0.
    takes_zero: ClassVar[bool] = True

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        wrong = labels < 0.0 if self.takes_zero else labels <= 0.0
        need = "is negative" if self.takes_zero else "is not above 0"
        code = (
            ErrorCode.LABEL_NEGATIVE
            if self.takes_zero
            else ErrorCode.GAMMA_LABEL_NOT_POSITIVE
        )
        self.refuse(
            labels,
            wrong,
            f"{need}, and {self.name} learns counts or amounts; correct the label, or "
            "choose 'reg:squarederror'",
            code,
        )

    def start_from(self, totals: Floats) -> Floats:
        return np.maximum(super().start_from(totals), _LEAST_MEAN)


@register
class Poisson(LogMean):
    """The negative log-likelihood of the Poisson distribution."""

    name = "count:poisson"
    # In XGBoost a parameter of the loss as well as of the trees; here of the trees.
    config_group = ConfigGroup("poisson_regression_param", ("max_delta_step",))
    default_metric = "poisson-nloglik"
    kernel = staticmethod(poisson)


@register
class Gamma(LogMean):
    """The negative log-likelihood of the gamma distribution."""

    name = "reg:gamma"
    config_group = REG_LOSS
    default_metric = "gamma-deviance"
    kernel = staticmethod(gamma)
    takes_zero = False

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        return {"label": classes + 1}


@register
class Tweedie(LogMean):
    """The negative log-likelihood of the Tweedie distribution."""

    name = "reg:tweedie"
    config_group = ConfigGroup("tweedie_regression_param", ("tweedie_variance_power",))
    kernel = staticmethod(tweedie)

    @property
    def default_metric(self) -> str:
        return f"tweedie-nloglik@{self.parameters.tweedie_variance_power:g}"

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.positive_weight, self.parameters.tweedie_variance_power)
