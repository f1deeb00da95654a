"""Points in the colours of a feature's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.explain.columns import Column
from hornbeam.explain.style import (
    EDGE,
    FONT,
    LONGEST_LABEL,
    SMALL_FONT,
    series_colours,
    shortened,
    told_apart,
    value_colours,
)
from hornbeam.explain.words import Float64s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["colour_bar", "dots", "dots_of_classes", "level_of"]

#: Shares of the values beyond which all have one colour.
_ENDS = (0.05, 0.95)
_MOST_CATEGORIES = 7  # the next colour is grey
_WIDE = 0.1  # inches


def level_of(column: Column) -> tuple[Float64s, float, float]:
    """Return each number from 0, low, to 1, high; and the lowest and the highest.

    NaN where there is no number.
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
    """Return the place of each category among the most frequent ones, and their names.

    -1 is that of the others, and of missing ones.
    """
    assert column.levels is not None
    frequent = column.grid(_MOST_CATEGORIES, (0.0, 1.0)).astype(np.intp)
    places = np.full(len(column.values), -1, np.intp)
    for place, code in enumerate(frequent):
        places[column.values == code] = place
    return places, told_apart([column.levels[code] for code in frequent])


def colour_bar(ax: Axes, said: str, ends: tuple[str, str]) -> None:
    """Draw beside the axes what the colours of values mean."""
    from matplotlib.cm import ScalarMappable

    aspect = max(5.0, ax.bbox.height / ax.figure.dpi / _WIDE)
    colours = ScalarMappable(cmap=value_colours())
    bar = ax.figure.colorbar(colours, ax=ax, aspect=aspect, pad=0.02)
    bar.set_ticks([0.0, 1.0], labels=list(ends))
    bar.ax.tick_params(labelsize=SMALL_FONT, length=0)
    bar.set_label(
        shortened(said, LONGEST_LABEL), fontsize=FONT, labelpad=-4, parse_math=False
    )
    bar.outline.set_visible(False)


def dots(ax: Axes, x: Any, y: Any, column: Column, **look: Any) -> None:
    """Draw points in the colours of numbers; grey where there are none."""
    levels, _, _ = level_of(column)
    known = ~np.isnan(levels)
    look = {"linewidths": 0, "rasterized": True} | look
    ax.scatter(x[~known], y[~known], color=EDGE, **look)
    colours = value_colours()(levels[known])
    ax.scatter(x[known], y[known], c=colours, **look)


def dots_of_classes(ax: Axes, x: Any, y: Any, column: Column, **look: Any) -> None:
    """Draw points in the colours of categories, and say which; grey are all others."""
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
        ax.scatter(x[own], y[own], color=colour, label=name, **look)
