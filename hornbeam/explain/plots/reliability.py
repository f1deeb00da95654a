"""Plots of the reliability of predicted quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require, short_traceback
from hornbeam.explain.reliability import Reliability, reliability_of
from hornbeam.explain.style import ACCENT, EDGE, axes_for, legend, rule, set_titles
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_quantile_reliability"]


@short_traceback
def plot_quantile_reliability(
    model: Boosted | Reliability,
    data: Any = None,
    labels: Any = None,
    ax: Axes | None = None,
    *,
    levels: Sequence[float] | None = None,
    title: str | None = "Reliability of quantiles",
) -> Axes:
    """Plot the share of labels below each predicted quantile, and return the axes.

    Points on the dashed line are perfectly reliable; below it quantiles are too low.
    The band is the 95 % interval of chance. The text gives the largest gap and the
    share of labels between the outermost quantiles.

    Parameters
    ----------
    model
        A `Booster` or a fitted regressor with ``reg:quantileerror`` or ``dist:*``, or
        the result of `reliability_of`.
    data
        A `DMatrix`, or anything that `DMatrix` accepts. Rows count as they weigh.
    labels
        Labels to use instead of those in the data.
    ax
        Axes to draw in; None: a new figure.
    levels
        Levels of the quantiles of a distribution; None: 0.05, 0.1, ..., 0.95. A
        quantile model has levels of its own.
    title
        Title of the plot; None: no title.

    Raises
    ------
    ParameterError
        If the model predicts no quantiles, or not those levels.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_quantile_reliability
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(
    ...     objective="reg:quantileerror",
    ...     quantile_alpha=[0.1, 0.5, 0.9],
    ...     n_estimators=30,
    ... ).fit(X[:300], y[:300])
    >>> ax = plot_quantile_reliability(model, X[300:], y[300:])
    """
    require("matplotlib", "plot", "plot_quantile_reliability")
    if isinstance(model, Reliability):
        found = model
    else:
        found = reliability_of(model, data, labels, levels=levels)
    ax = axes_for(ax, width=5.0, height=4.8)
    ax.plot([0, 1], [0, 1], color=EDGE, linewidth=1, linestyle="--")
    # The interval has no width at levels 0 and 1.
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
    set_titles(ax, title, "level of the predicted quantile", "share of labels below it")
    legend(ax)
    return ax
