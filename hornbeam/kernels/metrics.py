"""Sums of metrics over rows.

Each sum runs in row order in one thread, and logarithms come from `maths`, so that the
bits of a metric depend only on the data.
"""

from __future__ import annotations

import math

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel, kernel_of

__all__ = [
    "approximate_median_significance",
    "area_under_precision_recall",
    "area_under_roc",
    "class_distance",
    "class_error",
    "class_log_loss",
    "mean_absolute_error",
    "mean_absolute_share",
    "mean_error",
    "mean_expectile_loss",
    "mean_gamma_deviance",
    "mean_gamma_loss",
    "mean_log_loss",
    "mean_lognormal_loss",
    "mean_negative_binomial_loss",
    "mean_normal_loss",
    "mean_poisson_loss",
    "mean_pseudo_huber_loss",
    "mean_quantile_loss",
    "mean_squared_error",
    "mean_squared_log_error",
    "mean_tweedie_loss",
]

# The lower bound of probabilities, as in XGBoost: the loss of a row is at most 36.8.
SMALLEST_PROBABILITY = 1e-16
# Constants that XGBoost adds to means, or bounds them by.
_SMALL_MEAN = 1e-6

# --- The loss of one label and a prediction that is not NaN ---------------------------
# The third argument is the parameter of the loss, if it has any.


@inline
def squared_error(label, prediction, _):
    return (label - prediction) * (label - prediction)


@inline
def absolute_error(label, prediction, _):
    return abs(label - prediction)


@inline
def absolute_share(label, prediction, _):
    return abs((label - prediction) / label)


@inline
def squared_log_error(label, prediction, _):
    difference = maths.log1p(label) - maths.log(max(1.0 + prediction, _SMALL_MEAN))
    return difference * difference


@inline
def pseudo_huber_loss(label, prediction, slope):
    z = (label - prediction) / slope
    return slope * slope * (math.sqrt(1.0 + z * z) - 1.0)


@inline
def quantile_loss(label, prediction, alpha):
    difference = label - prediction
    return max(alpha * difference, (alpha - 1.0) * difference)


@inline
def expectile_loss(label, prediction, alpha):
    difference = label - prediction
    return maths.side_weight(-difference, alpha) * difference * difference


@inline
def poisson_loss(label, prediction, _):
    mean = max(prediction, SMALLEST_PROBABILITY)
    return maths.log_gamma(label + 1.0) + mean - label * maths.log(mean)


@inline
def gamma_deviance(label, prediction, _):
    ratio = (label + _SMALL_MEAN) / (max(prediction, 0.0) + _SMALL_MEAN)
    return 2.0 * (ratio - maths.log(ratio) - 1.0)


@inline
def gamma_loss(label, prediction, _):
    mean = max(prediction, _SMALL_MEAN)
    return label / mean + maths.log(mean)


@inline
def tweedie_loss(label, prediction, power):
    log_mean = maths.log(max(prediction, SMALLEST_PROBABILITY))
    above = maths.exp((2.0 - power) * log_mean) / (2.0 - power)
    if power == 1.0:  # the Poisson limit, up to a constant
        return above - label * log_mean
    return above - label * maths.exp((1.0 - power) * log_mean) / (1.0 - power)


@inline
def error(label, prediction, threshold):
    return 1.0 - label if prediction > threshold else label


@inline
def surprise(probability):
    """Return minus the logarithm of an outcome's predicted probability; NaN for NaN."""
    if math.isnan(probability):
        return probability
    if probability < SMALLEST_PROBABILITY:
        return -maths.log(SMALLEST_PROBABILITY)
    return -maths.log(probability)


@inline
def log_loss(label, prediction, _):
    total = 0.0
    if label != 0.0:
        total += label * surprise(prediction)
    if label != 1.0:
        total += (1.0 - label) * surprise(1.0 - prediction)
    return total


def mean_of(loss):
    """Return the kernel of the mean of a loss."""

    @kernel_of(loss)
    def mean(
        predictions,  # (rows, outputs) float64
        labels,  # (rows, outputs) float64, or one column for all outputs
        weights,  # (rows,) float64, or empty: every row counts once
        numbers,  # float64, the parameter of the loss: for all outputs, or for each
    ) -> float:
        """Return the weighted mean over rows and outputs; 0 if all weights are 0."""
        total = 0.0
        weight_total = 0.0
        for i in range(predictions.shape[0]):
            weight = weights[i] if weights.size else 1.0
            for k in range(predictions.shape[1]):
                label = labels[i, min(k, labels.shape[1] - 1)]
                prediction = predictions[i, k]
                value = prediction
                if not math.isnan(prediction):
                    value = loss(label, prediction, numbers[min(k, numbers.size - 1)])
                total += weight * value
                weight_total += weight
        return total / weight_total if weight_total > 0.0 else 0.0

    return mean


mean_absolute_error = mean_of(absolute_error)
mean_absolute_share = mean_of(absolute_share)
mean_error = mean_of(error)
mean_expectile_loss = mean_of(expectile_loss)
mean_gamma_deviance = mean_of(gamma_deviance)
mean_gamma_loss = mean_of(gamma_loss)
mean_log_loss = mean_of(log_loss)
mean_poisson_loss = mean_of(poisson_loss)
mean_pseudo_huber_loss = mean_of(pseudo_huber_loss)
mean_quantile_loss = mean_of(quantile_loss)
mean_squared_error = mean_of(squared_error)
mean_squared_log_error = mean_of(squared_log_error)
mean_tweedie_loss = mean_of(tweedie_loss)

