"""Trees as pictures: what stands in the boxes, and that nothing covers anything."""

from __future__ import annotations

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch, Rectangle

import hornbeam
from hornbeam.errors import ParameterError
from hornbeam.explain import plot_tree


@pytest.fixture(autouse=True)
def _no_window():
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def flights():
    """A tree of splits by numbers and by categories, with missing values."""
    rng = np.random.default_rng(7)
    carrier = rng.choice(["AA", "B6", "DL", "EV", "FL", "UA", "US", "WN"], 800)
    hour, wind = rng.integers(24, size=800).astype(float), rng.normal(size=800)
    delay = np.isin(carrier, ["AA", "DL", "UA"]) * 20 + hour + 5 * wind
    wind[rng.random(800) < 0.3] = np.nan
    frame = pd.DataFrame(
        {"carrier": pd.Categorical(carrier), "scheduled $hour$": hour, "wind": wind}
    )
    params = {"max_depth": 5, "max_cat_to_onehot": 1}
    return hornbeam.train(params, hornbeam.DMatrix(frame, delay), 1)


@pytest.fixture(scope="module")
def species():
    """A tree of three classes."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 40)
    rows = rng.normal(size=(120, 2)) + labels[:, None] * 2
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}
    params |= {"multi_strategy": "multi_output_tree", "learning_rate": 1}
    return hornbeam.train(params, hornbeam.DMatrix(rows, labels), 1)


def boxes_on(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]


def extents(ax, artists):
    renderer = ax.figure.canvas.get_renderer()
    return [artist.get_window_extent(renderer) for artist in artists]


def check(ax):
    """Check that no two boxes or words overlap, and that all lie inside the axes."""
    ax.figure.canvas.draw()
    whole = ax.get_window_extent()
    boxes, words = extents(ax, boxes_on(ax)), extents(ax, ax.texts)
    for group in (boxes, words):
        for one, other in combinations(group, 2):
            assert not one.overlaps(other)
    for extent in (*boxes, *words):
        assert whole.x0 <= extent.x0 and extent.x1 <= whole.x1
        assert whole.y0 <= extent.y0 and extent.y1 <= whole.y1
    for word in words:
        inside = [box for box in boxes if box.overlaps(word)]
        assert len(inside) <= 1
        for box in inside:
            assert box.x0 <= word.x0 and word.x1 <= box.x1
            assert box.y0 <= word.y0 and word.y1 <= box.y1


def said(ax):
    return [text.get_text() for text in ax.texts]


def test_a_box_for_each_node(flights):
    ax = plot_tree(flights)
    check(ax)
    tree = flights.model.trees[0]
    assert len(boxes_on(ax)) == tree.n_nodes
    assert len([line for line in said(ax) if line.startswith("gain ")]) == (
        tree.n_nodes - tree.n_leaves
    )
    answers = [line for line in said(ax) if line.startswith(("yes", "no"))]
    assert len(answers) == tree.n_nodes - 1
    assert sum("missing" in answer for answer in answers) == len(answers) // 2


def test_categories_beyond_a_few_are_counted(flights):
    ax = plot_tree(flights, max_depth=1)
    check(ax)
    assert "carrier is B6, EV, FL, … 2 more" in said(ax)
    ax = plot_tree(flights, max_depth=1, most_categories=4)
    assert "carrier is B6, EV, FL, US, WN" in said(ax)


def test_a_name_is_no_formula(flights):
    assert any(
        line.startswith("scheduled $hour$ < ") for line in said(plot_tree(flights))
    )


def test_splits_are_left_out_from_a_depth_on(flights):
    ax = plot_tree(flights, max_depth=2)
    check(ax)
    assert len(boxes_on(ax)) == 7
    left_out = [int(line.split()[0]) for line in said(ax) if line.endswith(" leaves")]
    assert sum(left_out) == flights.model.trees[0].n_leaves
    assert said(ax).count("…") == 4


@pytest.mark.parametrize("size", [(3, 2), (6, 8), (40, 10)])
def test_the_tree_fits_into_the_axes_it_is_given(flights, size):
    _, axs = plt.subplots(1, 2, figsize=size, dpi=300)
    assert plot_tree(flights, ax=axs[1], max_depth=3) is axs[1]
    check(axs[1])
    assert not axs[0].texts


def test_the_middle_of_a_long_line_is_left_out():
    name = "the mean of a long list of numbers that nobody remembers"
    rows = np.arange(8.0).reshape(-1, 1)
    data = hornbeam.DMatrix(rows, rows[:, 0] > 3, feature_names=[name])
    ax = plot_tree(hornbeam.train({"max_depth": 1}, data, 1))
    check(ax)
    assert said(ax)[0] == "the mean of a lon… nobody remembers < 4"


def test_many_categories_take_several_lines():
    levels = [f"the airport of district {place:02}" for place in range(12)]
    cell = pd.Categorical(levels * 5, categories=levels)
    data = hornbeam.DMatrix(pd.DataFrame({"from": cell}), cell.codes % 2)
    params = {"max_depth": 1, "max_cat_to_onehot": 1, "min_child_weight": 0}
    ax = plot_tree(hornbeam.train(params, data, 1), most_categories=20)
    check(ax)
    line = " ".join(text.get_text() for text in ax.texts if text.get_weight() == "bold")
    assert sum(level in line for level in levels) == 6


def test_shares_of_classes(species):
    names = ["ash", "beech", "elm"]
    ax = plot_tree(species, class_names=names)
    check(ax)
    assert said(ax)[:3] == names
    likeliest = [line.split()[0] for line in said(ax) if line.endswith(" %")]
    assert len(likeliest) == species.model.trees[0].n_leaves
    assert {"ash", "elm"} <= set(likeliest) <= set(names)

    bars = [patch for patch in ax.patches if type(patch) is Rectangle]
    assert len(bars) == 3 + 3 * len(likeliest)
    rows = np.array([[-2.0, -2.0]])
    shares = species.inplace_predict(rows)[0]
    first = bars[3:6]  # of the leaf at the left
    widths = np.array([bar.get_width() for bar in first])
    np.testing.assert_allclose(widths / widths.sum(), shares, rtol=1e-5)
    for bar, spot in zip(first, bars[:3], strict=True):
        assert bar.get_facecolor() == spot.get_facecolor()


def test_shares_in_the_nodes_of_a_tree_of_shares():
    rows, classes = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1, 0, 2], 3)
    data = hornbeam.DMatrix(rows, np.eye(3)[classes])
    params = {"multi_strategy": "multi_output_tree", "num_parallel_tree": 5}
    params |= {"learning_rate": 1, "reg_lambda": 0, "base_score": 0, "max_depth": 3}
    forest = hornbeam.train(params, data, 1)
    ax = plot_tree(forest, 3, max_depth=1, class_names=["ash", "beech", "elm"])
    check(ax)
    assert "elm 100 %" in said(ax)
    bars = [patch for patch in ax.patches if type(patch) is Rectangle][3:]
    assert len(bars) == 3 * len(
        boxes_on(ax)
    )  # of the spots, the splits and what is cut
    root = np.array([bar.get_width() for bar in bars[:3]])
    np.testing.assert_allclose(root / root.sum(), [0.5, 0.25, 0.25], rtol=1e-5)


def test_the_legend_of_many_classes_takes_several_lines():
    rng = np.random.default_rng(0)
    labels = rng.integers(25, size=500)
    params = {"objective": "multi:softprob", "num_class": 25, "max_depth": 1}
    params |= {"multi_strategy": "multi_output_tree", "learning_rate": 1}
    data = hornbeam.DMatrix(labels[:, None] + rng.normal(size=(500, 1)), labels)
    names = [f"class {number}" for number in range(25)]
    ax = plot_tree(hornbeam.train(params, data, 1), class_names=names)
    check(ax)
    assert said(ax)[:25] == names
    spots = [patch for patch in ax.patches if type(patch) is Rectangle][:25]
    assert len({spot.get_facecolor() for spot in spots}) == 25


def test_a_leaf_alone():
    data = hornbeam.DMatrix(np.zeros((4, 1)), np.ones(4))
    ax = plot_tree(hornbeam.train({"base_score": 0.5, "learning_rate": 1}, data, 1))
    check(ax)
    assert said(ax) == ["0.4", "cover 4"]


def test_a_tree_that_no_figure_holds_is_refused():
    rows = np.arange(1024.0).reshape(-1, 1)  # leaves of one level, side by side
    tree = hornbeam.DecisionTreeRegressor().fit(rows, rows[:, 0] / 7)
    with pytest.raises(ParameterError, match="give max_depth, or an ax"):
        plot_tree(tree)
    assert len(boxes_on(plot_tree(tree, max_depth=3))) == 15
