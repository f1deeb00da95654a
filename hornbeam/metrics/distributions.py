"""Metrics of predicted distributions: negative log-likelihoods of the labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels import metrics as kernels
from hornbeam.metrics.base import Floats, Metric, register

__all__ = ["LogNormalLoss", "NegativeBinomialLoss", "NormalLoss"]


class LikelihoodLoss(Metric):
    """Base of mean negative log-likelihoods of labels under predicted distributions."""

    #: The kernel of `hornbeam.kernels.metrics` that computes the mean.
    mean: ClassVar[Callable[..., float]]
    #: The objective that predicts these distributions.
    objective: ClassVar[str]
    #: Whether the first parameter must be above 0, like the second.
    first_positive: ClassVar[bool] = False
    #: The labels that the distribution has, for messages.
    need: ClassVar[str] = "numbers"

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        if predictions.ndim != 2 or predictions.shape[1] != 2:
            raise DataError(
                f"{self.name} measures two parameters of a distribution for each row; "
                f"use it with objective={self.objective!r}",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        parameters = predictions if self.first_positive else predictions[:, 1:]
        wrong = (parameters <= 0.0).any(axis=1)
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{self.name} needs parameters above 0, and those of row {row} are "
                f"{predictions[row].tolist()}; use it with "
                f"objective={self.objective!r}",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        labels = labels.ravel()
        outside = self.outside(labels)
        if outside.any():
            row = int(outside.argmax())
            raise DataError(
                f"{self.name} needs labels that are {self.need}, but the label of row "
                f"{row} is {labels[row]:g}; choose another eval_metric",
                code=ErrorCode.LABEL_OUT_OF_DOMAIN,
            )
        return type(self).mean(predictions, labels, weights)

    def outside(self, labels: Floats) -> npt.NDArray[np.bool_]:
        """Return whether each label is outside the support of the distribution."""
        return np.zeros(labels.shape, bool)


@register
class NormalLoss(LikelihoodLoss):
    """``normal-nll``: the negative log-likelihood of normal distributions."""

    base_name = "normal-nll"
    objective = "dist:normal"
    mean = staticmethod(kernels.mean_normal_loss)


@register
class LogNormalLoss(LikelihoodLoss):
    """``lognormal-nll``: the negative log-likelihood of log-normal distributions."""

    base_name = "lognormal-nll"
    objective = "dist:lognormal"
    mean = staticmethod(kernels.mean_lognormal_loss)
    need = "above 0"

    def outside(self, labels: Floats) -> npt.NDArray[np.bool_]:
        return labels <= 0.0


@register
class NegativeBinomialLoss(LikelihoodLoss):
    """``negbinomial-nll``: that of negative binomial distributions of counts."""

    base_name = "negbinomial-nll"
    objective = "dist:negbinomial"
    mean = staticmethod(kernels.mean_negative_binomial_loss)
    first_positive = True
    need = "counts"

    def outside(self, labels: Floats) -> npt.NDArray[np.bool_]:
        return (labels < 0.0) | (labels != np.floor(labels))
