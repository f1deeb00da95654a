"""The boxes of a plotted tree: their text, size and position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from hornbeam.explain.layout import places
from hornbeam.explain.node_text import NodeText, abridged
from hornbeam.explain.style import FONT, SMALL_FONT

__all__ = [
    "BAR",
    "LINE",
    "MARGIN",
    "Box",
    "Entry",
    "arrange",
    "boxes_of",
    "legend_of",
]

# All lengths are in points, 72 to an inch.
LINE = 12.5  # from one line of text to the next
MARGIN = 5.0  # inside a box
BAR = 7.0  # height of the bar of class shares
_GAP = 14.0  # between the boxes of a level
_DROP = 34.0  # between levels

_MOST_VALUES = 4
_LONGEST_LINE = 48  # font size


@dataclass(slots=True)
class Box:
    """A node of a plotted tree.

    Parameters
    ----------
    lines
        Lines of text, the first one in bold.
    depth
        Depth of the node in its tree.
    kind
        ``"split"``, ``"leaf"``, or ``"cut"`` where splits are left out.
    rank
        Rank of a leaf's value, from 0, the lowest of the tree, to 1, the highest.
    shares
        Shares of the classes in the node, where they are known.
    answers
        Labels of the branches to the two children: ``yes``, ``no``, ``missing``.
    children
        Indices of the children in the list of boxes.
    middle, top
        Position of the box. The left end and the top of the tree are 0; y decreases
        downwards.
    """

    lines: list[str]
    depth: int
    kind: str
    rank: float = 0.0
    shares: NDArray[np.float64] | None = None
    answers: tuple[str, str] = ("", "")
    children: list[int] = field(default_factory=list)
    middle: float = 0.0
    top: float = 0.0
    n_bold: int = field(init=False)
    width: float = field(init=False)
    height: float = field(init=False)

    def __post_init__(self) -> None:
        first, *others = self.lines
        bold = wrap(
            first, _LONGEST_LINE, break_long_words=False, break_on_hyphens=False
        )
        self.n_bold = len(bold)
        self.lines = [*bold, *others]
        widths = [_width(line, FONT, "bold") for line in bold]
        widths += map(_width, others)
        self.width = max(widths) + 4 * MARGIN
        bar = 0.0 if self.shares is None else BAR + MARGIN
        self.height = LINE * len(self.lines) + bar + 2 * MARGIN

    @property
    def bottom(self) -> float:
        return self.top - self.height


@dataclass(slots=True)
class Entry:
    """An entry of the legend above the tree, with the colour of its class if it has
    one."""

    name: str
    output: int | None = None

    @property
    def width(self) -> float:
        spot = 0.0 if self.output is None else BAR + MARGIN
        return _width(self.name) + spot + 2 * MARGIN


def boxes_of(words: NodeText) -> list[Box]:
    """Return the boxes of the nodes, each after its parent's."""
    values = words.tree.value[words.tree.leaf_mask]
    lowest, span = values.min(), np.ptp(values)
    boxes: list[Box] = []
    waiting: list[tuple[int, int, int | None]] = [(0, 0, None)]
    while waiting:
        node, depth, parent = waiting.pop()
        if parent is not None:
            boxes[parent].children.append(len(boxes))
        if words.is_leaf(node):
            has_rank = words.tree.leaf_size == 1 and span > 0
            rank = (words.tree.value[node] - lowest) / span if has_rank else 0.0
            lines, shares = _said_by_leaf(words, node, depth), words.shares(node)
            boxes.append(Box(lines, depth, "leaf", float(rank), shares))
        elif words.ends(node, depth):
            leaves = sum(1 for _ in words.leaves_below(node))
            lines = ["…", f"{leaves} leaves", *words.stats(node, depth)]
            boxes.append(Box(lines, depth, "cut", 0.0, words.shares(node)))
        else:
            held, other = words.branches(node)
            waiting += [(other, depth + 1, len(boxes)), (held, depth + 1, len(boxes))]
            lines = [words.condition(node), *words.stats(node, depth)]
            boxes.append(
                Box(lines, depth, "split", 0.0, words.shares(node), words.answers(node))
            )
    return boxes


def arrange(boxes: Sequence[Box]) -> float:
    """Set the position of each box, and return the width of the tree."""
    middles = places([box.children for box in boxes], [b.width for b in boxes], _GAP)
    left = min(
        middle - box.width / 2 for middle, box in zip(middles, boxes, strict=True)
    )
    heights = [0.0] * (1 + max(box.depth for box in boxes))
    for box in boxes:
        heights[box.depth] = max(heights[box.depth], box.height)
    for middle, box in zip(middles, boxes, strict=True):
        box.middle = middle - left
        box.top = -sum(heights[: box.depth]) - _DROP * box.depth
    return max(box.middle + box.width / 2 for box in boxes)


def legend_of(names: Sequence[str], width: float) -> list[list[Entry]]:
    """Return the legend of class names in lines that fit into a width where
    possible."""
    lines: list[list[Entry]] = [[]]
    for output, name in enumerate(names):
        entry = Entry(name, output)
        if lines[-1] and sum(e.width for e in lines[-1]) + entry.width > width:
            lines.append([])
        lines[-1].append(entry)
    return lines


def _said_by_leaf(words: NodeText, node: int, depth: int) -> list[str]:
    shares = words.shares(node)
    if shares is None:
        return [
            *abridged(words.values(node), _MOST_VALUES),
            *words.stats(node, depth),
        ]
    likeliest = int(np.argmax(shares))
    share = f"{words.outputs[likeliest]} {100 * shares[likeliest]:.0f} %"
    return [share, *words.stats(node, depth)]


def _width(line: str, size: float = SMALL_FONT, weight: str = "normal") -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]
