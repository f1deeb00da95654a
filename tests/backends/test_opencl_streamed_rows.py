"""Rows of external memory on a device: trees, models and errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from parts import KINDS, N_ROWS, grow
from pocl import NAME, SHAPES, device_of
from test_external_rows import UNLIMITED, external_rows

import hornbeam
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.opencl import devices
from hornbeam.backends.opencl.queue import DeviceQueue, UploadBuffers
from hornbeam.backends.opencl.streamed_rows import StreamedRows
from hornbeam.binning import external_build
from hornbeam.errors import ErrorCode
from hornbeam.kernels.jit import COMPILED


def streamed(folder, shape="one item", budget=UNLIMITED, **options):
    """Return what makes rows of several blocks, whose bins are copied for each pass."""
    queue = DeviceQueue(device_of(SHAPES[shape]))
    kind = partial(StreamedRows, queue=queue, budget=budget)
    return partial(external_rows, folder, None, kind=kind, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_give_the_trees_of_rows_in_memory(tmp_path, kind):
    assert grow(streamed(tmp_path), **KINDS[kind]) == grow(**KINDS[kind])


@pytest.mark.parametrize("block_rows", [N_ROWS, N_ROWS // 2, 7 + N_ROWS // 16])
@pytest.mark.parametrize("most_bins", [12, 400])
def test_blocks_of_any_size_and_bins_of_two_bytes(tmp_path, block_rows, most_bins):
    rows = streamed(tmp_path, "64 items, 32 bits", block_rows=block_rows)
    assert grow(rows, most_bins=most_bins) == grow(most_bins=most_bins)


def test_blocks_may_be_kept_in_memory_of_the_host(tmp_path):
    budget = MemoryPlan(None, None, 2 * N_ROWS, frozenset(), keeps_packed=True)
    rows = streamed(tmp_path, budget=budget)
    assert grow(rows, **KINDS["sampled"]) == grow(**KINDS["sampled"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_size_of_groups_gives_the_same_trees(tmp_path, shape, kind):
    assert grow(streamed(tmp_path, shape), **KINDS[kind]) == grow(**KINDS[kind])


def test_uploads_reach_the_kernels_that_were_started_after_them():
    queue = DeviceQueue(device_of(SHAPES["one item"]))
    uploads, given = UploadBuffers(queue, 80_000), np.arange(10_000.0)
    copies = [queue.empty(80_000) for _ in range(20)]
    for number, target in enumerate(copies):
        source = uploads.fill((0, given[:5000]), (40_000, given[5000:] + number))
        queue.copy(source, target, 80_000)
    for number, copy in enumerate(copies):
        found = queue.read(copy, np.empty(10_000))
        assert np.array_equal(found[:5000], given[:5000])
        assert np.array_equal(found[5000:], given[5000:] + number)


DATA = np.random.default_rng(0).normal(size=(N_ROWS, 6))
LABELS = (DATA[:, 0] * DATA[:, 1] > 0).astype(float)
VECTORS = {"multi_strategy": "multi_output_tree", "objective": "reg:squarederror"}


def matrix(folder, labels=LABELS, **options):
    def batches():
        for begin in range(0, N_ROWS, 300):
            yield DATA[begin : begin + 300], labels[begin : begin + 300]

    return hornbeam.ExtMemQuantileDMatrix(batches, cache=folder, **options)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"subsample": 0.5, "colsample_bynode": 0.5},
        {"sampling_method": "goss"},
        {"grow_policy": "lossguide", "max_leaves": 9},
        {"grow_policy": "symmetric"},
        {"booster": "dart", "rate_drop": 0.3},
        {"objective": "multi:softprob", "num_class": 2},
        VECTORS,
        {**VECTORS, "sketch_outputs": 1, "subsample": 0.5},
    ],
)
def test_models_of_blocks_have_the_digests_of_the_cpu(tmp_path, monkeypatch, params):
    monkeypatch.setattr(external_build, "BLOCK_ROWS", N_ROWS // 6)
    params = {"objective": "binary:logistic", **params}
    is_vector = "multi_strategy" in params
    labels = np.column_stack([LABELS, LABELS[::-1]]) if is_vector else LABELS
    data = matrix(tmp_path, labels)
    assert data.binned(256).as_bins().blocks.n_blocks > 3
    threads = (1, 2, 3, 7) if "subsample" in params and COMPILED else (1,)
    ways = [{"device": "cpu"}, *({"device": NAME, "nthread": n} for n in threads)]
    assert (
        len({hornbeam.train({**params, **way}, data, 3).digest() for way in ways}) == 1
    )


def test_what_is_not_streamed_is_one_error_each(tmp_path, monkeypatch):
    data = matrix(tmp_path)
    single = {"extmem_single_page": True, "subsample": 0.5}
    for words, params in {
        "name one": {"device": f"{NAME}+{NAME}"},
        "extmem_single_page": {"device": NAME, **single},
    }.items():
        with pytest.raises(hornbeam.ParameterError, match=words) as error:
            hornbeam.train(params, data, 1)
        assert error.value.code == ErrorCode.UNSUPPORTED_COMBINATION
    small = replace(device_of(SHAPES["one item"]), memory=10_000)
    monkeypatch.setattr(devices, "find_devices", lambda: (small,))
    with pytest.raises(hornbeam.DeviceError, match="needs") as refused:
        hornbeam.train({"device": NAME}, data, 1)
    assert refused.value.code == ErrorCode.DEVICE_OUT_OF_MEMORY


def test_arrays_of_rows_on_disk_are_an_error_that_says_so():
    plan = MemoryPlan(6, 1, 0, frozenset(["margins"]), keeps_packed=False)
    with pytest.raises(hornbeam.DataError, match="keep the margins") as error:
        plan.with_rows_in_memory(10**6)
    assert error.value.code == ErrorCode.MEMORY_LIMIT_TOO_SMALL
