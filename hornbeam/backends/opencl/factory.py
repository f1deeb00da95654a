"""Creates the rows of a training on OpenCL devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.memory_plan import plan_memory
from hornbeam.backends.opencl.devices import Device, find_device
from hornbeam.backends.opencl.histograms import histogram_bytes
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.backends.opencl.split_rows import SplitRows
from hornbeam.backends.opencl.streamed_rows import StreamedRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import gradient_type
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    HistogramLayout,
    PerTreeBins,
    SortedColumns,
    SparseBins,
)
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.team import Team

__all__ = ["create_device_rows"]

Floats = NDArray[np.float64]


def create_device_rows(
    device: str,
    bins: DenseBins | SparseBins | ExternalBins | SortedColumns | PerTreeBins,
    targets: Floats,
    weights: Floats | None,
    margins: Floats,
    team: Team,
    numbers: RowNumbers,
    max_histograms: int | None,
    cached_share: float,
    multi_output_columns: int,
) -> tuple[Rows, int | None]:
    """Return the rows on one device, or split between several.

    And the maximum number of histograms that fits in the memory of the host.

    Parameters
    ----------
    device
        What `find_device` takes, or several of these with ``+`` between them.
    bins, targets, weights, margins, team, numbers, multi_output_columns
        As for `OpenCLRows`, or for `StreamedRows`.
    max_histograms, cached_share
        As for `hornbeam.backends.factory.create_backend`.

    Raises
    ------
    ParameterError
        If trees of these bins cannot be grown there.
    DeviceError
        If a device is not there, or too small.
    DataError
        If the memory limit of a matrix in external memory is too small.
    """
    devices = [find_device(name) for name in device.split("+")]
    state = targets, weights, margins, team
    own = numbers, multi_output_columns
    if isinstance(bins, ExternalBins):
        if cached_share > 0.0:
            raise _refused(
                device,
                "extmem_single_page keeps samples in memory, and a device reads all "
                "blocks; leave extmem_single_page or device out",
            )
        budget = plan_memory(
            bins,
            len(margins),
            gradient_type(weights).itemsize,
            team.size,
            max_histograms,
            cached_share,
            multi_output_columns,
        ).with_rows_in_memory(bins.memory_limit)
        rows = StreamedRows(bins, *state, devices, budget, *own)
        return rows, _on_devices(budget.max_histograms, bins.layout, devices)
    dense = _dense(device, bins)
    if len(devices) > 1:
        return SplitRows(dense, *state, devices, *own), max_histograms
    return OpenCLRows(dense, *state, DeviceQueue(devices[0]), *own), max_histograms


def _on_devices(
    most: int | None, layout: HistogramLayout, devices: list[Device]
) -> int:
    """Return the number of histograms, at most this, that fit on each device."""
    bins = 16 * layout.n_histogram_bins
    fitting = min(histogram_bytes(device) for device in devices) // bins
    return fitting if most is None else min(most, fitting)


def _dense(
    device: str, bins: DenseBins | SparseBins | SortedColumns | PerTreeBins
) -> DenseBins | PerTreeBins:
    """Return the bins, or raise a `ParameterError` if they cannot be on a device."""
    if isinstance(bins, SortedColumns):
        reason = "tree_method='exact' and sketch_scope='local' sort values"
    elif isinstance(bins, SparseBins) or (
        isinstance(bins, PerTreeBins) and bins.is_sparse
    ):
        reason = "of a matrix so sparse only the stored entries have bins"
    else:
        return bins
    raise _refused(
        device,
        f"it grows trees on a bin for each row and feature, and {reason}; leave device "
        "out, the model is the same",
    )


def _refused(device: str, reason: str) -> ParameterError:
    """Return the error of what cannot be on a device."""
    return ParameterError(
        f"device={device!r}: {reason}", code=ErrorCode.UNSUPPORTED_COMBINATION
    )
