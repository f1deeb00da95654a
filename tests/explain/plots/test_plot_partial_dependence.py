"""Pictures of partial dependence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import hornbeam
from hornbeam.errors import ParameterError
from hornbeam.explain import partial_dependence, plot_partial_dependence


def mean_of(ax):
    (line,) = [line for line in ax.lines if line.get_label() == "mean"]
    return line


def test_lines_of_rows_and_of_their_mean(prices, diamonds):
    frame, _ = diamonds
    found = partial_dependence(prices, frame, "carat", max_rows=200)
    ax = plot_partial_dependence(prices, frame, "carat", max_rows=200, lines=5)
    mean = mean_of(ax)
    np.testing.assert_array_equal(mean.get_xdata(), found.grids[0])
    np.testing.assert_array_equal(mean.get_ydata(), found.average)
    thin = [line for line in ax.lines if line is not mean]
    rows = np.linspace(0, 199, 5).astype(int)
    for line, row in zip(thin, rows, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), found.individual[row])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("carat", "prediction")
    assert ax.get_title() == ""
    strokes = [segment[0, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(
        strokes, np.quantile(frame["carat"], np.arange(1, 10) / 10)
    )


def test_kinds(prices, diamonds):
    found = partial_dependence(prices, diamonds[0], "carat", max_rows=20)
    assert len(plot_partial_dependence(found).lines) == 21
    assert len(plot_partial_dependence(found, kind="average").lines) == 1
    assert len(plot_partial_dependence(found, kind="individual").lines) == 20
    ax = plot_partial_dependence(found, centred=True)
    assert {line.get_ydata()[0] for line in ax.lines} == {0.0}
    assert ax.get_ylabel() == "change of prediction"
    with pytest.raises(ParameterError, match="kind must be one of both"):
        plot_partial_dependence(found, kind="all")


def test_categories_have_their_names(prices, diamonds):
    frame, _ = diamonds
    ax = plot_partial_dependence(prices, frame, "cut", max_rows=30, margins=True)
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == sorted(frame["cut"].unique())
    assert mean_of(ax).get_xdata().tolist() == [0, 1, 2, 3, 4]
    assert ax.get_ylabel() == "margin"


def test_missing_values_are_drawn_apart(titanic):
    model, frame, _ = titanic
    ax = plot_partial_dependence(model, frame, "age", max_rows=40)
    found = partial_dependence(model, frame, "age", max_rows=40)
    (dashed,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert set(dashed.get_ydata()) == {found.missing}
    assert ax.get_title() == "yes"
    frame = frame.assign(sex=frame["sex"].where(frame.index % 5 > 0))
    ax = plot_partial_dependence(model, frame, "sex", max_rows=40)
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == ["female", "male", "missing"]
    (point,) = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert point.get_xdata()[0] == 2


def test_two_features_are_a_map(prices, diamonds):
    frame, _ = diamonds
    found = partial_dependence(prices, frame, ["carat", "depth"], grid=6, max_rows=50)
    ax = plot_partial_dependence(found)
    mesh = ax.collections[0]
    np.testing.assert_array_equal(mesh.get_array(), found.average.T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("carat", "depth")
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylabel() == "prediction"
    ax = plot_partial_dependence(prices, frame, ["carat", "cut"], grid=5, max_rows=50)
    assert [label.get_text() for label in ax.get_yticklabels()] == sorted(
        frame["cut"].unique()
    )


def test_many_long_names_do_not_overlap():
    rng = np.random.default_rng(0)
    names = np.array([f"the {i}th of many kinds of trees" for i in range(90)])
    kind = names[rng.integers(90, size=900)]
    frame = {"kind": kind, "height": rng.random(900)}
    frame = pd.DataFrame(frame).astype({"kind": "category"})
    data = hornbeam.DMatrix(frame, frame["kind"].cat.codes % 9)
    booster = hornbeam.train({}, data, 3)
    for features, side in (("kind", 0), (["height", "kind"], 1)):
        ax = plot_partial_dependence(booster, data, features, max_rows=20)
        ax.figure.canvas.draw()
        labels = (ax.get_xticklabels, ax.get_yticklabels)[side]()
        extents = [label.get_window_extent() for label in labels]
        for one, other in pairwise(extents):
            assert not one.overlaps(other)
        assert min(extent.x0 for extent in extents) >= 0
        assert min(extent.y0 for extent in extents) >= 0


def test_the_axes_given_are_drawn_in(prices, diamonds):
    _, (left, right) = plt.subplots(1, 2)
    plt.sca(left)
    chosen = {"max_rows": 10, "grid": 4}
    for features in ("carat", ["carat", "depth"]):
        drawn = plot_partial_dependence(prices, diamonds[0], features, right, **chosen)
        assert drawn is right
        assert plt.gca() is left and not left.lines
