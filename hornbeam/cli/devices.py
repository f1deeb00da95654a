"""The OpenCL devices of this machine, as the command line lists and checks them."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import hornbeam
from hornbeam.backends.opencl.devices import Device, find_devices
from hornbeam.memory import in_words

__all__ = ["check", "describe"]

_ROWS = 20_000


def describe() -> dict[str, str]:
    """Return what is known of each device, by the name that `device` takes."""
    gpus = [device for device in find_devices() if device.kind == "gpu"]
    cudas = [device for device in gpus if device.is_nvidia]
    found = {}
    for device in find_devices():
        own = [device.name]
        own += [f"gpu:{i}" for i, gpu in enumerate(gpus) if gpu is device]
        own += [f"cuda:{i}" for i, gpu in enumerate(cudas) if gpu is device]
        found[" = ".join(own)] = _facts(device)
    return found


def _facts(device: Device) -> str:
    facts = [
        f"{device.title} ({device.kind}, {device.units} units)",
        in_words(device.memory),
        f"atomics of {64 if device.options.long_atomics else 32} bits",
        device.driver,
    ]
    if not device.has_doubles:
        facts.append("no float64: trees cannot be grown there")
    return "; ".join(facts)


def check() -> tuple[dict[str, str], bool]:
    """Train a small model on each device; return the results, and if all are right.

    It is right if its digest and its predictions are those of the CPU.
    """
    rng = np.random.default_rng(0)
    data = rng.integers(300, size=(_ROWS, 8)).astype(np.float32)
    data[rng.random(data.shape) < 0.1] = np.nan
    label = np.nansum(data[:, :3], axis=1) > 400
    rows = hornbeam.QuantileDMatrix(data, label.astype(float))

    def train(device: str) -> tuple[str, bytes]:
        params: dict[str, Any] = {"objective": "binary:logistic", "device": device}
        model = hornbeam.train(params, rows, 10, verbose_eval=False)
        return model.digest(), model.predict(rows).tobytes()

    same = "the same model and predictions as on the CPU"
    expected, all_right, found = train("cpu"), True, {}
    for device in find_devices():
        begin = perf_counter()
        try:
            is_right = train(device.name) == expected
            result = same if is_right else "ANOTHER MODEL OR OTHER PREDICTIONS"
        except hornbeam.HornbeamError as error:
            is_right, result = False, str(error)
        seconds = perf_counter() - begin
        found[device.name] = f"{result} ({seconds:.1f} s with compiling)"
        all_right = all_right and is_right
    return found, all_right
