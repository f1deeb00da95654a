"""Devices: how they are found, named, listed and refused, and what they lack."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from command_line import command
from opencl_device import NAME, SHAPES, device_of, on_pocl

import hornbeam
import hornbeam.xgboost as xgb
from hornbeam.backends.opencl import devices
from hornbeam.backends.opencl.devices import find_device, find_devices
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.errors import ErrorCode, HornbeamError
from hornbeam.kernels.team import take_team

DATA = hornbeam.DMatrix(np.arange(40.0).reshape(20, 2), np.arange(20.0))


def python(code, **variables):
    """Run Python code in another process."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )


@on_pocl
def test_a_device_is_found_by_its_numbers():
    device = find_device(NAME)
    assert device.name == NAME
    assert device.kind == "cpu"
    assert device.has_doubles
    assert device.options.group_size == 1
    assert device.memory > device.largest_buffer > 0


@pytest.mark.parametrize("name", ["opencl:99:0", "gpu:99", "cuda:99"])
def test_a_device_that_is_not_there_is_an_error(name):
    with pytest.raises(hornbeam.DeviceError, match="hornbeam devices") as error:
        hornbeam.train({"device": name}, DATA, 1)
    assert error.value.code == ErrorCode.DEVICE_NOT_FOUND
    assert find_devices()[0].title in str(error.value)


def test_gpus_have_numbers_of_their_own(monkeypatch):
    cpu = replace(device_of(SHAPES["one item"]), kind="cpu", is_nvidia=False)
    radeon = replace(cpu, name="opencl:1:0", kind="gpu")
    geforce = replace(cpu, name="opencl:2:0", kind="gpu", is_nvidia=True)
    monkeypatch.setattr(devices, "find_devices", lambda: (cpu, radeon, geforce))
    found = {
        name: find_device(name).name
        for name in ("gpu", "gpu:0", "gpu:1", "cuda", "cuda:0", "opencl:2:0")
    }
    assert found == {
        **dict.fromkeys(("gpu", "gpu:0"), "opencl:1:0"),
        **dict.fromkeys(("gpu:1", "cuda", "cuda:0", "opencl:2:0"), "opencl:2:0"),
    }
    with pytest.raises(hornbeam.DeviceError):
        find_device("cuda:1")


def test_a_device_without_doubles_is_refused(monkeypatch):
    device = replace(device_of(SHAPES["one item"]), has_doubles=False)
    monkeypatch.setattr(devices, "find_devices", lambda: (device,))
    with pytest.raises(hornbeam.DeviceError, match="cl_khr_fp64") as error:
        find_device(NAME)
    assert error.value.code == ErrorCode.DEVICE_NOT_SUPPORTED


def test_without_a_driver_no_device_is_found(tmp_path):
    code = "from hornbeam.backends.opencl.devices import find_devices as find"
    process = python(
        f"{code}; print(find())",
        OCL_ICD_VENDORS=str(tmp_path),
        OPENCL_VENDOR_PATH=str(tmp_path),
        OCL_ICD_FILENAMES="",
    )
    assert process.stdout.strip().startswith("(")


def test_too_little_memory_is_an_error_that_says_how_much_is_needed():
    device = replace(device_of(SHAPES["one item"]), memory=10**6)
    codes = DATA.binned(16).as_bins()
    many = np.zeros((5000, DATA.num_row()))
    with pytest.raises(hornbeam.DeviceError, match="needs 2 MB") as error:
        OpenCLRows(
            codes, np.zeros((1, 20)), None, many, take_team(1), DeviceQueue(device)
        )
    assert "it has 1 MB" in str(error.value)
    assert error.value.code == ErrorCode.DEVICE_OUT_OF_MEMORY
    assert error.value.details["needed"] > error.value.details["available"] == 10**6


def test_memory_that_runs_out_later_is_the_same_error():
    """A device refuses a buffer that is larger than its memory."""
    device = device_of(SHAPES["one item"])
    codes = DATA.binned(16).as_bins()
    state = np.zeros((1, 20)), None, np.zeros((1, 20))
    queue, too_large = DeviceQueue(device), 2 * device.memory
    rows = OpenCLRows(codes, *state, take_team(1), queue)
    with pytest.raises(hornbeam.DeviceError, match="allocate a buffer") as error:
        queue.empty(too_large)
    assert error.value.code == ErrorCode.DEVICE_OUT_OF_MEMORY
    assert error.value.details["needed"] > too_large
    # The process goes on, with the device as with the CPU.
    assert np.array_equal(rows.margins(), np.zeros((1, 20)))
    digests = {
        hornbeam.train({"device": name}, DATA, 2).digest() for name in (NAME, "cpu")
    }
    assert len(digests) == 1


def test_memory_that_is_freed_does_not_count():
    queue = DeviceQueue(device_of(SHAPES["one item"]))
    kept = queue.empty(1000)
    queue.empty(3000)
    assert queue.taken == 1000
    del kept
    assert queue.taken == 0


def test_a_feature_of_too_many_bins_is_an_error():
    values = np.arange(9000.0)[:, None]
    data = hornbeam.DMatrix(values, values[:, 0])
    codes = data.binned(9000).as_bins()
    state = np.zeros((1, 9000)), None, np.zeros((1, 9000)), take_team(1)
    queue = DeviceQueue(device_of(SHAPES["64 items, 32 bits"]))
    rows = OpenCLRows(codes, *state, queue)
    rows.set_gradients(np.ones((1, 9000)), np.ones((1, 9000)))
    scales = np.ones((1, 2))
    rows.begin_tree(0, np.zeros(1, np.uint64), None, scales, scales)
    with pytest.raises(hornbeam.DeviceError, match="lower max_bin") as error:
        rows.build_histograms(
            np.zeros(1, np.intp),
            np.zeros(1, np.intp),
            np.zeros((1, 1, 2, 9000), np.int64),
        )
    assert error.value.code == ErrorCode.DEVICE_NOT_SUPPORTED


@pytest.mark.parametrize(
    "params", [{"booster": "gblinear"}, {"process_type": "update"}]
)
def test_what_grows_no_trees_refuses_a_device(params):
    with pytest.raises(hornbeam.ParameterError, match="none are grown"):
        hornbeam.train({**params, "device": NAME}, DATA, 1)


def test_the_drop_in_trains_on_the_cpu_with_a_warning():
    data = xgb.DMatrix(np.arange(40.0).reshape(20, 2), np.arange(20.0))
    expected = xgb.train({}, data, 2).save_raw()
    with pytest.warns(UserWarning, match="Device is changed from GPU to CPU"):
        there = xgb.train({"device": "cuda:99"}, data, 2).save_raw()
    assert there == expected


def test_the_command_lists_and_checks_devices():
    process = command("devices", "--check")
    assert process.returncode == 0, process.stderr
    listed, *_, checked = process.stdout.splitlines()
    assert listed.startswith(NAME)
    assert "MB" in listed
    assert checked.startswith(NAME)
    assert "the same model and predictions as on the CPU" in checked


def test_errors_of_devices_are_errors_of_hornbeam():
    assert issubclass(hornbeam.DeviceError, HornbeamError)
    assert hornbeam.DeviceError().code == ErrorCode.DEVICE_FAILED
