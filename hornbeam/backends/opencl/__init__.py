"""Rows on an OpenCL device. It needs the extra ``gpu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.backends.opencl.factory import create_device_rows

__all__ = ["create_device_rows"]

# A training on the CPU starts without these modules.
_HOMES = {"create_device_rows": "hornbeam.backends.opencl.factory"}

__getattr__, __dir__ = names_from(__name__, _HOMES)
