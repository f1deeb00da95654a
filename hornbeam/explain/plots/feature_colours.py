"""Scatter plots coloured by feature values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.explain.columns import Column
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.style import (
    EDGE,
    FONT,
    LONGEST_LABEL,
    SMALL_FONT,
    legend_entry,
    series_colours,
    shorten,
    shorten_distinct,
    value_colours,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["colour_bar", "dots", "dots_of_classes", "level_of"]

#: Percentiles at which the colour scale is clipped.
_ENDS = (0.05, 0.95)
_MOST_CATEGORIES = 7  # the next colour is grey
_WIDE = 0.1  # inches


def level_of(column: Column) -> tuple[Float64s, float, float]:
    """Return numbers scaled from 0 (low) to 1 (high), and the two limits.

    NaN where the value is missing.
    """
    known = column.known
    if column.levels is not None or not known.size:
        return np.full(len(column.values), np.nan), np.nan, np.nan
    low, high = np.quantile(known, _ENDS)
    if low == high:
        low, high = known.min(), known.max()
    if low == high:
        return np.where(np.isnan(column.values), np.nan, 0.5), float(low), float(high)
    levels = np.clip((column.values - low) / (high - low), 0.0, 1.0)
    return levels, float(low), float(high)


def _class_of(column: Column) -> tuple[NDArray[np.intp], list[str]]:
    """Return the rank of each category among the most frequent ones, and their names.

    The rank is -1 for other categories, and for missing values.
    """
    assert column.levels is not None
    frequent = column.grid(_MOST_CATEGORIES, (0.0, 1.0)).astype(np.intp)
    places = np.full(len(column.values), -1, np.intp)
    for place, code in enumerate(frequent):
        places[column.values == code] = place
    return places, shorten_distinct([column.levels[code] for code in frequent])


def colour_bar(ax: Axes, said: str, ends: tuple[str, str]) -> None:
    """Draw a colour bar next to the axes."""
    from matplotlib.cm import ScalarMappable

    aspect = max(5.0, ax.bbox.height / ax.figure.dpi / _WIDE)
    colours = ScalarMappable(cmap=value_colours())
    bar = ax.figure.colorbar(colours, ax=ax, aspect=aspect, pad=0.02)
    bar.set_ticks([0.0, 1.0], labels=list(ends))
    bar.ax.tick_params(labelsize=SMALL_FONT, length=0)
    bar.set_label(
        shorten(said, LONGEST_LABEL), fontsize=FONT, labelpad=-4, parse_math=False
    )
    bar.outline.set_visible(False)


def dots(ax: Axes, x: Any, y: Any, column: Column, **look: Any) -> None:
    """Draw points coloured by numbers; grey where missing."""
    levels, _, _ = level_of(column)
    known = ~np.isnan(levels)
    look = {"linewidths": 0, "rasterized": True} | look
    ax.scatter(x[~known], y[~known], color=EDGE, **look)
    colours = value_colours()(levels[known])
    ax.scatter(x[known], y[known], c=colours, **look)


def dots_of_classes(ax: Axes, x: Any, y: Any, column: Column, **look: Any) -> None:
    """Draw points coloured by category, with a legend; all others grey."""
    places, names = _class_of(column)
    look = {"linewidths": 0, "rasterized": True} | look
    others = places < 0
    if others.any():
        missing = np.isnan(column.values[others])
        said = "missing" if missing.all() else "other"
        if missing.any() and not missing.all():
            said = "other or missing"
        ax.scatter(x[others], y[others], color=EDGE, label=said, **look)
    for place, (name, colour) in enumerate(
        zip(names, series_colours(len(names)), strict=True)
    ):
        own = places == place
        ax.scatter(x[own], y[own], color=colour, label=legend_entry(name), **look)
