"""Bar plots of feature importance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError, require, short_traceback
from hornbeam.explain.style import (
    ACCENT,
    SMALL_FONT,
    axes_for,
    number,
    rule,
    set_titles,
    shorten_distinct,
)
from hornbeam.explain.subject import check_count
from hornbeam.explain.tree_reader import Boosted, booster_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_importance"]

_BAR = 0.24  # height of a bar on a new figure, in inches
_MOST_INCHES = 200.0
_GAP = 3.0  # distance between a bar and its value, in points
#: Width of the axes relative to the longest bar, and per character of a value.
_ROOM, _LETTER = 0.06, 0.016


@short_traceback
def plot_importance(
    model: Boosted | Mapping[str, float],
    ax: Axes | None = None,
    *,
    height: float = 0.6,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Feature importance",
    xlabel: str | None = None,
    ylabel: str | None = None,
    fmap: str | os.PathLike[str] = "",
    importance_type: str = "weight",
    max_num_features: int | None = None,
    grid: bool = False,
    show_values: bool = True,
    values_format: str | None = None,
    output: int = 0,
    **kwargs: Any,
) -> Axes:
    """Plot the importance of each feature that trees split on, and return the axes.

    The most important feature is at the top.

    Parameters
    ----------
    model
        A `Booster`, a fitted estimator, or a dict from feature names to scores.
    ax
        Axes to draw in; None: a new figure, whose height depends on the number of bars.
    height
        Height of a bar, where 1 leaves no space between bars.
    xlim, ylim
        Limits of the axes. Bars are at 0, 1, 2, ... from the bottom up.
    title, xlabel, ylabel
        Title and axis labels. None: no text, except that `xlabel` then names the
        importance type.
    fmap
        A feature map, which replaces the feature names.
    importance_type
        ``"weight"`` counts splits; ``"gain"`` and ``"cover"`` are means over the
        splits of a feature, ``"total_gain"`` and ``"total_cover"`` sums. A linear model
        has only weights, its coefficients.
    max_num_features
        Maximum number of features, the most important first; None: all.
    grid
        Whether to draw grid lines.
    show_values
        Whether to write the score next to each bar.
    values_format
        Format of the scores, such as ``"{v:.2f}"``; None: a few digits.
    output
        The output whose weights are drawn, if a linear model has several.
    kwargs
        Further arguments of `Axes.barh`, such as ``color``.

    Raises
    ------
    ParameterError
        If no tree splits on any feature, or an axis limit is not a pair.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_importance
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_importance(model, importance_type="gain", max_num_features=5)
    >>> [label.get_text() for label in ax.get_yticklabels()][-2:]
    ['bmi', 's5']
    """
    require("matplotlib", "plot", "plot_importance")
    if isinstance(model, Mapping):
        scores, said = dict(model), "score"
    else:
        scores = booster_of(model).get_score(fmap, importance_type)
        said = importance_type.replace("_", " ")
    pairs = _ranked(scores, max_num_features, output)
    names = shorten_distinct([name for name, _ in pairs])
    values = np.array([value for _, value in pairs])
    written = [
        number(value) if values_format is None else values_format.format(v=value)
        for _, value in pairs
    ]

    ax = axes_for(ax, height=min(1.0 + _BAR * len(pairs), _MOST_INCHES))
    places = np.arange(len(pairs))
    ax.barh(places, values, height=height, align="center", **{"color": ACCENT} | kwargs)
    letters = _letters_for(ax, len(pairs))
    ax.set_yticks(places, names, fontsize=letters, parse_math=False)
    ax.tick_params(axis="y", length=0)
    if show_values:
        for place, value, line in zip(places, values, written, strict=True):
            side = -1 if value < 0 else 1
            ax.annotate(
                line,
                (value, place),
                xytext=(side * _GAP, 0),
                textcoords="offset points",
                ha="right" if side < 0 else "left",
                va="center",
                fontsize=letters,
                parse_math=False,
            )
    least, most = min(values.min(), 0.0), max(values.max(), 0.0)
    room = (most - least) * (_ROOM + _LETTER * show_values * max(map(len, written)))
    least, most = least - room * (least < 0), most + room * (most > 0)
    if least == most:
        most = 1.0
    ax.set_xlim(_pair(xlim, "xlim") or (least, most))
    ax.set_ylim(_pair(ylim, "ylim") or (-1, len(pairs)))
    set_titles(ax, title, said if xlabel is None else xlabel, ylabel)
    if grid:
        rule(ax)
    return ax


def _ranked(
    scores: Mapping[str, Any], most: int | None, output: int
) -> list[tuple[str, float]]:
    """Return the names and scores of the most important features, ascending."""
    if not scores:
        raise ParameterError(
            "Booster.get_score() results in empty: no tree splits on a feature; "
            "train with more rows, or with less regularization",
            code=ErrorCode.NO_SPLITS,
        )
    if most is not None:
        check_count("max_num_features", most)
    several = [value for value in scores.values() if isinstance(value, list)]
    if several and not 0 <= output < len(several[0]):
        raise ParameterError(
            f"output={output} is not an output of this model; give a number from 0 to "
            f"{len(several[0]) - 1}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    pairs = [
        (name, value[output] if isinstance(value, list) else value)
        for name, value in scores.items()
    ]
    pairs.sort(key=lambda pair: pair[1])
    return pairs if most is None else pairs[-most:]


def _letters_for(ax: Axes, n_bars: int) -> float:
    """Return the font size at which the labels of bars do not overlap."""
    room = ax.bbox.height * 72 / ax.figure.dpi / (n_bars + 1)
    return max(1.0, min(SMALL_FONT, 0.75 * room))


def _pair(limits: Any, name: str) -> tuple[float, float] | None:
    if limits is not None and (not isinstance(limits, tuple) or len(limits) != 2):
        raise ParameterError(
            f"{name} must be a tuple of 2 elements, not {limits!r}",
            code=ErrorCode.INVALID_PARAMETER_TYPE,
        )
    return limits
