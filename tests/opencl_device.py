"""The OpenCL device of the tests, with other ways of compiling.

It is PoCL, which runs kernels on the processor, or what the environment variable
OPENCL_TEST_DEVICE names, such as "gpu".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest
from selection import IS_WHOLE

from hornbeam.backends.opencl.devices import (
    Device,
    Options,
    find_device,
    find_devices,
    opencl,
)

__all__ = [
    "HALVES",
    "NAME",
    "SHAPES",
    "device_of",
    "needs_two",
    "on_pocl",
    "shapes_with",
]

pytest.importorskip("pyopencl")


def _device() -> Device:
    chosen = os.environ.get("OPENCL_TEST_DEVICE")
    if chosen:
        return find_device(chosen)
    pytest.importorskip("pocl_binary_distribution")  # for Linux on x86-64 only
    return next(device for device in find_devices() if "PoCL" in device.driver)


_DEVICE = _device()
#: What the parameter `device` calls it.
NAME = _DEVICE.name
on_pocl = pytest.mark.skipif(_DEVICE.kind != "cpu", reason="the device is a GPU")

#: Ways of compiling: a core of a processor, and groups as they run on GPUs, whose local
#: memory fits two features of 256 bins, and which are sent arrays in pinned memory.
SHAPES = {
    "one item": Options(1, True, 1 << 20),
    "one item, few columns": Options(1, True, 1 << 13),
    "one item, short atomics": Options(1, False, 1 << 20),
    **{
        f"{size} items, {bits} bits": Options(size, bits == 64, 1 << 13, stages=True)
        for size in (32, 64, 128, 256)
        for bits in (32, 64)
    },
}


def shapes_with(kinds: Sequence[str]) -> list[tuple[str, str]]:
    """Return ways of compiling beside kinds of trees, but for "one item".

    Each kind is beside all sizes of groups, whose atomics of 32 and of 64 bits take
    turns, so that each of them is beside half of the kinds. With WHOLE_TABLE=1 in the
    environment all are beside each other.
    """
    ways = {name: options for name, options in SHAPES.items() if name != "one item"}
    return [
        (name, kind)
        for place, kind in enumerate(kinds)
        for name, options in ways.items()
        if IS_WHOLE
        or options.group_size == 1
        or (options.group_size.bit_length() + place) % 2 == options.long_atomics
    ]


def device_of(options: Options) -> Device:
    """Return PoCL's device, for which kernels are compiled in this way."""
    return replace(_DEVICE, options=options)


def _halves() -> tuple[Device, ...]:
    """Return two devices: one compute unit of PoCL each, or the GPU twice."""
    if _DEVICE.kind == "cpu":
        device = device_of(SHAPES["one item"])
        by_unit = [opencl().device_partition_property.EQUALLY, 1]
        handles = device.handle.create_sub_devices(by_unit)
    else:
        device, handles = _DEVICE, [_DEVICE.handle] * 2
    return tuple(
        replace(
            device,
            name=f"opencl:7:{number}",
            handle=handle,
            units=handle.max_compute_units,
        )
        for number, handle in enumerate(handles[:2])
    )


HALVES = _halves()
needs_two = pytest.mark.skipif(len(HALVES) < 2, reason="the processor has one core")
