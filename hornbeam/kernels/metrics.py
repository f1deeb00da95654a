"""What the metrics sum over rows, one row after the other.

Each sum runs in the order of the rows on one thread, and logarithms come from
`maths`, so that a metric's bits depend on the data alone.
"""

from __future__ import annotations

import math

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel

__all__ = [
    "ABSOLUTE",
    "ERROR",
    "LOG",
    "SQUARED",
    "area_under_precision_recall",
    "area_under_roc",
    "class_error",
    "class_log_loss",
    "mean_loss",
]

# The losses of a single prediction, for `mean_loss`.
SQUARED, ABSOLUTE, LOG, ERROR = range(4)

# Probabilities below it count as it, as in XGBoost: no row can cost more than 36.8.
SMALLEST_PROBABILITY = 1e-16


@inline
def log_loss(probability):
    """Return minus the logarithm of an outcome's stated probability; NaN for NaN."""
    if math.isnan(probability):
        return probability
    if probability < SMALLEST_PROBABILITY:
        return -maths.log(SMALLEST_PROBABILITY)
    return -maths.log(probability)


@inline
def row_loss(loss, threshold, label, prediction):
    """Return one row's loss; a prediction of NaN gives NaN."""
    if loss == SQUARED:
        return (label - prediction) * (label - prediction)
    if loss == ABSOLUTE:
        return abs(label - prediction)
    if loss == ERROR:
        if math.isnan(prediction):
            return prediction
        return 1.0 - label if prediction > threshold else label
    total = 0.0
    if label != 0.0:
        total += label * log_loss(prediction)
    if label != 1.0:
        total += (1.0 - label) * log_loss(1.0 - prediction)
    return total


@kernel
def mean_loss(
    predictions,  # (rows, outputs) float64
    labels,  # (rows, outputs) float64
    weights,  # (rows,) float64, or empty: every row counts once
    loss,
    threshold,
) -> float:
    """Return the weighted mean of `row_loss` over all cells, 0 where none weighs."""
    total = 0.0
    weight_total = 0.0
    for i in range(predictions.shape[0]):
        weight = weights[i] if weights.size else 1.0
        for k in range(predictions.shape[1]):
            total += weight * row_loss(loss, threshold, labels[i, k], predictions[i, k])
            weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0


@kernel
def class_log_loss(
    predictions,  # (rows, classes) float64
    labels,  # (rows,) float64, whole numbers below the number of classes
    weights,  # (rows,) float64, or empty
) -> float:
    """Return the weighted mean of the log loss of each row's own class."""
    total = 0.0
    weight_total = 0.0
    for i in range(predictions.shape[0]):
        weight = weights[i] if weights.size else 1.0
        total += weight * log_loss(predictions[i, int(labels[i])])
        weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0


@kernel
def class_error(
    predictions,  # (rows, classes) float64
    labels,  # (rows,) float64, whole numbers below the number of classes
    weights,  # (rows,) float64, or empty
) -> float:
    """Return the weighted share of rows whose class is not the first of the highest.

    A row with a NaN counts as wrong.
    """
    total = 0.0
    weight_total = 0.0
    for i in range(predictions.shape[0]):
        weight = weights[i] if weights.size else 1.0
        label = int(labels[i])
        chosen = predictions[i, label]
        for k in range(predictions.shape[1]):
            below = predictions[i, k] < chosen
            tied_after = predictions[i, k] == chosen and k >= label
            if not (below or tied_after):
                total += weight
                break
        weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0


@kernel
def area_under_roc(
    order,  # (rows,) int64, rows from the highest prediction down
    ordered,  # (rows,) float64, a number for each of them, equal where they are tied
    labels,  # (rows,) float64 in [0, 1]
    weights,  # (rows,) float64, or empty
) -> tuple[float, float]:
    """Return the area, 1 at best, and the weight of positives; NaN of one class.

    Rows of one prediction are one step to the right (negatives) and up (positives),
    drawn as a slope: the area under it is that of a trapezium.
    """
    area = 0.0
    negative = positive = 0.0
    negative_before = positive_before = 0.0
    for r in range(order.size):
        i = order[r]
        if r > 0 and ordered[r] != ordered[r - 1]:
            width = negative - negative_before
            area += width * (positive_before + positive) * 0.5
            negative_before = negative
            positive_before = positive
        weight = weights[i] if weights.size else 1.0
        negative += (1.0 - labels[i]) * weight
        positive += labels[i] * weight
    area += (negative - negative_before) * (positive_before + positive) * 0.5
    if negative <= 0.0 or positive <= 0.0:
        return math.nan, positive
    return area / (negative * positive), positive


@inline
def precision_recall_step(
    negative_before, negative, positive_before, positive, positive_total
):
    """Return the area between two points of the curve of precision over recall.

    Between them negatives grow in a straight line with positives, which is a
    hyperbola in precision (Keilwagen, Grosse and Grau, 2014).
    """
    recall = positive / positive_total
    recall_before = positive_before / positive_total
    if positive == positive_before:
        return 0.0
    slope = (negative - negative_before) / (positive - positive_before)
    scale = slope + 1.0
    shift = (negative_before - slope * positive_before) / positive_total
    width = recall - recall_before
    if shift != 0.0:
        rise = maths.log(scale * recall + shift)
        rise -= maths.log(scale * recall_before + shift)
        width -= shift / scale * rise
    return width / scale


@kernel
def area_under_precision_recall(
    order,  # (rows,) int64, rows from the highest prediction down
    ordered,  # (rows,) float64, a number for each of them, equal where they are tied
    labels,  # (rows,) float64 in [0, 1]
    weights,  # (rows,) float64, or empty
) -> tuple[float, float]:
    """Return the area, 1 at best, and the weight of positives; NaN of one class."""
    negative_total = positive_total = 0.0
    for i in range(labels.size):
        weight = weights[i] if weights.size else 1.0
        negative_total += (1.0 - labels[i]) * weight
        positive_total += labels[i] * weight
    if negative_total <= 0.0 or positive_total <= 0.0:
        return math.nan, positive_total
    area = 0.0
    negative = positive = 0.0
    negative_before = positive_before = 0.0
    for r in range(order.size):
        i = order[r]
        if r > 0 and ordered[r] != ordered[r - 1]:
            area += precision_recall_step(
                negative_before, negative, positive_before, positive, positive_total
            )
            negative_before = negative
            positive_before = positive
        weight = weights[i] if weights.size else 1.0
        negative += (1.0 - labels[i]) * weight
        positive += labels[i] * weight
    area += precision_recall_step(
        negative_before, negative, positive_before, positive, positive_total
    )
    return area, positive_total
