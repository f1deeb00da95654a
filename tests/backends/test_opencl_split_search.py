"""Splits that a device finds are those of the host, whatever the histograms."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from pocl import SHAPES, device_of
from selection import REPEATS

from hornbeam.backends.interface import EVERY_FEATURE, SplitParams
from hornbeam.backends.opencl.histograms import DeviceHistograms
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.split_search import DeviceSplitSearch
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import lease

PLAIN = SplitParams(
    reg_lambda=1.0, reg_alpha=0.0, max_delta_step=0.0, min_child_weight=1.0
)
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


def histograms(most, rng):
    """Return those of pairs of siblings; some features have missing values."""
    offsets = np.append(0, np.cumsum(N_BINS))
    found = rng.integers(-most, most, (2, PAIRS, 2, offsets[-1]), endpoint=True)
    found[:, :, 1] = np.abs(found[:, :, 1])
    found *= rng.random((2, PAIRS, 1, offsets[-1])) < 0.7
    found[1] += found[0]
    # The first feature has all rows; in the last pair it has those of any other, too.
    totals = found[..., offsets[4] : offsets[5]].sum(-1)
    found[..., 0], found[..., 1] = totals // 3, totals - totals // 3
    for first, last in pairwise(offsets[1:]):
        rest = totals[:, 2:] - found[:, 2:, :, first:last].sum(-1)
        found[:, 2:, :, first] += rest
    return found, offsets


def search_on_host(sums, layout, built, slots, allowed, scales, rules):
    chosen = np.arange(N_BINS.size, dtype=np.uint64)
    splits = np.zeros((slots.size, 1), SPLIT_DTYPE)
    with lease(1) as team:
        team.run(
            find_splits,
            1,
            NodeHistograms(
                sums, slots, *built[1:], layout.feature_table, layout.offsets[:2]
            ),
            CandidateFeatures(chosen, allowed, chosen.size),
            scales,
            rules,
            None,
            np.empty((1, 6, N_BINS.max() + 1)),
            splits,
            np.empty((slots.size, 1, 0), np.uint8),
        )
    return splits[:, 0]


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
    most, scales, params = CASES[case]
    scales, rules = np.array(scales), params.rules
    queue, rng = DeviceQueue(device_of(SHAPES[shape])), np.random.default_rng(5)
    (smaller, larger), offsets = histograms(most, rng)
    layout = HistogramLayout.unbundled(N_BINS, offsets)
    slots, none = np.arange(2 * PAIRS), np.full(PAIRS, -1)
    on_host = np.concatenate([smaller + larger, smaller])
    on_device = DeviceHistograms(queue, layout, np.dtype(np.uint16))
    on_device.choose(np.arange(N_BINS.size, dtype=np.uint64))
    on_device.begin_in(slots)
    queue.write(on_device.sums, on_host)
    search = DeviceSplitSearch(queue, on_device, layout)
    allowed = (rng.random((2 * PAIRS, N_BINS.size)) < 0.7).astype(np.uint8)
    levels = [
        (np.stack([none, slots[:PAIRS], none]), slots[:PAIRS], EVERY_FEATURE),
        (np.stack([none, slots[PAIRS:], slots[:PAIRS]]), slots, allowed),
    ]
    for built, searched, mask in levels:
        found = search.find_splits(
            SplitSearch(built, searched, mask, layout.offsets[:2], scales, rules)
        )
        expected = search_on_host(on_host, layout, built, searched, mask, scales, rules)
        assert (found["feature"] >= 0).any() == (case != "no cuts")
        for name in SPLIT_DTYPE.names:
            assert found[name].tobytes() == expected[name].tobytes(), name
    left = queue.read(on_device.sums, np.empty_like(on_host))
    assert np.array_equal(left, np.concatenate([larger, smaller]))
