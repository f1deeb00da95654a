"""A tree as text: a line for each node, indented by its depth."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam.explain.reading import Boosted, words_of
from hornbeam.explain.words import Words

__all__ = ["tree_text", "written"]

_INDENT = "  "


def tree_text(
    model: Boosted,
    tree: int = 0,
    *,
    max_depth: int | None = None,
    class_names: Sequence[str] | None = None,
) -> str:
    """Return a tree as text.

    Each line is a node: a split by what it asks, its gain and its cover; a leaf by its
    value, learning rate included, and its cover; in a random forest by the value that
    the tree alone would predict. Before it stands which rows go there; ``missing`` are
    those without a value.

    Parameters
    ----------
    model
        A `Booster`, or an estimator that has been fitted.
    tree
        Its number, in the order in which trees were grown.
    max_depth
        Splits at this depth are left out, and the leaves below them counted.
    class_names
        A name for each output of the model; the estimator's own classes if None.
    """
    return written(words_of(model, tree, class_names, max_depth=max_depth))


def written(words: Words) -> str:
    """Return what the nodes of one tree say, line by line."""
    lines = [words.about] if words.about else []
    waiting = [(0, 0, "")]
    while waiting:
        node, depth, answer = waiting.pop()
        lines.append(_INDENT * depth + answer + _line(words, node, depth))
        if words.ends(node, depth):
            continue
        pairs = zip(words.branches(node), words.answers(node), strict=True)
        waiting += [(child, depth + 1, f"{said}: ") for child, said in pairs][::-1]
    return "\n".join(lines) + "\n"


def _line(words: Words, node: int, depth: int) -> str:
    if words.is_leaf(node):
        return f"{', '.join(words.values(node))}  ({words.cover(node)})"
    if words.ends(node, depth):
        leaves = sum(1 for _ in words.leaves_below(node))
        return f"… {leaves} leaves  ({words.cover(node)})"
    return f"{words.condition(node)}  ({words.gain(node)}, {words.cover(node)})"
