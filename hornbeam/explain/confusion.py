"""Confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.subject import Subject
from hornbeam.explain.tree_reader import Boosted

__all__ = ["Confusion", "confusion_of"]


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion matrix: rows of each true class by predicted class.

    Parameters
    ----------
    counts
        (classes, classes): number of rows, or sum of weights; the first axis is the
        true class.
    names
        Names of the classes.
    """

    counts: Float64s
    names: list[str]

    @property
    def shares(self) -> Float64s:
        """The counts normalised over each true class; NaN for a class without rows."""
        totals = self.counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return self.counts / totals

    @property
    def accuracy(self) -> float:
        """The share of rows whose class is predicted correctly."""
        return float(np.trace(self.counts) / self.counts.sum())

    @classmethod
    def of_classes(
        cls, true: Any, predicted: Any, weights: Any = None, names: Sequence[Any] = ()
    ) -> Confusion:
        """Return the confusion matrix of given predictions, from any source.

        Parameters
        ----------
        true, predicted
            (rows,): class indices 0, 1, 2, ...
        weights
            (rows,): sample weights; None: 1 for each row.
        names
            Names of the classes; their indices if None.
        """
        one, other = np.asarray(true), np.asarray(predicted)
        if one.shape != other.shape or one.ndim != 1 or not one.size:
            raise DataError(
                f"there are {one.shape} true classes and {other.shape} predicted ones; "
                "give one of each for each row, and one row at least",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        codes = np.stack([one, other]).astype(np.intp)
        n_classes = len(names) or int(codes.max()) + 1
        if (codes != [one, other]).any() or not (codes >= 0).all():
            raise DataError(
                "classes must be whole numbers from 0 on",
                code=ErrorCode.INVALID_PREDICTIONS,
            )
        if codes.max() >= n_classes:
            raise DataError(
                f"there is a class {codes.max()}, and {n_classes} classes have names; "
                "name each",
                code=ErrorCode.CLASS_NAMES_MISMATCH,
            )
        flat = np.bincount(codes[0] * n_classes + codes[1], weights, n_classes**2)
        named = [str(name) for name in names or range(n_classes)]
        return cls(flat.reshape(n_classes, n_classes).astype(np.float64), named)


@short_traceback
def confusion_of(
    model: Boosted,
    data: Any,
    labels: Any = None,
    *,
    threshold: float = 0.5,
    class_names: Sequence[Any] | None = None,
) -> Confusion:
    """Return the confusion matrix of a classification model on data.

    The predicted class is the most probable one; with two classes it is the second
    where its probability is above `threshold`.

    Parameters
    ----------
    model
        A `Booster` for classification, or a fitted classifier.
    data
        A `DMatrix`, or anything that `DMatrix` accepts. Its weights are used.
    labels
        Labels to use instead of those in the data.
    threshold
        Decision threshold for two classes, from 0 to 1.
    class_names
        Names of the classes; None: the classes of the estimator.

    Raises
    ------
    ParameterError
        If the model is not a classification model.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamClassifier
    >>> from hornbeam.explain import confusion_of
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = HornbeamClassifier(n_estimators=30, max_depth=3).fit(X[:400], y[:400])
    >>> confusion_of(model, X[400:], y[400:]).counts
    array([[ 39.,   0.],
           [  4., 126.]])
    """
    subject = Subject(model, data, labels, class_names)
    labels = subject.labels.reshape(subject.data.num_row(), -1)
    if labels.shape[1] > 1:
        raise ParameterError(
            f"the model has {labels.shape[1]} targets, each of two classes; "
            "Confusion.of_classes takes the labels and predictions of one of them",
            code=ErrorCode.AMBIGUOUS_OUTPUT,
        )
    if not 0.0 <= threshold <= 1.0:
        raise ParameterError(
            f"threshold must be from 0 to 1, not {threshold}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    objective = subject.booster.objective
    if objective.prediction == "class" and not objective.has_probabilities:
        predicted = subject.predictions()[:, 0].astype(np.intp)
    else:
        probabilities = subject.probabilities()
        predicted = probabilities.argmax(axis=1)
        if probabilities.shape[1] == 2:
            predicted = (probabilities[:, 1] > threshold).astype(np.intp)
    return Confusion.of_classes(
        labels[:, 0], predicted, subject.weights, subject.class_names
    )
