"""Shares of labels below predicted quantiles, against what they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require
from hornbeam.explain.reading import Boosted
from hornbeam.explain.reliability import Reliability, reliability_of
from hornbeam.explain.style import ACCENT, EDGE, axes_for, entitle, legend, rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_quantile_reliability"]


def plot_quantile_reliability(
    model: Boosted | Reliability,
    data: Any = None,
    labels: Any = None,
    ax: Axes | None = None,
    *,
    levels: Sequence[float] | None = None,
    title: str | None = "Reliability of quantiles",
) -> Axes:
    """Draw the share of labels below each predicted quantile, and return the axes.

    Points on the dashed line are as they should be; below it quantiles are too low. In
    the band shares differ from it no more than by chance, in 95 of 100 samples. Beside
    the largest gap stands how many labels lie inside the outermost quantiles.

    Parameters
    ----------
    model
        A `Booster` or a fitted regressor, of ``reg:quantileerror`` or ``dist:*``; or
        what `reliability_of` has returned.
    data
        A `DMatrix`, or whatever it takes. Rows count as they weigh.
    labels
        Instead of those of the data.
    ax
        Where to draw; None: on a new figure.
    levels
        Of the quantiles of a distribution, 0.05, 0.1, ..., 0.95 if None. A model of
        quantiles has its own.
    title
        What stands above; None: nothing.

    Raises
    ------
    ParameterError
        If the model predicts no quantiles, or the levels are not to be had.
    DataError
        If there are no labels.
    """
    require("matplotlib", "plot", "plot_quantile_reliability")
    if isinstance(model, Reliability):
        found = model
    else:
        found = reliability_of(model, data, labels, levels=levels)
    ax = axes_for(ax, width=5.0, height=4.8)
    ax.plot([0, 1], [0, 1], color=EDGE, linewidth=1, linestyle="--")
    # At 0 and 1 nothing is left to chance.
    x = np.concatenate([[0.0], found.levels, [1.0]])
    spread = np.concatenate([[0.0], found.spread, [0.0]])
    ax.fill_between(x, x - spread, x + spread, color=EDGE, alpha=0.25, linewidth=0)
    said = f"largest gap {found.largest_gap:.3f}"
    if len(found.levels) > 1:
        wanted = found.levels[-1] - found.levels[0]
        said += f"\n{100 * found.coverage:.1f} % inside, for {100 * wanted:.3g} %"
    line: dict[str, Any] = {"color": ACCENT, "markersize": 4, "linewidth": 1.4}
    ax.plot(found.levels, found.shares, "o-", label=said, **line)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    rule(ax)
    entitle(ax, title, "level of the predicted quantile", "share of labels below it")
    legend(ax)
    return ax
