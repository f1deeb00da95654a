"""Trees as text: one line per node, indented by depth."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam.errors import short_traceback
from hornbeam.explain.node_text import NodeText
from hornbeam.explain.tree_reader import Boosted, node_text_of

__all__ = ["tree_text", "written"]

_INDENT = "  "


@short_traceback
def tree_text(
    model: Boosted,
    tree: int = 0,
    *,
    max_depth: int | None = None,
    class_names: Sequence[str] | None = None,
) -> str:
    """Return a tree as text.

    Each line is a node: a split with its condition, gain and cover; a leaf with its
    value, learning rate included, and its cover; in a random forest with the value that
    the tree alone would predict. The line begins with the branch that leads to the
    node; ``missing`` marks the branch of missing values.

    Parameters
    ----------
    model
        A `Booster`, or a fitted estimator.
    tree
        Index of the tree, in the order in which trees were grown.
    max_depth
        Splits at this depth are replaced by the number of leaves below them.
    class_names
        Names of the outputs; None: the classes of the estimator.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import tree_text
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=1).fit(X[:300], y[:300])
    >>> print(tree_text(model, 0))
    s5 < 0.017036  (gain 587251, cover 300)
      yes: -9.3776  (cover 200) no, missing: 18.662  (cover 100)
    """
    return written(node_text_of(model, tree, class_names, max_depth=max_depth))


def written(words: NodeText) -> str:
    """Return the lines of one tree."""
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


def _line(words: NodeText, node: int, depth: int) -> str:
    if words.is_leaf(node):
        return f"{', '.join(words.values(node))}  ({words.cover(node)})"
    if words.ends(node, depth):
        leaves = sum(1 for _ in words.leaves_below(node))
        return f"… {leaves} leaves  ({words.cover(node)})"
    return f"{words.condition(node)}  ({words.gain(node)}, {words.cover(node)})"
