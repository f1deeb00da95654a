"""Samples by gradient have the wanted size and are unbiased."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam import DMatrix, train
from hornbeam.backends.gradient_sampling import find_threshold, find_top
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import SIZE_CLASSES


def classes_of(sizes):
    """Return the counts of each class, and the lowest size of each row's."""
    classes = sizes.astype(np.float32).view(np.int32) >> 15
    lowest = (classes << 15).view(np.float32).astype(float)
    return np.bincount(classes, minlength=SIZE_CLASSES), lowest


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("kind", ["even", "heavy tail", "few values", "mostly zero"])
def test_the_expected_sample_has_the_wanted_size(kind, rate):
    rng = np.random.default_rng(0)
    sizes = {
        "even": rng.uniform(size=1000),
        "heavy tail": np.exp(5 * rng.normal(size=1000)),
        "few values": rng.integers(1, 4, 1000) / 1.0,
        "mostly zero": rng.uniform(size=1000) * (rng.random(1000) < 0.2),
    }[kind]
    counts, lowest = classes_of(sizes)
    threshold = find_threshold(counts, rate * 1000)
    expected = np.minimum(1.0, lowest / threshold).sum()
    most = (lowest > 0).sum()
    assert expected == pytest.approx(min(rate * 1000, most), rel=1e-9)


def test_zero_gradients_have_a_threshold():
    assert find_threshold(classes_of(np.zeros(9))[0], 4.0) > 0.0


@pytest.mark.parametrize("kind", ["even", "few values", "mostly zero", "none"])
def test_goss_draws_the_largest_and_a_share_of_the_others(kind):
    rng = np.random.default_rng(0)
    sizes = {
        "even": rng.uniform(size=1000),
        "few values": rng.integers(1, 4, 1000) / 1.0,
        "mostly zero": rng.uniform(size=1000) * (rng.random(1000) < 0.05),
        "none": np.zeros(1000),
    }[kind]
    counts, lowest = classes_of(sizes)
    threshold, rest = find_top(counts, 0.2, 0.3, 1000)
    top = lowest >= threshold
    positive = (lowest > 0).sum()
    # No class could be left out without falling below the share.
    assert top.sum() >= min(200, positive)
    assert (lowest > threshold).sum() < 200
    assert not (lowest[top] == 0).any()
    if kind == "none":
        assert rest == pytest.approx(0.3)
    else:
        assert rest * (1000 - top.sum()) == pytest.approx(100)


def test_goss_samples_are_unbiased():
    n_rows = 4000 if COMPILED else 400
    X, y = table(n_rows)
    params = {"sampling_method": "goss", "top_rate": 0.1, "other_rate": 0.2}
    params |= {"max_depth": 1, "base_score": 0.0}
    data = DMatrix(X, y)
    covers = [
        train({**params, "seed": seed}, data, 1).model.trees[0].cover
        for seed in range(20)
    ]
    sizes = np.array([cover[0] for cover in covers])
    assert abs(sizes.mean() - n_rows) < 3 * sizes.std() / 20**0.5
    assert 0 < sizes.std() < 3.2 * n_rows**0.5


def table(rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 4))
    return X, X[:, 0] * (X[:, 1] > 0) + 0.3 * rng.normal(size=rows)


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_depends_on_neither_threads_nor_blocks(
    tmp_path, weighted, thread_counts
):
    X, y = table(60_000)
    weight = np.linspace(0.5, 2, len(X)) if weighted else None
    params = {"subsample": 0.2, "sampling_method": "gradient_based", "max_depth": 5}
    digests = set()
    for threads in thread_counts:
        for cache in (None, tmp_path / "pages"):
            data = DMatrix(X, y > 0, weight=weight, cache=cache, nthread=threads)
            own = {**params, "objective": "binary:logistic", "nthread": threads}
            digests.add(train(own, data, 3).digest())
    assert len(digests) == 1


def test_both_methods_draw_all_rows_at_rate_one():
    X, y = table(300)
    data = DMatrix(X, y)
    digests = {
        train({"sampling_method": method}, data, 2).digest()
        for method in ("uniform", "gradient_based")
    }
    assert len(digests) == 1
