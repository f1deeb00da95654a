"""Plots of trees, drawn with matplotlib alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.errors import ErrorCode, ParameterError, require, short_traceback
from hornbeam.explain.boxes import (
    BAR,
    LINE,
    MARGIN,
    Box,
    Entry,
    arrange,
    boxes_of,
    legend_of,
)
from hornbeam.explain.node_text import NodeText
from hornbeam.explain.style import (
    EDGE,
    FAINT,
    FONT,
    INK,
    PAPER,
    SHADE,
    SMALL_FONT,
    check_axes,
    class_colours,
)
from hornbeam.explain.tree_reader import Boosted, node_text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "plot_tree"]

_BORDER = 8.0  # margin around the plot, in points
_ANSWER_AT = 0.58  # of the distance from a box to the one below it
_THIN = 0.8
#: matplotlib draws up to 65,535 dots in each direction; these are 100 dots per inch.
_WIDEST = 650 * 72.0


@short_traceback
def plot_tree(
    model: Boosted,
    tree: int = 0,
    ax: Axes | None = None,
    *,
    max_depth: int | None = None,
    class_names: Sequence[str] | None = None,
    most_categories: int = 3,
    fmap: str | os.PathLike[str] = "",
    with_stats: bool = True,
) -> Axes:
    """Plot a tree, and return the axes.

    A white box is a split with its condition, gain and cover. Rows that satisfy the
    condition go left, to ``yes``; ``missing`` marks the branch of missing values. A
    coloured box is a leaf with its value, learning rate included, and its cover; higher
    values are darker. In a random forest it is the value that the tree alone would
    predict. In a classification tree, leaves show the most probable class, and the
    shares of all classes as a coloured bar.

    Parameters
    ----------
    model
        A `Booster`, or a fitted estimator.
    tree
        Index of the tree, in the order in which trees were grown.
    ax
        Axes to draw in; the tree is scaled down to fit. None: a new figure of the size
        of the tree.
    max_depth
        Splits at this depth are replaced by the number of leaves below them.
    class_names
        Names of the outputs; None: the classes of the estimator.
    most_categories
        Maximum number of categories of a split that are listed.
    fmap
        A feature map, which replaces the feature names.
    with_stats
        Whether to show the gain of splits, and the cover of all nodes.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import plot_tree
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300])
    >>> ax = plot_tree(model, 0, max_depth=2)
    >>> ax.figure.savefig("tree.png")
    """
    require("matplotlib", "plot", "plot_tree")
    if ax is not None:
        check_axes(ax)
    words = node_text_of(
        model,
        tree,
        class_names,
        max_depth=max_depth,
        most_categories=most_categories,
        fmap=fmap,
        with_stats=with_stats,
        brief=True,
    )
    return draw(words, ax)


def draw(words: NodeText, ax: Axes | None = None) -> Axes:
    """Plot the text of a tree's nodes, and return the axes."""
    boxes = boxes_of(words)
    width = arrange(boxes)
    header = [[Entry(words.about)]] if words.about else []
    if any(box.shares is not None for box in boxes):
        header += legend_of(words.outputs, width)
    middle = width / 2
    width = max(width, *(sum(entry.width for entry in line) for line in header), 0.0)
    bottom = min(box.bottom for box in boxes)
    canvas = _Canvas(ax, middle, width, bottom, LINE * len(header), len(words.outputs))
    for number, line in enumerate(header):
        canvas.header(line, LINE * (len(header) - number - 0.3))
    for box in boxes:
        canvas.box(box)
        for child, answer in zip(box.children, box.answers, strict=False):
            canvas.branch(box, boxes[child], answer)
    return canvas.ax


