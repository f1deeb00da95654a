"""Reliability of predicted quantiles: shares of labels below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.subject import Subject
from hornbeam.explain.tree_reader import Boosted
from hornbeam.objectives.distributions import Distribution
from hornbeam.objectives.quantiles import QuantileError

__all__ = ["Reliability", "reliability_of"]

#: Default levels for a predicted distribution: 0.05, 0.1, ..., 0.95.
_LEVELS = tuple(np.arange(1, 20) / 20)
_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Reliability:
    """Shares of labels below predicted quantiles.

    Parameters
    ----------
    levels
        (quantiles,): the nominal shares in ascending order.
    shares
        (quantiles,): the observed shares. Half of the labels that equal a quantile
        count as below it.
    spread
        (quantiles,): the 95 % margin of a share's difference from its level by chance,
        for this number of rows.
    """

    levels: Float64s
    shares: Float64s
    spread: Float64s

    @classmethod
    def of_quantiles(
        cls, labels: Any, quantiles: Any, levels: Any, weights: Any = None
    ) -> Reliability:
        """Return the reliability of given quantiles, from any source.

        Parameters
        ----------
        labels
            (rows,).
        quantiles
            (rows, quantiles).
        levels
            (quantiles,): the share below each, in ascending order.
        weights
            (rows,): sample weights; None: 1 for each row.
        """
        known, given = np.asarray(labels, float), np.asarray(quantiles, float)
        shares = np.asarray(levels, float)
        if given.shape != (*known.shape, *shares.shape) or not given.size:
            raise DataError(
                f"there are {known.shape} labels, {shares.shape} levels, and quantiles "
                f"of shape {given.shape}; give one for each row and level, and one row "
                "at least",
                code=ErrorCode.EVALUATION_SIZE_MISMATCH,
            )
        if not ((shares > 0) & (shares < 1)).all() or (np.diff(shares) <= 0).any():
            raise ParameterError(
                f"levels must rise, above 0 and below 1, not {shares.tolist()}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        below = (known[:, None] < given) + 0.5 * (known[:, None] == given)
        count = np.ones(len(known)) if weights is None else np.asarray(weights, float)
        n_rows = count.sum() ** 2 / (count**2).sum()
        return cls(
            shares,
            np.average(below, axis=0, weights=count),
            _NORMAL_95 * np.sqrt(shares * (1 - shares) / n_rows),
        )

    @property
    def largest_gap(self) -> float:
        """The largest absolute difference between a share and its level."""
        return float(np.abs(self.shares - self.levels).max())

    @property
    def coverage(self) -> float:
        """The share of labels between the lowest and the highest quantile."""
        return float(self.shares[-1] - self.shares[0])


@short_traceback
def reliability_of(
    model: Boosted,
    data: Any,
    labels: Any = None,
    *,
    levels: Sequence[float] | None = None,
) -> Reliability:
    """Return the shares of labels below the quantiles that a model predicts.

    Parameters
    ----------
    model
        A `Booster` or a fitted regressor with ``reg:quantileerror`` or ``dist:*``.
    data
        A `DMatrix`, or anything that `DMatrix` accepts. Its weights are used.
    labels
        Labels to use instead of those in the data.
    levels
        Levels of the quantiles of a distribution; None: 0.05, 0.1, ..., 0.95. A
        quantile model has levels of its own.

    Raises
    ------
    ParameterError
        If the model predicts no quantiles, or not those levels.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import reliability_of
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(
    ...     objective="reg:quantileerror",
    ...     quantile_alpha=[0.1, 0.5, 0.9],
    ...     n_estimators=30,
    ... ).fit(X[:300], y[:300])
    >>> found = reliability_of(model, X[300:], y[300:])
    >>> found.levels, found.shares.round(2)
    (array([0.1, 0.5, 0.9]), array([0.27, 0.49, 0.73]))
    """
    subject = Subject(model, data, labels)
    objective, predictions = subject.booster.objective, subject.predictions()
    if isinstance(objective, Distribution):
        asked = _LEVELS if levels is None else tuple(levels)
        quantiles = objective.quantiles(predictions, asked)
    elif isinstance(objective, QuantileError):
        asked, quantiles = objective.levels, predictions
        if levels is not None:
            raise ParameterError(
                f"the model predicts quantiles at {list(asked)}; leave levels out",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
    else:
        raise ParameterError(
            f"objective={objective.name!r} predicts no quantiles; train with "
            "'reg:quantileerror' or 'dist:normal'",
            code=ErrorCode.PREDICTION_UNSUPPORTED_BY_OBJECTIVE,
        )
    return Reliability.of_quantiles(subject.labels, quantiles, asked, subject.weights)
