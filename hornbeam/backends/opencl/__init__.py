"""Rows on an OpenCL device. It needs the extra ``gpu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.backends.opencl.devices import find_device
    from hornbeam.backends.opencl.factory import create_device_rows
    from hornbeam.backends.opencl.margin_sums import MarginSums

__all__ = ["MarginSums", "create_device_rows", "find_device"]

# A training on the CPU starts without these modules.
_HOMES = {
    "MarginSums": "hornbeam.backends.opencl.margin_sums",
    "create_device_rows": "hornbeam.backends.opencl.factory",
    "find_device": "hornbeam.backends.opencl.devices",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
