"""What is left of labels, along the predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hornbeam.errors import require
from hornbeam.explain.reading import Boosted
from hornbeam.explain.residuals import Residuals, residuals_of
from hornbeam.explain.style import (
    ACCENT,
    CONTRAST,
    EDGE,
    axes_for,
    entitle,
    legend,
    number,
    rule,
    shades,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_residuals"]

#: More rows than this are counted in cells, so many across.
_MOST_POINTS = 3000
_CELLS = 60
_BINS = 60
_SIDE = "18%"  # of the axes


def plot_residuals(
    model: Boosted | Residuals,
    data: Any = None,
    labels: Any = None,
    ax: Axes | None = None,
    *,
    output: str | int | None = None,
    title: str | None = "Residuals",
) -> Axes:
    """Draw labels less predictions along the predictions, and return the axes.

    Many rows are drawn as cells, the darker the more rows. The line is the mean of the
    residuals in a window of a tenth of the rows; where it leaves 0, the model is wrong
    on average. At the right stands how the residuals are distributed.

    Parameters
    ----------
    model
        A `Booster` of numbers, or a regressor that has been fitted; or what
        `residuals_of` has returned.
    data
        A `DMatrix`, or whatever it takes.
    labels
        Instead of those of the data.
    ax
        Where to draw; None: on a new figure.
    output
        Of several targets or levels: its name or its number.
    title
        What stands above; None: nothing.

    Raises
    ------
    ParameterError
        If the predictions of the model are not of the kind of the labels.
    DataError
        If there are no labels.
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
    entitle(ax, title, "prediction", "label less prediction")
    legend(ax)
    side = _axes_beside(ax)
    look: dict[str, Any] = {"orientation": "horizontal", "color": ACCENT, "alpha": 0.6}
    side.hist(y, _BINS, weights=found.weights, **look)
    side.axhline(found.mean, color=CONTRAST, linewidth=1.2)
    return ax


def _axes_beside(ax: Axes) -> Axes:
    """Take the right of the axes away for others of the same height, and return them.

    They have no lines and numbers of their own.
    """
    from mpl_toolkits.axes_grid1 import make_axes_locatable

    current = ax.figure.gca()
    divider = make_axes_locatable(ax)
    beside = divider.append_axes("right", size=_SIDE, pad=0.06, sharey=ax)
    beside.set_axis_off()
    ax.figure.sca(current)
    return beside
