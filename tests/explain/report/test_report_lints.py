"""Findings: each fault is found where it was planted, and clean data has none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from report_cases import frame_of, trained
from selection import half_slow
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import hornbeam
from hornbeam.explain.report.drift import stability
from hornbeam.explain.report.findings import find
from hornbeam.explain.report.leakage import leakage_of
from hornbeam.explain.report.rows import read_rows
from hornbeam.explain.report.task import task_of


def lints(frame, labels, now=None, params=None, level="warning", **arguments):
    """Return the titles of findings, and where they are, of a model on half the rows.

    `now` is what judges: the other half if None.
    """
    half = len(frame) // 2
    first, other = frame[:half], frame[half:] if now is None else now[0]
    later = labels[half:] if now is None else now[1]
    model = trained(first, labels[:half], params)
    found = find(
        model,
        hornbeam.DMatrix(other, later),
        hornbeam.DMatrix(first, labels[:half]),
        **arguments,
    )
    for lint in found.lints:
        assert lint.text and lint.mend and lint.level in ("warning", "note")
    return [(lint.title, lint.where) for lint in found.lints if lint.level == level]


@pytest.mark.parametrize("seed", half_slow(range(5), pytest.mark.slow))
def test_clean_data_has_no_warning(seed):
    assert lints(*frame_of(3000, seed), seed=seed) == []


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_wine])
def test_shuffled_real_data_has_no_warning(load):
    frame, labels = load(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(frame))
    params = {"objective": "binary:logistic"}
    if load is load_wine:
        params = {"objective": "multi:softprob", "num_class": 3}
    elif load is load_diabetes:
        params = {"objective": "reg:squarederror"}
    frame, labels = frame.iloc[order].reset_index(drop=True), labels.to_numpy()[order]
    assert lints(frame, labels.astype(float), params=params) == []


def test_a_feature_that_tells_the_label():
    frame, labels = frame_of()
    rng = np.random.default_rng(1)
    frame["refund"] = labels * 3 + rng.random(len(labels))
    assert ("A feature alone nearly tells the label", "refund") in lints(frame, labels)


def test_a_feature_that_tells_the_label_by_being_zero():
    frame, labels = frame_of()
    grades = np.random.default_rng(1).integers(1, 6, len(labels))
    frame["interview"] = np.where(labels == 1, grades, 0)
    found = lints(frame, labels)
    assert ("A feature alone nearly tells the label", "interview") in found


def test_a_feature_that_tells_numbers_by_a_curve():
    frame, _ = frame_of()
    labels = frame["income"].to_numpy() ** 2 / 1e4
    found = lints(frame, labels, params={"objective": "reg:squarederror"})
    assert ("A feature alone nearly tells the label", "income") in found


@pytest.mark.parametrize("kind", ["counter", "key", "name"])
def test_a_column_like_an_id(kind):
    frame, labels = frame_of()
    rng = np.random.default_rng(2)
    n = len(frame)
    frame["id"] = {
        "counter": rng.permutation(n),
        "key": rng.choice(2**40, n, replace=False),
        "name": pd.Categorical([f"customer {i}" for i in rng.permutation(n)]),
    }[kind]
    params = {"objective": "binary:logistic", "unseen": "missing"}
    assert ("A column looks like an id", "id") in lints(frame, labels, params=params)


def test_columns_that_never_change():
    frame, labels = frame_of()
    frame["country"] = 49
    frame["empty"] = np.nan
    found = lints(frame, labels)
    assert ("Columns that never change", "country, empty") in found


def test_rows_of_training_among_those_that_judge():
    frame, labels = frame_of()
    half = len(frame) // 2
    mixed = pd.concat([frame[half:], frame[:40]], ignore_index=True)
    now = mixed, np.concatenate([labels[half:], labels[:40]])
    found = lints(frame, labels, now)
    assert found == [("Rows of training among those that judge", "validation data")]


def test_rows_that_are_equal_by_chance_are_only_a_note():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(3, size=2000) for name in "abc"})
    labels = (frame["a"] + rng.random(2000) > 1.5).to_numpy(float)
    assert lints(frame, labels) == []
    assert ("Equal rows in both data", "validation data") in lints(
        frame, labels, level="note"
    )


def test_drift_names_the_feature():
    frame, labels = frame_of(3000)
    frame.loc[1500:, "score"] += 1.5
    found = lints(frame, labels)
    assert ("The data has drifted since training", "score") in found


def test_values_that_are_missing_more_often():
    frame, labels = frame_of(3000)
    rng = np.random.default_rng(0)
    frame.loc[1500 + np.flatnonzero(rng.random(1500) < 0.2), "income"] = np.nan
    found = lints(frame, labels)
    title = "Values are missing more or less often than in training"
    assert (title, "income") in found


def test_categories_that_training_has_not_seen():
    frame, labels = frame_of()
    frame["city"] = frame["city"].cat.add_categories("Jena")
    frame.loc[len(frame) - 30 :, "city"] = "Jena"
    frame["city"] = frame["city"].astype(object)
    assert ("Categories that training has not seen", "city") in lints(frame, labels)


def test_a_class_without_rows_and_one_with_few():
    frame, labels = frame_of(4000)
    assert ("A class has no rows", "validation data") in lints(
        frame, labels, (frame[2000:], np.zeros(2000))
    )
    rare = np.where(np.arange(4000) % 50 == 0, 1.0, 0.0)
    found = lints(frame, rare, level="note")
    assert ("The classes are of very different size", "label 1") in found


def test_rounds_that_make_it_worse():
    frame, labels = frame_of(600)
    half = 300
    params = {"objective": "binary:logistic", "max_depth": 8, "eta": 1.0}
    data = [
        hornbeam.DMatrix(frame[:half], labels[:half]),
        hornbeam.DMatrix(frame[half:], labels[half:]),
    ]
    model = hornbeam.train(params, data[0], 40)
    titles = [lint.title for lint in find(model, data[1], data[0]).lints]
    assert "Later rounds make the model worse" in titles
    stopped = hornbeam.train(
        params,
        data[0],
        40,
        evals=[(data[1], "valid")],
        early_stopping_rounds=5,
        verbose_eval=False,
    )
    titles = [lint.title for lint in find(stopped, data[1], data[0]).lints]
    assert "Later rounds make the model worse" not in titles


def test_features_without_a_split_are_a_note():
    frame, labels = frame_of()
    found = lints(frame.assign(flat=1.0), labels, level="note")
    assert ("Features that the model does not use", "flat") in found


def test_the_stability_index_is_its_formula():
    old, new = np.array([50, 30, 20]), np.array([20, 30, 50])
    shares = old / 100, new / 100
    expected = sum((q - p) * np.log(q / p) for p, q in zip(*shares, strict=True))
    assert stability(old, new) == pytest.approx(expected)
    assert stability(old, 3 * old) == pytest.approx(0.0)


def test_what_a_feature_tells_is_judged_by_other_rows():
    """A name that no other row has tells nothing, however well it could be learned."""
    frame, labels = frame_of(1000)
    frame["name"] = pd.Categorical([f"{i}" for i in range(1000)])
    model = trained(frame, labels)
    rows = read_rows("given", model, hornbeam.DMatrix(frame, labels), 10_000, 0)
    leakage = leakage_of(rows, task_of(model, model.params, [rows], None), 0)
    scores = {frame.columns[t.feature]: t.score for t in leakage}
    assert abs(scores["name"] - 0.5) < 0.1
    assert 0.6 < scores["score"] < 0.9
