"""Scalar formulas: objectives, leaf weights, gains, random numbers.

exp and log are polynomials of additions, multiplications and one division, in a fixed
order and without fused operations. So their results are bit-identical on every
processor with IEEE arithmetic, which mathematical libraries do not guarantee.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline

__all__ = [
    "LEAST_HESSIAN",
    "absolute_error",
    "class_gap",
    "class_range",
    "climb",
    "coordinate_step",
    "exp",
    "exp_from_series",
    "exp_parts",
    "exp_series",
    "focal",
    "focal_share",
    "gain_at",
    "gamma",
    "hinge",
    "leaf_gain",
    "leaf_weight",
    "log",
    "log1p",
    "log_gamma",
    "logistic",
    "lognormal",
    "mills_ratio",
    "mills_ratio_above",
    "negative_binomial",
    "normal",
    "philox",
    "poisson",
    "positive",
    "pseudo_huber",
    "quantile_error",
    "rising_log",
    "side_weight",
    "sigmoid",
    "smoothed_weight",
    "soft_threshold",
    "squared_error",
    "squared_log_error",
    "stirling",
    "sum_of_shares",
    "tweedie",
]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # 21 trailing zero bits: products by k are exact
_LN2_LOW = 1.90821492927058770002e-10
_HALF_LOG_2_PI = 0.9189385332046727
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer
_EXP_LOWEST = -708.0
_EXP_HIGHEST = 709.0
_ROOT_TWO_PI = 2.5066282746310002


@inline
def exp_parts(x: float) -> tuple[float, float]:
    """Return k and r of x = k ln(2) + r, |r| <= ln(2)/2; x is clipped to [-708, 709].

    The parts of `exp` are separate for loops over lanes, see `lanes.exp_lane`.
    """
    x = min(max(x, _EXP_LOWEST), _EXP_HIGHEST)
    k = (x * _LOG2_E + _ROUND) - _ROUND
    return k, (x - k * _LN2_HIGH) - k * _LN2_LOW


@inline
def exp_series(r: float) -> float:
    """Return the Taylor terms of e**r of degree 7 to 13, divided by r**7."""
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    return p * r + 1.0 / 5040.0


@inline
def exp_from_series(k: float, r: float, p: float) -> float:
    """Return e**(k ln(2) + r) from the upper terms `p` of the series."""
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    # The lowest bits of k + _ROUND are k: more processors have vectors of additions
    # than of conversions to integers.
    bits = np.float64(k + _ROUND).view(np.int64)
    return p * np.int64((bits + 1023) << 52).view(np.float64)


@inline
def exp(x: float) -> float:
    """Return e**x to 1 ulp; x is clipped to [-708, 709].

    Reduction to |r| <= ln(2)/2 and a Taylor polynomial of degree 13.
    """
    k, r = exp_parts(x)
    return exp_from_series(k, r, exp_series(r))


@inline
def log(x: float) -> float:
    """Return ln(x) for a positive, finite, normal x, to 2 ulp.

    x = m * 2**k with m in [sqrt(1/2), sqrt(2)) and ln(m) = 2 artanh((m-1)/(m+1)).
    """
    bits = np.float64(x).view(np.int64)
    # 0x3FE6A09E667F3BCD are the bits of sqrt(1/2).
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = np.int64(bits - (k << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    series = 2.0 * s * z * p
    return k * _LN2_HIGH + (2.0 * s + (series + k * _LN2_LOW))


@inline
def log1p(x: float) -> float:
    """Return ln(1 + x) for x above -1, to 4 ulp.

    The rounding error of 1 + x is corrected by the slope of the logarithm.
    """
    above = 1.0 + x
    return log(above) + (x - (above - 1.0)) / above


@inline
def log_gamma(x: float) -> float:
    """Return ln(gamma(x)) of a positive x to 1e-14; Stirling's series for x >= 8."""
    product = 1.0
    while x < 8.0:
        product *= x
        x += 1.0
    tail = stirling(1.0 / (x * x)) / x
    return (x - 0.5) * log(x) - x + _HALF_LOG_2_PI + tail - log(product)


