"""Metrics of regression: weighted means of a loss over all rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels import metrics as kernels
from hornbeam.metrics.base import Floats, Metric, number_after_at, register

__all__ = [
    "ExpectileLoss",
    "GammaDeviance",
    "GammaLoss",
    "MeanAbsoluteError",
    "MeanAbsoluteShare",
    "MeanLoss",
    "PoissonLoss",
    "PseudoHuberLoss",
    "QuantileLoss",
    "RootMeanSquaredError",
    "RootMeanSquaredLogError",
    "TweedieLoss",
]


class MeanLoss(Metric):
    """Base of weighted means of a loss of one label and one prediction."""

    many_targets = True
    #: The kernel of `hornbeam.kernels.metrics` that computes the mean.
    mean: ClassVar[Callable[..., float]]
    #: The lower bound of labels, which is allowed itself if `lowest_counts`.
    lowest: ClassVar[float] = -math.inf
    lowest_counts: ClassVar[bool] = False

    @property
    def numbers(self) -> tuple[float, ...]:
        """The parameters of the loss: one, or one for each output."""
        return (math.nan,)

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        if predictions.size != labels.size:
            raise DataError(
                f"{self.name} got {predictions.size} predictions for {labels.size} "
                f"labels, one for each class; "
                f"use 'merror' or 'mlogloss' for more than two classes",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        self._check_labels(labels)
        shape = (len(labels), -1)
        return type(self).mean(
            predictions.reshape(shape),
            labels.reshape(shape),
            weights,
            np.array(self.numbers, np.float64),
        )

    def _check_labels(self, labels: Floats) -> None:
        least = float(labels.min())
        if least > self.lowest or (self.lowest_counts and least == self.lowest):
            return
        row = int(np.argmin(labels)) // (labels.size // len(labels))
        bound = "of at least" if self.lowest_counts else "above"
        raise DataError(
            f"{self.name} needs labels {bound} {self.lowest:g}, but the label of row "
            f"{row} is {least:g}; choose another eval_metric",
            code=ErrorCode.LABEL_OUT_OF_DOMAIN,
        )


@register
class RootMeanSquaredError(MeanLoss):
    """``rmse``: the root mean squared error."""

    base_name = "rmse"
    is_root = True
    mean = staticmethod(kernels.mean_squared_error)

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return math.sqrt(super().measure(predictions, labels, weights))


@register
class RootMeanSquaredLogError(RootMeanSquaredError):
    """``rmsle``: the root mean squared error of log(1 + value)."""

    base_name = "rmsle"
    is_root = True
    mean = staticmethod(kernels.mean_squared_log_error)
    lowest = -1.0


@register
class MeanAbsoluteError(MeanLoss):
    """``mae``: the mean absolute error."""

    base_name = "mae"
    mean = staticmethod(kernels.mean_absolute_error)


@register
class MeanAbsoluteShare(MeanLoss):
    """``mape``: the mean absolute error relative to the label, as a fraction."""

    base_name = "mape"
    mean = staticmethod(kernels.mean_absolute_share)


@register
class PseudoHuberLoss(MeanLoss):
    """``mphe``: the mean pseudo-Huber loss with huber_slope."""

    base_name = "mphe"
    mean = staticmethod(kernels.mean_pseudo_huber_loss)

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.settings.huber_slope,)


class LevelLoss(MeanLoss):
    """Base of means over rows and levels of a loss with a level for each output."""

    many_targets = False
    #: The training parameter with the levels.
    levels: ClassVar[str]

    @property
    def numbers(self) -> tuple[float, ...]:
        levels: tuple[float, ...] | None = getattr(self.settings, self.levels)
        if levels is None:
            raise ParameterError(
                f"eval_metric {self.name!r} needs {self.levels}; set it as for "
                f"'reg:{self.name}error'",
                code=ErrorCode.MISSING_PARAMETER,
            )
        return levels

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        columns = predictions.reshape(len(labels), -1)
        if columns.shape[1] not in (1, len(self.numbers)):
            raise DataError(
                f"{self.name} got {columns.shape[1]} predictions per row for levels "
                f"{list(self.numbers)}; give one, or one for each level",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        spread = np.broadcast_to(columns, (len(labels), len(self.numbers)))
        return type(self).mean(
            np.ascontiguousarray(spread),
            labels.reshape(-1, 1),
            weights,
            np.array(self.numbers, np.float64),
        )


@register
class QuantileLoss(LevelLoss):
    """``quantile``: the mean pinball loss of quantile_alpha."""

    base_name = "quantile"
    levels = "quantile_alpha"
    mean = staticmethod(kernels.mean_quantile_loss)


@register
class ExpectileLoss(LevelLoss):
    """``expectile``: the mean asymmetric squared error of expectile_alpha."""

    base_name = "expectile"
    levels = "expectile_alpha"
    mean = staticmethod(kernels.mean_expectile_loss)


@register
class PoissonLoss(MeanLoss):
    """``poisson-nloglik``: the mean negative log-likelihood of Poisson counts."""

    base_name = "poisson-nloglik"
    mean = staticmethod(kernels.mean_poisson_loss)
    lowest = 0.0
    lowest_counts = True


@register
class GammaDeviance(MeanLoss):
    """``gamma-deviance``: the mean unit deviance of the gamma distribution."""

    base_name = "gamma-deviance"
    mean = staticmethod(kernels.mean_gamma_deviance)
    lowest = 0.0
    lowest_counts = True


@register
class GammaLoss(MeanLoss):
    """``gamma-nloglik``: the mean negative log-likelihood of exponential distributions.

    That is the gamma distribution with shape 1, as in XGBoost.
    """

    base_name = "gamma-nloglik"
    mean = staticmethod(kernels.mean_gamma_loss)
    lowest = 0.0
    lowest_counts = True


@register
class TweedieLoss(MeanLoss):
    """``tweedie-nloglik@rho``: the mean negative Tweedie log-likelihood.

    It is up to a constant that does not depend on the predictions.
    """

    base_name = "tweedie-nloglik"
    mean = staticmethod(kernels.mean_tweedie_loss)
    lowest = 0.0
    lowest_counts = True

    def take(self, parameter: str | None) -> None:
        self.power = number_after_at("tweedie-nloglik", parameter, "1.5")
        if not 1.0 <= self.power < 2.0:
            raise ParameterError(
                f"eval_metric 'tweedie-nloglik@{parameter}' needs a power of at least "
                "1 and below 2 after the '@', such as 'tweedie-nloglik@1.5'",
                code=ErrorCode.INVALID_METRIC_PARAMETER,
            )
        self.name = f"tweedie-nloglik@{self.power:g}"

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.power,)
