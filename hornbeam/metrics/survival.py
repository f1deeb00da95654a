"""Metrics of times that were not all seen to their end."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels import survival as kernels
from hornbeam.metrics.base import Floats, Metric, register

__all__ = ["AcceleratedFailureLoss", "IntervalAccuracy", "PartialLikelihood"]


class _OfTimes(Metric):
    """A metric of one prediction a row, above 0."""

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
        """Return the metric; `weights` is empty where every row counts once."""


@register
class PartialLikelihood(_OfTimes):
    """``cox-nloglik``: minus Cox's partial log-likelihood an event, of hazard ratios.

    With weights it is that of rows as often as they weigh. NaN without any event.
    """

    base_name = "cox-nloglik"

    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        order, begins = kernels.by_time(labels)
        by_time = weights[order] if weights.size else weights
        events = kernels.events_of(labels[order], by_time)
        return kernels.partial_likelihood(predictions[order], by_time, events, begins)


class _OfBounds(_OfTimes):
    """A metric of times whose labels are two columns: the bounds of each."""

    needs = ("label_lower_bound", "label_upper_bound")

    def of(self, predictions: Floats, info: MetaInfo) -> float:
        lower, upper = (info[field] for field in self.needs)
        assert lower is not None and upper is not None
        return self(predictions, np.column_stack([lower, upper]), info.row_weights)

    def _check_targets(self, predictions: Floats, n_targets: int) -> None:
        assert n_targets == 2


@register
class AcceleratedFailureLoss(_OfBounds):
    """``aft-nloglik``: minus the mean log-likelihood of bounds, 27.6 a row at most.

    The distribution and its scale are those of the training.
    """

    base_name = "aft-nloglik"

    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        upper = labels[:, 1]
        if not (upper > 0.0).all():
            row = int(np.argmin(upper > 0.0))
            raise DataError(
                f"{self.name} is of times above 0, and label_upper_bound is "
                f"{upper[row]:g} in row {row}; mend it, or drop the row",
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
    """``interval-regression-accuracy``: the share of predictions within bounds."""

    base_name = "interval-regression-accuracy"
    maximize = True

    def of_times(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return kernels.inside_bounds(predictions, labels, weights)