@inline
def stirling(z: float) -> float:
    """Return x times the correction term of Stirling's series, for z = 1 / x**2."""
    p = 1.0 / 156.0
    p = p * z - 691.0 / 360360.0
    p = p * z + 1.0 / 1188.0
    p = p * z - 1.0 / 1680.0
    p = p * z + 1.0 / 1260.0
    p = p * z - 1.0 / 360.0
    return p * z + 1.0 / 12.0


@inline
def sigmoid(x: float) -> float:
    """Return 1 / (1 + e**-x)."""
    return 1.0 / (1.0 + exp(-x))


# --- Losses: the gradient and the hessian of one row ----------------------------------
# Each takes a margin, a target and the parameter of the loss, if it has any.

LEAST_HESSIAN = 1e-16
_LEAST_FLOAT32 = 1.1754943508222875e-38
#: The bound of margins that are logarithms, so that gradients are finite in float32.
_HIGHEST_LOG = 69.0
#: The bound of margins of the focal loss, so that exp(-margin) has an inverse.
_HIGHEST_FOCAL = 700.0


@inline
def squared_error(margin: float, target: float, _: float) -> tuple[float, float]:
    """Return g and h of (margin - target)**2 / 2."""
    return margin - target, 1.0


@inline
def squared_log_error(margin: float, target: float, _: float) -> tuple[float, float]:
    """Return g and h of (log(1 + margin) - log(1 + target))**2 / 2, for margin > -1.

    The hessian is gradient / (margin - target), so that the step of a leaf is a
    weighted mean of its residuals. The exact one is below 0 far above the target.
    """
    above, goal = max(margin + 1.0, 1e-6), target + 1.0
    difference = log(above) - log(goal)
    excess = (above - goal) / goal
    # Near 0 the quotient consists of rounding errors.
    ratio = difference / excess if abs(excess) > 1e-4 else 1.0 - 0.5 * excess
    return difference / above, max(ratio / (above * goal), LEAST_HESSIAN)


@inline
def pseudo_huber(margin: float, target: float, slope: float) -> tuple[float, float]:
    """Return g and h of slope**2 (sqrt(1 + (z / slope)**2) - 1), z = margin - target.

    The hessian is that of the parabola that majorises the loss and touches it at the
    margin, so that no step increases the loss. The exact one is almost 0 far from the
    target, where steps would be far too long.
    """
    z = margin - target
    curvature = 1.0 / np.sqrt(1.0 + (z / slope) * (z / slope))
    return z * curvature, curvature


@inline
def logistic(p: float, target: float, _: float) -> tuple[float, float]:
    """Return g and h of the log loss of a target in [0, 1], for p = sigmoid(margin)."""
    return p - target, max(p * (1.0 - p), LEAST_HESSIAN)


@inline
def _focal_pull(t: float, focal_gamma: float) -> tuple[float, float]:
    """Return minus the slope of -(1 - p)**focal_gamma log(p), p = sigmoid(t).

    And minus the slope of that, which is positive near t = 0.
    """
    t = min(max(t, -_HIGHEST_FOCAL), _HIGHEST_FOCAL)
    odds_against = exp(-t)
    p = 1.0 / (1.0 + odds_against)
    q = odds_against * p
    log_p = -log1p(odds_against)
    power = exp(focal_gamma * (log_p - t))  # q**focal_gamma
    pull = power * (q - focal_gamma * p * log_p)
    bend = (2.0 * focal_gamma + 1.0) * q + focal_gamma * (q - focal_gamma * p) * log_p
    return pull, p * power * max(bend, q)


@inline
def focal(margin: float, target: float, focal_gamma: float) -> tuple[float, float]:
    """Return g and h of the logistic loss times (1 - p)**focal_gamma.

    p is the probability of the true class. Where this is concave, at rows far on the
    wrong side, the hessian is that of the logistic loss times the same factor.
    """
    side = 2.0 * target - 1.0
    pull, hessian = _focal_pull(side * margin, focal_gamma)
    return -side * pull, max(hessian, LEAST_HESSIAN)


