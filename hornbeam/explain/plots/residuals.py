"""Plots of residuals against predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hornbeam.errors import require, short_traceback
from hornbeam.explain.residuals import Residuals, residuals_of
from hornbeam.explain.style import (
    ACCENT,
    CONTRAST,
    EDGE,
    axes_for,
    legend,
    number,
    rule,
    set_titles,
    shades,
)
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_residuals"]

#: More rows than this are drawn as a 2-d histogram with so many bins per axis.
_MOST_POINTS = 3000
_CELLS = 60
_BINS = 60
_SIDE = "18%"  # relative to the axes


@short_traceback
def plot_residuals(
    model: Boosted | Residuals,
    data: Any = None,
    labels: Any = None,
    ax: Axes | None = None,
    *,
    output: str | int | None = None,
    title: str | None = "Residuals",
) -> Axes:
    """Plot residuals against predictions, and return the axes.

    Many rows are drawn as a 2-d histogram. The line is the mean residual in a window of
    a tenth of the rows; where it differs from 0, the model is biased. The histogram on
    the right is the distribution of the residuals.

    Parameters
    ----------
    model
        A `Booster` for regression, a fitted regressor, or the result of `residuals_of`.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    labels
        Labels to use instead of those in the data.
    ax
        Axes to draw in; None: a new figure.
    output
        Name or index of the output, where there are several targets or quantiles.
    title
        Title of the plot; None: no title.

    Raises
    ------
    ParameterError
        If the predictions do not have the unit of the labels.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_residuals
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_residuals(model, X[300:], y[300:])
    """
    require("matplotlib", "plot", "plot_residuals")
    if isinstance(model, Residuals):
        found = model
    else:
        found = residuals_of(model, data, labels, output=output)
    ax = axes_for(ax)
    x, y = found.predictions, found.values
    if len(x) > _MOST_POINTS:
        ax.hexbin(x, y, gridsize=_CELLS, bins="log", cmap=shades(), mincnt=1, lw=0.2)
    else:
        ax.scatter(x, y, s=9, color=ACCENT, alpha=0.5, linewidths=0)
    ax.axhline(0.0, color=EDGE, linewidth=1, linestyle="--")
    said = f"mean (of all {number(found.mean, 3)})\nRMSE {number(found.rmse, 3)}"
    ax.plot(*found.trend(), color=CONTRAST, linewidth=1.6, label=said)
    rule(ax)
    set_titles(ax, title, "prediction", "label less prediction")
    legend(ax)
    side = _axes_beside(ax)
    look: dict[str, Any] = {"orientation": "horizontal", "color": ACCENT, "alpha": 0.6}
    side.hist(y, _BINS, weights=found.weights, **look)
    side.axhline(found.mean, color=CONTRAST, linewidth=1.2)
    return ax


def _axes_beside(ax: Axes) -> Axes:
    """Split off the right part of the axes as new axes of the same height.

    The new axes have no spines and no tick labels.
    """
    from mpl_toolkits.axes_grid1 import make_axes_locatable

    current = ax.figure.gca()
    divider = make_axes_locatable(ax)
    beside = divider.append_axes("right", size=_SIDE, pad=0.06, sharey=ax)
    beside.set_axis_off()
    ax.figure.sca(current)
    return beside
