"""What the labels of a ranking may be: grades, gains, or relevant and not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode

__all__ = ["check_gains", "check_grades", "check_relevant", "gains_of"]

Floats = npt.NDArray[np.float64]

_HIGHEST_GRADE = 31


def gains_of(grades: Floats) -> Floats:
    """Return the gain of each grade, 2**grade - 1."""
    return np.ldexp(1.0, grades.astype(np.int64)) - 1.0


def check_grades(what: str, labels: Floats) -> None:
    """Raise an error unless all labels are grades."""
    fine = (labels >= 0) & (labels <= _HIGHEST_GRADE) & (labels == np.floor(labels))
    _raise_unless(
        fine,
        labels,
        f"{what} needs whole grades from 0 to {_HIGHEST_GRADE}, whose gain is "
        "2**grade - 1; for labels that are gains themselves set ndcg_exp_gain=False",
        ErrorCode.LABEL_NOT_GRADE,
    )


def check_gains(what: str, labels: Floats) -> None:
    """Raise an error unless all labels may be gains."""
    _raise_unless(
        labels >= 0,
        labels,
        f"{what} needs gains of 0 or more",
        ErrorCode.LABEL_OUT_OF_DOMAIN,
    )


def check_relevant(what: str, labels: Floats) -> None:
    """Raise an error unless all labels are 0 or 1."""
    _raise_unless(
        (labels == 0) | (labels == 1),
        labels,
        f"{what} needs labels of 1 for relevant rows and 0 for others; use ndcg for "
        "grades",
        ErrorCode.LABEL_NOT_RELEVANCE,
    )


def _raise_unless(
    fine: npt.NDArray[np.bool_], labels: Floats, message: str, code: ErrorCode
) -> None:
    if not fine.all():
        row = int(np.argmin(fine))
        raise DataError(
            f"label {labels.flat[row]:g} in row {row}: {message}", code=code
        )