# --- Distributions: the loss of one label and the two parameters of its distribution --

_HALF_LOG_2_PI = 0.9189385332046727


@inline
def normal_loss(label, mean, scale):
    z = (label - mean) / scale
    return 0.5 * z * z + maths.log(scale) + _HALF_LOG_2_PI


@inline
def lognormal_loss(label, mean, scale):
    logarithm = maths.log(label)
    return normal_loss(logarithm, mean, scale) + logarithm


@inline
def negative_binomial_loss(count, mean, dispersion):
    excess = dispersion * mean
    ways = maths.rising_log(count, dispersion) - maths.log_gamma(count + 1.0)
    none = maths.log1p(excess) / dispersion
    return none + count * (maths.log1p(excess) - maths.log(mean)) - ways


def mean_of_pairs(loss):
    """Return the kernel of the mean of a loss of two parameters."""

    @kernel_of(loss)
    def mean(
        predictions,  # (rows, 2) float64, the second above 0
        labels,  # (rows,) float64
        weights,  # (rows,) float64, or empty: every row counts once
    ) -> float:
        """Return the weighted mean over rows; 0 if all weights are 0."""
        total = 0.0
        weight_total = 0.0
        for i in range(predictions.shape[0]):
            weight = weights[i] if weights.size else 1.0
            total += weight * loss(labels[i], predictions[i, 0], predictions[i, 1])
            weight_total += weight
        return total / weight_total if weight_total > 0.0 else 0.0

    return mean


mean_lognormal_loss = mean_of_pairs(lognormal_loss)
mean_negative_binomial_loss = mean_of_pairs(negative_binomial_loss)
mean_normal_loss = mean_of_pairs(normal_loss)

# --- Classes --------------------------------------------------------------------------


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
        total += weight * surprise(predictions[i, int(labels[i])])
        weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0


@kernel
def class_distance(
    predictions,  # (rows, classes) float64
    labels,  # (rows,) float64, whole numbers below the number of classes
    weights,  # (rows,) float64, or empty
) -> float:
    """Return the weighted mean number of classes between a row's and its likeliest.

    The first of equal predictions counts; a row with a NaN makes the mean NaN.
    """
    total = 0.0
    weight_total = 0.0
    for i in range(predictions.shape[0]):
        weight = weights[i] if weights.size else 1.0
        best = 0
        sum_of_row = predictions[i, 0]
        for k in range(1, predictions.shape[1]):
            sum_of_row += predictions[i, k]
            if predictions[i, k] > predictions[i, best]:
                best = k
        if math.isnan(sum_of_row):
            total = math.nan
        total += weight * abs(labels[i] - best)
        weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0


@kernel
def class_error(
    predictions,  # (rows, classes) float64
    labels,  # (rows,) float64, whole numbers below the number of classes
    weights,  # (rows,) float64, or empty
) -> float:
    """Return the weighted error rate; the first of equal predictions counts.

    A row with a NaN is an error.
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
    order,  # (rows,) int64, rows by descending prediction
    ordered,  # (rows,) float64, the sorted predictions, to find ties
    labels,  # (rows,) float64 in [0, 1]
    weights,  # (rows,) float64, or empty
) -> tuple[float, float]:
    """Return the area, 1 at best, and the weight of positives; NaN for one class.

    Tied rows are one segment of the ROC curve, by the trapezoidal rule.
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

    Between them negatives grow linearly with positives, which is a hyperbola in
    precision (Keilwagen, Grosse and Grau, 2014).
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
    order,  # (rows,) int64, rows by descending prediction
    ordered,  # (rows,) float64, the sorted predictions, to find ties
    labels,  # (rows,) float64 in [0, 1]
    weights,  # (rows,) float64, or empty
) -> tuple[float, float]:
    """Return the area, 1 at best, and the weight of positives; NaN for one class."""
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


@inline
def significance(hits, misses):
    """Return the approximate median significance of hits among false positives."""
    background = misses + 10.0
    log = maths.log(1.0 + hits / background)
    return math.sqrt(2.0 * ((hits + background) * log - hits))


@kernel
def approximate_median_significance(
    order,  # (rows,) int64, rows by descending prediction
    ordered,  # (rows,) float64, the sorted predictions, to find ties
    labels,  # (rows,) float64, signals above 0.5
    weights,  # (rows,) float64, or empty
    top,  # rows selected as signals; all of them: the best number
) -> float:
    """Return the significance of the first `top` rows, or of the best number."""
    best = 0.0
    hits = misses = 0.0
    for r in range(min(top, order.size - 1)):
        i = order[r]
        weight = weights[i] if weights.size else 1.0
        if labels[i] > 0.5:
            hits += weight
        else:
            misses += weight
        if ordered[r] != ordered[r + 1]:
            best = max(best, significance(hits, misses))
    return best if top == order.size else significance(hits, misses)
