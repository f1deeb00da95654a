"""What features contribute in all rows, as swarms of points or as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError, require
from hornbeam.explain.contributions import (
    Contributions,
    contributions_by_output,
    contributions_of,
)
from hornbeam.explain.plots.colouring import colour_bar, dots
from hornbeam.explain.plots.swarm import swarm
from hornbeam.explain.reading import Boosted
from hornbeam.explain.style import (
    ACCENT,
    EDGE,
    ENTRIES,
    LONGEST_LABEL,
    SMALL_FONT,
    axes_for,
    entitle,
    legend,
    number,
    rule,
    series_colours,
    shortened,
    told_apart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_shap_summary"]

_KINDS = ("swarm", "bar")
_ROW = 0.32  # inches that a feature takes on a new figure
_CROWD = 0.38  # how far points move across, of the distance between features
_MOST_POINTS = 2000
_MOST_INSIDE = 5  # outputs whose names stand inside the axes
_ENTRY = 0.16  # inches that the name of an output takes
_GAP = 3.0  # points between a bar and its value


def plot_shap_summary(
    model: Boosted | Contributions | list[Contributions],
    data: Any = None,
    ax: Axes | None = None,
    *,
    kind: str = "swarm",
    max_features: int = 20,
    output: str | int | None = None,
    max_rows: int | None = 5000,
    class_names: Sequence[Any] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw what features contribute to the margins of all rows, and return the axes.

    The feature that contributes most, on average, is at the top. In a swarm each point
    is a row: at the right, where the feature raises its margin; in the colour of its
    value, grey of a category or a missing value. A bar is the mean absolute
    contribution, in parts of the outputs where there are several.

    Parameters
    ----------
    model
        A `Booster`, or an estimator that has been fitted; or contributions, for bars
        also those of several outputs.
    data
        A `DMatrix`, or whatever it takes.
    ax
        Where to draw; None: on a new figure.
    kind
        ``"swarm"`` or ``"bar"``.
    max_features
        How many at most.
    output
        Of several classes, targets or levels: its name or its number. Bars are of all
        outputs without it.
    max_rows
        How many rows at most, evenly spread over the data; None: all. Of these 2,000
        at most are points.
    class_names
        A name for each output; the estimator's own classes if None.
    title
        What stands above; the output if None.

    Raises
    ------
    ParameterError
        If there is no such kind, or the output is not the model's, or has to be chosen.
    """
    require("matplotlib", "plot", "plot_shap_summary")
    if kind not in _KINDS:
        raise ParameterError(
            f"kind must be one of {', '.join(_KINDS)}, not {kind!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    if max_features < 1:
        raise ParameterError(
            f"max_features must be 1 or more, not {max_features}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    asked: dict[str, Any] = {"max_rows": max_rows, "class_names": class_names}
    if isinstance(model, Contributions):
        found = [model]
    elif isinstance(model, list):
        found = model
    elif output is None and kind == "bar":
        found = contributions_by_output(model, data, **asked)
    else:
        found = [contributions_of(model, data, output=output, **asked)]
    if kind == "swarm" and len(found) > 1:
        raise ParameterError(
            "a swarm is of the contributions to one output; give one",
            code=ErrorCode.AMBIGUOUS_OUTPUT,
        )

    total = np.sum([one.importances for one in found], axis=0)
    ranked = np.argsort(-total, kind="stable")[:max_features]
    named = _ENTRY * min(len(found), ENTRIES) if len(found) > _MOST_INSIDE else 0.0
    ax = axes_for(ax, height=max(2.3, 1.0 + _ROW * len(ranked), 0.5 + named))
    places = np.arange(len(ranked))[::-1]
    names = told_apart([found[0].columns[feature].name for feature in ranked])
    room = ax.bbox.height * 72 / ax.figure.dpi / (len(ranked) + 1)
    letters = max(1.0, min(SMALL_FONT, 0.75 * room))
    ax.set_yticks(places, names, fontsize=letters, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.6, len(ranked) - 0.4)
    if kind == "bar":
        _draw_bars(ax, found, ranked, places, letters)
    else:
        _draw_swarms(ax, found[0], ranked, places)
    above = shortened(found[0].output, LONGEST_LABEL) if len(found) == 1 else ""
    entitle(ax, above if title is None else title)
    return ax


def _draw_bars(
    ax: Axes, found: list[Contributions], ranked: Any, places: Any, letters: float
) -> None:
    """Draw the mean absolute contributions, of several outputs one after the other."""
    ends = np.zeros(len(ranked))
    several = len(found) > 1
    colours = series_colours(len(found)) if several else [ACCENT]
    names = told_apart([one.output for one in found])
    for one, name, colour in zip(found, names, colours, strict=True):
        widths = one.importances[ranked]
        said: dict[str, Any] = {"label": name} if several else {}
        ax.barh(places, widths, 0.6, left=ends, color=colour, **said)
        ends += widths
    for place, end in zip(places, ends, strict=True):
        ax.annotate(
            number(end, 3),
            (end, place),
            xytext=(_GAP, 0),
            textcoords="offset points",
            va="center",
            fontsize=letters,
        )
    ax.set_xlim(0.0, 1.12 * ends.max() or 1.0)
    entitle(ax, xlabel="mean absolute contribution")
    if several:
        legend(ax, outside=len(found) > _MOST_INSIDE)


def _draw_swarms(ax: Axes, found: Contributions, ranked: Any, places: Any) -> None:
    """Draw a point for each row and feature."""
    n_rows = len(found.values)
    rows = np.arange(n_rows)
    if n_rows > _MOST_POINTS:
        rows = np.linspace(0, n_rows - 1, _MOST_POINTS).astype(np.intp)
    values = found.values[np.ix_(rows, ranked)]
    low, high = float(values.min()), float(values.max())
    size = 10.0 if len(rows) <= 500 else 5.0
    ax.axvline(0.0, color=EDGE, linewidth=0.8)
    for place, feature, row in zip(places, ranked, values.T, strict=True):
        y = place + _CROWD * swarm(row, low, high)
        dots(ax, row, y, found.columns[feature].of_rows(rows), s=size, zorder=3)
    rule(ax)
    entitle(ax, xlabel="contribution to the margin")
    colour_bar(ax, "value of the feature", ("low", "high"))
