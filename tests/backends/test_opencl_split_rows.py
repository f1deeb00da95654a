"""Rows that are split between two devices give the trees of one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from opencl_device import HALVES, needs_two
from parts import KINDS, N_ROWS, grow, grow_in_memory
from selection import half_slow

import hornbeam
from hornbeam.backends.opencl import devices
from hornbeam.backends.opencl.split_rows import SplitRows
from hornbeam.kernels.jit import COMPILED


@needs_two
@pytest.mark.parametrize("kind", half_slow(KINDS))
def test_two_devices_give_the_same_trees(kind):
    rows = partial(SplitRows, devices=HALVES)
    assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


VECTORS = {
    "multi_strategy": "multi_output_tree",
    "objective": "multi:softprob",
    "num_class": 3,
}
MODELS = {
    "plain": {},
    "line search": {"leaf_solver": "line_search"},
    "dart": {"booster": "dart"},
    "approx": {"tree_method": "approx", "max_bin": 32},
    "approx, sampled": {"tree_method": "approx", "subsample": 0.5},
    "linear leaves": {"leaf_model": "linear"},
    "linear leaves, sampled": {"leaf_model": "linear", "subsample": 0.5},
    "linear leaves, goss": {
        "leaf_model": "linear",
        "sampling_method": "goss",
    },
    "symmetric": {"grow_policy": "symmetric"},
    "vectors": VECTORS,
    "vectors, sketched": {**VECTORS, "sketch_outputs": 2, "subsample": 0.7},
    "vectors, rows counted": {**VECTORS, "min_samples_leaf": 9},
}


@needs_two
@pytest.mark.parametrize("kind", half_slow(MODELS))
def test_two_devices_give_the_same_model(monkeypatch, kind, thread_counts):
    more = MODELS[kind]
    monkeypatch.setattr(devices, "find_devices", lambda: HALVES)
    x = np.random.default_rng(0).normal(size=(N_ROWS // 3, 4))
    data = hornbeam.DMatrix(x, x[:, 0] > x[:, 1])
    params = {"objective": "binary:logistic", "device": "opencl:7:0+opencl:7:1"}
    there = hornbeam.train({**params, **more}, data, 3, evals=[(data, "train")])
    here = hornbeam.train({**params, **more, "device": "cpu"}, data, 3)
    assert there.digest() == here.digest()
    if COMPILED and kind in ("approx, sampled", "linear leaves", "vectors, sketched"):
        for threads in thread_counts:
            given = {**params, **more, "nthread": threads}
            assert hornbeam.train(given, data, 3).digest() == here.digest()
