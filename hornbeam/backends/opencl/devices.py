"""The OpenCL devices of this machine, and what a parameter `device` names.

OpenCL numbers platforms, which are drivers, and the devices of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from hornbeam.errors import DeviceError, ErrorCode, require

__all__ = ["Device", "Options", "find_device", "find_devices", "opencl"]

#: Most local memory that a work-group takes; more would leave fewer groups on a
#: multiprocessor. On a CPU it is cache, and all columns at once are best.
_MOST_LOCAL_BYTES = 48 << 10
_MOST_CACHE_BYTES = 1 << 20
#: Work-items of a group on a GPU.
_GROUP_SIZE = 256


@dataclass(frozen=True, slots=True)
class Options:
    """How a device is used; the results do not depend on it.

    Attributes
    ----------
    group_size
        Work-items of a group, a power of two. A group of one needs neither barriers
        nor local atomics: that is how a processor core works best.
    long_atomics
        Whether there are atomic additions of 64 bits; otherwise there are two of 32.
    local_bytes
        Local memory of a group that builds histograms.
    stages
        Whether arrays are copied to it through pinned memory of the host. A device that
        shares the memory of the host gains nothing by that.
    """

    group_size: int
    long_atomics: bool
    local_bytes: int
    stages: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """An OpenCL device.

    Attributes
    ----------
    name
        ``"opencl:P:D"``: the parameter `device` that names it.
    title, driver
        What its platform calls it, and the version of the platform and the driver.
    kind
        ``"gpu"``, ``"cpu"`` or ``"other"``.
    is_nvidia
        Whether it is a GPU that ``"cuda"`` may mean.
    memory, largest_buffer
        Bytes of global memory, and of its largest buffer.
    units
        Number of its compute units: cores, or multiprocessors.
    has_doubles
        Whether it computes in float64, which training needs.
    keeps_denormals
        Whether float32 numbers below 1.2e-38 are not 0 for it, as comparisons of
        features with thresholds need.
    options
        How kernels are compiled for it.
    handle
        The device as pyopencl has it.
    """

    name: str
    title: str
    driver: str
    kind: str
    is_nvidia: bool
    memory: int
    largest_buffer: int
    units: int
    has_doubles: bool
    keeps_denormals: bool
    options: Options
    handle: Any


def opencl() -> Any:
    """Return pyopencl, or raise an error that names the extra."""
    return require("pyopencl", "gpu", "training on an OpenCL device")


@cache
def find_devices() -> tuple[Device, ...]:
    """Return the devices of all platforms, in the order of their numbers."""
    cl = opencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # a loader without any driver
        return ()
    found = []
    for p, platform in enumerate(platforms):
        try:
            handles = platform.get_devices()
        except cl.Error:  # a driver without any device
            continue
        found += [
            _describe(cl, f"opencl:{p}:{d}", platform, handle)
            for d, handle in enumerate(handles)
        ]
    return tuple(found)


def _describe(cl: Any, name: str, platform: Any, handle: Any) -> Device:
    kinds = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    kind = kinds.get(handle.type & ~cl.device_type.DEFAULT, "other")
    extensions = handle.extensions.split()
    group_size = 1 if kind == "cpu" else min(_GROUP_SIZE, handle.max_work_group_size)
    return Device(
        name,
        handle.name.strip(),
        f"{platform.version.strip()}, driver {handle.driver_version}",
        kind,
        kind == "gpu" and "nvidia" in handle.vendor.lower(),
        handle.global_mem_size,
        handle.max_mem_alloc_size,
        handle.max_compute_units,
        "cl_khr_fp64" in extensions,
        bool(handle.single_fp_config & cl.device_fp_config.DENORM),
        Options(
            1 << (group_size.bit_length() - 1),
            "cl_khr_int64_base_atomics" in extensions,
            min(
                handle.local_mem_size,
                _MOST_CACHE_BYTES if kind == "cpu" else _MOST_LOCAL_BYTES,
            ),
            not handle.host_unified_memory,
        ),
        handle,
    )


def find_device(name: str) -> Device:
    """Return the device that the parameter `device` names.

    Parameters
    ----------
    name
        ``"gpu"`` or ``"gpu:N"``: the first GPU, or the one with number N from 0;
        ``"cuda"`` or ``"cuda:N"``: of those of NVIDIA. ``"opencl:P:D"``: device D of
        platform P, a GPU or not.

    Raises
    ------
    MissingExtraError
        If pyopencl is not installed.
    DeviceError
        If there is no such device, or if it cannot compute in float64.
    """
    devices = find_devices()
    kind, *numbers = name.split(":")
    if kind == "opencl":
        fitting = [device for device in devices if device.name == name]
    else:
        gpus = [d for d in devices if d.is_nvidia or (d.kind == kind == "gpu")]
        number = int(numbers[0]) if numbers else 0
        fitting = gpus[number : number + 1]
    if not fitting:
        listed = "; ".join(f"{device.name} is {device.title}" for device in devices)
        raise DeviceError(
            f"device={name!r} is not on this machine, where OpenCL finds "
            f"{listed or 'no device'}; install the driver of the GPU (hornbeam devices "
            "lists what is found), name another device, or leave device out",
            code=ErrorCode.DEVICE_NOT_FOUND,
            device=name,
        )
    (device,) = fitting
    if not device.has_doubles:
        raise DeviceError(
            f"device={name!r} ({device.title}) has no float64 arithmetic "
            "(cl_khr_fp64), which gradients and margins need; name another device, or "
            "leave device out",
            code=ErrorCode.DEVICE_NOT_SUPPORTED,
            device=name,
        )
    return device
