"""SHAP summary plots: beeswarms or bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError, require, short_traceback
from hornbeam.explain.contributions import (
    Contributions,
    contributions_by_output,
    contributions_of,
)
from hornbeam.explain.plots.beeswarm import swarm
from hornbeam.explain.plots.feature_colours import colour_bar, dots
from hornbeam.explain.style import (
    ACCENT,
    EDGE,
    ENTRIES,
    LONGEST_LABEL,
    SMALL_FONT,
    axes_for,
    legend,
    legend_entry,
    number,
    rule,
    series_colours,
    set_titles,
    shorten,
    shorten_distinct,
)
from hornbeam.explain.subject import check_count, check_option
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_shap_summary"]

_KINDS = ("swarm", "bar")
_ROW = 0.32  # height of a feature on a new figure, in inches
_CROWD = 0.38  # width of a swarm, relative to the distance between features
_MOST_POINTS = 2000
_MOST_INSIDE = 5  # maximum number of outputs labelled inside the axes
_ENTRY = 0.16  # height of an output's label in inches
_GAP = 3.0  # distance between a bar and its value, in points


@short_traceback
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
    """Plot the SHAP values of all rows by feature, and return the axes.

    The feature with the largest mean absolute SHAP value is at the top. In a beeswarm
    each point is a row: to the right where the feature raises its margin, coloured by
    the feature value, grey for categories and missing values. A bar is the mean
    absolute SHAP value, stacked by output where there are several.

    Parameters
    ----------
    model
        A `Booster`, a fitted estimator, or contributions; for bars also contributions
        of several outputs.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    ax
        Axes to draw in; None: a new figure.
    kind
        ``"swarm"`` or ``"bar"``.
    max_features
        Maximum number of features.
    output
        Name or index of the output, where there are several classes, targets or
        quantiles. Bars include all outputs without it.
    max_rows
        Maximum number of rows, evenly spaced over the data; None: all. Of these 2,000
        at most are points.
    class_names
        Names of the outputs; None: the classes of the estimator.
    title
        Title of the plot; None: the name of the output.

    Raises
    ------
    ParameterError
        If `kind` is unknown, or the model has no such output, or has several and none
        is chosen.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_shap_summary
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_shap_summary(model, X[300:], max_features=5)
    """
    require("matplotlib", "plot", "plot_shap_summary")
    check_option("kind", kind, _KINDS)
    check_count("max_features", max_features)
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
    names = shorten_distinct([found[0].columns[feature].name for feature in ranked])
    room = ax.bbox.height * 72 / ax.figure.dpi / (len(ranked) + 1)
    letters = max(1.0, min(SMALL_FONT, 0.75 * room))
    ax.set_yticks(places, names, fontsize=letters, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.6, len(ranked) - 0.4)
    if kind == "bar":
        _draw_bars(ax, found, ranked, places, letters)
    else:
        _draw_swarms(ax, found[0], ranked, places)
    above = shorten(found[0].output, LONGEST_LABEL) if len(found) == 1 else ""
    set_titles(ax, above if title is None else title)
    return ax


def _draw_bars(
    ax: Axes, found: list[Contributions], ranked: Any, places: Any, letters: float
) -> None:
    """Draw the mean absolute SHAP values, stacked over outputs."""
    ends = np.zeros(len(ranked))
    several = len(found) > 1
    colours = series_colours(len(found)) if several else [ACCENT]
    names = shorten_distinct([one.output for one in found])
    for one, name, colour in zip(found, names, colours, strict=True):
        widths = one.importances[ranked]
        said: dict[str, Any] = {"label": legend_entry(name)} if several else {}
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
    set_titles(ax, xlabel="mean absolute contribution")
    if several:
        legend(ax, outside=len(found) > _MOST_INSIDE)


def _draw_swarms(ax: Axes, found: Contributions, ranked: Any, places: Any) -> None:
    """Draw a beeswarm with a point for each row and feature."""
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
    set_titles(ax, xlabel="contribution to the margin")
    colour_bar(ax, "value of the feature", ("low", "high"))
