"""Plots of learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError, require, short_traceback
from hornbeam.explain.curves import LearningCurve, learning_curves_of
from hornbeam.explain.style import (
    EDGE,
    axes_for,
    legend,
    legend_entry,
    number,
    rule,
    series_colours,
    set_titles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_learning_curves"]

_PANEL = 3.2  # height in inches
_BAND = 0.18  # opacity


@short_traceback
def plot_learning_curves(
    source: Any,
    ax: Axes | Sequence[Axes] | None = None,
    *,
    metric: str | None = None,
    title: str | None = "Learning curve",
) -> Any:
    """Plot metrics by boosting round, and return the axes.

    Each data set has a line. The best round of the last one, which early stopping
    monitors, is marked.

    Parameters
    ----------
    source
        The `evals_result` of `train`, an estimator fitted with `eval_set`, or the
        result of `cv`, with bands of one standard deviation over the folds.
    ax
        Axes to draw in, one for each metric; None: a new figure with a panel for each
        metric.
    metric
        Draw this metric only.
    title
        Title of the plot; None: no title.

    Returns
    -------
    axes
        The axes; a list of them if there are several metrics.

    Raises
    ------
    ParameterError
        If the metric was not evaluated, or the number of axes differs from that of
        metrics.
    DataError
        If there was no evaluation data.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_learning_curves
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3)
    >>> model = model.fit(
    ...     X[:300], y[:300], eval_set=[(X[300:], y[300:])], verbose=False
    ... )
    >>> ax = plot_learning_curves(model)
    >>> ax.get_ylabel()
    'rmse'
    """
    require("matplotlib", "plot", "plot_learning_curves")
    curves = learning_curves_of(source, metric)
    metrics = list(dict.fromkeys(curve.metric for curve in curves))
    panels = _panels(ax, metrics)
    for panel, name in zip(panels, metrics, strict=True):
        _draw(panel, [curve for curve in curves if curve.metric == name])
    set_titles(panels[0], title)
    set_titles(panels[-1], xlabel="round")
    return panels[0] if len(panels) == 1 else panels


def _panels(ax: Axes | Sequence[Axes] | None, metrics: list[str]) -> list[Axes]:
    if ax is None and len(metrics) > 1:
        from matplotlib import pyplot as plt

        size = (6.4, _PANEL * len(metrics))
        figure = plt.figure(figsize=size, layout="constrained")
        ax = list(figure.subplots(len(metrics), sharex=True))
    given: list[Any] = [ax]
    if ax is not None and not hasattr(ax, "plot"):
        given = np.ravel(np.array(ax, object)).tolist()
    if len(given) != len(metrics):
        raise ParameterError(
            f"there are scores of {len(metrics)} metrics ({', '.join(metrics)}) and "
            f"{len(given)} axes; choose one, metric={metrics[0]!r}, or give as many "
            "axes, or none",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return [axes_for(panel) for panel in given]


def _draw(ax: Axes, curves: list[LearningCurve]) -> None:
    for curve, colour in zip(curves, series_colours(len(curves)), strict=True):
        rounds = np.arange(len(curve.scores))
        said = legend_entry(curve.data)
        if curve is curves[-1]:
            best = curve.best
            said += f" (best {number(curve.scores[best])} in round {best})"
            ax.axvline(best, color=EDGE, linewidth=0.8, linestyle=":")
            ax.plot(best, curve.scores[best], "o", color=colour, markersize=4.5)
        # A single round is drawn as a point.
        marker = "." if len(rounds) == 1 else "-"
        ax.plot(rounds, curve.scores, marker, color=colour, linewidth=1.4, label=said)
        if curve.spread is not None:
            low, high = curve.scores - curve.spread, curve.scores + curve.spread
            ax.fill_between(rounds, low, high, color=colour, alpha=_BAND, linewidth=0)
    ax.locator_params(axis="x", integer=True)
    rule(ax)
    set_titles(ax, ylabel=curves[0].metric)
    legend(ax)
