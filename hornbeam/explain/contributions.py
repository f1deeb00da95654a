"""Feature contributions (SHAP values) with the feature values they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.explain.columns import Column, columns_of, feature_number
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.subject import Subject
from hornbeam.explain.tree_reader import Boosted

__all__ = [
    "Contributions",
    "contributions_by_output",
    "contributions_of",
    "contributions_of_row",
    "interactions_of",
    "partners_of",
]

#: Limits for interaction values: maximum number of rows, and of values.
_PAIR_ROWS = 300
_PAIR_CELLS = 1 << 25
#: An interaction below this share of a feature's contributions is ignored.
_NOISE = 1e-4


@dataclass(frozen=True, slots=True)
class Contributions:
    """SHAP values: the contribution of each feature to the margin of each row.

    Parameters
    ----------
    values
        (rows, features).
    base
        (rows,): the base value, which is the expected margin.
    columns
        The features with their values in the same rows.
    output
        Name of the output, "" if it has none.
    """

    values: Float64s
    base: Float64s
    columns: list[Column]
    output: str = ""

    @classmethod
    def of_values(
        cls, values: Any, base: Any, data: Any, output: str = ""
    ) -> Contributions:
        """Return the contributions of given SHAP values, from any source.

        Parameters
        ----------
        values
            (rows, features).
        base
            One number, or one for each row.
        data
            The rows: a `DMatrix`, or anything that `DMatrix` accepts.
        output
            Name of the output that they explain.
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
        """Base value plus the contributions of each row: its margin, (rows,)."""
        return self.base + self.values.sum(axis=1)

    def ranked(self, most: int | None = None) -> NDArray[np.intp]:
        """Return the indices of the most important features in descending order."""
        return np.argsort(-self.importances, kind="stable")[:most]

    def feature(self, asked: str | int) -> int:
        """Return the index of a feature that is given by name or index."""
        return feature_number(asked, [column.name for column in self.columns])


@short_traceback
def contributions_by_output(
    model: Boosted,
    data: Any,
    *,
    max_rows: int | None = None,
    class_names: Sequence[Any] | None = None,
) -> list[Contributions]:
    """Return the SHAP values of a model for each of its outputs.

    The arguments are those of `contributions_of`.

    Examples
    --------
    >>> from hornbeam import HornbeamClassifier
    >>> from hornbeam.explain import contributions_by_output
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = HornbeamClassifier(n_estimators=10, max_depth=2).fit(X, y)
    >>> [found.output for found in contributions_by_output(model, X)]
    ['0', '1', '2']
    """
    subject = Subject(model, data, class_names=class_names, margins=True).spread(
        max_rows
    )
    outputs = range(len(subject.output_names))
    return _of_subject(subject, outputs)


@short_traceback
def contributions_of(
    model: Boosted,
    data: Any,
    *,
    output: str | int | None = None,
    max_rows: int | None = None,
    class_names: Sequence[Any] | None = None,
) -> Contributions:
    """Return the SHAP values of a model on data.

    Parameters
    ----------
    model
        A `Booster`, or a fitted estimator.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    output
        Name or index of the output, where there are several classes, targets or
        quantiles.
    max_rows
        Maximum number of rows, evenly spaced over the data; None: all.
    class_names
        Names of the outputs; None: the classes of the estimator.

    Raises
    ------
    ParameterError
        If the model has no such output, or has several and none is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import contributions_of
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> found = contributions_of(model, X[300:])
    >>> found.values.shape
    (142, 10)
    >>> sums = found.values.sum(axis=1) + found.base
    >>> np.allclose(sums, model.predict(X[300:]))
    True
    """
    subject = Subject(model, data, class_names=class_names, margins=True)
    place = subject.output(output)
    return _of_subject(subject.spread(max_rows), [place])[0]


@short_traceback
def contributions_of_row(
    model: Boosted,
    data: Any,
    row: int,
    *,
    output: str | int | None = None,
    class_names: Sequence[Any] | None = None,
) -> Contributions:
    """Return the SHAP values of one row, given by its index.

    The other arguments are those of `contributions_of`.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import contributions_of_row
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> found = contributions_of_row(model, X, 300)
    >>> X.columns[abs(found.values[0]).argmax()]
    's5'
    """
    subject = Subject(model, data, class_names=class_names, margins=True)
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


@short_traceback
def interactions_of(
    model: Boosted,
    data: Any,
    feature: str | int,
    *,
    output: str | int | None = None,
    class_names: Sequence[Any] | None = None,
) -> Float64s:
    """Return the strength of a feature's interaction with every other, (features,).

    The strength is the mean absolute SHAP interaction value over a few hundred rows
    that are evenly spaced over the data; 0 for the feature itself. The arguments are
    those of `contributions_of`.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import interactions_of
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> strengths = interactions_of(model, X, "bmi")
    >>> X.columns[strengths.argmax()]
    's5'
    """
    subject = Subject(model, data, class_names=class_names, margins=True)
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
    """Return the strongest interaction partner of each feature; None if it has none.

    Parameters
    ----------
    model, data, output, class_names
        As for `contributions_of`.
    found
        What `contributions_of` returned.
    features
        Indices of features.
    """
    subject = Subject(model, data, class_names=class_names, margins=True)
    strengths = _strengths(subject, subject.output(output))
    return [
        int(np.argmax(strengths[feature]))
        if strengths[feature].max() > _NOISE * found.importances[feature]
        else None
        for feature in features
    ]


def _strengths(subject: Subject, output: int) -> Float64s:
    """Return the strength of all interactions, (features, features)."""
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
    strengths = 2.0 * np.abs(pairs).mean(axis=0)  # each triangle has half of it
    np.fill_diagonal(strengths, 0.0)
    return np.asarray(strengths)
