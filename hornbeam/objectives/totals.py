"""Sums over rows that do not depend on their order or their partitions.

The values are added as integers in fixed point. The step is derived from the number of
rows and the largest magnitude, which are therefore needed first; over partitions it is
the maximum of theirs. The integer sums of the partitions add up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import DataError, ErrorCode

__all__ = ["as_totals", "largest_of", "sum_steps", "totals_of"]

Floats = NDArray[np.float64]

#: Rows that are added at a time, so that what is computed of them stays in the
#: second-level cache.
_BLOCK_ROWS = 1 << 14


def largest_of(columns: Iterable[Floats]) -> Floats:
    """Return the largest magnitude of each column, (columns,)."""
    ends = [(c.min(initial=0.0), c.max(initial=0.0)) for c in columns]
    return np.abs(np.array(ends, np.float64).reshape(-1, 2)).max(axis=1)


def sum_steps(
    columns: Iterable[Floats], largest: Floats, n_rows: int
) -> NDArray[np.int64]:
    """Return the sum of each column as an integer number of steps, (columns,).

    `largest` and `n_rows` are those of all partitions.
    """
    # Two factors, since one may be too large for a float. Multiplying all values is
    # twenty times as fast as ldexp.
    shifts = _shifts(largest, n_rows)
    halves = np.ldexp(1.0, shifts // 2), np.ldexp(1.0, shifts - shifts // 2)
    return np.array(
        [
            sum(
                np.rint(column[i : i + _BLOCK_ROWS] * first * second)
                .astype(np.int64)
                .sum()
                for i in range(0, column.size, _BLOCK_ROWS)
            )
            for column, first, second in zip(columns, *halves, strict=True)
        ],
        np.int64,
    )


def as_totals(steps: NDArray[np.int64], largest: Floats, n_rows: int) -> Floats:
    """Return the sums of columns from their numbers of steps."""
    return np.ldexp(steps.astype(np.float64), -_shifts(largest, n_rows))


def totals_of(columns: Iterable[Floats], n_rows: int) -> Floats:
    """Return the sum of each column of all rows."""
    listed = list(columns)
    largest = largest_of(listed)
    return as_totals(sum_steps(listed, largest, n_rows), largest, n_rows)


def _shifts(largest: Floats, n_rows: int) -> NDArray[np.int64]:
    """Return the binary exponent of each column's scale factor."""
    if not np.isfinite(largest).all():
        raise DataError(
            "labels times weights exceed the range of float64; scale them down",
            code=ErrorCode.FLOAT_OVERFLOW,
        )
    exponents = np.frexp(largest)[1].astype(np.int64)  # largest < 2**exponent
    return np.asarray(62 - int(n_rows).bit_length() - exponents, np.int64)
