"""Conformal prediction: intervals and sets with a finite-sample coverage.

Rows that the model was not trained on give conformity scores: the absolute residual; of
quantiles how far the label is outside of them (Romano, Patterson and Candès 2019); of
classes one minus the probability of the label (LAC: Sadinle, Lei and Wasserman 2019)
and the probability of all classes that are more probable (APS without randomisation:
Romano, Sesia and Candès 2020). A value is in the interval, or a class in the set,
unless its score is above that of too many of these rows.

With ``"split"`` and ``"cqr"`` all scores are of one model, and a label is covered with
at least the probability `coverage`, over draws of calibration rows and new rows that
are exchangeable. With ``"cv+"`` they are of the bag that a row is out of, and the new
row is compared with them in that bag (Barber, Candès, Ramdas and Tibshirani 2021): the
proven bound is 1 - 2 (1 - coverage), less a term that falls with the rows; what is
measured is about `coverage`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import DataError, ErrorCode, ModelFileError, ParameterError

__all__ = [
    "CONFORMAL",
    "METHODS",
    "SET_SCORES",
    "ConformityScores",
    "class_scores",
    "groups_of",
]

#: The attribute of a booster that holds its conformity scores, as JSON.
CONFORMAL = "hornbeam_conformal"
METHODS = ("split", "cv+", "cqr")
SET_SCORES = ("lac", "aps")
#: Halvings of a range of float64 until its ends are neighbours.
_HALVINGS = 64

Floats = NDArray[np.float64]


class ConformityScores(NamedTuple):
    """The scores of calibration rows.

    Attributes
    ----------
    method
        One of `METHODS`.
    scores
        (kinds, rows) float64: one kind for values; for classes those of `SET_SCORES`.
    fold_of
        (rows,): the bag that computed the row's scores; zeros with one model.
    group_of
        (rows,): the index of the row's group; zeros without groups.
    groups
        The groups: their values in the column, as numbers or text.
    column
        The name or number of that column; None without groups.
    """

    method: str
    scores: Floats
    fold_of: NDArray[np.integer]
    group_of: NDArray[np.integer]
    groups: list[Any]
    column: str | int | None

    @classmethod
    def of(
        cls,
        method: str,
        scores: Floats,
        fold_of: NDArray[np.integer] | None,
        groups: Sequence[Any] | None,
        column: str | int | None,
    ) -> ConformityScores:
        """Return scores whose rows are in these groups; None: all are in one."""
        n_rows = scores.shape[1]
        nowhere = np.zeros(n_rows, np.int64)
        names = list(dict.fromkeys(groups or ()))
        index = {name: number for number, name in enumerate(names)}
        return cls(
            method,
            scores,
            nowhere if fold_of is None else fold_of,
            nowhere if groups is None else np.array([index[name] for name in groups]),
            names,
            column,
        )

    # Files

    def to_text(self) -> str:
        """Return the scores as the text of an attribute."""
        return json.dumps(
            {
                "method": self.method,
                "column": self.column,
                "groups": self.groups,
                "kinds": len(self.scores),
                "scores": _encoded(self.scores, "<f8"),
                "fold_of": _encoded(self.fold_of, "<u4"),
                "group_of": _encoded(self.group_of, "<u4"),
            }
        )

    @classmethod
    def from_text(cls, text: str) -> ConformityScores:
        """Return the scores that `to_text` wrote."""
        try:
            found = json.loads(text)
            scores = _decoded(found["scores"], "<f8").reshape(found["kinds"], -1)
            fold_of, group_of = (
                _decoded(found[name], "<u4").astype(np.int64)
                for name in ("fold_of", "group_of")
            )
            if not len(fold_of) == len(group_of) == scores.shape[1]:
                raise ValueError
            return cls(
                found["method"],
                scores,
                fold_of,
                group_of,
                list(found["groups"]),
                found["column"],
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelFileError(
                f"the attribute {CONFORMAL!r} of the model holds no conformity scores; "
                "fit the estimator again, and save it",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            ) from None

    # Prediction

    def interval(
        self, lower: Floats, upper: Floats, coverage: float, groups: Any
    ) -> Floats:
        """Return intervals, (rows, 2).

        Parameters
        ----------
        lower, upper
            (folds, rows): what the scores are subtracted from and added to, for each
            bag: predictions, or the outer quantiles.
        coverage
            The probability that an interval contains the target.
        groups
            The group of each row; None without groups.
        """
        found = np.empty((lower.shape[1], 2))
        for rows, (scores, rank) in self._calibrated(coverage, groups, lower.shape[1]):
            own = [fold[0] for fold in scores]
            found[rows, 0] = -_order_statistic(-lower[:, rows], own, rank)
            found[rows, 1] = _order_statistic(upper[:, rows], own, rank)
        crossed = found[:, 0] > found[:, 1]
        found[crossed] = found[crossed].mean(axis=1, keepdims=True)
        return found

    def sets(
        self, candidates: Floats, kind: int, coverage: float, groups: Any
    ) -> NDArray[np.bool_]:
        """Return prediction sets, (rows, classes).

        Parameters
        ----------
        candidates
            (folds, rows, classes): the score of each class, for each bag.
        kind
            The index of the score in `SET_SCORES`.
        coverage, groups
            As for `interval`.
        """
        found = np.empty(candidates.shape[1:], np.bool_)
        for rows, (scores, rank) in self._calibrated(coverage, groups, len(found)):
            below = sum(
                np.searchsorted(fold[kind], own[rows], side="left")
                for fold, own in zip(scores, candidates, strict=True)
            )
            found[rows] = below < rank
        return found

    def _calibrated(
        self, coverage: float, groups: Any, n_rows: int
    ) -> Iterator[tuple[NDArray[np.intp], tuple[list[Floats], int]]]:
        """Yield the new rows of each group with its scores and their rank.

        The scores are a sorted (kinds, rows) for each fold.
        """
        _check_coverage(coverage)
        if self.column is None:
            yield np.arange(n_rows), self._scores_of(0, coverage)
            return
        index = {name: number for number, name in enumerate(self.groups)}
        for row, name in enumerate(groups):
            if name not in index:
                raise DataError(
                    f"row {row} has {name!r} in the column {self.column!r}, a group "
                    "that has no calibration rows; fit with rows of this group, or "
                    "leave conformal_groups out",
                    code=ErrorCode.CONFORMAL_UNKNOWN_GROUP,
                )
        group_of = np.array([index[name] for name in groups], np.int64)
        for number in np.unique(group_of).tolist():
            yield np.flatnonzero(group_of == number), self._scores_of(number, coverage)

    def _scores_of(self, group: int, coverage: float) -> tuple[list[Floats], int]:
        is_own = self.group_of == group
        count = int(is_own.sum())
        # Rounded, so that 0.9 of 10 rows are 9 rows.
        rank = math.ceil(round((count + 1) * coverage, 9))
        if rank > count:
            needed = math.ceil(round(coverage / (1.0 - coverage), 9))
            of_group = "" if self.column is None else f" of {self.groups[group]!r}"
            raise DataError(
                f"{count} calibration rows{of_group} are too few for a coverage of "
                f"{coverage:g}, which needs {needed}; lower it, or fit with more rows",
                code=ErrorCode.CONFORMAL_TOO_FEW_ROWS,
            )
        n_folds = int(self.fold_of.max()) + 1
        folds = [
            np.sort(self.scores[:, is_own & (self.fold_of == fold)])
            for fold in range(n_folds)
        ]
        return folds, rank


def class_scores(probabilities: NDArray[Any]) -> Floats:
    """Return the scores of each class, (kinds, rows, classes), as `SET_SCORES`.

    Parameters
    ----------
    probabilities
        (rows, classes).
    """
    p = probabilities.astype(np.float64)
    order = np.argsort(-p, axis=1, kind="stable")
    descending = np.take_along_axis(p, order, axis=1)
    above = np.cumsum(descending, axis=1) - descending
    more_probable = np.empty_like(p)
    np.put_along_axis(more_probable, order, above, axis=1)
    return np.array([1.0 - p, more_probable])


def groups_of(X: Any, column: str | int) -> list[Any]:
    """Return the group of each row, its value in a column: a number, or text."""
    values = _column(X, column)
    found = []
    for value in np.asarray(values).ravel().tolist():
        if isinstance(value, bool | int | float):
            # As the model sees it; all NaN are one group.
            number = float(np.float32(value))
            found.append("nan" if math.isnan(number) else number)
        else:
            found.append(str(value))
    return found


def _column(X: Any, column: str | int) -> Any:
    names = getattr(X, "columns", None)
    if names is None and hasattr(X, "column_names"):
        names = X.column_names  # a table of Arrow
    try:
        if names is not None:
            name = list(names)[column] if isinstance(column, int) else column
            return X[name]
        rows: Any = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
        part = rows[:, [column]]
        return part.toarray() if hasattr(part, "toarray") else part
    except (KeyError, IndexError, TypeError, ValueError):
        raise ParameterError(
            f"conformal_groups={column!r} is no column of X; give the name of a column "
            "of a frame, or the number of a column",
            code=ErrorCode.COLUMN_NOT_FOUND,
        ) from None


def _check_coverage(coverage: Any) -> None:
    is_number = isinstance(coverage, int | float | np.number)
    if not is_number or isinstance(coverage, bool) or not 0.0 < coverage < 1.0:
        raise ParameterError(
            "coverage must be above 0 and below 1, the probability that the target is "
            f"covered, not {coverage!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )


def _order_statistic(centres: Floats, scores: Sequence[Floats], rank: int) -> Floats:
    """Return the `rank`-th smallest of all sums of a fold's centre and its scores.

    Parameters
    ----------
    centres
        (folds, rows).
    scores
        The sorted scores of each fold.
    """
    if len(scores) == 1:
        return centres[0] + scores[0][rank - 1]
    least = min(fold[0] for fold in scores if fold.size)
    most = max(fold[-1] for fold in scores if fold.size)
    low, high = centres.min(axis=0) + least, centres.max(axis=0) + most
    low = np.nextafter(low, -np.inf)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        count = sum(
            np.searchsorted(fold, middle - centre, side="right")
            for fold, centre in zip(scores, centres, strict=True)
        )
        is_enough = count >= rank
        high, low = np.where(is_enough, middle, high), np.where(is_enough, low, middle)
    return high


def _encoded(values: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def _decoded(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype)
