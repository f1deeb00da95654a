"""Pictures of contributions: in all rows, in one row, and along a feature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import (
    Contributions,
    contributions_by_output,
    contributions_of,
    interactions_of,
    plot_shap_dependence,
    plot_shap_summary,
    plot_shap_waterfall,
)
from hornbeam.explain.plots.beeswarm import swarm
from hornbeam.explain.style import ACCENT, CONTRAST, EDGE, value_colours


@pytest.fixture(scope="module")
def found(prices, diamonds):
    return contributions_of(prices, diamonds[0])


def yticks(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


# All rows


def test_a_swarm_for_each_feature(prices, diamonds, found):
    ax = plot_shap_summary(prices, diamonds[0], max_features=4)
    ranked = found.ranked(4)
    assert yticks(ax) == [found.columns[feature].name for feature in ranked]
    assert ax.get_yticks().tolist() == [3, 2, 1, 0]
    rows = np.linspace(0, 2999, 2000).astype(int)
    swarms = [points for points in ax.collections if len(points.get_offsets())]
    for place, feature, points in zip((3, 2, 1, 0), ranked, swarms, strict=True):
        x, y = np.asarray(points.get_offsets()).T
        np.testing.assert_allclose(x, found.values[rows, feature], rtol=1e-6)
        assert np.abs(y - place).max() <= 0.4


def test_colours_are_the_values_of_features():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": np.arange(100.0), "b": pd.Categorical(["x"] * 100)})
    frame.loc[7, "a"] = np.nan
    given = Contributions.of_values(rng.normal(size=(100, 2)) * [2, 1], 0, frame)
    ax = plot_shap_summary(given)
    missing, numbers, grey, _ = ax.collections
    assert len(missing.get_offsets()) == 1
    assert [tuple(c) for c in missing.get_facecolors()] == [to_rgba(EDGE)]
    assert len(grey.get_offsets()) == 100
    assert [tuple(c) for c in grey.get_facecolors()] == [to_rgba(EDGE)]
    values = frame["a"].dropna()
    low, high = np.quantile(values, [0.05, 0.95])
    expected = value_colours()(np.clip((values - low) / (high - low), 0, 1).to_numpy())
    np.testing.assert_allclose(numbers.get_facecolors(), expected)
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    ends = [label.get_text() for label in bar.get_yticklabels()]
    assert ends == ["low", "high"]


def test_bars_are_mean_absolute_contributions(found):
    ax = plot_shap_summary(found, kind="bar")
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, np.sort(found.importances)[::-1])
    assert ax.get_xlabel() == "mean absolute contribution"
    assert {bar.get_facecolor() for bar in ax.patches} == {to_rgba(ACCENT)}


def test_the_names_of_many_outputs_stand_beside_the_bars():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 2))
    many = [
        Contributions.of_values(rng.normal(size=(9, 2)), 0.0, rows, f"kind {k}")
        for k in range(20)
    ]
    ax = plot_shap_summary(many, kind="bar")
    ax.figure.draw_without_rendering()
    words = ax.get_legend().get_window_extent()
    assert words.x0 >= ax.get_window_extent().x1 and words.y0 >= 0
    assert words.x1 <= ax.figure.bbox.x1


def test_bars_of_several_outputs_stand_one_after_the_other(cuts):
    model, frame, _ = cuts
    ax = plot_shap_summary(model, frame, kind="bar", max_features=3, max_rows=400)
    each = contributions_by_output(model, frame, max_rows=400)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == model.classes_.tolist()
    total = np.sum([one.importances for one in each], axis=0)
    ranked = np.argsort(-total)[:3]
    assert yticks(ax) == [each[0].columns[feature].name for feature in ranked]
    bars = np.array([bar.get_width() for bar in ax.patches]).reshape(5, 3)
    for one, widths in zip(each, bars, strict=True):
        np.testing.assert_allclose(widths, one.importances[ranked])
    starts = np.array([bar.get_x() for bar in ax.patches]).reshape(5, 3)
    np.testing.assert_allclose(starts[1:], np.cumsum(bars, axis=0)[:-1])
    with pytest.raises(ParameterError, match="the model has 5 outputs"):
        plot_shap_summary(model, frame)
    with pytest.raises(ParameterError, match="a swarm is of the contributions to one"):
        plot_shap_summary(each)
    assert plot_shap_summary(model, frame, output="Ideal").get_title() == "Ideal"


def test_points_of_a_swarm_stand_apart():
    values = np.repeat([0.0, 0.5, 1.0], [7, 3, 1])
    offsets = swarm(values, 0.0, 1.0)
    assert sorted(offsets[:7]) == pytest.approx(
        [-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1]
    )
    assert sorted(offsets[7:10]) == pytest.approx([-1 / 3, 0, 1 / 3])
    assert offsets[10] == 0
    assert swarm(np.zeros(3), 0.0, 0.0).tolist() == [0, -1, 1]
    assert swarm(np.empty(0), 0.0, 1.0).size == 0


# One row


def test_steps_lead_from_the_base_to_the_margin(prices, diamonds, found):
    frame, _ = diamonds
    ax = plot_shap_waterfall(prices, frame, 5, max_features=3)
    values = found.values[5]
    order = np.argsort(-np.abs(values))
    steps = [values[order[3:]].sum(), *values[order[:3][::-1]]]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], steps)
    starts = found.base[5] + np.cumsum([0, *steps[:-1]])
    np.testing.assert_allclose([bar.get_x() for bar in ax.patches], starts)
    for bar, step in zip(ax.patches, steps, strict=True):
        assert bar.get_facecolor() == to_rgba(ACCENT if step >= 0 else CONTRAST)
    assert yticks(ax)[0] == f"{len(values) - 3} other features"
    best = found.columns[order[0]]
    assert yticks(ax)[-1] == f"{best.name} = {best.values[5]:.5g}"
    words = [text.get_text() for text in ax.texts]
    assert words[:4] == [f"{step:+.4g}" for step in steps]
    predicted = float(prices.predict(hornbeam.DMatrix(frame))[5])
    assert words[4] == f"base {found.base[5]:.5g}"
    assert words[5] == f"margin {predicted:.5g}"


def test_every_feature_has_a_step_of_its_own_where_there_is_room(titanic):
    model, frame, _ = titanic
    row = int(np.flatnonzero(frame["age"].isna())[0])
    ax = plot_shap_waterfall(model, frame, row)
    assert len(ax.patches) == 3
    assert "age = missing" in yticks(ax)
    assert f"sex = {frame['sex'][row]}" in yticks(ax)
    assert ax.get_xlabel() == "margin of yes"


def test_words_of_steps_lie_inside_and_apart():
    rng = np.random.default_rng(0)
    names = [f"the length of the name number {i} of many" for i in range(40)]
    frame = pd.DataFrame(rng.normal(size=(3, 40)), columns=names)
    given = Contributions.of_values(rng.normal(size=(3, 40)), 1.0, frame)
    for size in ((6, 9), (4, 3)):
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        assert plot_shap_waterfall(given, row=2, ax=ax, max_features=30) is ax
        figure.canvas.draw()
        inside = ax.get_window_extent()
        extents = [text.get_window_extent() for text in ax.texts]
        for extent in extents:
            assert inside.x0 - 1 <= extent.x0 and extent.x1 <= inside.x1 + 1
        for one, other in pairwise(extents[:31]):
            assert not one.overlaps(other)


# Along a feature


def test_points_of_numbers(prices, diamonds, found):
    frame, _ = diamonds
    ax = plot_shap_dependence(prices, frame, "carat")
    points = np.concatenate([dots.get_offsets() for dots in ax.collections])
    order = np.argsort(points[:, 0], kind="stable")
    expected = np.argsort(frame["carat"], kind="stable")
    np.testing.assert_allclose(points[order, 0], frame["carat"].to_numpy()[expected])
    np.testing.assert_allclose(
        np.sort(points[:, 1]), np.sort(found.values[:, 0]), rtol=1e-6
    )
    partner = int(np.argmax(interactions_of(prices, frame, "carat")))
    drawn = {other.get_ylabel() for other in ax.figure.axes if other is not ax}
    if ax.get_legend() is not None:
        drawn = {ax.get_legend().get_title().get_text()}
    assert drawn == {frame.columns[partner]}


def test_points_of_categories_stand_around_them(prices, diamonds, found):
    frame, _ = diamonds
    ax = plot_shap_dependence(prices, frame, "cut", colour=None)
    names = [label.get_text() for label in ax.get_xticklabels()]
    (dots,) = ax.collections
    x, y = np.asarray(dots.get_offsets()).T
    near = np.round(x).astype(int)
    assert np.abs(x - near).max() <= 0.36
    assert [names[place] for place in near] == frame["cut"].tolist()
    np.testing.assert_allclose(y, found.values[:, 1], rtol=1e-6)
    assert {tuple(c) for c in dots.get_facecolors()} == {(*to_rgba(ACCENT)[:3], 0.6)}


def test_missing_values_stand_apart(titanic):
    model, frame, _ = titanic
    ax = plot_shap_dependence(model, frame, "age", colour="sex")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["female", "male"]
    for dots, sex in zip(ax.collections, names, strict=True):
        x = np.asarray(dots.get_offsets())[:, 0]
        ages = frame["age"][frame["sex"] == sex]
        assert (x < frame["age"].min()).sum() == ages.isna().sum()
        np.testing.assert_allclose(
            np.sort(x)[ages.isna().sum() :], np.sort(ages.dropna())
        )
    assert "missing" in [text.get_text() for text in ax.texts]


def test_rare_categories_share_a_colour():
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.15, 400), 20)
    frame = pd.DataFrame(
        {"a": rng.random(400), "b": pd.Categorical([f"c{code}" for code in codes])}
    )
    given = Contributions.of_values(rng.random((400, 2)), 0, frame)
    ax = plot_shap_dependence(given, feature="a", colour="b")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[0] == "other" and len(names) == 8
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == 400


def test_a_category_that_begins_with_an_underscore_has_a_legend_entry():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical(["_$other", "x"])})
    given = Contributions.of_values(np.ones((2, 2)), 0, frame)
    ax = plot_shap_dependence(given, feature="a", colour="b")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["_$other", "x"]
    ax.figure.canvas.draw()


def test_missing_colours_are_grey(diamonds):
    frame = diamonds[0][["carat", "cut", "depth"]][:50].assign(depth=np.nan)
    frame.loc[3, "cut"] = None
    given = Contributions.of_values(np.ones((50, 3)), 0, frame)
    ax = plot_shap_dependence(given, feature="carat", colour="cut")
    grey = ax.collections[0]
    assert grey.get_label() == "missing" and len(grey.get_offsets()) == 1
    ax = plot_shap_dependence(given, feature="carat", colour="depth")
    assert len(ax.collections[0].get_offsets()) == 50


@pytest.mark.parametrize("params", [{"booster": "gblinear"}, {"max_depth": 1}])
def test_features_that_do_not_interact_give_no_colours(diamonds, params):
    frame, labels = diamonds
    data = hornbeam.DMatrix(frame[["carat", "depth"]], labels)
    ax = plot_shap_dependence(hornbeam.train(params, data, 5), data, "carat")
    assert len(ax.collections) == 1 and ax.get_legend() is None
    assert len(ax.figure.axes) == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda found, ax: plot_shap_summary(found, ax=ax),
        lambda found, ax: plot_shap_waterfall(found, ax=ax),
        lambda found, ax: plot_shap_dependence(found, ax=ax, colour="carat"),
    ],
)
def test_the_axes_given_are_drawn_in(found, draw):
    _, (left, right) = plt.subplots(1, 2)
    plt.sca(left)
    assert draw(found, right) is right
    assert plt.gca() is left and not left.collections and not left.patches


def test_what_cannot_be_drawn_is_refused(prices, diamonds, found):
    frame, _ = diamonds
    with pytest.raises(ParameterError, match="kind must be one of swarm, bar"):
        plot_shap_summary(found, kind="violin")
    with pytest.raises(ParameterError, match="max_features must be 1 or more"):
        plot_shap_summary(found, max_features=0)
    with pytest.raises(ParameterError, match="max_features must be 1 or more"):
        plot_shap_waterfall(found, max_features=0)
    with pytest.raises(DataError, match="there is no row 3000; rows are numbered"):
        plot_shap_waterfall(found, row=3000)
    with pytest.raises(DataError, match="there is no row -1"):
        plot_shap_waterfall(prices, frame, -1)
    with pytest.raises(ParameterError, match="'ash' is not a feature of this model"):
        plot_shap_dependence(prices, frame, "ash")
    with pytest.raises(ParameterError, match="'elm' is not a feature of this model"):
        plot_shap_dependence(found, feature="carat", colour="elm")
    with pytest.raises(DataError, match="missing: 'carat'"):
        plot_shap_summary(prices, frame.drop(columns="carat"))
