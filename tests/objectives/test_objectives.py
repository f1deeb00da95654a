"""Objectives: gradients against plain formulas, links, base scores, labels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.errors import DataError, ParameterError
from hornbeam.kernels.team import lease
from hornbeam.objectives.base import create, names
from hornbeam.objectives.totals import as_totals, largest_of, sum_steps
from hornbeam.params import Parameters

CLASSES = 3
#: Those whose rows stand alone; the others have tests of their own.
BY_ROW = [name for name in names() if not name.startswith("rank:")]


def objective(name, **params):
    if name.startswith("multi"):
        params.setdefault("num_class", CLASSES)
    return create(Parameters.resolve({"objective": name, **params}))


def gradients(of, scores, labels, weights=None, threads=1):
    """Return the gradients and hessians at `scores`, (outputs, rows)."""
    g, h = (np.empty(scores.shape, np.float32) for _ in range(2))
    with lease(threads) as team:
        of.write_gradients(team, scores, np.atleast_2d(labels), weights, g, h)
    return g, h


def draw(name, n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    outputs = CLASSES if name.startswith("multi") else 1
    scores = rng.normal(scale=3, size=(outputs, n_rows))
    if outputs > 1:
        return scores, rng.integers(CLASSES, size=n_rows).astype(float)
    if name == "reg:squarederror":
        return scores, rng.normal(size=n_rows)
    if name == "reg:logistic":
        return scores, rng.random(n_rows)
    return scores, rng.integers(2, size=n_rows).astype(float)


def plain(name, scores, labels):
    """Return gradients and hessians by their formulas."""
    if name == "reg:squarederror":
        return scores - labels, np.ones_like(scores)
    if name.startswith("multi"):
        odds = np.exp(scores - scores.max(axis=0))
        shares = odds / odds.sum(axis=0)
        hits = labels == np.arange(CLASSES)[:, np.newaxis]
        return shares - hits, np.maximum(2 * shares * (1 - shares), 1e-16)
    p = 1 / (1 + np.exp(-scores))
    return p - labels, np.maximum(p * (1 - p), 1e-16)


def test_the_table():
    assert names() == [
        "binary:logistic",
        "binary:logitraw",
        "multi:softmax",
        "multi:softprob",
        "rank:map",
        "rank:ndcg",
        "rank:pairwise",
        "rank:xendcg",
        "reg:logistic",
        "reg:squarederror",
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BY_ROW)
def test_gradients(name, weighted):
    scores, labels = draw(name)
    weights = np.random.default_rng(1).random(500) if weighted else None
    g, h = plain(name, scores, labels)
    if weighted:
        g, h = g * weights, h * weights
    found = gradients(objective(name), scores, labels, weights)
    np.testing.assert_allclose(found[0], g, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[1], h, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["binary:logistic", "reg:squarederror"])
def test_positives_may_weigh_more(name):
    scores, labels = draw(name)
    labels = (labels > 0.5).astype(float)
    weights = np.where(labels == 1, 4.0, 1.0)
    np.testing.assert_array_equal(
        gradients(objective(name, scale_pos_weight=4), scores, labels),
        gradients(objective(name), scores, labels, weights),
    )


@pytest.mark.parametrize("name", BY_ROW)
def test_gradients_are_finite_everywhere(name):
    scores, labels = draw(name)
    for scale in (0.0, 100.0, 1e4, 1e30):
        g, h = gradients(objective(name), scores * scale, labels)
        assert np.isfinite(g).all()
        assert (h > 0).all()


@pytest.mark.parametrize("name", BY_ROW)
def test_threads_do_not_show(name):
    scores, labels = draw(name, 300_000)
    one = gradients(objective(name), scores, labels)
    many = gradients(objective(name), scores, labels, threads=5)
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("name", BY_ROW)
def test_transform_leads_back(name):
    of = objective(name)
    rng = np.random.default_rng(2)
    margins = rng.normal(size=(50, of.n_outputs))
    with lease(1) as team:
        predictions = of.transform(team, margins.copy())
    if name.startswith("multi"):
        odds = np.exp(margins)
        expected = odds / odds.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(predictions, expected, rtol=1e-12)
        assert (of.to_margin(margins[0]) == margins[0]).all()
    else:
        back = of.to_margin(predictions[:, 0])
        np.testing.assert_allclose(back, margins[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["binary:logistic", "reg:logistic"])
def test_certain_base_scores_have_finite_margins(name):
    margins = objective(name).to_margin(np.array([0.0, 1e-30, 0.5, 1.0]))
    assert np.isfinite(margins).all() and margins[2] == 0.0
    np.testing.assert_allclose(margins[0], np.log(1e-6), rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BY_ROW)
def test_base_scores(name, weighted):
    _, labels = draw(name)
    weights = np.random.default_rng(1).random(500) if weighted else None
    found = objective(name).estimate_base_score(labels[np.newaxis], weights)
    if name.startswith("multi"):
        shares = [np.average(labels == k, weights=weights) for k in range(CLASSES)]
        margins = np.log(np.array(shares) + 1e-6)
        np.testing.assert_allclose(found, margins - margins.mean(), rtol=1e-10)
    else:
        np.testing.assert_allclose(
            found, [np.average(labels, weights=weights)], rtol=1e-12
        )


def test_the_base_score_of_weighted_positives_is_a_newton_step():
    labels = (np.random.default_rng(0).random(500) < 0.3).astype(float)
    ones, zeros = labels.sum(), 500 - labels.sum()
    params = {"scale_pos_weight": 3}
    of = objective("reg:squarederror", **params)
    step = 3 * ones / (3 * ones + zeros)
    np.testing.assert_allclose(
        of.estimate_base_score(labels[np.newaxis], None), [step], rtol=1e-6
    )
    of = objective("binary:logistic", **params)
    step = (1.5 * ones - 0.5 * zeros) / (0.75 * ones + 0.25 * zeros)
    np.testing.assert_allclose(
        of.estimate_base_score(labels[np.newaxis], None),
        [1 / (1 + np.exp(-step))],
        rtol=1e-6,
    )


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_base_scores_do_not_depend_on_the_order(labels, random):
    shuffled = random.sample(labels, len(labels))
    of = objective("reg:squarederror")
    found = [
        of.estimate_base_score(np.array([each]), None) for each in (labels, shuffled)
    ]
    np.testing.assert_array_equal(*found)
    largest = max(map(abs, labels))
    np.testing.assert_allclose(
        found[0], np.mean(labels), rtol=1e-12, atol=1e-12 * largest
    )


@given(
    st.sampled_from(BY_ROW),
    st.booleans(),
    st.sampled_from([1.0, 3.0]),
    st.lists(st.integers(0, 500), max_size=4),
)
def test_base_scores_do_not_depend_on_the_parts(name, weighted, positives, ends):
    _, labels = draw(name)
    weights = np.random.default_rng(1).random(500) if weighted else None
    of = objective(name, scale_pos_weight=positives)
    ends = sorted({0, *ends, 500})
    columns = [
        list(
            of.start_columns(
                labels[np.newaxis, i:j], None if weights is None else weights[i:j]
            )
        )
        for i, j in itertools.pairwise(ends)
    ]
    largest = np.max([largest_of(part) for part in columns], axis=0)
    steps = np.sum([sum_steps(part, largest, 500) for part in columns], axis=0)
    found = of.start_from(as_totals(steps, largest, 500))
    np.testing.assert_array_equal(
        found, of.estimate_base_score(labels[np.newaxis], weights)
    )


def test_model_files_hold_the_parameters():
    assert objective("binary:logistic", scale_pos_weight=2.5).config() == {
        "reg_loss_param": {"scale_pos_weight": "2.5"}
    }
    assert objective("multi:softmax").config() == {
        "softmax_multiclass_param": {"num_class": "3"}
    }


LABELS = {
    "binary:logistic": ([0, 1, 2], "label 2 in row 2 is outside [0, 1]"),
    "binary:logitraw": ([0, -1], "label -1 in row 1"),
    "reg:logistic": ([0.5, 1.5], "label 1.5 in row 1"),
    "multi:softprob": ([0, 2, 3], "label 3 in row 2 is not a class"),
    "multi:softmax": ([0, 0.5], "label 0.5 in row 1 is not a class"),
    "rank:ndcg": ([0, 32], "label 32 in row 1: rank:ndcg needs whole grades"),
    "rank:xendcg": ([0, 0.5], "label 0.5 in row 1: rank:xendcg needs whole grades"),
    "rank:map": ([1, 0, 2], "label 2 in row 2: rank:map needs labels of 1"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_outside_the_domain(name):
    labels, message = LABELS[name]
    with pytest.raises(DataError) as error:
        objective(name).check_labels(np.array(labels, float))
    assert message in str(error.value)
    objective(name).check_labels(np.array([0.0, 1.0]))


MISTAKES = {
    "misspelt": ({"objective": "binary:logistc"}, "did you mean 'binary:logistic'"),
    "unheard of": ({"objective": "x"}, "there are: binary:logistic"),
    "later": (
        {"objective": "survival:cox"},
        "'survival:cox' of XGBoost is not in Hornbeam yet",
    ),
    "no classes": ({"objective": "multi:softprob"}, "needs num_class"),
    "one class": ({"objective": "multi:softmax", "num_class": 1}, "it is 1"),
    "a certain base score": (
        {"objective": "binary:logistic", "base_score": 1.0},
        "above 0 and below 1",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case):
    params, message = MISTAKES[case]
    with pytest.raises(ParameterError, match=message):
        create(Parameters.resolve(params))


def test_classes_need_a_softmax():
    with pytest.raises(ParameterError, match="goes with the objectives multi:softmax"):
        objective("reg:squarederror", num_class=3).check_labels(np.zeros(3))
