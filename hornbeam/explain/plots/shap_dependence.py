"""SHAP dependence plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require, short_traceback
from hornbeam.explain.contributions import (
    Contributions,
    contributions_of,
    partners_of,
)
from hornbeam.explain.plots.beeswarm import swarm
from hornbeam.explain.plots.categories import place_along
from hornbeam.explain.plots.feature_colours import (
    colour_bar,
    dots,
    dots_of_classes,
    level_of,
)
from hornbeam.explain.style import (
    ACCENT,
    EDGE,
    LONGEST_LABEL,
    SMALL_FONT,
    axes_for,
    legend,
    number,
    rule,
    set_titles,
    shorten,
)
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_shap_dependence"]

_MOST_POINTS = 3000
_MOST_CATEGORIES = 40
_CROWD = 0.35  # jitter of points, relative to the distance between categories
_APART = 0.07  # position of missing values, relative to the width of the others


@short_traceback
def plot_shap_dependence(
    model: Boosted | Contributions,
    data: Any = None,
    feature: str | int = 0,
    ax: Axes | None = None,
    *,
    colour: str | int | None = "auto",
    output: str | int | None = None,
    max_rows: int | None = 5000,
    class_names: Sequence[Any] | None = None,
    title: str | None = None,
) -> Axes:
    """Plot the SHAP values of a feature against its values, and return the axes.

    Each point is a row. Vertical spread at one value is due to interactions: the colour
    is the value of the feature with the strongest interaction. Only the 40 most
    frequent categories are drawn.

    Parameters
    ----------
    model
        A `Booster`, a fitted estimator, or contributions, whose interactions are
        unknown.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    feature
        Name or index of the feature.
    ax
        Axes to draw in; None: a new figure.
    colour
        Name or index of the feature that colours the points; ``"auto"`` for the one
        with the strongest interaction, None for a single colour.
    output
        Name or index of the output, where there are several classes, targets or
        quantiles.
    max_rows
        Maximum number of rows, evenly spaced over the data; None: all. Of these 3,000
        at most are drawn.
    class_names
        Names of the outputs; None: the classes of the estimator.
    title
        Title of the plot; None: the name of the output.

    Raises
    ------
    ParameterError
        If the model has no such feature or output, or has several outputs and none is
        chosen.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_shap_dependence
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_shap_dependence(model, X[300:], "bmi")
    """
    require("matplotlib", "plot", "plot_shap_dependence")
    if isinstance(model, Contributions):
        found = model
        known = None if colour == "auto" else colour
        place = found.feature(feature)
    else:
        found = contributions_of(
            model, data, output=output, max_rows=max_rows, class_names=class_names
        )
        place, known = found.feature(feature), colour
        if colour == "auto":
            (known,) = partners_of(
                model, data, found, [place], output=output, class_names=class_names
            )
    other = None if known is None else found.feature(known)
    n_rows = len(found.values)
    rows = np.linspace(0, n_rows - 1, min(n_rows, _MOST_POINTS)).astype(np.intp)
    column = found.columns[place].of_rows(rows)
    y = found.values[rows, place]

    ax = axes_for(ax)
    ax.axhline(0.0, color=EDGE, linewidth=0.8)
    x = _places(ax, column, y)
    shown = ~np.isnan(x)
    x, y, rows = x[shown], y[shown], rows[shown]
    look: dict[str, Any] = {"s": 12 if len(x) <= 1000 else 6, "zorder": 3}
    if other is None:
        ax.scatter(x, y, color=ACCENT, alpha=0.6, linewidths=0, **look)
    else:
        partner = found.columns[other].of_rows(rows)
        if partner.levels is not None:
            dots_of_classes(ax, x, y, partner, **look)
            legend(ax, shorten(partner.name), outside=True)
        else:
            dots(ax, x, y, partner, **look)
            _, low, high = level_of(partner)
            colour_bar(ax, partner.name, (number(low), number(high)))
    rule(ax)
    set_titles(
        ax,
        shorten(found.output, LONGEST_LABEL) if title is None else title,
        shorten(column.name, LONGEST_LABEL),
        "contribution to the margin",
    )
    return ax


def _places(ax: Axes, column: Any, contributions: Any) -> Any:
    """Return the x positions of rows; NaN for rows that are not drawn.

    Missing values are drawn to the left of numbers, or after the last category.
    """
    missing = np.isnan(column.values)
    if column.levels is None:
        low, high = column.known.min(initial=np.inf), column.known.max(initial=-np.inf)
        if not missing.any():
            return column.values
        if not column.known.size:
            low = high = 0.0
        apart = low - _APART * ((high - low) or 1.0)
        ax.axvline((low + apart) / 2, color=EDGE, linewidth=0.6, linestyle=":")
        across = ax.get_xaxis_transform()
        ax.text(
            apart,
            0.99,
            "missing",
            transform=across,
            rotation=90,
            ha="center",
            va="top",
            fontsize=SMALL_FONT,
        )
        return np.where(missing, apart, column.values)
    codes = column.grid(_MOST_CATEGORIES, (0.0, 1.0))
    more = "missing" if missing.any() else None
    places = place_along(ax, "x", column, codes, more=more)
    x = np.full(len(column.values), np.nan)
    groups = [column.values == code for code in codes]
    if more is not None:
        groups.append(missing)
        places = np.append(places, len(codes))
    low, high = contributions.min(), contributions.max()
    for at, group in zip(places, groups, strict=True):
        x[group] = at + _CROWD * swarm(contributions[group], low, high)
    return x
