"""Residuals: label minus prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.subject import Subject
from hornbeam.explain.tree_reader import Boosted
from hornbeam.objectives.distributions import Distribution

__all__ = ["Residuals", "residuals_of"]

#: Number of windows of a trend, and the share of the rows in each.
_WINDOWS = 40
_SHARE = 0.1
_FEWEST = 10
#: Tasks whose predictions have the unit of the labels.
_TASKS = ("regression", "quantiles", "distribution")


@dataclass(frozen=True, slots=True)
class Residuals:
    """Predictions and residuals.

    Parameters
    ----------
    predictions
        (rows,).
    values
        (rows,): label minus prediction.
    weights
        (rows,), None if there are no weights.
    """

    predictions: Float64s
    values: Float64s
    weights: Float64s | None = None

    @classmethod
    def of_labels(cls, labels: Any, predictions: Any, weights: Any = None) -> Residuals:
        """Return the residuals of given predictions, from any source."""
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
        """Return predictions and mean residuals in windows, (windows,) each.

        A window is a tenth of the rows in the order of predictions; the windows
        overlap. The trend is empty where there are too few rows.
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


@short_traceback
def residuals_of(
    model: Boosted, data: Any, labels: Any = None, *, output: str | int | None = None
) -> Residuals:
    """Return the residuals of a regression model on data.

    Parameters
    ----------
    model
        A `Booster` for regression, or a fitted regressor. For ``dist:*`` the
        predictions are the means, for ``dist:lognormal`` the medians.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    labels
        Labels to use instead of those in the data.
    output
        Name or index of the output, where there are several targets or quantiles.

    Raises
    ------
    ParameterError
        If the predictions do not have the unit of the labels.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import residuals_of
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> residuals_of(model, X[300:], y[300:]).values[:3].round(1)
    array([  7.7, -16.5,  32.4])
    """
    subject = Subject(model, data, labels)
    objective = subject.booster.objective
    if objective.task not in _TASKS or subject.classes is not None:
        raise ParameterError(
            f"objective={objective.name!r} does not predict numbers like the "
            "labels; plot_calibration and plot_confusion are for classes",
            code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
        )
    known = subject.labels.reshape(subject.data.num_row(), -1)
    predictions = subject.predictions()
    if isinstance(objective, Distribution):
        place, predictions = 0, objective.point_predictions(predictions)
    else:
        place = subject.output(output)
        predictions = predictions[:, place]
    column = place if known.shape[1] > 1 else 0
    return Residuals.of_labels(known[:, column], predictions, subject.weights)
