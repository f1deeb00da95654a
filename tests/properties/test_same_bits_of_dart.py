"""DART keeps the promise: on any threads, wherever rows are, in one go or in two."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values

import hornbeam
from hornbeam import Booster, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix
from hornbeam.binning import external_build

THREADS = (1, 2, 3, 7)


def train(params, data, rounds, **arguments):
    params = {"booster": "dart", "max_depth": 3, **params}
    return hornbeam.train(params, data, rounds, verbose_eval=False, **arguments)


def test_any_number_of_threads_and_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(external_build, "BLOCK_ROWS", 1 << 12)
    rows, labels = few_values(20_000, missing=0.1)
    params = {"rate_drop": 0.4, "subsample": 0.7}
    data = QuantileDMatrix(rows, labels)
    digests = [
        train({**params, "nthread": threads}, data, 6).digest() for threads in THREADS
    ]
    paged = ExtMemQuantileDMatrix(rows, labels, cache=tmp_path)
    digests.append(train(params, paged, 6).digest())
    assert len(set(digests)) == 1


def test_filled_cells():
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(2000, 300)), 1).astype(np.float32)
    rows[rng.random(rows.shape) > 0.02] = 0.0
    labels = rows[:, 0] - rows[:, 1] + rng.normal(size=2000)
    dense = np.where(rows == 0.0, np.nan, rows)
    digests = {
        train({"rate_drop": 0.5}, DMatrix(data, labels), 5).digest()
        for data in (scipy.sparse.csr_matrix(rows), dense)
    }
    assert len(digests) == 1


PARAMS = st.fixed_dictionaries(
    {
        "objective": st.sampled_from(["reg:squarederror", "multi:softprob"]),
        "sample_type": st.sampled_from(["uniform", "weighted"]),
        "normalize_type": st.sampled_from(["tree", "forest"]),
        "rate_drop": st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        "skip_drop": st.sampled_from([0.0, 0.3]),
        "one_drop": st.booleans(),
        "num_parallel_tree": st.integers(1, 2),
        "multi_strategy": st.sampled_from(["one_output_per_tree", "multi_output_tree"]),
        "subsample": st.sampled_from([1.0, 0.6]),
        "eta": st.sampled_from([0.1, 0.3, 1.0]),
        "seed": st.integers(0, 2**32),
    }
)


@examples(25)
@given(
    PARAMS,
    st.booleans(),
    st.sampled_from([1e-9, 1.0, 1e7]),
    st.integers(0, 2**32),
    st.integers(1, 7),
)
def test_any_configuration(params, has_margins, size, seed, first):
    rows, labels = few_values(90, 4, missing=0.1, seed=seed)
    labels = labels * size
    info = {}
    if params["objective"].startswith("multi"):
        params["num_class"] = 3
        labels = np.arange(90) % 3
    if has_margins:
        shape = (90, 3) if "num_class" in params else 90
        info["base_margin"] = np.random.default_rng(seed).normal(size=shape) * size
    data = DMatrix(rows, labels, **info)
    booster = train({**params, "nthread": 1}, data, 8)
    digest = booster.digest()
    watched = [(data, "a"), (DMatrix(rows[:50], labels[:50]), "b")]
    history = {}
    again = train(
        {**params, "nthread": 3}, data, 8, evals=watched, evals_result=history
    )
    assert again.digest() == digest
    assert train(params, QuantileDMatrix(rows, labels, **info), 8).digest() == digest

    # Stop and go on, by way of a file; what is reported goes on, too.
    half = train(params, data, first)
    for part in (half, half.save_raw("json"), pickle.loads(pickle.dumps(half))):
        rest = {}
        whole = train(
            params, data, 8 - first, xgb_model=part, evals=watched, evals_result=rest
        )
        assert whole.digest() == digest
        for name, metrics in rest.items():
            for metric, values in metrics.items():
                assert values == history[name][metric][first:]
    loaded = Booster(model_file=booster.save_raw())
    assert loaded.digest() == digest
    np.testing.assert_array_equal(loaded.predict(data), booster.predict(data))


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_updates_one_by_one_are_rounds_of_train(rate):
    rows, labels = few_values(300)
    data, params = DMatrix(rows, labels), {"rate_drop": rate}
    booster = Booster({"booster": "dart", "max_depth": 3, **params})
    for number in range(6):
        booster.update(data, number)
        booster.eval(data)
        booster = booster.copy() if number == 3 else booster
    assert booster.digest() == train(params, data, 6).digest()
