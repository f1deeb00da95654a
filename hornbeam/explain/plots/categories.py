"""Axes for feature values: numbers on a scale, categories side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from hornbeam.explain.columns import Column
from hornbeam.explain.node_text import Float64s
from hornbeam.explain.style import SMALL_FONT, shorten_distinct

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["place_along"]

_LETTER = 0.62  # width of a character relative to its height
_LEAST = 2.0


def place_along(
    ax: Axes,
    side: Literal["x", "y"],
    column: Column,
    values: Float64s,
    *,
    more: str | None = None,
) -> Float64s:
    """Return the positions of feature values, and label categories on the axis.

    Parameters
    ----------
    ax
        Axes whose ticks are set.
    side
        ``"x"`` or ``"y"``.
    column
        The feature.
    values
        Distinct numbers, or category codes.
    more
        An extra label at the position after the last category.
    """
    if column.levels is None:
        return values
    places = np.arange(len(values), dtype=np.float64)
    names = shorten_distinct([column.levels[int(code)] for code in values])
    if more is not None:
        names.append(more)
    ticks = np.arange(len(names))
    points = ax.bbox.width if side == "x" else ax.bbox.height
    room = points * 72 / ax.figure.dpi / len(names)
    wide = max(map(len, names)) * SMALL_FONT * _LETTER
    if side == "x":
        slanted = wide > 0.95 * room
        letters = min(SMALL_FONT, 0.8 * room) if slanted else SMALL_FONT
        ax.set_xticks(ticks, names, rotation=90 if slanted else 0, parse_math=False)
    else:
        letters = min(SMALL_FONT, 0.8 * room)
        ax.set_yticks(ticks, names, parse_math=False)
    ax.tick_params(axis=side, labelsize=max(_LEAST, letters), length=0)
    return places
