"""By how much labels differ from what is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.explain.reading import Boosted
from hornbeam.explain.subject import Subject
from hornbeam.explain.words import Float64s

__all__ = ["Residuals", "residuals_of"]

#: Of a trend: how many windows, and the share of rows in each.
_WINDOWS = 40
_SHARE = 0.1
_FEWEST = 10
#: Objectives whose predictions are not of the kind of the labels.
_OTHERS = ("binary:", "multi:", "rank:", "survival:")


@dataclass(frozen=True, slots=True)
class Residuals:
    """Predictions, and what is left of labels without them.

    Parameters
    ----------
    predictions
        (rows,).
    values
        (rows,): label less prediction.
    weights
        (rows,), None if all rows count as one.
    """

    predictions: Float64s
    values: Float64s
    weights: Float64s | None = None

    @classmethod
    def of_labels(cls, labels: Any, predictions: Any, weights: Any = None) -> Residuals:
        """Return the residuals of predictions that anyone made."""
        known = np.asarray(labels, np.float64)
        given = np.asarray(predictions, np.float64)
        if known.shape != given.shape or known.ndim != 1 or not known.size:
            raise DataError(
                f"there are {known.shape} labels and {given.shape} predictions; give "
                "one of each for each row, and one row at least",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        return cls(given, known - given, weights)

    @property
    def mean(self) -> float:
        return float(np.average(self.values, weights=self.weights))

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.average(self.values**2, weights=self.weights)))

    def trend(self) -> tuple[Float64s, Float64s]:
        """Return mean residuals along the predictions: (windows,) of each.

        Each mean is that of a tenth of the rows, next to each other by prediction; the
        windows overlap. There is none where rows are too few.
        """
        n_rows = len(self.values)
        wide = max(_FEWEST, round(_SHARE * n_rows))
        if n_rows < wide:
            return np.empty(0), np.empty(0)
        order = np.argsort(self.predictions, kind="stable")
        weights = np.ones(n_rows) if self.weights is None else self.weights[order]
        starts = np.unique(np.linspace(0, n_rows - wide, _WINDOWS).astype(np.intp))

        def means(values: Float64s) -> Float64s:
            sums = np.concatenate([[0.0], np.cumsum(weights * values[order])])
            totals = np.concatenate([[0.0], np.cumsum(weights)])
            with np.errstate(invalid="ignore"):
                return (sums[starts + wide] - sums[starts]) / (
                    totals[starts + wide] - totals[starts]
                )

        return means(self.predictions), means(self.values)


def residuals_of(
    model: Boosted, data: Any, labels: Any = None, *, output: str | int | None = None
) -> Residuals:
    """Return by how much labels differ from what a model predicts.

    Parameters
    ----------
    model
        A `Booster` of numbers, or a regressor that has been fitted. Of ``dist:*`` the
        predictions are the means, of lognormal ones the medians.
    data
        A `DMatrix`, or whatever it takes.
    labels
        Instead of those of the data.
    output
        Of several targets or levels: its name or its number.

    Raises
    ------
    ParameterError
        If the predictions of the model are not of the kind of the labels.
    DataError
        If there are no labels.
    """
    subject = Subject(model, data, labels)
    trained = subject.booster.model
    if trained.objective.startswith(_OTHERS) or subject.classes is not None:
        raise ParameterError(
            f"objective={trained.objective!r} does not predict numbers like the "
            "labels; plot_calibration and plot_confusion are for classes",
            code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
        )
    known = subject.labels.reshape(subject.data.num_row(), -1)
    is_mean = trained.objective.startswith("dist:")  # that of the first output
    place = 0 if is_mean else subject.output(output)
    predictions = subject.predictions()[:, place]
    if trained.objective == "dist:lognormal":
        predictions = np.exp(predictions)
    column = place if known.shape[1] > 1 else 0
    return Residuals.of_labels(known[:, column], predictions, subject.weights)
