"""Approximate scores of the cuts of a numerical feature.

The cuts of a node are scored twice where that is possible (`may_screen`): all of them
approximately, and those that may be the best one by `score_exactly`. So the split is
the one that the exact scores alone would choose.

Approximate scores are in units of the sums. No term is negative, sums and differences
are taken of integers, and both children share one division, which takes longer than all
else. So scores in float32, of packed sums, are within 13 rounding errors of 2**-24 of
the exact ones, and scores in float64, of wide sums, are nearer. A cut whose approximate
score is lower than the highest by more than `MARGIN` is not the best.

Eight scores in float32 are computed by the instructions of one vector. LLVM would make
vectors of four from a loop, since the sums are of 64 bits: in compiled kernels
`score_packed_cuts` is an intrinsic, see `intrinsics`. Scores in float64 are of 64 bits
as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline
from hornbeam.kernels.leaves import gain_of

__all__ = [
    "LANES",
    "MARGIN",
    "MOST_RIDGE",
    "TINY",
    "WHOLE_BITS",
    "least_units",
    "may_screen",
    "score_exactly",
    "score_packed_cuts",
    "score_wide_cuts",
]

#: The cuts that are scored at a time in float32. Arrays of sums and of scores go on in
#: memory for one cut less than that: what is read there is ignored, and anything is
#: written.
LANES = 8
#: By how much approximate scores may differ, relative to the highest.
MARGIN = 2.0**-19
#: The least hessian of a child: above zero, also where min_child_weight is zero.
TINY = np.finfo(np.float64).tiny
#: L2 penalties below this, in units of hessian sums, overflow no float32.
MOST_RIDGE = 2.0**60
#: The bits of 1.5 * 2**52. An integer below 2**51, as sums of coarse gradients are,
#: that is added to them makes them the bits of the sum of both, since such floats are
#: integers. Few processors have vectors of conversions from 64 bits.
WHOLE_BITS = 0x4338000000000000
_LOW_HALF = 0xFFFFFFFF


@inline
def least_units(scales, rules):
    """Return the least hessian of a child in units of histogram sums, at least 1."""
    return max(1.0, np.ceil(max(rules.min_child_weight, TINY) / scales[1]))


@inline
def may_screen(scales, rules):
    """Return whether approximate scores are within the margin."""
    return (
        (rules.reg_alpha == 0.0)
        & (rules.max_delta_step == 0.0)
        & (rules.reg_lambda < MOST_RIDGE * scales[1])
        & (max(scales[0], scales[1]) < 2.0**300)
        & (min(scales[0], scales[1]) > 2.0**-300)
    )


@inline
def score_exactly(left_g, left_h, total_g, total_h, scales, rules):
    """Return the score of one cut, as `split._score_cuts` does."""
    g, h = left_g * scales[0], left_h * scales[1]
    node_g, node_h = total_g * scales[0], total_h * scales[1]
    return gain_of(g, h, rules) + gain_of(node_g - g, node_h - h, rules)


def score_packed_cuts(
    sums: NDArray[np.int64],
    count: int,
    extra: int,
    total: int,
    least: np.uint32,
    ridge: np.float32,
    scores: NDArray[np.float32],
) -> np.float32:
    """Score the cuts that leave ``sums[k] + extra`` on the left; return the highest.

    Parameters
    ----------
    sums
        (count,) int64, packed.
    total
        The packed sum of the node.
    least
        The least hessian of a child, in units; a cut that leaves less scores 0.
    ridge
        The L2 penalty, in units.
    scores
        (count,) float32, out.
    """
    left = sums[:count] + extra
    left_g, left_h = left >> 32, left & _LOW_HALF
    right_g, right_h = (total >> 32) - left_g, (total & _LOW_HALF) - left_h
    valid = (left_h >= least) & (right_h >= least)
    g, right_g = left_g.astype(np.float32), right_g.astype(np.float32)
    n, right_n = left_h.astype(np.float32) + ridge, right_h.astype(np.float32) + ridge
    own = g * g * right_n + right_g * right_g * n
    scores[:count] = 0.0
    np.divide(own, n * right_n, out=scores[:count], where=valid)
    return scores[:count].max(initial=np.float32(0.0))


@inline
def score_wide_cuts(sums_g, sums_h, none, every, ridge, scores):
    """Score cuts in float64; return the highest.

    Sums, which are integers, may be larger by a number: on the left of a cut are the
    `sums` minus `none`, on the right `every` minus `sums`. Both have a hessian.
    """
    (none_g, none_h), (every_g, every_h) = none, every
    highest = np.int64(0)
    for k in range(sums_g.size):
        left_g, left_h = sums_g[k] - none_g, sums_h[k] - none_h
        right_g, right_h = every_g - sums_g[k], every_h - sums_h[k]
        left_n, right_n = left_h + ridge, right_h + ridge
        score = left_g * left_g * right_n + right_g * right_g * left_n
        score /= left_n * right_n
        scores[k] = score
        # Non-negative floats are ordered as their bits are; LLVM makes vectors of this.
        highest = max(highest, np.float64(score).view(np.int64))
    return np.int64(highest).view(np.float64)
