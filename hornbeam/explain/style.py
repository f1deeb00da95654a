"""Style of all plots: colours, fonts and axes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ACCENT",
    "CONTRAST",
    "EDGE",
    "ENTRIES",
    "FAINT",
    "FONT",
    "INK",
    "LONGEST_LABEL",
    "PAPER",
    "SHADE",
    "SMALL_FONT",
    "axes_for",
    "check_axes",
    "class_colours",
    "legend",
    "legend_entry",
    "number",
    "rule",
    "series_colours",
    "set_titles",
    "shades",
    "shorten",
    "shorten_distinct",
    "value_colours",
]

# Font sizes in points, 72 to an inch.
FONT = 9.0
SMALL_FONT = 7.5

INK = "#222222"
FAINT = "#666666"
EDGE = "#8a8a8a"
SHADE = "#eeeeee"
PAPER = "#ffffff"
#: Colours of the main series, and of its opposite.
ACCENT = "#2f7d4f"
CONTRAST = "#c1562d"
#: Maximum entries in a column of a legend.
ENTRIES = 24
#: A space without width.
_NO_WIDTH = "\u200b"
_SERIES = [ACCENT, CONTRAST, "#3b6ea8", "#b08a1c"]

LONGEST_LABEL = 48  # letters beside axes
_LONGEST_LINE = 34
_HEAD = 10  # letters before what tells long lines apart
_LONGEST_WORD = 12
_DIGITS = 5
#: Integers from this size on are written with an exponent.
_LARGE = 1e8


def axes_for(ax: Axes | None, width: float = 6.4, height: float = 4.2) -> Axes:
    """Return the given axes, or the axes of a new figure.

    The top and right spines are removed, and tick labels are small.

    Parameters
    ----------
    ax
        Axes to draw in; None: on a new figure.
    width, height
        Size of a new figure in inches.
    """
    if ax is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(width, height), layout="constrained")
        ax = figure.add_subplot()
    check_axes(ax)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(EDGE)
    ax.tick_params(labelsize=SMALL_FONT, color=EDGE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_fontsize(SMALL_FONT)
    ax.set_axisbelow(True)
    return ax


def check_axes(ax: Any) -> None:
    """Raise a `ParameterError` unless `ax` is matplotlib axes."""
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    if isinstance(ax, Axes):
        return
    mend = "leave it out, or pass what figure.add_subplot() returns"
    if isinstance(ax, np.ndarray):
        mend = "of an array of axes pass one"
    elif isinstance(ax, FigureBase):
        mend = "of a figure pass what its add_subplot() returns"
    raise ParameterError(
        f"ax must be axes of matplotlib, not {type(ax).__name__}; {mend}",
        code=ErrorCode.INVALID_PARAMETER_TYPE,
    )


def set_titles(
    ax: Axes,
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> None:
    """Set the title and the axis labels that are given."""
    if title is not None:
        ax.set_title(title, fontsize=FONT + 1, parse_math=False)
    if xlabel is not None:
        ax.set_xlabel(xlabel, fontsize=FONT, parse_math=False)
    if ylabel is not None:
        ax.set_ylabel(ylabel, fontsize=FONT, parse_math=False)


def rule(ax: Axes) -> None:
    """Draw faint grid lines behind the plot."""
    ax.grid(True, color=EDGE, alpha=0.25, linewidth=0.6)


def series_colours(count: int) -> Any:
    """Return a colour for each of several lines, (lines, 4)."""
    from matplotlib.colors import to_rgba_array

    if count <= len(_SERIES):
        return to_rgba_array(_SERIES[:count])
    return class_colours(count)


def shades() -> Any:
    """Return a sequential colour map from pale, but distinct from white, to dark."""
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap

    return ListedColormap(mpl.colormaps["YlGn"](np.linspace(0.3, 1.0, 256)))


def value_colours() -> Any:
    """Return the colour map from low to high feature values."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "values", ["#3b6ea8", "#a4598f", "#e0762a"]
    )


def class_colours(n_classes: int) -> Any:
    """Return a colour for each class, (classes, 4)."""
    import matplotlib as mpl

    table = mpl.colormaps["tab10" if n_classes <= 10 else "tab20"]
    if n_classes > table.N:
        table = mpl.colormaps["turbo"].resampled(n_classes)
    return table(np.arange(n_classes))


def legend_entry(name: str) -> str:
    """Return the label by which `legend` shows a name.

    Matplotlib leaves out labels that begin with an underscore.
    """
    return _NO_WIDTH + name if name.startswith("_") else name


def legend(ax: Axes, title: str | None = None, *, outside: bool = False) -> None:
    """Add a legend inside the axes where it fits, otherwise to their right."""
    entries = len(ax.get_legend_handles_labels()[0])
    place: dict[str, Any] = {"loc": "best"}
    if outside:
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
        place["ncols"] = -(-entries // ENTRIES)
    place |= {"fontsize": SMALL_FONT, "title_fontsize": SMALL_FONT}
    place |= {"handlelength": 1.5, "markerscale": 1.3}
    drawn = ax.legend(title=title, edgecolor="none", framealpha=0.8, **place)
    for text in (drawn.get_title(), *drawn.get_texts()):
        text.set_parse_math(False)
        text.set_text(text.get_text().removeprefix(_NO_WIDTH))


def shorten(line: str, longest: int = _LONGEST_LINE) -> str:
    """Return a text shortened in the middle if it is long; its end has the numbers."""
    if len(line) <= longest:
        return line
    half = longest // 2
    return f"{line[:half]}…{line[-half:]}"


def shorten_distinct(lines: Sequence[str]) -> list[str]:
    """Return texts shortened in the middle that stay distinct.

    Texts that differ in their middles only are shortened at the beginning.
    """
    alike = defaultdict(set)
    for line in lines:
        alike[shorten(line)].add(line)
    found: dict[str, str] = {}
    for short, group in alike.items():
        if len(group) == 1:
            found |= dict.fromkeys(group, short)
            continue
        start = _start_of_word(*group)
        brief = {line: _without(line, start) for line in group}
        are_apart = len({*brief.values()}) == len(group)
        found |= brief if are_apart else {line: line for line in group}
    return [found[line] for line in lines]


def _start_of_word(*lines: str) -> int:
    """Return the start of the first word in which texts differ."""
    letters = enumerate(zip(*lines, strict=False))
    shortest = min(map(len, lines))
    same = next((n for n, of_each in letters if len({*of_each}) > 1), shortest)
    start = same
    while start and lines[0][start - 1].isalnum():
        start -= 1
    return start if same - start <= _LONGEST_WORD else same


def _without(line: str, start: int) -> str:
    """Return the beginning of a text, and the rest from a position on."""
    rest = line[start:]
    room = _LONGEST_LINE - _HEAD
    if len(rest) > room:
        rest = f"{rest[:room]}…"
    return f"{line[:_HEAD]}…{rest}" if start > _HEAD + 1 else f"{line[:start]}{rest}"


def number(value: Any, digits: int = _DIGITS) -> str:
    """Return a number as text: integers exactly, others with a few digits."""
    value = float(value) + 0.0  # no negative zero
    if not math.isfinite(value):
        return str(value)
    whole = value == round(value) or abs(value) >= 10**digits
    if abs(value) < _LARGE and whole:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"
