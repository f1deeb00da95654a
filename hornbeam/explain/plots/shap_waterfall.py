"""SHAP waterfall plots of one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import (
    DataError,
    ErrorCode,
    require,
    short_traceback,
)
from hornbeam.explain.columns import Column
from hornbeam.explain.contributions import Contributions, contributions_of_row
from hornbeam.explain.style import (
    ACCENT,
    CONTRAST,
    EDGE,
    SMALL_FONT,
    axes_for,
    number,
    set_titles,
    shorten,
    shorten_distinct,
)
from hornbeam.explain.subject import check_count
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_shap_waterfall"]

_ROW = 0.34  # height of a step on a new figure, in inches
_GAP = 3.0  # distance between a bar and its value, in points
_LETTER = 0.62  # width of a character relative to its height


@short_traceback
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
    """Plot the SHAP values of one row as a waterfall, and return the axes.

    The base value is at the bottom. Each bar is the SHAP value of a feature, the
    largest at the top, which ends at the margin of the row.

    Parameters
    ----------
    model
        A `Booster`, a fitted estimator, or contributions.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    row
        Index of the row.
    ax
        Axes to draw in; None: a new figure.
    max_features
        Maximum number of features with a bar of their own; the others share one.
    output
        Name or index of the output, where there are several classes, targets or
        quantiles.
    class_names
        Names of the outputs; None: the classes of the estimator.
    title
        Title of the plot; None: the name of the output.

    Raises
    ------
    ParameterError
        If the model has no such output, or has several and none is chosen.
    DataError
        If the data has no such row.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_shap_waterfall
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_shap_waterfall(model, X[300:], row=0)
    """
    require("matplotlib", "plot", "plot_shap_waterfall")
    check_count("max_features", max_features)
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
    said = "margin" + (f" of {shorten(found.output)}" if found.output else "")
    set_titles(ax, title, said)
    return ax


def _steps(found: Contributions, row: int, most: int) -> tuple[Any, list[str]]:
    """Return the SHAP values in ascending order of size, and their labels."""
    values = found.values[row]
    order = np.argsort(-np.abs(values), kind="stable")
    own, others = order[:most][::-1], order[most:]
    columns = [found.columns[feature] for feature in own]
    told = shorten_distinct([column.name for column in columns])
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
    return f"{name} = {shorten(said)}"


def _mark(
    ax: Axes, value: float, places: tuple[float, float], said: str, letters: float
) -> None:
    """Write a margin at the end of a line beyond the first or the last bar."""
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
    """Widen the axes to fit the labels at the ends of bars."""
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    span = (high - low) or 1.0
    share = (letters + 2 * _GAP) * ax.figure.dpi / 72 / ax.bbox.width
    room = max(0.04, min(0.4, share)) * span * 1.5
    ax.set_xlim(low - room, high + room)
