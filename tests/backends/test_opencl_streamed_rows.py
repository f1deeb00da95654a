"""Rows of external memory on a device: trees, models and errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from opencl_device import HALVES, NAME, SHAPES, device_of, needs_two, shapes_with
from parts import KINDS, N_ROWS, grow, grow_in_memory
from selection import IS_WHOLE, REPEATS, half_slow
from test_external_rows import UNLIMITED, external_rows

import hornbeam
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.opencl import devices
from hornbeam.backends.opencl.devices import opencl
from hornbeam.backends.opencl.queue import DeviceQueue, UploadBuffers
from hornbeam.backends.opencl.streamed_rows import StreamedRows
from hornbeam.binning import external_build
from hornbeam.errors import ErrorCode
from hornbeam.kernels.jit import COMPILED


def streamed(folder, shape="one item", budget=UNLIMITED, devices=(), **options):
    """Return what makes rows of several blocks, whose bins are copied for each pass."""
    devices = devices or [device_of(SHAPES[shape])]
    kind = partial(StreamedRows, devices=devices, budget=budget)
    return partial(external_rows, folder, None, kind=kind, **options)


#: Of the kinds of trees, each of which the fast tests try on one device, every third.
SOME = [
    pytest.param(kind, marks=REPEATS if number % 3 else [])
    for number, kind in enumerate(KINDS)
]


def smallest(folder, devices, **options):
    """Return the devices with memory for the lists of rows only.

    Each has as much as the error says that is needed, which leaves none for gradients.
    """
    found = []
    for number, device in enumerate(devices):
        tried = list(devices)
        tried[number] = replace(device, memory=1)
        make = streamed(folder / str(number), devices=tried, **options)
        with pytest.raises(hornbeam.DeviceError, match="needs") as error:
            grow(make)
        assert error.value.code == ErrorCode.DEVICE_OUT_OF_MEMORY
        assert error.value.details["available"] == 1
        found.append(replace(device, memory=error.value.details["needed"]))
    return found


@pytest.mark.parametrize("kind", half_slow(KINDS))
def test_blocks_give_the_trees_of_rows_in_memory(tmp_path, kind):
    assert grow(streamed(tmp_path), **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.parametrize("kind", SOME)
def test_gradients_may_be_on_the_host(tmp_path, kind):
    devices = smallest(tmp_path, [device_of(SHAPES["one item"])])
    rows = streamed(tmp_path, devices=devices)
    assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


@needs_two
@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("is_small", [pytest.param(False, marks=REPEATS), True])
def test_two_devices_give_the_same_trees(tmp_path, kind, is_small):
    devices = smallest(tmp_path, HALVES) if is_small else HALVES
    rows = streamed(tmp_path, devices=devices)
    assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


@needs_two
@pytest.mark.parametrize("block_rows", [N_ROWS, N_ROWS // 2, 7 + N_ROWS // 16])
@pytest.mark.parametrize("stages", [False, True])
def test_devices_may_have_different_numbers_of_blocks(tmp_path, block_rows, stages):
    own = [
        replace(half, options=replace(half.options, stages=stages)) for half in HALVES
    ]
    rows = streamed(tmp_path, devices=own, block_rows=block_rows)
    assert grow(rows) == grow()


def test_blocks_that_do_not_fit_are_an_error_with_both_sizes(tmp_path):
    (device,) = smallest(tmp_path, [device_of(SHAPES["one item"])])
    less = replace(device, memory=device.memory - 1)
    with pytest.raises(hornbeam.DeviceError) as error:
        grow(streamed(tmp_path, devices=[less]))
    assert error.value.code == ErrorCode.DEVICE_OUT_OF_MEMORY
    assert error.value.details == {
        "needed": device.memory,
        "available": device.memory - 1,
    }


def test_gradients_on_the_host_count_towards_the_memory_limit():
    plan = MemoryPlan(6, 1, 10**6, frozenset(), keeps_packed=False)
    assert plan.with_packed_in_memory(4 * 10**5, 10**9).kept_bytes == 6 * 10**5
    assert plan.with_packed_in_memory(4 * 10**6, None) == plan
    with pytest.raises(hornbeam.DataError, match="3 MB too little") as error:
        plan.with_packed_in_memory(4 * 10**6, 10**9)
    assert error.value.code == ErrorCode.MEMORY_LIMIT_TOO_SMALL


@pytest.mark.parametrize("block_rows", [N_ROWS, N_ROWS // 2, 7 + N_ROWS // 16])
@pytest.mark.parametrize("most_bins", [12, 400])
def test_blocks_of_any_size_and_bins_of_two_bytes(tmp_path, block_rows, most_bins):
    rows = streamed(tmp_path, "64 items, 32 bits", block_rows=block_rows)
    assert grow(rows, most_bins=most_bins) == grow(most_bins=most_bins)


def test_blocks_may_be_kept_in_memory_of_the_host(tmp_path):
    budget = MemoryPlan(None, None, 2 * N_ROWS, frozenset(), keeps_packed=True)
    rows = streamed(tmp_path, budget=budget)
    assert grow(rows, **KINDS["sampled"]) == grow(**KINDS["sampled"])


#: Gradients are on the device or on the host in turn; both with WHOLE_TABLE=1.
PLACES = [
    (shape, kind, is_small)
    for number, (shape, kind) in enumerate(shapes_with([*KINDS]))
    for is_small in (False, True)
    if IS_WHOLE or (number + number // 12) % 2 == is_small
]


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize(("shape", "kind", "is_small"), PLACES)
def test_any_size_of_groups_gives_the_same_trees(tmp_path, shape, kind, is_small):
    devices = [device_of(SHAPES[shape])]
    devices = smallest(tmp_path, devices) if is_small else devices
    rows = streamed(tmp_path, devices=devices)
    assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


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


def test_copies_from_pinned_memory_are_not_waited_for():
    """So the next block is taken for another device meanwhile."""
    queue = DeviceQueue(device_of(SHAPES["64 items, 64 bits"]))
    given = np.arange(1000)
    buffer, array = queue.empty(given.nbytes), given.copy()
    held = opencl().UserEvent(buffer.context)
    events = queue.upload(buffer, [(0, array)], held)
    queue.release(events)
    array[:] = 0
    held.set_status(opencl().command_execution_status.COMPLETE)
    queue.work_after(events)
    assert np.array_equal(queue.read(buffer, array), given)


def matrix(folder, labels=LABELS, **options):
    def batches():
        for begin in range(0, N_ROWS, 300):
            yield DATA[begin : begin + 300], labels[begin : begin + 300]

    return hornbeam.ExtMemQuantileDMatrix(batches, cache=folder, **options)


MODELS = {
    "plain": {},
    "columns and rows sampled": {"subsample": 0.5, "colsample_bynode": 0.5},
    "goss": {"sampling_method": "goss"},
    "leaf-wise": {"grow_policy": "lossguide", "max_leaves": 9},
    "symmetric": {"grow_policy": "symmetric"},
    "dart": {"booster": "dart", "rate_drop": 0.3},
    "classes": {"objective": "multi:softprob", "num_class": 2},
    "vectors": VECTORS,
    "vectors, sketched": {**VECTORS, "sketch_outputs": 1, "subsample": 0.5},
}
#: The devices of each way, and whether they have memory for the lists of rows only.
WAYS = {
    "one": (1, False),
    "one, gradients on the host": (1, True),
    "two": (2, False),
    "two, gradients on the host": (2, True),
}

#: Which of them the fast tests try.
FAST = {kind: ["two, gradients on the host"] for kind in list(MODELS)[::4]}
FAST["plain"].append("one")


@needs_two
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, marks=() if way in FAST.get(kind, ()) else REPEATS)
        for kind in MODELS
        for way in WAYS
    ],
)
def test_models_of_blocks_have_the_digests_of_the_cpu(
    tmp_path, monkeypatch, kind, way, thread_counts
):
    monkeypatch.setattr(external_build, "BLOCK_ROWS", N_ROWS // 6)
    params = {"objective": "binary:logistic", **MODELS[kind]}
    is_vector = "multi_strategy" in params
    labels = np.column_stack([LABELS, LABELS[::-1]]) if is_vector else LABELS
    data = matrix(tmp_path, labels)
    assert data.binned(256).as_bins().blocks.n_blocks > 3
    count, is_small = WAYS[way]
    there = train_there(monkeypatch, params, data, HALVES[:count], is_small)
    here = hornbeam.train(params, data, 3).digest()
    for threads in thread_counts if "subsample" in params and COMPILED else (1,):
        assert there(threads).digest() == here


def train_there(monkeypatch, params, data, own, is_small):
    """Return what trains on these devices with a number of threads."""
    name = "+".join(device.name for device in own)

    def train(threads=1):
        given = {**params, "device": name, "nthread": threads}
        return hornbeam.train(given, data, 3)

    own = list(own)
    for number, device in enumerate(own if is_small else ()):
        own[number] = replace(device, memory=1)
        monkeypatch.setattr(devices, "find_devices", lambda: tuple(own))
        with pytest.raises(hornbeam.DeviceError) as error:
            train()
        own[number] = replace(device, memory=error.value.details["needed"])
    monkeypatch.setattr(devices, "find_devices", lambda: tuple(own))
    return train


def test_what_is_not_streamed_is_one_error_each(tmp_path, monkeypatch):
    data = matrix(tmp_path)
    single = {"extmem_single_page": True, "subsample": 0.5}
    with pytest.raises(hornbeam.ParameterError, match="extmem_single_page") as error:
        hornbeam.train({"device": NAME, **single}, data, 1)
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
