"""Fixed-point steps for gradients and hessians, from how large they are.

A step depends on extremes of all rows and on how many there are, never on the parts
that these came from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    SUM_BITS,
)

__all__ = ["QuantisationScales", "choose_scales", "packed_is_enough"]

#: Where the mean |g| or h is under this many coarse steps, rounding is no longer
#: small beside it, and fine steps are used. A test shows both sides of the line.
_LEAST_MEAN_STEPS = 64
#: Rows that count for nothing in these means, as if they were the largest possible: a
#: few outliers must not hide that all others are small.
_OUTLIERS = 16
#: A fixed-point value must stay below this for rounding by float64 to be exact.
_FINEST_BITS = 51
#: The inverse of a step has to be finite.
_LEAST_EXPONENT = -900
_COARSE_BITS = np.array([COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS])
_COARSE_RANGE = 1 << _COARSE_BITS


@dataclass(frozen=True, slots=True)
class QuantisationScales:
    """Powers of two, (2,) float64: the values of one step of g and of h."""

    coarse: NDArray[np.float64]
    fine: NDArray[np.float64]

    def coarsely(self, pair: NDArray[np.float64]) -> list[int]:
        """Return what becomes of a gradient and a hessian in coarse steps."""
        steps: NDArray[np.float64] = np.rint(pair / self.coarse)
        return [int(step) for step in np.minimum(steps, _COARSE_RANGE - 1)]

    def one_row(self, largest: NDArray[np.float64], hessians: int, n_rows: int) -> int:
        """Return what every row's hessian is in coarse steps, if it is the same.

        Otherwise 0. `hessians` is their sum, in these steps.
        """
        # None is larger, so that all are as large if their sum is.
        most = self.coarsely(largest)[1]
        return most if hessians == n_rows * most else 0


def choose_scales(largest: NDArray[np.float64], n_rows: int) -> QuantisationScales:
    """Return the steps for this largest |g| and |h|, (..., 2), over so many rows."""
    if not np.isfinite(largest).all():
        raise DataError(
            "a gradient or hessian is not a finite float32 number: labels, "
            "weights or base margins are too large, or the learning rate makes "
            "training diverge; scale the labels or weights down, or lower "
            "learning_rate",
            code=ErrorCode.FLOAT_OVERFLOW,
        )
    exponents = np.frexp(largest)[1]  # largest < 2**exponent
    fine = min(_FINEST_BITS, SUM_BITS - n_rows.bit_length())
    return QuantisationScales(
        np.ldexp(1.0, np.maximum(exponents - _COARSE_BITS, _LEAST_EXPONENT)),
        np.ldexp(1.0, np.maximum(exponents - fine, _LEAST_EXPONENT)),
    )


def packed_is_enough(
    largest: NDArray[np.float64],
    least_hessian: float,
    magnitudes: NDArray[np.int64],
    n_rows: int,
) -> bool:
    """Whether histograms may be summed in coarse steps.

    `magnitudes` are the sums of |g| and h, (2,), in these steps. A caller's hessian
    may be negative; the packed half has no sign for it.
    """
    means = (magnitudes - _OUTLIERS * _COARSE_RANGE) / n_rows
    enough = (means >= _LEAST_MEAN_STEPS) | (largest == 0.0)
    return least_hessian >= 0.0 and bool(enough.all())
