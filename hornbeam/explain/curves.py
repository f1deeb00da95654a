"""Learning curves: metrics by boosting round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.callbacks.base import mean_of
from hornbeam.errors import DataError, ErrorCode, ParameterError, short_traceback
from hornbeam.explain.node_text import Float64s
from hornbeam.metrics.registry import maximize_of

__all__ = ["LearningCurve", "learning_curves_of"]


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """The values of one metric on one data set by round.

    Parameters
    ----------
    data, metric
        Names of the data set and the metric.
    scores
        (rounds,).
    spread
        (rounds,): the standard deviation over folds; None without folds.
    """

    data: str
    metric: str
    scores: Float64s
    spread: Float64s | None = None

    @property
    def best(self) -> int:
        """The round with the best value, the first of equal ones."""
        ranked = -self.scores if maximize_of(self.metric) else self.scores
        return int(np.argmin(np.where(np.isnan(ranked), np.inf, ranked)))


@short_traceback
def learning_curves_of(source: Any, metric: str | None = None) -> list[LearningCurve]:
    """Return the curves of a training or a cross-validation.

    Parameters
    ----------
    source
        The `evals_result` of `train`, an estimator fitted with `eval_set`, or the
        result of `cv`.
    metric
        Return the curves of this metric only.

    Raises
    ------
    DataError
        If there was no evaluation data.
    ParameterError
        If the metric was not evaluated, or the source has another type.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import learning_curves_of
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3)
    >>> model = model.fit(
    ...     X[:300], y[:300], eval_set=[(X[300:], y[300:])], verbose=False
    ... )
    >>> (curve,) = learning_curves_of(model)
    >>> curve.data, curve.metric, len(curve.scores)
    ('validation_0', 'rmse', 30)
    """
    if hasattr(source, "evals_result"):
        source = source.evals_result()
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        source = {name: np.asarray(source[name]) for name in source.columns}
    if not isinstance(source, Mapping):
        raise ParameterError(
            "learning curves are of evals_result, of a fitted estimator, or of what cv "
            f"returns, not of {type(source).__name__}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    if all(isinstance(scores, Mapping) for scores in source.values()):
        curves = [
            _curve(str(data), str(name), scores)
            for data, metrics in source.items()
            for name, scores in metrics.items()
        ]
    else:
        curves = list(_of_folds(source))
    if not curves:
        raise DataError(
            "nothing was evaluated; pass evals and evals_result to train, or eval_set "
            "to fit",
            code=ErrorCode.EVALS_MISSING,
        )
    if metric is None:
        return curves
    chosen = [curve for curve in curves if curve.metric == metric]
    if not chosen:
        known = dict.fromkeys(curve.metric for curve in curves)
        raise ParameterError(
            f"metric {metric!r} is not among the scores; there are {', '.join(known)}",
            code=ErrorCode.UNKNOWN_SCORE,
        )
    return chosen


def _curve(data: str, metric: str, scores: Any) -> LearningCurve:
    """Return a curve of values, or of pairs (mean, standard deviation)."""
    means = np.array([mean_of(score) for score in scores], np.float64)
    if len(scores) and isinstance(scores[0], tuple):
        return LearningCurve(data, metric, means, np.array([s for _, s in scores]))
    return LearningCurve(data, metric, means)


def _of_folds(columns: Mapping[str, Any]) -> Any:
    """Yield the curves of columns such as ``test-rmse-mean``."""
    for name, values in columns.items():
        data, _, metric = name.removesuffix("-mean").partition("-")
        if not name.endswith("-mean") or not metric:
            continue
        spread = columns.get(f"{data}-{metric}-std")
        yield LearningCurve(
            data,
            metric,
            np.asarray(values, np.float64),
            None if spread is None else np.asarray(spread, np.float64),
        )
