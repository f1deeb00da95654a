"""Which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.explain.reading import Boosted
from hornbeam.explain.subject import Subject
from hornbeam.explain.words import Float64s

__all__ = ["Confusion", "confusion_of"]


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often rows of each class are predicted to be of each class.

    Parameters
    ----------
    counts
        (classes, classes): rows, or their weights; the true class first.
    names
        Of the classes.
    """

    counts: Float64s
    names: list[str]

    @property
    def shares(self) -> Float64s:
        """The counts as shares of each true class; NaN of a class without rows."""
        totals = self.counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return self.counts / totals

    @property
    def accuracy(self) -> float:
        """The share of rows that are predicted rightly."""
        return float(np.trace(self.counts) / self.counts.sum())

    @classmethod
    def of_classes(
        cls, true: Any, predicted: Any, weights: Any = None, names: Sequence[Any] = ()
    ) -> Confusion:
        """Return how classes 0, 1, 2, ... are predicted by anyone.

        Parameters
        ----------
        true, predicted
            (rows,): numbers of classes.
        weights
            (rows,): how much each row counts; None: as one.
        names
            Of the classes; their numbers if there are none.
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


def confusion_of(
    model: Boosted,
    data: Any,
    labels: Any = None,
    *,
    threshold: float = 0.5,
    class_names: Sequence[Any] | None = None,
) -> Confusion:
    """Return which classes a model takes for which.

    The predicted class is the most probable one; of two classes the second, where it
    has a probability above `threshold`.

    Parameters
    ----------
    model
        A `Booster` of classes, or a classifier that has been fitted.
    data
        A `DMatrix`, or whatever it takes. Rows count as they weigh.
    labels
        Instead of those of the data.
    threshold
        From 0 to 1, for two classes.
    class_names
        A name for each class; the estimator's own if None.

    Raises
    ------
    ParameterError
        If the model does not tell classes apart.
    DataError
        If there are no labels.
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
    if subject.booster.model.objective == "binary:hinge":
        predicted = subject.predictions()[:, 0].astype(np.intp)
    else:
        probabilities = subject.probabilities()
        predicted = probabilities.argmax(axis=1)
        if probabilities.shape[1] == 2:
            predicted = (probabilities[:, 1] > threshold).astype(np.intp)
    return Confusion.of_classes(
        labels[:, 0], predicted, subject.weights, subject.class_names
    )
