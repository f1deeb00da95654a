"""Check of the derivatives of a custom loss by finite differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError

__all__ = ["check_slope"]

#: A function of a label and a margin.
Formula = Callable[[float, float], float]

#: The number of rows that are checked, and the distances of the margins from zero and
#: from the label.
_ROWS = 50
_MARGINS = (-1.7, -0.3, 0.6, 2.3)
_STEP = 1e-4
_TOLERANCE = 1e-3
_ROUNDING = 8.0 * np.finfo(float).eps
#: Formulas with larger values are near the limits of float64 and are not checked.
_HUGE = 1e100


def check_slope(
    owner: str,
    function: tuple[str, Formula],
    slope: tuple[str, Formula],
    labels: NDArray[np.float64],
) -> None:
    """Raise an error if `slope` is not the derivative of `function`.

    Parameters
    ----------
    owner
        The class of the formulas, for the message.
    function, slope
        The two formulas, each with its name.
    labels
        The labels of all rows.

    Raises
    ------
    ParameterError
        At the first row and margin where they differ, or are NaN.
    """
    (of, value), (name, stated_at) = function, slope
    for row, y, m in _places(labels):
        before, here, after = (_at(value, y, m + step) for step in (-_STEP, 0.0, _STEP))
        stated = _at(stated_at, y, m)
        where = f"in row {row} (label {y:g}) at margin {m:g}"
        if any(abs(found) > _HUGE for found in (before, here, after, stated)):
            continue
        if math.isnan(here) or math.isnan(stated):
            raise ParameterError(
                f"{owner}: {of} is {here:g} and {name} is {stated:g} {where}; they "
                "must be finite at any margin, since trees may predict any",
                code=ErrorCode.INVALID_FORMULA,
            )
        # At a kink the derivative of either side is correct.
        low, high = sorted(((here - before) / _STEP, (after - here) / _STEP))
        scale = max(abs(low), abs(high), abs(stated))
        slack = _TOLERANCE * scale
        slack += _ROUNDING * (abs(here) + abs(m) * scale) / _STEP
        if not low - slack <= stated <= high + slack:
            way_on = (
                "; correct one of them, or set exact_hessian = False if the hessian is "
                "meant to be something else"
            )
            raise ParameterError(
                f"{owner}: {name} is {stated:g} {where}, but {of} changes there by "
                f"{(after - before) / (2.0 * _STEP):g} a margin"
                f"{way_on if name == 'hessian' else '; correct one of them'}",
                code=ErrorCode.INVALID_FORMULA,
            )


def _places(labels: NDArray[np.float64]) -> Iterator[tuple[int, float, float]]:
    """Yield evenly spaced rows with their labels, and margins to check them at."""
    rows = np.linspace(0, labels.size - 1, min(labels.size, _ROWS)).astype(int)
    for row, offset in itertools.product(rows.tolist(), _MARGINS):
        y = float(labels[row])
        yield row, y, offset
        yield row, y, y + offset


def _at(formula: Formula, y: float, m: float) -> float:
    """Return the value of a formula as compiled code would compute it."""
    try:
        value = formula(y, m)
        # The square root of a negative number.
        return math.nan if isinstance(value, complex) else float(value)
    except OverflowError:
        return math.inf
    except (ZeroDivisionError, ValueError):
        return math.nan
