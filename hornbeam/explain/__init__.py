"""What a trained model has learned, for people: as pictures, numbers and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.explain.dot import to_graphviz
    from hornbeam.explain.picture import plot_tree
    from hornbeam.explain.plots.importance import plot_importance
    from hornbeam.explain.text import tree_text

__all__ = [
    "plot_importance",
    "plot_tree",
    "to_graphviz",
    "tree_text",
]

_HOMES = {
    "plot_importance": "hornbeam.explain.plots.importance",
    "plot_tree": "hornbeam.explain.picture",
    "to_graphviz": "hornbeam.explain.dot",
    "tree_text": "hornbeam.explain.text",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
