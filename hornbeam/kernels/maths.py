"""Every scalar formula, once: objectives, leaf weights, gains, random numbers.

exp and log are polynomials made of additions, multiplications and one division, in a
fixed order and without fused operations. Their bits are those of IEEE arithmetic and
so the same on every processor, which no mathematical library promises.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline

__all__ = [
    "exp",
    "given_weight_gain",
    "leaf_weight",
    "log",
    "philox",
    "sigmoid",
    "soft_threshold",
    "split_score",
]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # 21 trailing zero bits: products by k are exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer
_EXP_LOWEST = -708.0
_EXP_HIGHEST = 709.0


@inline
def exp(x: float) -> float:
    """Return e**x to 1 ulp; x is held between -708 and 709.

    Reduction to |r| <= ln(2)/2 and a Taylor polynomial of degree 13.
    """
    x = min(max(x, _EXP_LOWEST), _EXP_HIGHEST)
    k = (x * _LOG2_E + _ROUND) - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * np.int64((np.int64(k) + 1023) << 52).view(np.float64)


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
def sigmoid(x: float) -> float:
    """Return 1 / (1 + e**-x)."""
    return 1.0 / (1.0 + exp(-x))


@inline
def soft_threshold(gradient: float, alpha: float) -> float:
    """Return the gradient sum drawn towards zero by `alpha` (L1)."""
    return max(gradient - alpha, 0.0) + min(gradient + alpha, 0.0)


@inline
def leaf_weight(
    gradient: float,
    hessian: float,
    reg_lambda: float,
    reg_alpha: float,
    max_delta_step: float,
) -> float:
    """Return the weight that minimises a leaf's loss (Chen & Guestrin 2016, eq. 5)."""
    if hessian <= 0.0:
        return 0.0
    weight = -soft_threshold(gradient, reg_alpha) / (hessian + reg_lambda)
    if max_delta_step > 0.0:
        weight = min(max(weight, -max_delta_step), max_delta_step)
    return weight


@inline
def split_score(
    left_gradient: float,
    left_hessian: float,
    right_gradient: float,
    right_hessian: float,
    reg_lambda: float,
    reg_alpha: float,
) -> float:
    """Return G_l**2 / (H_l + lambda) + G_r**2 / (H_r + lambda), soft-thresholded.

    The gain of a split (eq. 7, without the factor 1/2) is this less the same term of
    the node. One division of the common fraction costs half as much as two, and
    exchanging left and right gives the same bits.
    """
    left = soft_threshold(left_gradient, reg_alpha)
    right = soft_threshold(right_gradient, reg_alpha)
    left_size = left_hessian + reg_lambda
    right_size = right_hessian + reg_lambda
    return (left * left * right_size + right * right * left_size) / (
        left_size * right_size
    )


@inline
def given_weight_gain(
    gradient: float,
    hessian: float,
    weight: float,
    reg_lambda: float,
    reg_alpha: float,
) -> float:
    """Return the loss that a leaf of a given, perhaps clipped, weight takes away."""
    return -(
        2.0 * gradient * weight
        + (hessian + reg_lambda) * weight * weight
        + 2.0 * reg_alpha * abs(weight)
    )


@inline
def philox(
    counter: int, stream: int, purpose: int, key: int
) -> tuple[int, int, int, int]:
    """Return four times 32 random bits that depend on nothing but the arguments.

    Philox 4x32 with ten rounds (Salmon, Moraes, Dror and Shaw 2011). `counter` is a
    quarter of the number of the row or feature, `stream` and `purpose` (32 bits each)
    say which draw of the training it is, and `key` is the seed; all are uint64.
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
