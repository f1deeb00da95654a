"""Metrics of classification: errors, log losses, ROC and precision-recall areas."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels import metrics as kernels
from hornbeam.kernels.sort import sort_floats
from hornbeam.metrics.base import Floats, Metric, number_after_at, register
from hornbeam.metrics.regression import MeanLoss

__all__ = [
    "Error",
    "LogLoss",
    "MedianSignificance",
    "MulticlassError",
    "MulticlassLogLoss",
    "OrdinalAbsoluteError",
    "PrecisionRecallArea",
    "RocArea",
]

Rows = npt.NDArray[np.int64]


def _check_unit_interval(name: str, labels: Floats) -> None:
    """Raise an error unless all labels are from 0 to 1."""
    if labels.min() >= 0.0 and labels.max() <= 1.0:
        return
    row = int(np.argmin((labels >= 0.0) & (labels <= 1.0)))
    raise DataError(
        f"{name} needs labels from 0 to 1, but the label of row {row} is "
        f"{labels.flat[row]:g}; use 0 and 1 for the two classes",
        code=ErrorCode.LABEL_OUT_OF_DOMAIN,
    )


def _check_classes(name: str, labels: Floats, n_classes: int) -> None:
    """Raise an error unless all labels are class indices."""
    fine = (labels >= 0.0) & (labels < n_classes) & (labels == np.floor(labels))
    if fine.all():
        return
    row = int(np.argmin(fine))
    raise DataError(
        f"{name} needs integer labels from 0 to {n_classes - 1}, but the label "
        f"of row {row} is {labels[row]:g}; number the classes from 0 and set num_class",
        code=ErrorCode.LABEL_OUT_OF_DOMAIN,
    )


@register
class LogLoss(MeanLoss):
    """``logloss``: the mean negative log-likelihood of two classes."""

    base_name = "logloss"
    mean = staticmethod(kernels.mean_log_loss)

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        _check_unit_interval(self.name, labels)
        return super().measure(predictions, labels, weights)


@register
class Error(MeanLoss):
    """``error`` or ``error@t``: the error rate of two classes at threshold t, 0.5."""

    base_name = "error"
    mean = staticmethod(kernels.mean_error)

    def take(self, parameter: str | None) -> None:
        self.threshold = 0.5
        if parameter is not None:
            self.threshold = number_after_at("error", parameter, "0.7")
        if self.threshold != 0.5:
            self.name = f"error@{self.threshold:g}"

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.threshold,)

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        _check_unit_interval(self.name, labels)
        return super().measure(predictions, labels, weights)


class _Multiclass(Metric):
    """Base of metrics of predictions with a column for each class."""

    def take(self, parameter: str | None) -> None:
        super().take(parameter)
        if self.n_outputs < 2:
            raise ParameterError(
                f"eval_metric {self.name!r} is for objectives with num_class of 2 or "
                f"more; use 'error' or 'logloss' with a single output",
                code=ErrorCode.METRIC_OBJECTIVE_MISMATCH,
            )

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        _check_classes(self.name, labels, predictions.shape[1])
        return self.mean(predictions, labels, weights)

    @abstractmethod
    def mean(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        """Return the metric of labels that are class indices."""


@register
class MulticlassLogLoss(_Multiclass):
    """``mlogloss``: the mean negative log-likelihood of several classes."""

    base_name = "mlogloss"

    def mean(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return kernels.class_log_loss(predictions, labels, weights)


@register
class MulticlassError(_Multiclass):
    """``merror``: the error rate of several classes."""

    base_name = "merror"

    def mean(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return kernels.class_error(predictions, labels, weights)


@register
class OrdinalAbsoluteError(_Multiclass):
    """``ordinal-mae``: the mean absolute error of the most probable class's index."""

    base_name = "ordinal-mae"

    def mean(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        return kernels.class_distance(predictions, labels, weights)


class _Area(Metric):
    """Base of areas under curves over all thresholds; one-vs-rest for several classes.

    The area is NaN, with a warning, if all rows are of one class, or if one of several
    classes has no rows.
    """

    maximize = True

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        if predictions.ndim == 1 or predictions.shape[1] == 1:
            _check_unit_interval(self.name, labels)
            area, _ = self._area(predictions.ravel(), labels, weights)
        else:
            _check_classes(self.name, labels, predictions.shape[1])
            area = self._mean_over_classes(predictions, labels, weights)
        if math.isnan(area):
            warnings.warn(
                f"{self.name} is nan: a class has no rows, or a prediction is nan",
                UserWarning,
                stacklevel=2,
            )
        return area

    def _mean_over_classes(
        self, predictions: Floats, labels: Floats, weights: Floats
    ) -> float:
        total = importance_total = 0.0
        for k in range(predictions.shape[1]):
            belongs = (labels == k).astype(np.float64)
            scores = np.ascontiguousarray(predictions[:, k])
            area, positive = self._area(scores, belongs, weights)
            importance = self.importance(positive)
            total += importance * area
            importance_total += importance
        return total / importance_total if importance_total > 0.0 else math.nan

    def _area(
        self, scores: Floats, labels: Floats, weights: Floats
    ) -> tuple[float, float]:
        # The sort is stable, and NaNs come last.
        ordered, order = sort_floats(-scores, np.arange(scores.size))
        assert order is not None
        if math.isnan(ordered[-1]):
            return math.nan, 0.0
        return self.curve(order, ordered, labels, weights)

    @abstractmethod
    def curve(
        self, order: Rows, ordered: Floats, labels: Floats, weights: Floats
    ) -> tuple[float, float]:
        """Return the area, NaN for one class, and the weight of positive rows."""

    @abstractmethod
    def importance(self, positive: float) -> float:
        """Return the weight in the mean over classes of a class of this weight."""


@register
class RocArea(_Area):
    """``auc``: the area under the ROC curve; its mean over classes is weighted."""

    base_name = "auc"

    def curve(
        self, order: Rows, ordered: Floats, labels: Floats, weights: Floats
    ) -> tuple[float, float]:
        return kernels.area_under_roc(order, ordered, labels, weights)

    def importance(self, positive: float) -> float:
        return positive


@register
class PrecisionRecallArea(_Area):
    """``aucpr``: the area under the precision-recall curve; unweighted over classes."""

    base_name = "aucpr"

    def curve(
        self, order: Rows, ordered: Floats, labels: Floats, weights: Floats
    ) -> tuple[float, float]:
        return kernels.area_under_precision_recall(order, ordered, labels, weights)

    def importance(self, positive: float) -> float:
        return 1.0


@register
class MedianSignificance(Metric):
    """``ams@k``: the approximate median significance of the fraction k of top rows.

    See Adam-Bourdarios and others (2014). For k = 0 it is the maximum over all
    fractions.
    """

    base_name = "ams"
    maximize = True

    def take(self, parameter: str | None) -> None:
        self.share = number_after_at("ams", parameter, "0.15")
        self.name = f"ams@{self.share:g}"

    def measure(self, predictions: Floats, labels: Floats, weights: Floats) -> float:
        ordered, order = sort_floats(-predictions.ravel(), np.arange(predictions.size))
        assert order is not None
        if math.isnan(ordered[-1]):
            return math.nan
        top = int(self.share * labels.size) or labels.size
        return kernels.approximate_median_significance(
            order, ordered, labels.ravel(), weights, top
        )
