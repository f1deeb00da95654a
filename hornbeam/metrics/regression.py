"""Metrics of a number: means of a loss over all rows."""

from __future__ import annotations

import math
from typing import ClassVar

from hornbeam.errors import DataError
from hornbeam.kernels import metrics as kernels
from hornbeam.metrics.base import Floats, Metric, register

__all__ = ["MeanAbsoluteError", "MeanLoss", "RootMeanSquaredError"]


class MeanLoss(Metric):
    """The weighted mean of a loss that looks at one label and one prediction."""

    many_targets = True
    loss: ClassVar[int]
    threshold: float = math.nan

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        if predictions.size != labels.size:
            raise DataError(
                f"{self.name} got {predictions.size} predictions for {labels.size} "
                f"labels, one for each class; "
                f"use 'merror' or 'mlogloss' for more than two classes"
            )
        shape = (len(labels), -1)
        return kernels.mean_loss(
            predictions.reshape(shape),
            labels.reshape(shape),
            weights,
            self.loss,
            self.threshold,
        )


@register
class RootMeanSquaredError(MeanLoss):
    """``rmse``: the square root of the mean squared difference."""

    base_name = "rmse"
    loss = kernels.SQUARED

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return math.sqrt(super().measure(predictions, labels, weights))


@register
class MeanAbsoluteError(MeanLoss):
    """``mae``: the mean absolute difference."""

    base_name = "mae"
    loss = kernels.ABSOLUTE
