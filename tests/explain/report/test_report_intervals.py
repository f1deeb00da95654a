"""Intervals of metrics, beside resampling rows one by one and SciPy's bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from report_cases import frame_of, rows_of, trained
from samples import few_values, ranked
from sklearn.metrics import log_loss, roc_auc_score

import hornbeam
from hornbeam.explain.report.intervals import RESAMPLES, resampled, scores_of

FRAME, LABELS = frame_of(400)
MODEL = trained(FRAME, LABELS)


@pytest.mark.slow
def test_resampling_by_weights_is_resampling_of_rows():
    rows, task = rows_of(MODEL, FRAME, LABELS, weight=1.0 + LABELS)
    values = {"auc": [], "logloss": []}
    for info in resampled(rows.matrix.info, 3, RESAMPLES):
        counts = np.rint(info.row_weights / (1.0 + LABELS)).astype(int)
        assert counts.sum() == 400
        again = np.repeat(np.arange(400), counts)
        labels, predictions = LABELS[again], rows.predictions[again]
        weights = 1.0 + labels
        values["auc"].append(roc_auc_score(labels, predictions, sample_weight=weights))
        values["logloss"].append(log_loss(labels, predictions, sample_weight=weights))
    for score in scores_of(rows, task, None, 3):
        if score.metric in values:
            ends = np.quantile(values[score.metric], [0.025, 0.975])
            np.testing.assert_allclose([score.low, score.high], ends, rtol=1e-6)
            assert score.low < score.value < score.high


def test_intervals_are_as_wide_as_scipys():
    rows, task = rows_of(MODEL, FRAME, LABELS)
    losses = task.losses(rows)
    other = scipy.stats.bootstrap(
        (losses,), np.mean, method="percentile", n_resamples=2000, rng=0
    ).confidence_interval
    (score,) = (s for s in scores_of(rows, task, None, 0) if s.metric == "logloss")
    assert score.value == pytest.approx(losses.mean(), rel=1e-6)
    width = other.high - other.low
    assert score.low == pytest.approx(other.low, abs=0.15 * width)
    assert score.high == pytest.approx(other.high, abs=0.15 * width)


def test_a_sample_of_many_rows_has_the_width_of_all():
    frame, labels = frame_of(40_000, 1)
    rows, task = rows_of(MODEL, frame, labels)
    losses = task.losses(rows)
    (score,) = (s for s in scores_of(rows, task, None, 0) if s.metric == "logloss")
    width = 2 * 1.96 * losses.std() / np.sqrt(len(losses))
    assert score.high - score.low == pytest.approx(width, rel=0.25)
    assert score.low < score.value < score.high


def test_groups_are_drawn_whole():
    rows, labels = few_values(300, 4)
    grades = ranked(labels, 4)
    booster = trained(rows, grades, {"objective": "rank:ndcg"}, group=[10] * 30)
    seen, task = rows_of(booster, rows, grades, group=[10] * 30)
    drawn = list(resampled(seen.matrix.info, 0, 5))
    assert all(
        len(info["weight"]) == 30 and info["weight"].sum() == 30 for info in drawn
    )
    for score in scores_of(seen, task, None, 0):
        assert score.low < score.value < score.high


def test_the_same_seed_gives_the_same_bits_for_any_threads():
    found = []
    for threads in (1, 3):
        MODEL.set_param("nthread", threads)
        rows, task = rows_of(MODEL, FRAME, LABELS)
        found.append(scores_of(rows, task, np.array(0.5), 7))
    assert found[0] == found[1]
    rows, task = rows_of(MODEL, FRAME, LABELS)
    assert scores_of(rows, task, np.array(0.5), 8) != found[0]


def test_a_constant_is_measured_like_the_model():
    rows, task = rows_of(MODEL, FRAME, LABELS)
    scores = {s.metric: s for s in scores_of(rows, task, np.array(0.25), 0)}
    assert scores["auc"].constant == 0.5
    expected = log_loss(LABELS, np.full(400, 0.25))
    assert scores["logloss"].constant == pytest.approx(expected)


def test_one_class_has_no_interval_and_no_warning():
    frame, _ = frame_of(60)
    rows, task = rows_of(MODEL, frame, np.zeros(60))
    scores = {s.metric: s for s in scores_of(rows, task, None, 0)}
    assert np.isnan(scores["auc"].value)
    assert scores["logloss"].low < scores["logloss"].high


def test_matrices_of_codes_are_judged_as_well():
    frame = FRAME[["age"]]  # each feature has pictures
    page = trained(frame, LABELS).report(hornbeam.QuantileDMatrix(frame, LABELS))
    assert "logloss" in page