@inline
def focal_share(margin: float, focal_gamma: float) -> float:
    """Return the probability of class 1 for which this margin minimises the loss.

    The gradients of both classes then cancel (Charoenphakdee and others 2021).
    """
    up, _ = _focal_pull(margin, focal_gamma)
    down, _ = _focal_pull(-margin, focal_gamma)
    return down / (up + down)


@inline
def hinge(margin: float, target: float, _: float) -> tuple[float, float]:
    """Return g and h of max(0, 1 - y margin), y being 1 for target 1 and -1 for 0."""
    y = 2.0 * target - 1.0
    is_short = margin * y < 1.0
    return -y if is_short else 0.0, 1.0 if is_short else _LEAST_FLOAT32


@inline
def _log_mean(margin: float) -> float:
    return min(max(margin, -_HIGHEST_LOG), _HIGHEST_LOG)


@inline
def poisson(margin: float, target: float, _: float) -> tuple[float, float]:
    """Return g and h of the negative log-likelihood of a count of mean exp(margin).

    The hessian is not the exact one, the mean, but (3 mean + target) / 2: the step of a
    leaf is then 2 (x - 1) / (x + 3) for x = sum(targets) / sum(means), at most 5/8 of
    the best one, log(x), and half of it where x is near 1. There XGBoost's steps, whose
    hessian is the mean times e**0.7, are as long; elsewhere they may overshoot.
    """
    mean = exp(_log_mean(margin))
    return mean - target, 1.5 * mean + 0.5 * target


@inline
def gamma(margin: float, target: float, _: float) -> tuple[float, float]:
    """Return g and h of the gamma negative log-likelihood of mean exp(margin).

    The exact hessian is the ratio of target to mean, with which a leaf whose ratios are
    almost 0 would make an almost unlimited step. (2 ratio + 1) / 3 limits steps to 3,
    and keeps the gain of a leaf to the third order.
    """
    ratio = target * exp(-_log_mean(margin))
    return 1.0 - ratio, (2.0 * ratio + 1.0) / 3.0


@inline
def tweedie(margin: float, target: float, power: float) -> tuple[float, float]:
    """Return g and h of the Tweedie likelihood of a variance power from 1 to 2."""
    margin = _log_mean(margin)
    below = target * exp((1.0 - power) * margin)
    above = exp((2.0 - power) * margin)
    return above - below, (2.0 - power) * above - (1.0 - power) * below


# --- Losses of several levels, and of a residual and the scale of residuals -----------

#: The part of the residual scale over which the quantile loss is smoothed at 0.
_BEND = 0.3
_LEAST_SIZE = 1e-300
#: The constant that XGBoost adds to each step between expectiles.
_LEAST_STEP = 1e-6


@inline
def absolute_error(residual: float, size: float, _: float) -> tuple[float, float]:
    """Return g and h of |residual|, smoothed where it is smaller than `size`.

    The hessian is that of the parabola that majorises sqrt(size**2 + residual**2) and
    touches it at the residual, times `size`.
    """
    norm = max(np.sqrt(size * size + residual * residual), _LEAST_SIZE)
    curvature = size / norm
    return residual * curvature, curvature


@inline
def quantile_error(residual: float, size: float, level: float) -> tuple[float, float]:
    """Return g and h of the quantile loss, smoothed and times `size`.

    The loss is (1 - level) residual above the target and level -residual below, with
    log cosh near 0. The hessian is the mean of its curvature and that of a majorising
    parabola, tanh(x) / x, so that a step is at most twice the parabola's, where the
    parabola is as high as at the start.
    """
    x = residual / max(_BEND * size, _LEAST_SIZE)
    tanh = 1.0 - 2.0 / (exp(2.0 * x) + 1.0)
    # Near 0 the quotient consists of rounding errors.
    ratio = tanh / x if abs(x) > 1e-4 else 1.0 - x * x / 3.0
    gradient = 0.5 * size * (tanh + 1.0 - 2.0 * level)
    return gradient, 0.25 / _BEND * (ratio + (1.0 - tanh * tanh))


