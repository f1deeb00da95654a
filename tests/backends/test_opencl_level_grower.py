"""Trees that a device grows by level without the host are those of the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from opencl_device import NAME, SHAPES, device_of
from selection import REPEATS

import hornbeam
from hornbeam.backends.opencl import devices, level_grower
from hornbeam.backends.opencl.level_grower import LevelGrower
from hornbeam.backends.opencl.queue import DeviceQueue

LOGISTIC = {"objective": "binary:logistic", "max_depth": 5, "eta": 0.7}
CLASSES = {"objective": "multi:softprob", "num_class": 3, "max_depth": 4}
#: What trees of these parameters grow on: numbers alone, or categories as well.
KINDS = {
    "numbers": ("q", LOGISTIC),
    "categories": ("c", LOGISTIC),
    "categories one by one": ("c", {**LOGISTIC, "max_cat_to_onehot": 99}),
    "one level": ("q", {**LOGISTIC, "max_depth": 1}),
    "many levels": ("c", {**LOGISTIC, "max_depth": 10}),
    "few leaves": ("c", {**LOGISTIC, "max_leaves": 11}),
    "no splits": ("q", {**LOGISTIC, "gamma": 1e9}),
    "few gains": ("q", {**LOGISTIC, "gamma": 20.0, "gain_epsilon": 0.0}),
    "heavy children": ("q", {**LOGISTIC, "min_child_weight": 30.0}),
    "a sample": ("c", {**LOGISTIC, "subsample": 0.5}),
    "a sample by gradient": (
        "q",
        {**LOGISTIC, "subsample": 0.3, "sampling_method": "gradient_based"},
    ),
    "columns of a tree": ("c", {**LOGISTIC, "colsample_bytree": 0.6}),
    "classes": ("c", CLASSES),
    "bins of each tree": ("q", {**LOGISTIC, "tree_method": "approx"}),
    "custom": ("q", {"objective": "reg:absoluteerror", "max_depth": 4}),
}
#: What each has in addition, for which the host has to see each level.
BY_THE_HOST = {
    "too deep": {"max_depth": 11},
    "any depth": {"max_depth": 0, "max_leaves": 9},
    "best first": {"grow_policy": "lossguide", "max_leaves": 9},
    "symmetric": {"grow_policy": "symmetric"},
    "columns of levels": {"colsample_bylevel": 0.6},
    "columns of nodes": {"colsample_bynode": 0.6},
    "monotone": {"monotone_constraints": "(1,0,0,0)"},
    "interactions": {"interaction_constraints": "[[0, 1], [2, 3]]"},
    "rows counted": {"min_samples_leaf": 9},
    "few histograms": {"max_cached_hist_node": 3},
}


def rows(kind="q", n=3000):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 3] = rng.integers(0, 70, n)
    y = np.nan_to_num(x[:, 0] * x[:, 1]) + x[:, 3] % 3 + rng.normal(size=n)
    types = ["q", "q", "q", kind]
    labels = np.digitize(y, [0.5, 2.0])
    return x, labels, types


def matrix(params, kind, n=3000):
    x, labels, types = rows(kind, n)
    if "num_class" not in params:
        labels = labels > 0
    return hornbeam.DMatrix(x, labels, feature_types=types)


@pytest.fixture
def grown(monkeypatch):
    """Return a list of the trees that the device has grown."""
    trees, grow = [], LevelGrower.grow

    def count(*arguments):
        trees.append(grow(*arguments))
        return trees[-1]

    monkeypatch.setattr(LevelGrower, "grow", count)
    return trees


def compare(params, data, rounds=4):
    """Train on both sides; the models have to be the same."""
    there = hornbeam.train({**params, "device": NAME}, data, rounds)
    here = hornbeam.train(params, data, rounds)
    assert there.digest() == here.digest()
    return here


@pytest.mark.parametrize("kind", KINDS)
def test_trees_are_those_of_the_cpu(grown, kind):
    columns, params = KINDS[kind]
    compare(params, matrix(params, columns))
    assert len(grown) == 4 * params.get("num_class", 1)


@pytest.mark.parametrize("size", [pytest.param(32, marks=REPEATS), 256])
@pytest.mark.parametrize("kind", ["categories", "few leaves", "a sample"])
def test_groups_of_work_items_grow_the_same_trees(monkeypatch, grown, kind, size):
    device = replace(device_of(SHAPES[f"{size} items, 64 bits"]), name=NAME)
    monkeypatch.setattr(devices, "find_devices", lambda: (device,))
    columns, params = KINDS[kind]
    compare(params, matrix(params, columns), 2)
    assert len(grown) == 2


@pytest.mark.parametrize("kind", BY_THE_HOST)
def test_the_host_grows_other_trees(grown, kind):
    params = {**LOGISTIC, **BY_THE_HOST[kind]}
    compare(params, matrix(params, "q"), 2)
    assert grown == []


def test_one_recording_serves_all_trees_of_the_same_kind(monkeypatch):
    """And another one where gradients become too coarse to be packed, for instance."""
    recorded, record = [], LevelGrower._record

    def count(*arguments):
        recorded.append(len(arguments))
        return record(*arguments)

    monkeypatch.setattr(LevelGrower, "_record", count)
    data = matrix(LOGISTIC, "c")
    compare(LOGISTIC, data, 8)
    assert len(recorded) == 1
    booster = hornbeam.Booster({**LOGISTIC, "device": NAME}, [data])
    here = hornbeam.Booster(LOGISTIC, [data])
    for number in range(6):
        # An outlier in every second round, beside which all others are small.
        g = np.sin(np.arange(3000.0))
        g[7] = 1e9 if number % 2 else 1.0
        for own in (booster, here):
            own.boost(data, number, grad=g, hess=np.ones(3000))
    assert booster.digest() == here.digest()
    assert len(recorded) > 2


def test_the_host_waits_once_a_tree(monkeypatch):
    """And for the largest gradients and their sums, by which the tree begins."""
    waits, read = [], DeviceQueue.read

    def count(queue, buffer, out):
        waits.append(out.nbytes)
        return read(queue, buffer, out)

    monkeypatch.setattr(DeviceQueue, "read", count)
    params = {**LOGISTIC, "device": NAME}
    data, numbers = matrix(LOGISTIC, "q"), []
    for rounds in (3, 7):
        waits.clear()
        hornbeam.train(params, data, rounds)
        numbers.append(len(waits))
    assert numbers[1] - numbers[0] == 3 * 4


def test_a_deep_tree_has_few_kernels(monkeypatch):
    """Its nodes are fewer than those for which there would be work-groups."""
    monkeypatch.setattr(level_grower, "_DEEPEST", 3)
    compare(LOGISTIC, matrix(LOGISTIC, "q"), 2)
