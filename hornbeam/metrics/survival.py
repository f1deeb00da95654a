"""Metrics of survival analysis with censored times."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels import survival as kernels
from hornbeam.metrics.base import Floats, Metric, register

__all__ = ["AcceleratedFailureLoss", "IntervalAccuracy", "PartialLikelihood"]


class _OfTimes(Metric):
    """Base of metrics of one prediction per row, above 0."""

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        if predictions.size != len(labels):
            raise DataError(
                f"{self.name} got {predictions.size} predictions for {len(labels)} "
                "rows; it measures objectives of one output, such as survival:aft",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        wrong = ~(predictions.ravel() > 0.0)
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{self.name} needs predictions above 0, and that of row {row} is "
                f"{predictions.flat[row]:g}; it measures survival:cox and survival:aft",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )
        return self.of_times(predictions.ravel(), labels, weights)

    @abstractmethod
    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        """Return the metric; `weights` is empty if all rows have weight 1."""


@register
class PartialLikelihood(_OfTimes):
    """``cox-nloglik``: Cox's negative partial log-likelihood per event.

    Predictions are hazard ratios. A row of weight w counts as w rows. The metric is NaN
    without events.
    """

    base_name = "cox-nloglik"

    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        order, begins = kernels.by_time(labels)
        by_time = weights[order] if weights.size else weights
        events = kernels.events_of(labels[order], by_time)
        return kernels.partial_likelihood(predictions[order], by_time, events, begins)


class _OfBounds(_OfTimes):
    """Base of metrics whose labels have two columns, the bounds of times."""

    needs = ("label_lower_bound", "label_upper_bound")

    def of(self, predictions: Floats, info: MetaInfo) -> float:
        lower, upper = (info[field] for field in self.needs)
        assert lower is not None and upper is not None
        return self(predictions, np.column_stack([lower, upper]), info.row_weights)

    def _check_targets(self, predictions: Floats, n_targets: int) -> None:
        assert n_targets == 2


@register
class AcceleratedFailureLoss(_OfBounds):
    """``aft-nloglik``: the mean negative log-likelihood of bounds on times.

    It is at most 27.6 per row. The distribution and its scale are those of the training
    parameters.
    """

    base_name = "aft-nloglik"

    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        upper = labels[:, 1]
        if not (upper > 0.0).all():
            row = int(np.argmin(upper > 0.0))
            raise DataError(
                f"{self.name} requires times above 0, and label_upper_bound is "
                f"{upper[row]:g} in row {row}; correct it, or drop the row",
                code=ErrorCode.LABEL_OUT_OF_DOMAIN,
            )
        return kernels.mean_failure_loss(
            predictions,
            labels,
            weights,
            kernels.DISTRIBUTIONS[self.settings.aft_loss_distribution],
            self.settings.aft_loss_distribution_scale,
        )


@register
class IntervalAccuracy(_OfBounds):
    """``interval-regression-accuracy``: the fraction of predictions within bounds."""

    base_name = "interval-regression-accuracy"
    maximize = True

    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return kernels.inside_bounds(predictions, labels, weights)
