"""Plots compared with XGBoost: the same code draws the same contents."""

from __future__ import annotations

import shutil

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

from hornbeam import xgboost as ours

theirs = pytest.importorskip("xgboost")
graphviz = pytest.importorskip("graphviz")

RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(80, 4)), columns=list("abcd"))
Y = X["a"] * 2 + X["b"] ** 2
PARAMS = {"max_depth": 3, "base_score": 0.5}
BOTH = [ours, theirs]


@pytest.fixture(autouse=True)
def _no_window():
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


def trained(xgb):
    return xgb.train(PARAMS, xgb.DMatrix(X, Y), 3)


def bars(ax):
    """Return the bars, texts and limits of the axes."""
    return {
        "widths": [round(patch.get_width(), 2) for patch in ax.patches],
        "heights": [patch.get_height() for patch in ax.patches],
        "places": [patch.get_y() for patch in ax.patches],
        "colours": [patch.get_facecolor() for patch in ax.patches],
        "values": [text.get_text() for text in ax.texts],
        "names": [label.get_text() for label in ax.get_yticklabels()],
        "limits": [float(f"{end:.5g}") for end in (*ax.get_xlim(), *ax.get_ylim())],
        "words": [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()],
        "grid": [line.get_visible() for line in ax.get_xgridlines()][:1],
        "size": ax.figure.get_size_inches().tolist(),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"importance_type": "gain", "values_format": "{v:.1f}"},
        {"importance_type": "cover", "values_format": "{v:.0f}", "height": 0.7},
        {"max_num_features": 2, "grid": False},
        {"title": None, "xlabel": None, "ylabel": None},
        {"title": "t", "xlabel": "x", "ylabel": "y", "show_values": False},
        {"color": "red", "xlim": (0, 5), "ylim": (-3, 9)},
        {"color": ["r", "r", "b", "b"]},
    ],
    ids=str,
)
def test_importance_plots_are_equal(arguments):
    axes = [xgb.plot_importance(trained(xgb), **arguments) for xgb in BOTH]
    assert bars(axes[0]) == bars(axes[1])
    if "xlim" in arguments:
        assert axes[0].get_xlim() == arguments["xlim"]
        assert axes[0].get_ylim() == arguments["ylim"]
    assert all(ax.get_ylim() == axes[1].get_ylim() for ax in axes)


def test_importance_plots_of_estimators_and_scores():
    figure, ax = plt.subplots()
    model = ours.XGBRegressor(n_estimators=2).fit(X, Y)
    assert ours.plot_importance(model, ax=ax) is ax
    scores = model.get_booster().get_fscore()
    drawn = ours.plot_importance(scores)
    assert bars(drawn)["values"] == bars(ax)["values"]
    assert drawn.figure is not figure


@pytest.mark.parametrize("xgb", BOTH)
def test_plotting_unsupported_objects_is_an_error(xgb):
    with pytest.raises(ValueError, match="must be Booster, XGBModel or dict"):
        xgb.plot_importance("model.json")
    with pytest.raises(ValueError, match="results in empty"):
        xgb.plot_importance(xgb.train({"gamma": 1e9}, xgb.DMatrix(X, Y), 1))
    with pytest.raises(ValueError, match="xlim must be a tuple of 2 elements"):
        xgb.plot_importance(trained(xgb), xlim=[0, 5])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tree_idx": 2, "with_stats": True},
        {"tree_idx": -1},
        {"rankdir": "LR", "yes_color": "#00ff00", "no_color": "#ff0000"},
        {
            "condition_node_params": {"shape": "box", "fillcolor": "#78bceb"},
            "leaf_node_params": {"shape": "box"},
        },
        {"rankdir": "LR", "splines": "ortho"},
    ],
    ids=str,
)
def test_graphviz_sources_are_equal(arguments):
    model = trained(ours).save_raw("json")
    boosters = [xgb.Booster(model_file=model) for xgb in BOTH]
    graphs = [
        xgb.to_graphviz(booster, **arguments)
        for xgb, booster in zip(BOTH, boosters, strict=True)
    ]
    assert isinstance(graphs[0], graphviz.Source)
    assert graphs[0].source == graphs[1].source


def test_a_single_graph_attribute_is_kept():
    # XGBoost drops the first attribute without rankdir.
    assert 'splines="ortho"' in ours.to_graphviz(trained(ours), splines="ortho").source


@pytest.mark.parametrize("xgb", BOTH)
def test_num_trees_is_deprecated(xgb):
    booster = trained(xgb)
    with pytest.warns(FutureWarning, match="`num_trees` parameter is deprecated"):
        graph = xgb.to_graphviz(booster, num_trees=1)
    assert graph.source == xgb.to_graphviz(booster, tree_idx=1).source
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ValueError, match="Both `num_trees`"),
    ):
        xgb.to_graphviz(booster, num_trees=1, tree_idx=2)
    with pytest.raises(IndexError):
        xgb.to_graphviz(booster, tree_idx=3)


def boxes(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]


def test_a_tree_is_drawn_without_dot(monkeypatch):
    monkeypatch.setenv("PATH", "")
    model = ours.XGBRegressor(n_estimators=2, max_depth=2).fit(X, Y)
    ax = ours.plot_tree(model, tree_idx=1)
    assert len(boxes(ax)) == 7
    assert not any("gain" in text.get_text() for text in ax.texts)
    _, own = plt.subplots()
    assert ours.plot_tree(model, ax=own, with_stats=True) is own
    assert any("gain" in text.get_text() for text in own.texts)
    with pytest.raises(ValueError, match="install Graphviz, or leave out rankdir"):
        ours.plot_tree(model, rankdir="LR")
    with pytest.raises(IndexError, match="no tree 2: its 2 trees"):
        ours.plot_tree(model, tree_idx=2)


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")
def test_a_tree_with_attributes_is_drawn_by_dot():
    ax = ours.plot_tree(trained(ours), rankdir="LR", yes_color="#00ff00")
    assert len(ax.images) == 1


def test_feature_maps_name_features(tmp_path):
    path = tmp_path / "features.txt"
    path.write_text("0 first q\n1 second q\n2 third q\n3 fourth q\n")
    ax = ours.plot_tree(trained(ours), fmap=path)
    assert any(text.get_text().startswith("first <") for text in ax.texts)
    names = {
        label.get_text()
        for label in ours.plot_importance(trained(ours), fmap=path).get_yticklabels()
    }
    assert names <= {"first", "second", "third", "fourth"}


def test_plotted_scores_keep_their_format():
    mine, other = (bars(xgb.plot_importance({"a": 3, "b": 2.5})) for xgb in BOTH)
    assert mine == other