class _Canvas:
    """Axes scaled so that one unit is one point of the tree, or less.

    Parameters
    ----------
    ax
        Axes to draw in; None: a new figure.
    middle, width, bottom, top
        Extent of the tree and its legend.
    n_outputs
        Number of classes with a colour.
    """

    def __init__(
        self,
        ax: Axes | None,
        middle: float,
        width: float,
        bottom: float,
        top: float,
        n_outputs: int,
    ) -> None:
        import matplotlib as mpl

        needs = np.array([width, top - bottom]) + 2 * _BORDER
        self.ax = _new_axes(*needs.tolist()) if ax is None else ax
        has = np.array([self.ax.bbox.width, self.ax.bbox.height])
        has *= 72 / self.ax.figure.dpi
        self.scale = min(1.0, *(has / needs).tolist())
        half = has / self.scale / 2
        self.ax.set_xlim(middle - half[0], middle + half[0])
        self.ax.set_ylim((bottom + top) / 2 - half[1], (bottom + top) / 2 + half[1])
        self.ax.set_axis_off()
        self._middle = middle
        self._of_value = mpl.colormaps["YlGn"]
        self._of_class = class_colours(n_outputs)

    def header(self, line: Sequence[Entry], y: float) -> None:
        """Write centred text above the tree."""
        x = self._middle - sum(entry.width for entry in line) / 2
        for entry in line:
            start = x + MARGIN
            if entry.output is not None:
                self._bar(start, y, BAR, self._of_class[entry.output])
                start += BAR + MARGIN
            self._text(start, y, entry.name, ha="left")
            x += entry.width

    def branch(self, parent: Box, child: Box, answer: str) -> None:
        """Draw the edge from a split to a child, with its label."""
        start = np.array([parent.middle, parent.bottom])
        end = np.array([child.middle, child.top])
        self.ax.plot(
            *np.stack([start, end], axis=1),
            color=EDGE,
            linewidth=_THIN * self.scale,
            zorder=1,
        )
        x, y = start + _ANSWER_AT * (end - start)
        paper = {"facecolor": PAPER, "edgecolor": "none", "pad": self.scale}
        self._text(x, y, answer, color=FAINT, bbox=paper, zorder=2)

    def box(self, box: Box) -> None:
        """Draw a node."""
        from matplotlib.patches import FancyBboxPatch

        leaf = self._of_value(0.05 + box.rank / 3)  # pale, for dark text
        left = box.middle - box.width / 2
        self.ax.add_patch(
            FancyBboxPatch(
                (left, box.bottom),
                box.width,
                box.height,
                boxstyle=f"round,pad=0,rounding_size={MARGIN}",
                facecolor={"split": PAPER, "cut": SHADE, "leaf": leaf}[box.kind],
                edgecolor=EDGE,
                linewidth=_THIN * self.scale,
                zorder=3,
            )
        )
        y = box.top - MARGIN - LINE / 2
        bold: dict[str, Any] = {"size": FONT, "weight": "bold"}
        for number, line in enumerate(box.lines):
            look = bold if number < box.n_bold else {"color": FAINT}
            self._text(box.middle, y - number * LINE, line, **look)
        if box.shares is not None:
            widths = box.shares * (box.width - 2 * MARGIN)
            starts = left + MARGIN + np.cumsum(widths) - widths
            y = box.bottom + MARGIN + BAR / 2
            for start, width, colour in zip(
                starts, widths, self._of_class, strict=True
            ):
                self._bar(start, y, width, colour)

    def _bar(self, left: float, y: float, width: float, colour: Any) -> None:
        from matplotlib.patches import Rectangle

        corner = (left, y - BAR / 2)
        self.ax.add_patch(
            Rectangle(corner, width, BAR, facecolor=colour, linewidth=0, zorder=4)
        )

    def _text(
        self, x: float, y: float, line: str, size: float = SMALL_FONT, **style: Any
    ) -> None:
        place: dict[str, Any] = {"ha": "center", "va": "center", "color": INK}
        place |= {"fontsize": size * self.scale, "parse_math": False, "zorder": 5}
        self.ax.text(x, y, line, **place | style)


def _new_axes(width: float, height: float) -> Axes:
    """Return axes that fill a new figure of this size in points."""
    from matplotlib import pyplot as plt

    if max(width, height) > _WIDEST:
        raise ParameterError(
            f"the picture would be {width / 72:.0f} by {height / 72:.0f} inches large; "
            "give max_depth, or an ax to draw it small",
            code=ErrorCode.PICTURE_TOO_LARGE,
        )
    figure = plt.figure(figsize=(width / 72, height / 72))
    return figure.add_axes((0.0, 0.0, 1.0, 1.0))
