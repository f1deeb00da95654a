"""Probabilities against how often they came true, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require
from hornbeam.explain.calibration import Calibration, calibration_of
from hornbeam.explain.reading import Boosted
from hornbeam.explain.style import (
    ACCENT,
    EDGE,
    SMALL_FONT,
    axes_for,
    entitle,
    legend,
    rule,
    series_colours,
    told_apart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration"]

#: The counts stand below 0, between these.
_FLOOR, _CEILING, _LINE = -0.31, -0.11, -0.04
_MOST_INSIDE = 4  # lines whose names stand inside the axes
_MOST_NAMED = 12


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
    """Draw how often it came true along the predicted probability, return the axes.

    Points on the dashed line are as they should be; below it probabilities are too
    high. Beneath stand the rows of each bin. The names of the classes are followed by
    the mean squared error of their probabilities (Brier), and by the mean distance from
    the dashed line (ECE). Of many classes only those furthest from it have a name and a
    colour.

    Parameters
    ----------
    model
        A `Booster` of classes, or a classifier that has been fitted; or what
        `calibration_of` has returned. Of two classes the second is drawn; of more, each
        against all others.
    data
        A `DMatrix`, or whatever it takes.
    labels
        Instead of those of the data.
    ax
        Where to draw; None: on a new figure.
    bins
        How many at most: those of equal probabilities are one.
    strategy
        ``"quantile"`` for bins of as many rows each, ``"uniform"`` for bins of one
        width.
    class_names
        A name for each class; the estimator's own if None.
    title
        What stands above; None: nothing.

    Raises
    ------
    ParameterError
        If the model predicts no probabilities of classes.
    DataError
        If there are no labels.
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
    names = told_apart([one.name for one in found])
    for k, colour in zip(sorted(worst), series_colours(len(worst)), strict=True):
        one = found[k]
        said = f"{names[k]}: Brier {one.brier:.3f}, ECE {one.ece:.3f}"
        _draw(ax, one, most, {"color": colour, "label": said}, bars=len(found) == 1)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(_FLOOR, 1.03)
    ax.set_yticks(np.linspace(0, 1, 6))
    rule(ax)
    ax.axhline(_LINE, color=EDGE, linewidth=0.8)
    said = f"rows, up to {most:,} in a bin"
    ax.text(0.0, (_LINE + _CEILING) / 2, said, fontsize=SMALL_FONT, va="center")
    entitle(ax, title, "predicted probability", "share that came true")
    legend(ax, outside=outside)
    return ax


def _draw(
    ax: Axes, one: Calibration, most: int, look: dict[str, Any], *, bars: bool = False
) -> None:
    """Draw a class, and its rows beneath, where `most` rows are highest."""
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