@inline
def deviation(margin: float, target: float, _: float) -> tuple[float, float]:
    """Return the sign of margin - target as g, for |margin - target|."""
    if margin == target:
        return 0.0, 1.0
    return 1.0 if margin > target else -1.0, 1.0


@inline
def pinball(margin: float, target: float, level: float) -> tuple[float, float]:
    """Return the slope of the quantile loss as g."""
    if margin == target:
        return 0.0, 1.0
    return 1.0 - level if margin > target else -level, 1.0


@inline
def side_weight(residual: float, level: float) -> float:
    """Return the weight of a squared residual, by its side of the expectile."""
    return 1.0 - level if residual >= 0.0 else level


@inline
def climb(below: float, margin: float) -> float:
    """Return the next higher expectile: below + softplus(margin) + a constant."""
    return below + _LEAST_STEP + (max(margin, 0.0) + log1p(exp(-abs(margin))))


# --- Ordered classes: a class is a range of the margin plus logistic noise ------------


@inline
def class_range(low: float, high: float) -> tuple[float, float]:
    """Return g and h, by the margin, of minus the log probability of a class.

    It is sigmoid(high) - sigmoid(low): `low` and `high` are the thresholds below and
    above the class, minus the margin; infinite for the first and the last class.
    """
    below, above = sigmoid(low), sigmoid(high)
    hessian = above * (1.0 - above) + below * (1.0 - below)
    return 1.0 - above - below, max(hessian, LEAST_HESSIAN)


@inline
def class_gap(low: float, high: float) -> tuple[float, float]:
    """Return g and h of the same by the gap high - low, which has a fixed centre."""
    odds = 1.0 / (exp(max(high - low, _LEAST_STEP)) - 1.0)
    below, above = sigmoid(low), sigmoid(high)
    spread = above * (1.0 - above) + below * (1.0 - below)
    gradient = -0.5 * (1.0 - above + below) - odds
    return gradient, 0.25 * spread + odds * (1.0 + odds)


# --- Distributions: gradients and hessians of a row's two margins ---------------------
# The mean of each hessian is the Fisher information, so that steps are natural gradient
# steps; rows far from their expectation have larger hessians, so smaller steps
# (docs/decisions/0019).

#: The largest squared residual in units of the scale, finite in float32.
_HIGHEST_SQUARE = 1e30
#: A row weighs at most exp(twice this) times a typical one, and at least its inverse.
_FURTHEST_SCALE = 6.0
#: The longest step of the log dispersion.
_LONGEST_STEP = 4.0
#: Sums of at most so many terms are exact, longer ones use series.
_FEW_TERMS = 16.0


@inline
def positive(margin: float) -> float:
    """Return the parameter whose logarithm is the margin: exp of the bounded margin."""
    return exp(_log_mean(margin))


@inline
def normal(
    mean: float, log_scale: float, label: float, log_typical: float
) -> tuple[float, float, float, float]:
    """Return g and h, by mean and log scale, of the normal negative log-likelihood.

    Those of the mean are multiplied by the square of a typical scale.
    """
    log_scale = _log_mean(log_scale)
    z = (label - mean) * exp(-log_scale)
    square = min(z * z, _HIGHEST_SQUARE)
    below = min(max(log_typical - log_scale, -_FURTHEST_SCALE), _FURTHEST_SCALE)
    precision = exp(2.0 * below)
    gradient = (mean - label) * precision
    return gradient, precision, 0.5 * (1.0 - square), 0.5 * (1.0 + square)


@inline
def lognormal(
    mean: float, log_scale: float, label: float, log_typical: float
) -> tuple[float, float, float, float]:
    """Return the same for a label whose logarithm is normally distributed."""
    return normal(mean, log_scale, log(label), log_typical)


