"""Plots of calibration curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require, short_traceback
from hornbeam.explain.calibration import Calibration, calibration_of
from hornbeam.explain.style import (
    ACCENT,
    EDGE,
    SMALL_FONT,
    axes_for,
    legend,
    legend_entry,
    rule,
    series_colours,
    set_titles,
    shorten_distinct,
)
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration"]

#: The histogram of counts is drawn below 0, between these y values.
_FLOOR, _CEILING, _LINE = -0.31, -0.11, -0.04
_MOST_INSIDE = 4  # maximum number of lines labelled inside the axes
_MOST_NAMED = 12


@short_traceback
def plot_calibration(
    model: Boosted | list[Calibration],
    data: Any = None,
    labels: Any = None,
    ax: Axes | None = None,
    *,
    bins: int = 10,
    strategy: str = "quantile",
    class_names: Sequence[Any] | None = None,
    title: str | None = "Calibration",
) -> Axes:
    """Plot observed frequencies against predicted probabilities, and return the axes.

    Points on the dashed line are perfectly calibrated; below it probabilities are too
    high. A histogram below shows the rows of each bin. The legend gives the Brier score
    of each class, and its expected calibration error (ECE), the mean distance from the
    dashed line. With many classes only those furthest from it have a name and a colour.

    Parameters
    ----------
    model
        A `Booster` for classification, a fitted classifier, or the result of
        `calibration_of`. With two classes the second is drawn; with more, each one
        against the rest.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    labels
        Labels to use instead of those in the data.
    ax
        Axes to draw in; None: a new figure.
    bins
        Maximum number of bins; bins with equal edges are merged.
    strategy
        ``"quantile"`` for bins with equal numbers of rows, ``"uniform"`` for bins of
        equal width.
    class_names
        Names of the classes; None: the classes of the estimator.
    title
        Title of the plot; None: no title.

    Raises
    ------
    ParameterError
        If the model does not predict class probabilities.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamClassifier
    >>> from hornbeam.explain import plot_calibration
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = HornbeamClassifier(n_estimators=30, max_depth=3).fit(X[:400], y[:400])
    >>> ax = plot_calibration(model, X[400:], y[400:], bins=5)
    """
    require("matplotlib", "plot", "plot_calibration")
    if isinstance(model, list):
        found = model
    else:
        found = calibration_of(
            model,
            data,
            labels,
            bins=bins,
            strategy=strategy,
            class_names=class_names,
        )
    worst = np.argsort([-one.ece for one in found], kind="stable")[:_MOST_NAMED]
    outside = len(worst) > _MOST_INSIDE
    ax = axes_for(ax, width=7.2 if outside else 5.2, height=5.0)
    most = max(int(one.counts.max()) for one in found)
    ax.plot([0, 1], [0, 1], color=EDGE, linewidth=1, linestyle="--")
    for k in np.setdiff1d(np.arange(len(found)), worst):
        _draw(ax, found[k], most, {"color": EDGE, "alpha": 0.4})
    names = shorten_distinct([one.name for one in found])
    for k, colour in zip(sorted(worst), series_colours(len(worst)), strict=True):
        one = found[k]
        said = f"{names[k]}: Brier {one.brier:.3f}, ECE {one.ece:.3f}"
        look = {"color": colour, "label": legend_entry(said)}
        _draw(ax, one, most, look, bars=len(found) == 1)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(_FLOOR, 1.03)
    ax.set_yticks(np.linspace(0, 1, 6))
    rule(ax)
    ax.axhline(_LINE, color=EDGE, linewidth=0.8)
    said = f"rows, up to {most:,} in a bin"
    ax.text(0.0, (_LINE + _CEILING) / 2, said, fontsize=SMALL_FONT, va="center")
    set_titles(ax, title, "predicted probability", "share that came true")
    legend(ax, outside=outside)
    return ax


def _draw(
    ax: Axes, one: Calibration, most: int, look: dict[str, Any], *, bars: bool = False
) -> None:
    """Draw a class and its histogram, scaled so that `most` rows are the highest
    bar."""
    known = ~np.isnan(one.observed)
    x, y = one.predicted[known], one.observed[known]
    ax.plot(x, y, "o-", markersize=4, linewidth=1.4, **look)
    heights = _FLOOR + (_CEILING - _FLOOR) * one.counts / most
    if bars:
        ax.stairs(
            heights, one.edges, baseline=_FLOOR, fill=True, color=ACCENT, alpha=0.6
        )
    else:
        look = {name: value for name, value in look.items() if name != "label"}
        ax.plot(x, heights[known], ".-", markersize=3, linewidth=0.8, **look)
