"""Plots of confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import require, short_traceback
from hornbeam.explain.confusion import Confusion, confusion_of
from hornbeam.explain.style import (
    INK,
    PAPER,
    SMALL_FONT,
    axes_for,
    number,
    set_titles,
    shorten_distinct,
)
from hornbeam.explain.tree_reader import Boosted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_confusion"]

_CELL = 0.62  # inches on a new figure
_LEAST, _MOST = 3.2, 14.0
#: Text smaller than this, in points, is left out.
_LEGIBLE = 4.0
_LETTER = 0.62  # width of a character relative to its height
_DARK = 0.55  # share from which text is white


@short_traceback
def plot_confusion(
    model: Boosted | Confusion,
    data: Any = None,
    labels: Any = None,
    ax: Axes | None = None,
    *,
    threshold: float = 0.5,
    class_names: Sequence[Any] | None = None,
    title: str | None = None,
) -> Axes:
    """Plot a confusion matrix, and return the axes.

    A row is a true class. Its cells show the number of its rows that are predicted as
    each class, and their share; cells with a larger share are darker.

    Parameters
    ----------
    model
        A `Booster` for classification, a fitted classifier, or the result of
        `confusion_of`.
    data
        A `DMatrix`, or anything that `DMatrix` accepts. Rows count as they weigh.
    labels
        Labels to use instead of those in the data.
    ax
        Axes to draw in; None: a new figure.
    threshold
        With two classes the second is predicted above this probability.
    class_names
        Names of the classes; None: the classes of the estimator.
    title
        Title of the plot; None: the accuracy.

    Raises
    ------
    ParameterError
        If the model is not a classification model.
    DataError
        If the data has no labels.

    Examples
    --------
    >>> from hornbeam import HornbeamClassifier
    >>> from hornbeam.explain import plot_confusion
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = HornbeamClassifier(n_estimators=30, max_depth=3).fit(X[:400], y[:400])
    >>> ax = plot_confusion(
    ...     model, X[400:], y[400:], class_names=["malignant", "benign"]
    ... )
    """
    require("matplotlib", "plot", "plot_confusion")
    if isinstance(model, Confusion):
        found = model
    else:
        found = confusion_of(
            model, data, labels, threshold=threshold, class_names=class_names
        )
    names = shorten_distinct(found.names)
    n_classes = len(names)
    longest = max(map(len, names)) * SMALL_FONT * _LETTER / 72
    side = min(max(_LEAST, _CELL * n_classes), _MOST)
    ax = axes_for(ax, side + longest + 0.5, side + 0.9)
    shares = found.shares
    ax.imshow(np.nan_to_num(shares), cmap="YlGn", vmin=0.0, vmax=1.0, aspect="auto")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    room = np.array([ax.bbox.width, ax.bbox.height]) * 72 / ax.figure.dpi / n_classes
    letters = float(min(SMALL_FONT, 0.8 * room[1]))
    slanted = longest * 72 > room[0]
    ax.set_xticks(
        range(n_classes),
        names,
        fontsize=min(SMALL_FONT, max(1.0, 0.8 * room[0])),
        rotation=90 if slanted else 0,
        parse_math=False,
    )
    ax.set_yticks(range(n_classes), names, fontsize=max(1.0, letters), parse_math=False)
    _write(ax, found, room)
    said = f"{100 * found.accuracy:.1f} % predicted rightly"
    set_titles(ax, said if title is None else title, "predicted class", "true class")
    return ax


def _write(ax: Axes, found: Confusion, room: Any) -> None:
    """Write counts and shares into the cells where they fit."""
    shares = found.shares
    counts = [[_said(count) for count in row] for row in found.counts]
    widest = max(4, *(len(count) for row in counts for count in row))
    letters = min(SMALL_FONT, room[0] / widest / _LETTER / 1.1, room[1] / 2.8)
    if letters < _LEGIBLE:
        return
    for true, row in enumerate(counts):
        for predicted, count in enumerate(row):
            share = shares[true, predicted]
            said = f"\n{100 * share:.0f} %" if share > 0 else ""
            ax.text(
                predicted,
                true,
                count + said,
                ha="center",
                va="center",
                fontsize=letters,
                color=PAPER if share > _DARK else INK,
            )


def _said(count: float) -> str:
    """Return a count as text, sums of weights with few digits."""
    return f"{count:,.0f}" if count == round(count) else number(count)