@inline
def negative_binomial(
    log_mean: float, log_dispersion: float, count: float, _: float
) -> tuple[float, float, float, float]:
    """Return the same for a count of variance mean + dispersion * mean**2.

    The Fisher information is diagonal in these two parameters.
    """
    mean = positive(log_mean)
    dispersion = positive(log_dispersion)
    excess = dispersion * mean
    share = 1.0 / (1.0 + excess)
    gradient = (
        sum_of_shares(count, dispersion)
        - log1p(excess) / dispersion
        + (mean - count) * share
    )
    # An approximation of the Fisher information, which has no closed form: exact where
    # mean or dispersion are small, and too large where both are large.
    spread = 1.0 + excess
    fisher = 0.5 * excess * excess / (spread * spread + dispersion)
    hessian = max(fisher, abs(gradient) / _LONGEST_STEP, LEAST_HESSIAN)
    own = max(0.5 * (mean + count) * share, LEAST_HESSIAN)
    return (mean - count) * share, own, gradient, hessian


@inline
def sum_of_shares(count: float, dispersion: float) -> float:
    """Return the sum of 1 / (1 + dispersion * j) for j from 0 to count - 1.

    Beyond a few terms it is (digamma(count + size) - digamma(few + size)) / dispersion
    by their series, where size = 1 / dispersion.
    """
    total = 0.0
    few = min(count, _FEW_TERMS)
    for j in range(int(few)):
        total += 1.0 / (1.0 + dispersion * j)
    if count > few:
        size = 1.0 / dispersion
        a = 1.0 / (few + size)
        b = 1.0 / (count + size)
        series = log1p((count - few) * a) + 0.5 * (a - b)
        series += _digamma_tail(a * a) - _digamma_tail(b * b)
        total += size * series
    return total


@inline
def _digamma_tail(z: float) -> float:
    """Return ln(x) - 1 / (2 x) - digamma(x) of z = 1 / x**2, for x from 16 on."""
    p = -1.0 / 132.0
    p = p * z + 1.0 / 240.0
    p = p * z - 1.0 / 252.0
    p = p * z + 1.0 / 120.0
    p = p * z - 1.0 / 12.0
    return -p * z


@inline
def rising_log(count: float, dispersion: float) -> float:
    """Return the sum of log(1 + dispersion * j) for j from 0 to count - 1.

    With size = 1 / dispersion it is log_gamma(count + size) - log_gamma(size) - count *
    log(size), and accurate where size is large.
    """
    total = 0.0
    few = min(count, _FEW_TERMS)
    for j in range(int(few)):
        total += log1p(dispersion * j)
    if count > few:
        size = 1.0 / dispersion
        rest = count - few
        a = 1.0 / (few + size)
        b = 1.0 / (count + size)
        total += (few + size - 0.5) * log1p(rest * a)
        total += rest * (log1p(dispersion * count) - 1.0)
        total += b * stirling(b * b) - a * stirling(a * a)
    return total


# --- Trees ----------------------------------------------------------------------------


@inline
def mills_ratio_above(x: float) -> float:
    """Return the upper tail probability of the normal distribution over its density.

    For x >= 0, to a relative error of 3e-14: a polynomial in 4 / (4 + x), fitted at
    Chebyshev points.
    """
    t = 1.0 / (1.0 + 0.25 * x)
    s = 2.0 * t - 1.0
    p = 4.208083446956714e-09
    p = p * s - 8.098182770209586e-09
    p = p * s - 3.537206040645944e-08
    p = p * s + 9.23703753721419e-08
    p = p * s + 1.47026824967043e-07
    p = p * s - 6.31958223109758e-07
    p = p * s - 3.758567794234361e-07
    p = p * s + 3.70272996254779e-06
    p = p * s + 4.393493976030916e-07
    p = p * s - 2.201993712073216e-05
    p = p * s - 1.1925487343196147e-06
    p = p * s + 0.00014481609632303446
    p = p * s + 8.356046858537945e-05
    p = p * s - 0.0010219636934652907
    p = p * s - 0.002180573734543822
    p = p * s + 0.004725112692442411
    p = p * s + 0.03784794057282762
    p = p * s + 0.11688524075065583
    p = p * s + 0.2426023887170272
    p = p * s + 0.3809427277049808
    p = p * s + 0.47330476582712067
    return t * p


@inline
def mills_ratio(x: float) -> float:
    """Return the same for any x >= -37: below 0 by symmetry."""
    ratio = mills_ratio_above(abs(x))
    return ratio if x >= 0.0 else _ROOT_TWO_PI * exp(0.5 * x * x) - ratio


