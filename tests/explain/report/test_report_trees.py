"""The trees for the viewer: walking down them gives the predictions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from report_cases import frame_of, rows_of, trained

from hornbeam.explain.report import trees as report_trees
from hornbeam.explain.report.trees import tree_data

FRAME, LABELS = frame_of(600)


def data_of(model, frame=FRAME, labels=LABELS):
    rows, task = rows_of(model, frame, labels)
    names = list(frame.columns)
    found = tree_data(model, rows, task, names, 0)
    return found, json.loads(found.text), rows


def leaf_of(tree, names, row):
    """Go down a tree by what its questions say."""
    node = 0
    while tree["y"][node] >= 0:
        value = row[names[tree["f"][node]]]
        kind, _, rest = tree["q"][node].partition(" ")
        if value is None:
            answer = bool(tree["m"][node])
        elif kind == "<":
            answer = value < float(rest)
        else:
            assert kind == "is"
            answer = value in rest.split(", ")
        node = tree["y" if answer else "n"][node]
    return node


def test_the_leaves_of_a_row_add_up_to_its_margin():
    model = trained(FRAME, LABELS, {"base_score": 0.5})
    found, data, rows = data_of(model)
    assert found.shown == found.trees == 10 and found.rounds == 10
    margins = np.log(rows.predictions / (1 - rows.predictions))
    assert len(data["rows"]) == 12
    for row in data["rows"]:
        total = sum(
            t["v"][leaf] for t, leaf in zip(data["trees"], row["leaf"], strict=True)
        )
        assert total == pytest.approx(margins[row["n"]], abs=1e-4)
        assert row["y"] == LABELS[row["n"]]


def test_questions_lead_to_the_leaves_of_the_model():
    model = trained(FRAME, LABELS)
    _, data, _ = data_of(model)
    names = data["features"]
    near = 0
    for row in data["rows"]:
        values = dict(zip(names, row["x"], strict=True))
        for tree, leaf in zip(data["trees"], row["leaf"], strict=True):
            near += leaf_of(tree, names, values) == leaf
    # Numbers are told in five digits, so that a row near a threshold may go astray.
    assert near >= 0.98 * len(data["rows"]) * len(data["trees"])


def test_trees_of_all_outputs_have_a_value_for_each():
    labels = np.arange(600.0) % 3
    params = {"objective": "multi:softprob", "num_class": 3}
    vector = trained(FRAME, labels, {**params, "multi_strategy": "multi_output_tree"})
    _, data, _ = data_of(vector, labels=labels)
    assert data["of"] == [-1] * 10
    leaf = data["trees"][0]["y"].index(-1)
    assert len(data["trees"][0]["v"][leaf]) == 3
    single = trained(FRAME, labels, params, 2)
    _, data, _ = data_of(single, labels=labels)
    assert data["of"] == [0, 1, 2] * 2 and data["rounds"] == [0, 0, 0, 1, 1, 1]
    assert data["outputs"] == ["0", "1", "2"]


def test_too_many_trees_are_cut_off(monkeypatch):
    model = trained(FRAME, LABELS)
    whole, _, _ = data_of(model)
    monkeypatch.setattr(report_trees, "_MOST", len(whole.text) // 2)
    found, data, _ = data_of(model)
    assert 0 < found.shown < found.trees == 10
    assert len(data["trees"]) == found.shown
    assert all(len(row["leaf"]) == found.shown for row in data["rows"])


def test_a_linear_model_has_no_trees():
    frame = FRAME[["age", "income"]]
    model = trained(frame, LABELS, {"booster": "gblinear", "max_depth": None})
    rows, task = rows_of(model, frame, LABELS)
    assert tree_data(model, rows, task, ["age", "income"], 0) is None
