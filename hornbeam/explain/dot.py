"""Trees as Graphviz graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hornbeam.errors import require, short_traceback
from hornbeam.explain.tree_reader import Boosted, booster_of, number_of

if TYPE_CHECKING:
    from graphviz import Source

__all__ = ["to_graphviz"]


@short_traceback
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
    """Return a tree as a ``graphviz.Source``: notebooks show it, `render` saves it.

    The DOT text equals XGBoost's. Showing and saving need the program ``dot``;
    `hornbeam.explain.plot_tree` needs none.

    Parameters
    ----------
    model
        A `Booster`, or a fitted estimator.
    tree
        Index of the tree, in the order in which trees were grown.
    fmap
        A feature map.
    with_stats
        Whether to show the gain of splits, and the cover of all nodes.
    yes_color, no_color
        Colours of the edge that missing values take, and of the other edge.
    condition_node_params, leaf_node_params
        Graphviz attributes of the splits and of the leaves.
    graph_attrs
        Graphviz attributes of the graph, such as ``rankdir="LR"``.

    Examples
    --------
    >>> from hornbeam import HornbeamRegressor
    >>> from hornbeam.explain import to_graphviz
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = HornbeamRegressor(n_estimators=30, max_depth=1).fit(X[:300], y[:300])
    >>> source = to_graphviz(model, 0)
    >>> source.source.startswith("digraph")
    True
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
