"""What features contribute to the margins of rows, with the values that they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.explain.columns import Column, columns_of, feature_number
from hornbeam.explain.reading import Boosted
from hornbeam.explain.subject import Subject
from hornbeam.explain.words import Float64s

__all__ = [
    "Contributions",
    "contributions_by_output",
    "contributions_of",
    "contributions_of_row",
    "interactions_of",
    "partners_of",
]

#: Of interactions: rows at most, and numbers at most.
_PAIR_ROWS = 300
_PAIR_CELLS = 1 << 25
#: An interaction of a smaller share of what a feature contributes is none.
_NOISE = 1e-4


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each feature contributes to the margin of each row.

    Parameters
    ----------
    values
        (rows, features).
    base
        (rows,): the margins of rows of which nothing is known.
    columns
        The features, with their values in the same rows.
    output
        The name of the output, "" of one that has none.
    """

    values: Float64s
    base: Float64s
    columns: list[Column]
    output: str = ""

    @classmethod
    def of_values(
        cls, values: Any, base: Any, data: Any, output: str = ""
    ) -> Contributions:
        """Return contributions that anyone computed.

        Parameters
        ----------
        values
            (rows, features).
        base
            One number, or one for each row.
        data
            The rows: a `DMatrix`, or whatever it takes.
        output
            The name of what they add up to.
        """
        given = np.asarray(values, np.float64)
        rows = data if isinstance(data, DMatrix) else DMatrix(data)
        shape = (rows.num_row(), rows.num_col())
        if given.shape != shape:
            raise DataError(
                f"there are contributions of shape {given.shape} for data of shape "
                f"{shape}; give one for each row and feature",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        names = rows.feature_names or [f"f{i}" for i in range(rows.num_col())]
        start = np.broadcast_to(np.asarray(base, np.float64), shape[:1])
        return cls(given, start, columns_of(rows, names), output)

    @property
    def importances(self) -> Float64s:
        """The mean absolute contribution of each feature, (features,)."""
        return np.abs(self.values).mean(axis=0)

    @property
    def margins(self) -> Float64s:
        """What the contributions of each row add up to, (rows,)."""
        return self.base + self.values.sum(axis=1)

    def ranked(self, most: int | None = None) -> NDArray[np.intp]:
        """Return the numbers of the most important features, the best first."""
        return np.argsort(-self.importances, kind="stable")[:most]

    def feature(self, asked: str | int) -> int:
        """Return the number of a feature, asked for by its name or its number."""
        return feature_number(asked, [column.name for column in self.columns])


def contributions_by_output(
    model: Boosted,
    data: Any,
    *,
    max_rows: int | None = None,
    class_names: Sequence[Any] | None = None,
) -> list[Contributions]:
    """Return what features contribute to the margins of each output of a model.

    The arguments are those of `contributions_of`.
    """
    subject = Subject(model, data, class_names=class_names).spread(max_rows)
    outputs = range(len(subject.output_names))
    return _of_subject(subject, outputs)


def contributions_of(
    model: Boosted,
    data: Any,
    *,
    output: str | int | None = None,
    max_rows: int | None = None,
    class_names: Sequence[Any] | None = None,
) -> Contributions:
    """Return what features contribute to the margins of rows: their Shapley values.

    Parameters
    ----------
    model
        A `Booster`, or an estimator that has been fitted.
    data
        A `DMatrix`, or whatever it takes.
    output
        Of several classes, targets or levels: its name or its number.
    max_rows
        How many rows at most, evenly spread over the data; None: all.
    class_names
        A name for each output; the estimator's own classes if None.

    Raises
    ------
    ParameterError
        If the output is not the model's, or has to be chosen.
    """
    subject = Subject(model, data, class_names=class_names)
    place = subject.output(output)
    return _of_subject(subject.spread(max_rows), [place])[0]


def contributions_of_row(
    model: Boosted,
    data: Any,
    row: int,
    *,
    output: str | int | None = None,
    class_names: Sequence[Any] | None = None,
) -> Contributions:
    """Return what features contribute to the margin of one row, by its number.

    The other arguments are those of `contributions_of`.
    """
    subject = Subject(model, data, class_names=class_names)
    place = subject.output(output)
    return _of_subject(subject.of_rows([row]), [place])[0]


def _of_subject(subject: Subject, outputs: Sequence[int]) -> list[Contributions]:
    found, columns = subject.contributions(), subject.columns()
    return [
        Contributions(
            found[:, output, :-1],
            found[:, output, -1],
            columns,
            subject.output_label(output),
        )
        for output in outputs
    ]


def interactions_of(
    model: Boosted,
    data: Any,
    feature: str | int,
    *,
    output: str | int | None = None,
    class_names: Sequence[Any] | None = None,
) -> Float64s:
    """Return how strongly a feature interacts with each, (features,).

    That is the mean absolute value of what both contribute together, in a few hundred
    rows that are evenly spread over the data; 0 for the feature itself. The arguments
    are those of `contributions_of`.
    """
    subject = Subject(model, data, class_names=class_names)
    return _strengths(subject, subject.output(output))[subject.feature(feature)]


def partners_of(
    model: Boosted,
    data: Any,
    found: Contributions,
    features: Sequence[int],
    *,
    output: str | int | None = None,
    class_names: Sequence[Any] | None = None,
) -> list[int | None]:
    """Return which feature interacts most with each of these; None where none does.

    Parameters
    ----------
    model, data, output, class_names
        As of `contributions_of`.
    found
        What that has returned.
    features
        Numbers of features.
    """
    subject = Subject(model, data, class_names=class_names)
    strengths = _strengths(subject, subject.output(output))
    return [
        int(np.argmax(strengths[feature]))
        if strengths[feature].max() > _NOISE * found.importances[feature]
        else None
        for feature in features
    ]


def _strengths(subject: Subject, output: int) -> Float64s:
    """Return how strongly features interact with each other, (features, features)."""
    n_features = subject.data.num_col()
    cells = len(subject.output_names) * (n_features + 1) ** 2
    if cells > _PAIR_CELLS:
        raise ParameterError(
            f"the interactions of {n_features:,} features are too many to look for the "
            "largest; name a feature, or leave it out with colour=None",
            code=ErrorCode.PICTURE_TOO_LARGE,
        )
    few = subject.spread(min(_PAIR_ROWS, _PAIR_CELLS // cells))
    pairs = few.interactions()[:, output, :-1, :-1]
    strengths = 2.0 * np.abs(pairs).mean(axis=0)  # half of it is on either side
    np.fill_diagonal(strengths, 0.0)
    return np.asarray(strengths)