@inline
def soft_threshold(gradient: float, alpha: float) -> float:
    """Return the gradient sum shrunk towards zero by `alpha` (L1)."""
    return max(gradient - alpha, 0.0) + min(gradient + alpha, 0.0)


@inline
def leaf_weight(
    gradient: float,
    hessian: float,
    reg_lambda: float,
    reg_alpha: float,
    max_delta_step: float,
) -> float:
    """Return the weight that minimises a leaf's loss (Chen & Guestrin 2016, eq. 5).

    Its magnitude is at most `max_delta_step`, unless that is 0.
    """
    limit = max_delta_step if max_delta_step > 0.0 else np.inf
    weight = -soft_threshold(gradient, reg_alpha) / (hessian + reg_lambda)
    return min(max(weight, -limit), limit) if hessian > 0.0 else 0.0


@inline
def leaf_gain(
    gradient: float,
    hessian: float,
    reg_lambda: float,
    reg_alpha: float,
    max_delta_step: float,
) -> float:
    """Return twice the decrease of the loss by a leaf at its best weight.

    The gain of a split (eq. 7, times two) is this of both children minus this of the
    node. Without max_delta_step it is T(G)**2 / (H + lambda), where T is the soft
    threshold.
    """
    weight = leaf_weight(gradient, hessian, reg_lambda, reg_alpha, max_delta_step)
    # G w + alpha |w| is T(G) w, because w and T(G) never have the same sign.
    thresholded = soft_threshold(gradient, reg_alpha)
    return -weight * (2.0 * thresholded + (hessian + reg_lambda) * weight)


@inline
def gain_at(
    gradient: float, hessian: float, weight: float, reg_lambda: float, reg_alpha: float
) -> float:
    """Return twice the decrease of the loss by a leaf at any given weight."""
    quadratic = 2.0 * gradient * weight + (hessian + reg_lambda) * weight * weight
    return -(quadratic + 2.0 * reg_alpha * abs(weight))


@inline
def smoothed_weight(
    weight: float, rows: float, above: float, path_smooth: float
) -> float:
    """Return a node's weight shrunk towards its parent's (path smoothing).

    The parent counts as `path_smooth` rows, more than 0.
    """
    return weight + (above - weight) * (path_smooth / (rows + path_smooth))


@inline
def coordinate_step(
    gradient: float, hessian: float, weight: float, reg_lambda: float, reg_alpha: float
) -> float:
    """Return the coordinate descent step of one weight of a linear model.

    The sums are those of the rows' gradients times their values, and of the hessians
    times the values' squares (Friedman, Hastie and Tibshirani 2010, eq. 5).
    """
    pull = soft_threshold(gradient - hessian * weight, reg_alpha)
    best = -pull / (hessian + reg_lambda)
    return best - weight if hessian >= 1e-5 else 0.0


# --- Random numbers -------------------------------------------------------------------


@inline
def philox(
    counter: int, stream: int, purpose: int, key: int
) -> tuple[int, int, int, int]:
    """Return four words of 32 random bits that depend only on the arguments.

    Philox 4x32 with ten rounds (Salmon, Moraes, Dror and Shaw 2011). `counter` is a
    quarter of the index of the row or feature, `stream` and `purpose` (32 bits each)
    identify the draw in the training, and `key` is the seed; all are uint64.
    """
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c0 = counter & low
    c1 = counter >> half
    c2 = stream & low
    c3 = purpose & low
    k0 = key & low
    k1 = key >> half
    for _ in range(10):
        first = c0 * np.uint64(0xD2511F53)
        second = c2 * np.uint64(0xCD9E8D57)
        c0 = (second >> half) ^ c1 ^ k0
        c1 = second & low
        c2 = (first >> half) ^ c3 ^ k1
        c3 = first & low
        k0 = (k0 + np.uint64(0x9E3779B9)) & low
        k1 = (k1 + np.uint64(0xBB67AE85)) & low
    return c0, c1, c2, c3
