"""What features contribute to one row, as steps from the base to its margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode, ParameterError, require
from hornbeam.explain.columns import Column
from hornbeam.explain.contributions import Contributions, contributions_of_row
from hornbeam.explain.reading import Boosted
from hornbeam.explain.style import (
    ACCENT,
    CONTRAST,
    EDGE,
    SMALL_FONT,
    axes_for,
    entitle,
    number,
    shortened,
    told_apart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_shap_waterfall"]

_ROW = 0.34  # inches that a step takes on a new figure
_GAP = 3.0  # points between a bar and its value
_LETTER = 0.62  # the width of a letter, as a share of its height


def plot_shap_waterfall(
    model: Boosted | Contributions,
    data: Any = None,
    row: int = 0,
    ax: Axes | None = None,
    *,
    max_features: int = 10,
    output: str | int | None = None,
    class_names: Sequence[Any] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw how a row comes to its margin, and return the axes.

    At the bottom is the margin of a row of which nothing is known. Each bar is what a
    feature adds or takes away, the largest at the top, which ends at the margin of the
    row.

    Parameters
    ----------
    model
        A `Booster`, or an estimator that has been fitted; or contributions.
    data
        A `DMatrix`, or whatever it takes.
    row
        The number of the row.
    ax
        Where to draw; None: on a new figure.
    max_features
        How many have a bar of their own; the others share one.
    output
        Of several classes, targets or levels: its name or its number.
    class_names
        A name for each output; the estimator's own classes if None.
    title
        What stands above; the output if None.

    Raises
    ------
    ParameterError
        If the output is not the model's, or has to be chosen.
    DataError
        If there is no such row.
    """
    require("matplotlib", "plot", "plot_shap_waterfall")
    if max_features < 1:
        raise ParameterError(
            f"max_features must be 1 or more, not {max_features}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if isinstance(model, Contributions):
        if not 0 <= row < len(model.values):
            raise DataError(
                f"there is no row {row}; rows are numbered 0 to "
                f"{len(model.values) - 1}",
                code=ErrorCode.INVALID_ROW_INDEX,
            )
        found = model
    else:
        found = contributions_of_row(
            model, data, row, output=output, class_names=class_names
        )
        row = 0
    steps, names = _steps(found, row, max_features)
    ends = found.base[row] + np.cumsum(steps)
    starts = ends - steps
    ax = axes_for(ax, height=1.2 + _ROW * len(steps))
    places = np.arange(len(steps))
    colours = [ACCENT if step >= 0 else CONTRAST for step in steps]
    ax.barh(places, steps, 0.62, left=starts, color=colours, zorder=2)
    ax.vlines(ends[:-1], places[:-1], places[1:], color=EDGE, lw=0.7, zorder=1)
    room = ax.bbox.height * 72 / ax.figure.dpi / (len(steps) + 2)
    letters = max(1.0, min(SMALL_FONT, 0.75 * room))
    written = [f"{step:+.4g}" for step in steps]
    for place, step, end, said in zip(places, steps, ends, written, strict=True):
        ax.annotate(
            said,
            (end, place),
            xytext=(_GAP if step >= 0 else -_GAP, 0),
            textcoords="offset points",
            ha="left" if step >= 0 else "right",
            va="center",
            fontsize=letters,
        )
    _widen(ax, starts, ends, steps, max(map(len, written)) * letters * _LETTER)
    _mark(ax, found.base[row], (0.0, -1.0), "base", letters)
    _mark(ax, ends[-1], (len(steps) - 1.0, float(len(steps))), "margin", letters)
    ax.set_yticks(places, names, fontsize=letters, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-1.6, len(steps) + 0.6)
    said = "margin" + (f" of {shortened(found.output)}" if found.output else "")
    entitle(ax, title, said)
    return ax


def _steps(found: Contributions, row: int, most: int) -> tuple[Any, list[str]]:
    """Return what features add, the largest last, and what they are called."""
    values = found.values[row]
    order = np.argsort(-np.abs(values), kind="stable")
    own, others = order[:most][::-1], order[most:]
    columns = [found.columns[feature] for feature in own]
    told = told_apart([column.name for column in columns])
    names = [
        _named(column, name, row) for column, name in zip(columns, told, strict=True)
    ]
    if not others.size:
        return values[own], names
    shared = f"{others.size} other feature" + "s" * (others.size > 1)
    return np.append(values[others].sum(), values[own]), [shared, *names]


def _named(column: Column, name: str, row: int) -> str:
    value = column.values[row]
    said = "missing"
    if not np.isnan(value):
        said = number(value) if column.levels is None else column.levels[int(value)]
    return f"{name} = {shortened(said)}"


def _mark(
    ax: Axes, value: float, places: tuple[float, float], said: str, letters: float
) -> None:
    """Write a margin beyond the first or the last bar, at the end of a line."""
    ax.plot([value, value], places, color=EDGE, linewidth=0.7, zorder=1)
    paper = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.0}
    ax.text(
        value,
        places[1],
        f"{said} {number(value)}",
        ha="center",
        va="center",
        fontsize=letters,
        weight="bold",
        bbox=paper,
    )


def _widen(ax: Axes, starts: Any, ends: Any, steps: Any, letters: float) -> None:
    """Make room for what is written at the ends of bars."""
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    span = (high - low) or 1.0
    share = (letters + 2 * _GAP) * ax.figure.dpi / 72 / ax.bbox.width
    room = max(0.04, min(0.4, share)) * span * 1.5
    ax.set_xlim(low - room, high + room)
