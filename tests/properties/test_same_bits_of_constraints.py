"""Constraints keep the promise: the same bits on any threads and wherever rows are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from selection import REPEATS, half_slow

import hornbeam
from hornbeam import DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix
from hornbeam.binning import external_build

CONFIGURATIONS = {
    "groups": {"interaction_constraints": [[0, 1, 2], [2, 3], [*range(4, 40)]]},
    "directions": {"monotone_constraints": [1, 0, 1, -1]},
    "directions, intermediate": {
        "monotone_constraints": [1, 1, 0, -1],
        "monotone_constraints_method": "intermediate",
    },
    "rows": {"min_samples_leaf": 40, "path_smooth": 10},
    "costs": {"feature_costs": [0, 9, 2, 1, 5], "feature_costs_for": "rows"},
    "costs of the model": {
        "feature_costs": [0, 90, 2, 1, 5],
        "max_cached_hist_node": 6,
    },
    "sample by gradients": {"sampling_method": "gradient_based", "subsample": 0.3},
    "one-side sample": {"sampling_method": "goss", "min_samples_leaf": 9},
}


LEAFWISE = {"grow_policy": "lossguide", "max_leaves": 24, "max_depth": 0}


def cases(first):
    """Return constraints beside both ways of growing, of which one each is fast.

    They take turns, so that a test that begins with the other one has the others.
    """
    return [
        pytest.param(
            {**params, **growth},
            id=f"{name}{', best first' if growth else ''}",
            marks=REPEATS if (place + bool(growth)) % 2 == first else (),
        )
        for place, (name, params) in enumerate(CONFIGURATIONS.items())
        for growth in ({}, LEAFWISE)
    ]


def made(n_rows, n_columns, filled):
    """Return rows with so many cells filled, and labels of 0 and 1."""
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(n_rows, n_columns)), 1).astype(np.float32)
    labels = rows[:, 0] * rows[:, 1] + rows[:, 2] - rows[:, 3] > 0.5 * rows[:, 4]
    rows[rng.random(rows.shape) >= filled] = 0.0
    return rows, labels.astype(float)


def digest(params, data):
    params = {"objective": "binary:logistic", "max_depth": 4, **params}
    return hornbeam.train(params, data, 3, verbose_eval=False).digest()


@pytest.fixture(scope="module")
def blocks():
    """Have blocks on disk that are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_build, "BLOCK_ROWS", 1 << 12)
        yield


def both(rows, labels, folder):
    """Return a matrix that each number of threads has made, and one on disk."""
    held = {
        threads: QuantileDMatrix(rows, labels, nthread=threads)
        for threads in (1, 2, 3, 7)
    }
    return held, ExtMemQuantileDMatrix(rows, labels, cache=folder)


@pytest.fixture(scope="module")
def wide(blocks, tmp_path_factory):
    rows, labels = made(9000, 200, 0.9)
    rows[rows > 1.5] = np.nan
    held, paged = both(rows, labels, tmp_path_factory.mktemp("wide"))
    return held, paged, digest({}, held[2])


@pytest.fixture(scope="module")
def of_all_outputs(blocks, tmp_path_factory):
    rows, label = made(9000, 40, 0.9)
    rows[rows > 1.5] = np.nan
    labels = np.stack([label, 1 - label, rows[:, 2] > 0], axis=1)
    return both(rows, labels, tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="module")
def sparse_and_dense():
    rows, labels = made(3000, 300, 0.02)
    sparse = scipy.sparse.csr_matrix(rows)
    dense = np.where(rows == 0.0, np.nan, rows)
    return [
        (threads, DMatrix(data, labels, nthread=threads))
        for data in (sparse, dense)
        for threads in (1, 3)
    ]


@pytest.mark.parametrize("params", cases(0))
def test_any_number_of_threads_and_on_disk(params, wide, thread_counts):
    held, paged, free = wide
    digests = {
        digest({**params, "nthread": threads}, held[threads])
        for threads in thread_counts
    }
    digests.add(digest(params, paged))
    assert len(digests) == 1
    assert free not in digests


@pytest.mark.parametrize("name", half_slow(CONFIGURATIONS))
def test_trees_of_all_outputs(name, of_all_outputs, thread_counts):
    held, paged = of_all_outputs
    params = {**CONFIGURATIONS[name], "multi_strategy": "multi_output_tree"}
    digests = {
        digest({**params, "nthread": threads}, held[threads])
        for threads in thread_counts
    }
    digests.add(digest(params, paged))
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["rows", "sample by gradients"])
def test_splits_by_gradients_of_the_callers(name, of_all_outputs):
    def two_of_three(margins, data):
        gradients = margins - data.get_label()
        return gradients, 1.0 + abs(gradients), gradients[:, 1:], abs(gradients[:, 1:])

    held, paged = of_all_outputs
    params = {**CONFIGURATIONS[name], "multi_strategy": "multi_output_tree"}
    params |= {"num_target": 3, "max_depth": 4}
    digests = {
        hornbeam.train(
            {**params, "nthread": threads}, data, 3, obj=two_of_three
        ).digest()
        for threads, data in [*held.items(), (2, paged)]
    }
    assert len(digests) == 1


@pytest.mark.parametrize("params", cases(1))
def test_filled_cells_and_their_bundles(params, sparse_and_dense):
    digests = {
        digest({**params, "nthread": threads}, data)
        for threads, data in sparse_and_dense
    }
    assert len(digests) == 1
