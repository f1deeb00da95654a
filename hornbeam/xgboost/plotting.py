"""Plots of feature importances and of single trees, with XGBoost's arguments."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from hornbeam import explain
from hornbeam.boosting.booster import Booster
from hornbeam.errors import ErrorCode, ParameterError, require, short_traceback
from hornbeam.xgboost.deprecation import deprecate_positional_args

if TYPE_CHECKING:
    from graphviz import Source
    from matplotlib.axes import Axes

__all__ = ["plot_importance", "plot_tree", "to_graphviz"]


@deprecate_positional_args
@short_traceback
def plot_importance(
    booster: Any,
    *,
    ax: Axes | None = None,
    height: float = 0.2,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Feature importance",
    xlabel: str | None = "Importance score",
    ylabel: str | None = "Features",
    fmap: str | os.PathLike[str] = "",
    importance_type: str = "weight",
    max_num_features: int | None = None,
    grid: bool = True,
    show_values: bool = True,
    values_format: str = "{v}",
    **kwargs: Any,
) -> Axes:
    """Plot feature importances as horizontal bars, and return the axes.

    The arguments are those of `hornbeam.explain.plot_importance`; `booster` is a
    booster, a fitted estimator, or a mapping of features to scores.
    """
    pyplot = require("matplotlib.pyplot", "plot", "plot_importance")
    scores = booster
    if not isinstance(booster, Mapping):
        scores = _booster_of(booster).get_score(
            fmap=fmap, importance_type=importance_type
        )
    values = [v for v in scores.values() if not isinstance(v, list)]
    if xlim is None and values:
        xlim = 0, max(values) * 1.1  # the limits of XGBoost
    ax = explain.plot_importance(
        scores,
        pyplot.subplots()[1] if ax is None else ax,
        height=height,
        xlim=xlim,
        ylim=ylim,
        title=title,
        xlabel=xlabel or "",
        ylabel=ylabel,
        max_num_features=max_num_features,
        show_values=show_values,
        values_format=values_format,
        **{"color": None} | kwargs,  # None: the first colour of matplotlib's cycle
    )
    ax.grid(grid)
    return ax


@deprecate_positional_args
@short_traceback
def to_graphviz(
    booster: Any,
    *,
    fmap: str | os.PathLike[str] = "",
    num_trees: int | None = None,
    rankdir: str | None = None,
    yes_color: str | None = None,
    no_color: str | None = None,
    condition_node_params: Mapping[str, str] | None = None,
    leaf_node_params: Mapping[str, str] | None = None,
    with_stats: bool = False,
    tree_idx: int = 0,
    **kwargs: Any,
) -> Source:
    """Return a tree as a ``graphviz.Source``.

    Parameters
    ----------
    booster
        A booster, or a fitted estimator.
    tree_idx
        The index of the tree; a negative one counts from the last tree.
    num_trees
        The deprecated name of `tree_idx`.
    rankdir, kwargs
        Attributes of the graph.
    fmap, yes_color, no_color, condition_node_params, leaf_node_params, with_stats
        As for `hornbeam.explain.to_graphviz`.
    """
    model = _booster_of(booster)
    attributes = kwargs if rankdir is None else {"rankdir": rankdir, **kwargs}
    return explain.to_graphviz(
        model,
        _tree_of(model, tree_idx, num_trees),
        fmap=fmap,
        with_stats=with_stats,
        yes_color=yes_color,
        no_color=no_color,
        condition_node_params=condition_node_params,
        leaf_node_params=leaf_node_params,
        **attributes,
    )


@deprecate_positional_args
@short_traceback
def plot_tree(
    booster: Any,
    *,
    fmap: str | os.PathLike[str] = "",
    num_trees: int | None = None,
    rankdir: str | None = None,
    ax: Axes | None = None,
    with_stats: bool = False,
    tree_idx: int = 0,
    **kwargs: Any,
) -> Axes:
    """Plot a tree, and return the axes.

    Matplotlib draws the tree, or the Graphviz program ``dot`` if Graphviz attributes
    are given.

    Parameters
    ----------
    booster
        A booster, or a fitted estimator.
    tree_idx, num_trees, fmap, with_stats
        As for `to_graphviz`.
    ax
        The axes; None for a new figure.
    rankdir, kwargs
        Graphviz attributes, as for `to_graphviz`.
    """
    pyplot = require("matplotlib.pyplot", "plot", "plot_tree")
    model = _booster_of(booster)
    tree = _tree_of(model, tree_idx, num_trees)
    if rankdir is None and not kwargs:
        return explain.plot_tree(model, tree, ax, fmap=fmap, with_stats=with_stats)
    graph = to_graphviz(
        model,
        fmap=fmap,
        rankdir=rankdir,
        with_stats=with_stats,
        tree_idx=tree,
        **kwargs,
    )
    if ax is None:
        ax = pyplot.subplots()[1]
    ax.imshow(pyplot.imread(BytesIO(_drawn(graph)), format="png"))
    ax.set_axis_off()
    return ax


def _drawn(graph: Source) -> bytes:
    graphviz = require("graphviz", "plot", "plot_tree")
    try:
        return graph.pipe(format="png")
    except graphviz.ExecutableNotFound as error:
        raise ParameterError(
            "Graphviz attributes need the program dot, which is not installed; install "
            "Graphviz, or leave out rankdir and other attributes",
            code=ErrorCode.GRAPHVIZ_MISSING,
        ) from error


def _booster_of(model: Any) -> Booster:
    if isinstance(model, Booster):
        return model
    if hasattr(model, "get_booster"):
        return model.get_booster()
    raise ParameterError(
        "tree must be Booster, XGBModel or dict instance, not "
        f"{type(model).__name__}; trees can be plotted of the first two",
        code=ErrorCode.NOT_A_MODEL,
    )


def _tree_of(model: Booster, tree_idx: int, num_trees: int | None) -> int:
    """Return the index of the tree, from 0."""
    if num_trees is not None:
        warnings.warn(
            "The `num_trees` parameter is deprecated, use `tree_idx` instead.",
            FutureWarning,
            stacklevel=5,
        )
        if tree_idx not in (0, num_trees):
            raise ParameterError(
                f"Both `num_trees`, {num_trees}, and `tree_idx`, {tree_idx}, are used; "
                "prefer `tree_idx` alone",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        tree_idx = num_trees
    trees = range(len(model.model.trees))
    if not trees:
        return tree_idx
    try:
        return trees[tree_idx]
    except IndexError:
        raise IndexError(
            f"the model has no tree {tree_idx}: its {len(trees)} trees begin at 0"
        ) from None
