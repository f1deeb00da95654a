"""Columns of gradients on the device, which a tree is grown on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, tiles_of

__all__ = ["ColumnBuffers", "DeviceColumn", "GradientPair"]


class GradientPair:
    """Gradients and hessians of all rows on the device.

    Parameters
    ----------
    gradients, hessians
        Buffers of (rows,) numbers.
    dtype
        Their type, float32 or float64.
    """

    def __init__(
        self, gradients: Buffer, hessians: Buffer, dtype: np.dtype[np.floating]
    ) -> None:
        self.buffers, self.dtype = (gradients, hessians), dtype


class ColumnBuffers:
    """The buffers of one column's quantised gradients, allocated on first use.

    Parameters
    ----------
    queue
        Of the device.
    rows
        Number of rows.

    Attributes
    ----------
    magnitudes
        The buffer of the sums of |g| and h.
    """

    def __init__(self, queue: DeviceQueue, rows: int) -> None:
        self._queue, self._rows = queue, rows
        self.magnitudes = queue.empty(16)
        self._found: dict[int, Buffer] = {}

    def of(self, n_bytes: int) -> Buffer:
        """Return the buffer of so many bytes a row."""
        if n_bytes not in self._found:
            self._found[n_bytes] = self._queue.empty(n_bytes * self._rows)
        return self._found[n_bytes]


class DeviceColumn:
    """One column of gradients that splits are searched by or leaves are summed of.

    Parameters
    ----------
    queue
        Of the device.
    rows
        Number of rows.
    pair
        Its gradients and hessians.
    wide_scales
        (2,) float64: scales of wide sums.
    buffers
        For the quantised values.

    Attributes
    ----------
    pair
        As given.
    per_unit
        (2,) float64: what g and h are multiplied by in wide sums.
    is_wide
        Whether histograms are of wide pairs.
    quantised
        The packed pairs of the rows, or the wide ones.
    """

    quantised: Buffer

    def __init__(
        self,
        queue: DeviceQueue,
        rows: int,
        pair: GradientPair,
        wide_scales: NDArray[np.float64],
        buffers: ColumnBuffers,
    ) -> None:
        self._queue, self._rows, self._buffers = queue, rows, buffers
        self.pair, self.per_unit, self.is_wide = pair, 1.0 / wide_scales, False

    def quantise(self, scales: NDArray[np.float64]) -> None:
        """Quantise to packed pairs."""
        self._magnitudes = self._buffers.magnitudes
        self._queue.zero(self._magnitudes, 16)
        self.quantised = self._buffers.of(8)
        self._run("quantise", 1.0 / scales, self.quantised, self._magnitudes)

    def magnitudes(self) -> NDArray[np.int64]:
        """Wait, and return the sums of |g| and h in the units of `quantise`, (2,)."""
        return self._queue.read(self._magnitudes, np.empty(2, np.int64))

    def widen(self) -> None:
        """Quantise to wide pairs."""
        self.quantised, self.is_wide = self._buffers.of(16), True
        self._run("widen", self.per_unit, self.quantised)

    def _run(self, kernel: str, scales: NDArray[np.float64], *out: Buffer) -> None:
        self._queue.run(
            kernel,
            tiles_of(self._rows),
            *self.pair.buffers,
            *scales,
            np.uint32(self._rows),
            *out,
            reals=self.pair.dtype,
        )
