"""A tree as a graph of Graphviz, which draws it by a program of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hornbeam.errors import require
from hornbeam.explain.reading import Boosted, booster_of, number_of

if TYPE_CHECKING:
    from graphviz import Source

__all__ = ["to_graphviz"]


def to_graphviz(
    model: Boosted,
    tree: int = 0,
    *,
    fmap: str | os.PathLike[str] = "",
    with_stats: bool = False,
    yes_color: str | None = None,
    no_color: str | None = None,
    condition_node_params: Mapping[str, str] | None = None,
    leaf_node_params: Mapping[str, str] | None = None,
    **graph_attrs: str,
) -> Source:
    """Return a tree as a ``graphviz.Source``: a notebook shows it, `render` saves it.

    Its text is XGBoost's. Both ways of showing it need the program ``dot``;
    `hornbeam.explain.plot_tree` needs none.

    Parameters
    ----------
    model
        A `Booster`, or an estimator that has been fitted.
    tree
        Its number, in the order in which trees were grown.
    fmap
        A feature map.
    with_stats
        Whether to tell the gain of splits, and the cover of all nodes.
    yes_color, no_color
        Of the way that rows without a value go, and of the other.
    condition_node_params, leaf_node_params
        Attributes of Graphviz for the splits and for the leaves.
    graph_attrs
        Those of the whole, such as ``rankdir="LR"``.
    """
    graphviz = require("graphviz", "plot", "to_graphviz")
    booster = booster_of(model)
    number = number_of(booster.model, tree)
    colours = {"yes_color": yes_color, "no_color": no_color}
    style = {
        "graph_attrs": graph_attrs,
        "edge": {name: colour for name, colour in colours.items() if colour},
        "condition_node_params": condition_node_params,
        "leaf_node_params": leaf_node_params,
    }
    known = {name: value for name, value in style.items() if value}
    dumps = booster.get_dump(fmap, with_stats, f"dot:{json.dumps(known)}")
    source: Any = graphviz.Source(dumps[number])
    return source
