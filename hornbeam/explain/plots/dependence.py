"""Plots of partial dependence: lines for one feature, a map for two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require, short_traceback
from hornbeam.explain.dependence import PartialDependence, partial_dependence
from hornbeam.explain.plots.categories import place_along
from hornbeam.explain.style import (
    ACCENT,
    CONTRAST,
    EDGE,
    FONT,
    INK,
    LONGEST_LABEL,
    PAPER,
    SMALL_FONT,
    axes_for,
    legend,
    rule,
    set_titles,
    shorten,
)
from hornbeam.explain.subject import check_option
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_partial_dependence"]

_KINDS = ("both", "average", "individual")
_RUG = 0.03  # height relative to the axes


@short_traceback
def plot_partial_dependence(
    model: Boosted | PartialDependence,
    data: Any = None,
    features: str | int | Sequence[str | int] = (),
    ax: Axes | None = None,
    *,
    kind: str = "both",
    centred: bool = False,
    lines: int = 40,
    output: str | int | None = None,
    margins: bool = False,
    grid: int | Sequence[Any] | None = None,
    percentiles: tuple[float, float] = (0.01, 0.99),
    max_rows: int | None = 2000,
    class_names: Sequence[Any] | None = None,
    title: str | None = None,
) -> Axes:
    """Plot the partial dependence on one or two features, and return the axes.

    For one feature the thick line is the mean prediction of all rows with the feature
    set to a value; each thin line is a row (individual conditional expectation).
    Categories have dots for the means, and short lines for the rows. The dashed line,
    or the last category position, is the mean with the feature set to missing. For two
    features the colour is the mean prediction. Ticks along the axes mark the deciles of
    the data.

    Parameters
    ----------
    model
        A `Booster`, a fitted estimator, or the result of `partial_dependence`.
    data
        A `DMatrix`, or anything that `DMatrix` accepts.
    features
        One or two features by name or index.
    ax
        Axes to draw in; None: a new figure.
    kind
        ``"average"`` for the mean only, ``"individual"`` for rows only, or
        ``"both"``.
    centred
        Whether to shift all lines to 0 at the first grid value.
    lines
        Maximum number of rows drawn, evenly spaced over the data.
    output, margins, grid, percentiles, max_rows, class_names
        As for `partial_dependence`.
    title
        Title of the plot; None: the name of the output, where there are several.

    Raises
    ------
    ParameterError
        If the model has no such feature or output, or `kind` is unknown.
    DataError
        If a feature has no values.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_partial_dependence
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_partial_dependence(model, X, "bmi")
    >>> ax = plot_partial_dependence(model, X, ["bmi", "s5"])
    """
    require("matplotlib", "plot", "plot_partial_dependence")
    check_option("kind", kind, _KINDS)
    if isinstance(model, PartialDependence):
        found = model
    else:
        found = partial_dependence(
            model,
            data,
            features,
            output=output,
            margins=margins,
            grid=grid,
            percentiles=percentiles,
            max_rows=max_rows,
            class_names=class_names,
        )
    if centred:
        found = found.centred()
    ax = axes_for(ax)
    said = "margin" if found.margins else "prediction"
    if centred:
        said = f"change of {said}"
    if len(found.columns) == 2:
        _draw_map(ax, found, said)
    else:
        _draw_lines(ax, found, said, kind, lines)
    set_titles(ax, shorten(found.output, LONGEST_LABEL) if title is None else title)
    return ax


def _draw_lines(
    ax: Axes, found: PartialDependence, said: str, kind: str, lines: int
) -> None:
    """Draw the partial dependence on one feature."""
    import matplotlib as mpl

    (column,), (values,) = found.columns, found.grids
    by_category = column.levels is not None
    more = "missing" if found.missing is not None else None
    places = place_along(ax, "x", column, values, more=more)
    individual = found.individual
    assert individual is not None
    # Categories have no order, so no line connects them.
    stroke, dot = ("_", "o") if by_category else ("-", "-" if len(values) > 1 else "o")
    if kind != "average":
        chosen = np.linspace(0, len(individual) - 1, min(lines, len(individual)))
        thin: dict[str, Any] = {"color": EDGE, "linewidth": 0.6, "alpha": 0.45}
        ax.plot(places, individual[chosen.astype(np.intp)].T, stroke, **thin)
    if kind != "individual":
        strong: dict[str, Any] = {"color": ACCENT, "linewidth": 2, "markersize": 5}
        ax.plot(places, found.average, dot, label="mean", zorder=3, **strong)
        if found.missing is not None and by_category:
            ax.plot(len(values), found.missing, "o", color=CONTRAST, zorder=3)
        elif found.missing is not None:
            dashed: dict[str, Any] = {
                "color": CONTRAST,
                "linewidth": 1.2,
                "linestyle": "--",
            }
            ax.axhline(found.missing, label="mean where missing", **dashed)
            legend(ax)
    _draw_rug(ax, "x", column.deciles, {"colors": mpl.rcParams["text.color"]})
    rule(ax)
    set_titles(ax, xlabel=shorten(column.name, LONGEST_LABEL), ylabel=said)


def _draw_map(ax: Axes, found: PartialDependence, said: str) -> None:
    """Draw the partial dependence on two features, the first on the x axis."""
    from matplotlib.patheffects import withStroke

    x = place_along(ax, "x", found.columns[0], found.grids[0])
    y = place_along(ax, "y", found.columns[1], found.grids[1])
    mesh = ax.pcolormesh(x, y, found.average.T, shading="nearest", cmap="viridis")
    by_category = [column.levels is not None for column in found.columns]
    if not any(by_category) and min(found.average.shape) > 1:
        over: dict[str, Any] = {"colors": "white", "linewidths": 0.6, "alpha": 0.7}
        ax.contour(x, y, found.average.T, 8, **over)
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.set_label(said, fontsize=FONT, parse_math=False)
    bar.ax.tick_params(labelsize=SMALL_FONT)
    bar.outline.set_visible(False)
    halo = [withStroke(linewidth=2, foreground=PAPER)]
    for side, column in zip("xy", found.columns, strict=True):
        _draw_rug(ax, side, column.deciles, {"colors": INK, "path_effects": halo})
    names = [shorten(column.name, LONGEST_LABEL) for column in found.columns]
    set_titles(ax, xlabel=names[0], ylabel=names[1])


def _draw_rug(ax: Axes, side: str, deciles: Any, look: dict[str, Any]) -> None:
    """Draw a tick at each decile of the data within the axes."""
    low, high = ax.get_xlim() if side == "x" else ax.get_ylim()
    inside = deciles[(deciles >= low) & (deciles <= high)]
    look = {"linewidth": 0.8} | look
    if side == "x":
        ax.vlines(inside, 0.0, _RUG, transform=ax.get_xaxis_transform(), **look)
    else:
        ax.hlines(inside, 0.0, 0.7 * _RUG, transform=ax.get_yaxis_transform(), **look)
