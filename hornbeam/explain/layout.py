"""Layout of a plotted tree (Reingold and Tilford 1981)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["places"]


def places(
    children: Sequence[Sequence[int]], widths: Sequence[float], gap: float
) -> list[float]:
    """Return the horizontal centre of each node.

    Subtrees are as close together as their outlines allow, and a parent is centred
    above its first and its last child.

    Parameters
    ----------
    children
        Children of each node, from left to right; a child's index is above its
        parent's.
    widths
        Width of each node.
    gap
        Minimum distance between two nodes of a level.
    """
    # The outlines of a subtree: the left and the right end of each level, relative to
    # the centre of its root.
    outlines: list[tuple[list[float], list[float]]] = [([], [])] * len(widths)
    steps = [0.0] * len(widths)  # relative to the parent
    for node in reversed(range(len(widths))):
        lefts: list[float] = []
        rights: list[float] = []
        for child in children[node]:
            child_lefts, child_rights = outlines[child]
            pairs = zip(rights, child_lefts, strict=False)
            step = max((right - left + gap for right, left in pairs), default=0.0)
            steps[child] = step
            deeper = len(lefts)
            lefts += [step + left for left in child_lefts[deeper:]]
            rights = [step + right for right in child_rights] + rights[
                len(child_rights) :
            ]
            outlines[child] = ([], [])
        shift = 0.0
        if children[node]:
            shift = (steps[children[node][0]] + steps[children[node][-1]]) / 2
        for child in children[node]:
            steps[child] -= shift
        half = widths[node] / 2
        outlines[node] = (
            [-half, *(left - shift for left in lefts)],
            [half, *(right - shift for right in rights)],
        )
    middles = [0.0] * len(widths)
    for node, below in enumerate(children):
        for child in below:
            middles[child] = middles[node] + steps[child]
    return middles
