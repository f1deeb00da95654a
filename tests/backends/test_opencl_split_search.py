"""Splits that a device finds are those of the host, whatever the histograms."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from opencl_device import SHAPES, device_of
from selection import REPEATS

from hornbeam.backends.interface import EVERY_FEATURE, SplitParams
from hornbeam.backends.opencl.histograms import DeviceHistograms
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.split_search import DeviceSplitSearch
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import CATEGORY_SETS, ONE_CATEGORY, SPLIT_DTYPE
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import lease

PLAIN = SplitParams(
    reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=1.0
)
SORTED = replace(
    PLAIN, max_cat_threshold=30, cat_smooth=2.0, cat_l2=3.0, min_child_weight=0.0
)
PENALISED = replace(PLAIN, reg_alpha=0.5, max_delta_step=0.3)
#: The largest sum of a bin, the values of a unit, and the rules.
CASES = {
    "few different sums, with ties": (3, (1.0, 1.0), PLAIN),
    "no penalty": (3, (1.0, 1.0), replace(PLAIN, reg_lambda=0.0, min_child_weight=0.0)),
    "coarse sums": (1 << 30, (2.0**-17, 2.0**-19), PLAIN),
    "sums beyond float64": (1 << 51, (2.0**-50, 2.0**-51), PLAIN),
    "alpha": (1 << 20, (2.0**-10, 2.0**-10), replace(PLAIN, reg_alpha=50.0)),
    "limited": (1 << 20, (2.0**-10, 2.0**-10), replace(PLAIN, max_delta_step=0.1)),
    "few cuts": (99, (1.0, 1.0), replace(PLAIN, min_child_weight=2500.0)),
    "no cuts": (99, (1.0, 1.0), replace(PLAIN, min_child_weight=1e9)),
    "large units": (99, (2.0**400, 2.0**200), PLAIN),
    "small units": (99, (2.0**-400, 2.0**-300), replace(PLAIN, min_child_weight=0.0)),
}
PAIRS, N_BINS = 3, np.array([2, 40, 1, 64, 300, 65, 700])


class Table(NamedTuple):
    """What is searched, besides sums.

    `categorical` are numbers of features; constraints are named, and count rows as
    hessians or in a histogram of their own.
    """

    categorical: tuple[int, ...] = ()
    constraints: tuple[str, ...] = ()
    counts_rows: bool = False


#: Three categories go right one by one, 40 to 700 in sets.
SETS = Table((1, 3, 4, 5, 6))
MONOTONE = Table((), ("monotone",))
COUNTED = Table((), ("rows",), counts_rows=True)
ALL = Table((0, 3, 4), ("monotone", "costs", "bounds", "rows"), counts_rows=True)
#: The table, the largest sum of a bin, the values of a unit, and the rules.
TABLES = {
    "sets": (SETS, 1 << 20, (2.0**-10, 2.0**-10), PLAIN),
    "sets, with ties": (SETS, 3, (1.0, 1.0), PLAIN),
    "sets, smoothed": (SETS, 99, (0.1, 0.1), SORTED),
    "sets, penalised": (SETS, 99, (0.1, 0.1), PENALISED),
    "sets, monotone": (SETS._replace(constraints=("bounds",)), 99, (0.1, 0.1), SORTED),
    "one by one": (SETS, 99, (0.1, 0.1), replace(PLAIN, max_cat_to_onehot=999)),
    "one by one, with ties": (
        SETS._replace(constraints=("rows",)),
        *(3, (1.0, 1.0)),
        replace(PLAIN, max_cat_to_onehot=999),
    ),
    "numerical or not": (Table((0, 3, 4)), 99, (0.1, 0.1), PLAIN),
    "monotone": (MONOTONE, 1 << 20, (2.0**-10, 2.0**-10), PLAIN),
    "monotone, with ties": (MONOTONE, 3, (1.0, 1.0), PENALISED),
    "rows": (COUNTED, 99, (0.1, 0.1), replace(PLAIN, min_samples_leaf=70)),
    "smoothed": (COUNTED, 99, (0.1, 0.1), replace(PLAIN, path_smooth=9.0)),
    "costs": (Table((), ("costs",)), 99, (0.1, 0.1), PLAIN),
    "all": (ALL, 99, (0.1, 0.1), replace(SORTED, min_samples_leaf=9, path_smooth=2.0)),
}


def histograms(most, rng, counts_rows=False):
    """Return those of pairs of siblings; some features have missing values."""
    offsets = np.append(0, np.cumsum(N_BINS))
    shape = 2, PAIRS, 2 + counts_rows, offsets[-1]
    found = rng.integers(-most, most, shape, endpoint=True)
    found[:, :, 1:] = np.abs(found[:, :, 1:])
    found *= rng.random((2, PAIRS, 1, offsets[-1])) < 0.7
    found[1] += found[0]
    # The first feature has all rows; in the last pair it has those of any other, too.
    totals = found[..., offsets[4] : offsets[5]].sum(-1)
    found[..., 0], found[..., 1] = totals // 3, totals - totals // 3
    for first, last in pairwise(offsets[1:]):
        rest = totals[:, 2:] - found[:, 2:, :, first:last].sum(-1)
        found[:, 2:, :, first] += rest
    return found, offsets


def limits_of(table, nodes, rng):
    """Return constraints of these nodes; some weights are known, and some are not."""
    if not table.constraints:
        return None
    features = N_BINS.size
    bounds = np.tile([-np.inf, np.inf], (nodes, 1))
    weights = np.where(rng.random(nodes) < 0.5, np.nan, rng.normal(size=nodes))
    if "bounds" in table.constraints:
        bounds = np.sort(rng.normal(size=(nodes, 2)), axis=1)
    directions = np.zeros(features, np.int8)
    if "monotone" in table.constraints:
        directions[:] = rng.integers(-1, 2, features)
        directions[list(table.categorical)] = 0
    costs, used = np.empty(0), np.empty((nodes, 0), np.uint64)
    if "costs" in table.constraints:
        costs = rng.random(features) * 9
        used = rng.integers(1 << features, size=(nodes, 1)).astype(np.uint64)
    by_rows, one_row = table.counts_rows, 1.0 if table.counts_rows else 3.0
    own = bounds, weights, directions, costs, used, by_rows, one_row
    return NodeConstraints(*own)


def search_on_host(sums, layout, search):
    chosen = np.arange(N_BINS.size, dtype=np.uint64)
    slots, words = search.slots, -(-layout.max_categories // 64)
    splits = np.zeros((slots.size, 1), SPLIT_DTYPE)
    sets = np.zeros((slots.size, 1, words), np.uint64 if words else np.uint8)
    table = layout.feature_table
    with lease(1) as team:
        team.run(
            find_splits,
            1,
            NodeHistograms(sums, slots, *search.built[1:], table, search.every_row),
            CandidateFeatures(chosen, search.allowed, chosen.size),
            search.scales,
            search.rules,
            search.limits,
            np.empty((1, 6, 2 * N_BINS.max() + 1)),
            splits,
            sets,
        )
    return splits[:, 0], sets[:, 0]


def compare(table, most, scales, params, shape):
    """Search on both sides, and return the splits, which are equal."""
    scales, rules = np.array(scales), params.rules
    queue, rng = DeviceQueue(device_of(SHAPES[shape])), np.random.default_rng(5)
    (smaller, larger), offsets = histograms(most, rng, table.counts_rows)
    layout = HistogramLayout.unbundled(N_BINS, offsets)
    layout.is_categorical[list(table.categorical)] = True
    slots, none = np.arange(2 * PAIRS), np.full(PAIRS, -1)
    on_host = np.concatenate([smaller + larger, smaller])
    on_device = DeviceHistograms(queue, layout, np.dtype(np.uint16))
    on_device.choose(np.arange(N_BINS.size, dtype=np.uint64))
    on_device.begin_in(slots, counts_rows=table.counts_rows)
    queue.write(on_device.sums, on_host)
    device = DeviceSplitSearch(queue, on_device, layout)
    assert device.can_search(on_device.chosen, rules)
    allowed = (rng.random((2 * PAIRS, N_BINS.size)) < 0.7).astype(np.uint8)
    levels = [
        (np.stack([none, slots[:PAIRS], none]), slots[:PAIRS], EVERY_FEATURE),
        (np.stack([none, slots[PAIRS:], slots[:PAIRS]]), slots, allowed),
    ]
    chosen = []
    for built, searched, mask in levels:
        limits = limits_of(table, searched.size, rng)
        own = built, searched, mask, layout.offsets[:2], scales, rules
        search = SplitSearch(*own, table.counts_rows, limits)
        found, found_sets = device.find_splits(search)
        expected, expected_sets = search_on_host(on_host, layout, search)
        for name in SPLIT_DTYPE.names:
            assert found[name].tobytes() == expected[name].tobytes(), name
        of_sets = found["is_categorical"] > 0
        assert np.array_equal(found_sets[of_sets], expected_sets[of_sets])
        chosen.append(found)
    left = queue.read(on_device.sums, np.empty_like(on_host))
    assert np.array_equal(left, np.concatenate([larger, smaller]))
    return np.concatenate(chosen)


@pytest.mark.parametrize(
    "shape",
    [
        "one item",
        "64 items, 64 bits",
        pytest.param("256 items, 32 bits", marks=REPEATS),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_splits_are_those_of_the_host(case, shape):
    found = compare(Table(), *CASES[case], shape)
    assert (found["feature"] >= 0).any() == (case != "no cuts")


@pytest.mark.parametrize(
    "shape",
    [
        "one item",
        "64 items, 64 bits",
        pytest.param("256 items, 32 bits", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("case", TABLES)
def test_splits_of_categories_and_under_constraints_are_those_of_the_host(case, shape):
    found = compare(*TABLES[case], shape)
    kinds = {*found["is_categorical"][found["feature"] >= 0].tolist()}
    if "sets" in case:
        assert CATEGORY_SETS in kinds
    elif "one by one" in case:
        assert ONE_CATEGORY in kinds
    else:
        assert 0 in kinds


def test_what_is_searched_on_the_device():
    """Neither thousands of categories, nor groups of them, nor another order.

    Nor sets of candidates that take more memory than histograms.
    """
    n_bins = np.array([9, 2048, 2049, *[2] * 600])
    layout = HistogramLayout.unbundled(n_bins, np.append(0, np.cumsum(n_bins)))
    layout.is_categorical[1:] = True
    device = device_of(SHAPES["one item"])

    def can(*features, rules=PLAIN.rules, **changed):
        queue = DeviceQueue(replace(device, **changed))
        own = DeviceHistograms(queue, layout, np.dtype(np.uint16))
        search = DeviceSplitSearch(queue, own, layout)
        return search.can_search(np.array(features, np.uint64), rules)

    grouped = PLAIN.rules._replace(min_group_weight=1.0)
    assert can(0, 1)
    assert not can(0, 2)
    assert can(1, *range(3, 200))
    assert not can(1, *range(3, 603))
    assert not can(1, rules=grouped)
    assert can(0, rules=grouped)
    assert not can(1, keeps_denormals=False)
    assert can(0, keeps_denormals=False)
