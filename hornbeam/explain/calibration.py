"""Calibration curves: predicted probabilities against observed frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import DataError, ErrorCode, short_traceback
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.subject import Subject, check_count, check_option
from hornbeam.explain.tree_reader import Boosted

__all__ = ["STRATEGIES", "Calibration", "calibration_of"]

STRATEGIES = ("quantile", "uniform")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Observed frequency of one class by its predicted probability.

    Parameters
    ----------
    name
        Name of the class.
    edges
        (bins + 1,): edges of the bins of probabilities. A bin includes its upper edge;
        the first one also its lower edge.
    counts
        (bins,): number of rows.
    predicted, observed
        (bins,): the mean predicted probability, and the share of rows of the class; NaN
        for a bin without weight.
    brier
        The Brier score: the mean squared difference between probability and outcome.
    ece
        The expected calibration error: the mean difference, in absolute value, between
        `observed` and `predicted`, weighted by the rows of the bins.
    """

    name: str
    edges: Float64s
    counts: NDArray[np.intp]
    predicted: Float64s
    observed: Float64s
    brier: float
    ece: float

    @classmethod
    def of_outcomes(
        cls,
        outcomes: Any,
        probabilities: Any,
        weights: Any = None,
        *,
        bins: int = 10,
        strategy: str = "quantile",
        name: str = "",
    ) -> Calibration:
        """Return the calibration of given probabilities, from any source.

        Parameters
        ----------
        outcomes
            (rows,): 1 where the event occurred, else 0.
        probabilities
            (rows,): predicted probabilities of the event.
        weights
            (rows,): sample weights; None: 1 for each row.
        bins
            Maximum number of bins; bins with equal edges are merged.
        strategy
            ``"quantile"`` for bins with equal numbers of rows, ``"uniform"`` for bins
            of equal width.
        name
            Name of the class.
        """
        check_option("strategy", strategy, STRATEGIES)
        check_count("bins", bins)
        true = np.asarray(outcomes, np.float64)
        given = np.asarray(probabilities, np.float64)
        weigh = np.ones(len(true)) if weights is None else np.asarray(weights, float)
        if not true.shape == given.shape == weigh.shape or true.ndim != 1:
            raise DataError(
                f"there are {true.shape} outcomes, {given.shape} probabilities and "
                f"{weigh.shape} weights; give one of each for each row",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        if not len(true):
            raise DataError(
                "the calibration of no rows is not defined; give it rows",
                code=ErrorCode.EMPTY_DATA,
            )
        if not np.isin(true, (0.0, 1.0)).all():
            raise DataError(
                "outcomes must be 0 or 1", code=ErrorCode.INVALID_PREDICTIONS
            )
        if not ((given >= 0.0) & (given <= 1.0)).all():
            raise DataError(
                "probabilities must be from 0 to 1", code=ErrorCode.INVALID_PREDICTIONS
            )
        edges = np.linspace(0.0, 1.0, bins + 1)
        if strategy == "quantile":
            edges = np.unique(np.quantile(given, edges))
            if len(edges) == 1:
                edges = np.repeat(edges, 2)
        place = np.searchsorted(edges[1:-1], given)
        n_bins = len(edges) - 1

        def sums(values: Float64s) -> Float64s:
            return np.bincount(place, values, n_bins).astype(np.float64)

        of_bins = sums(weigh)
        with np.errstate(invalid="ignore"):
            predicted = sums(weigh * given) / of_bins
            observed = sums(weigh * true) / of_bins
        gaps = np.where(of_bins > 0, np.abs(observed - predicted), 0.0)
        return cls(
            name,
            edges,
            np.bincount(place, minlength=n_bins),
            predicted,
            observed,
            float(np.average((given - true) ** 2, weights=weigh)),
            float(np.average(gaps, weights=of_bins)),
        )


@short_traceback
def calibration_of(
    model: Boosted,
    data: Any,
    labels: Any = None,
    *,
    bins: int = 10,
    strategy: str = "quantile",
    class_names: Sequence[Any] | None = None,
) -> list[Calibration]:
    """Return the calibration of a classification model on data.

    That is one for the second of two classes, one against the rest for each of more
    classes, or one for each of several targets.

    Parameters
    ----------
    model
        A `Booster` for classification, or a fitted classifier.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    labels
        Labels to use instead of those in the data.
    bins
        Maximum number of bins; bins with equal edges are merged.
    strategy
        ``"quantile"`` for bins with equal numbers of rows, ``"uniform"`` for bins of
        equal width.
    class_names
        Names of the classes; None: the classes of the estimator.

    Raises
    ------
    ParameterError
        If the model does not predict class probabilities.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamClassifier
    >>> from hornbeam.explain import calibration_of
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = HornbeamClassifier(n_estimators=30, max_depth=3).fit(X[:400], y[:400])
    >>> (benign,) = calibration_of(model, X[400:], y[400:], bins=3)
    >>> benign.predicted.round(2), benign.observed.round(2), round(benign.brier, 3)
    (array([0.2 , 0.97, 1.  ]), array([0.32, 1.  , 1.  ]), 0.028)
    """
    subject = Subject(model, data, labels, class_names)
    probabilities, known = subject.probabilities(), subject.labels
    names = subject.class_names
    many_targets = known.ndim == 2 and known.shape[1] > 1
    outcomes = known.reshape(len(known), -1)
    if not many_targets:
        outcomes = outcomes == np.arange(len(names))
    if len(names) == 2 and not many_targets:
        names = names[1:]
        probabilities, outcomes = probabilities[:, 1:], outcomes[:, 1:]
    return [
        Calibration.of_outcomes(
            outcomes[:, k],
            probabilities[:, k],
            subject.weights,
            bins=bins,
            strategy=strategy,
            name=name,
        )
        for k, name in enumerate(names)
    ]
