"""What a trained model has learned, for people: trees as pictures and as text."""

from __future__ import annotations

from hornbeam.explain.dot import to_graphviz
from hornbeam.explain.picture import plot_tree
from hornbeam.explain.text import tree_text

__all__ = ["plot_tree", "to_graphviz", "tree_text"]
