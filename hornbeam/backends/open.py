"""The way to a backend, for those above who must not know which one it is."""

from __future__ import annotations

from typing import Any

from hornbeam.backends.base import Backend

__all__ = ["open_backend"]


def open_backend(device: str, **rows: Any) -> Backend:
    """Return the backend for `device` with rows in memory.

    Parameters
    ----------
    device
        ``"cpu"``.
    rows
        See `hornbeam.backends.cpu.CpuBackend`.
    """
    from hornbeam.backends.cpu import CpuBackend

    assert device == "cpu", device
    return CpuBackend(**rows)
