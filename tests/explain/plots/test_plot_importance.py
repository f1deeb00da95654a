"""Importances as bars."""

from __future__ import annotations

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba

import hornbeam
from hornbeam.errors import ParameterError
from hornbeam.explain import plot_importance
from hornbeam.explain.style import ACCENT
from hornbeam.forest.inspection import IMPORTANCE_TYPES

SCORES = {"ash": 3.0, "beech": 12.5, "elm": 7.0}


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def values(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("kind", IMPORTANCE_TYPES)
def test_a_bar_for_each_feature_the_best_at_the_top(prices, kind):
    ax = plot_importance(prices, importance_type=kind)
    scores = prices.get_score(importance_type=kind)
    assert dict(zip(names(ax), widths(ax), strict=True)) == scores
    assert widths(ax) == sorted(scores.values())
    assert ax.get_xlabel() == kind.replace("_", " ")
    assert ax.get_title() == "Feature importance"
    assert {bar.get_facecolor() for bar in ax.patches} == {to_rgba(ACCENT)}
    assert [float(value) for value in values(ax)] == pytest.approx(widths(ax), rel=1e-4)


def test_an_estimator_is_drawn_as_its_booster(diamonds):
    frame, labels = diamonds
    fitted = hornbeam.HornbeamRegressor(n_estimators=3).fit(frame, labels)
    assert widths(plot_importance(fitted)) == widths(
        plot_importance(fitted.get_booster())
    )


def test_long_names_are_told_apart():
    many = [
        f"this is a question of the many, number {n}, with yes or no?"
        for n in range(12)
    ]
    others = ["x" * 40 + side + "y" * 40 for side in "ab"]
    scores = dict.fromkeys(
        [*many, *others, "the mean of a long list of " + "z" * 20], 1
    )
    found = names(plot_importance(scores))
    assert "this is a …7, with yes or no?" in found
    assert others[0] not in found and len({*found}) == len(scores)
    assert max(map(len, found)) <= 36


def test_values_of_bars_that_go_left_stand_inside():
    ax = plot_importance({"ash": 200.0, "beech": -0.0059, "elm": -4.0})
    ax.figure.draw_without_rendering()
    inside = ax.get_window_extent()
    for text in ax.texts:
        at = text.get_window_extent()
        assert inside.x0 <= at.x0 and at.x1 <= inside.x1


def test_scores_of_ones_own():
    ax = plot_importance(SCORES, max_num_features=2)
    assert names(ax) == ["elm", "beech"]
    assert values(ax) == ["7", "12.5"]
    assert ax.get_xlabel() == "score"


def test_what_stands_around_is_told():
    ax = plot_importance(
        SCORES,
        height=0.2,
        xlim=(0, 30),
        ylim=(-2, 4),
        title="t",
        xlabel="x",
        ylabel="y",
        grid=True,
        values_format="{v:.2f} m",
        color=["r", "g", "b"],
    )
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 30), (-2, 4))
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("t", "x", "y")
    assert [bar.get_height() for bar in ax.patches] == [0.2] * 3
    assert [bar.get_facecolor() for bar in ax.patches] == [*map(to_rgba, "rgb")]
    assert values(ax) == ["3.00 m", "7.00 m", "12.50 m"]
    assert any(line.get_visible() for line in ax.get_xgridlines())
    bare = plot_importance(SCORES, title=None, show_values=False)
    assert bare.get_title() == "" and not bare.texts


def test_the_axes_given_are_drawn_in():
    figure, (left, right) = plt.subplots(1, 2)
    plt.sca(left)
    assert plot_importance(SCORES, ax=right) is right
    assert plt.gca() is left and not left.patches
    assert plt.get_fignums() == [figure.number]


def test_names_and_values_do_not_overlap_and_lie_inside():
    rng = np.random.default_rng(0)
    scores = {f"the $size$ of the {i}th part of all": rng.random() for i in range(60)}
    ax = plot_importance(scores)
    ax.figure.canvas.draw()
    whole = ax.figure.bbox
    for words in (ax.get_yticklabels(), ax.texts):
        extents = [word.get_window_extent() for word in words]
        for below, above in pairwise(extents):
            assert below.y1 <= above.y0
        for extent in extents:
            assert whole.x0 <= extent.x0 and extent.x1 <= whole.x1
    assert ax.get_yticklabels()[0].get_text().startswith("the $size$ of the")


def test_letters_shrink_in_axes_with_little_room():
    _, ax = plt.subplots(figsize=(3, 2), dpi=300)
    plot_importance({f"f{i}": i + 1 for i in range(60)}, ax=ax)
    ax.figure.canvas.draw()
    extents = [word.get_window_extent() for word in ax.texts]
    assert all(a.y1 <= b.y0 for a, b in pairwise(extents))


def test_weights_of_a_linear_model_go_both_ways():
    rows = np.random.default_rng(0).normal(size=(300, 3))
    targets = np.stack([rows[:, 0] - 2 * rows[:, 1], rows[:, 2]], axis=1)
    data = hornbeam.DMatrix(rows, targets)
    booster = hornbeam.train({"booster": "gblinear", "reg_lambda": 0}, data, 30)
    ax = plot_importance(booster)
    assert names(ax)[0] == "f1" and names(ax)[-1] == "f0"
    assert widths(ax) == pytest.approx([-2, 0, 1], abs=1e-3)
    assert ax.get_xlim()[0] < -2 and ax.get_xlim()[1] > 1
    other = plot_importance(booster, output=1)
    assert names(other)[-1] == "f2"
    with pytest.raises(ParameterError, match="output=2 is not an output"):
        plot_importance(booster, output=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": {}}, "results in empty"),
        ({"xlim": [0, 1]}, "xlim must be a tuple of 2 elements"),
        ({"ylim": (1,)}, "ylim must be a tuple of 2 elements"),
        ({"max_num_features": 0}, "max_num_features must be 1 or more"),
        ({"model": 3}, "the model must be a Booster or an estimator"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        plot_importance(**{"model": SCORES} | arguments)


def test_colours_of_a_dark_style_are_kept():
    with mpl.style.context("dark_background"):
        ax = plot_importance(SCORES)
    assert {text.get_color() for text in ax.texts} == {"white"}
