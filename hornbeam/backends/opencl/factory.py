"""Creates the rows of a training on OpenCL devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.devices import find_device
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.backends.opencl.split_rows import SplitRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
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
    multi_output_columns: int,
) -> Rows:
    """Return the rows on one device, or split between several.

    Parameters
    ----------
    device
        What `find_device` takes, or several of these with ``+`` between them.
    bins, targets, weights, margins, team, numbers, multi_output_columns
        As for `OpenCLRows`.

    Raises
    ------
    ParameterError
        If trees of these bins cannot be grown there.
    DeviceError
        If a device is not there, or too small.
    """
    own_bins = _for_device(device, bins)
    devices = [find_device(name) for name in device.split("+")]
    state = targets, weights, margins, team
    if len(devices) == 1:
        return OpenCLRows(own_bins, *state, devices[0], numbers, multi_output_columns)
    if not isinstance(own_bins, DenseBins):
        raise _refused(device, "tree_method='approx' bins the rows for each tree")
    if multi_output_columns > 0:
        raise _refused(device, "multi_strategy='multi_output_tree' has several")
    return SplitRows(own_bins, *state, devices, numbers)


def _for_device(
    device: str,
    bins: DenseBins | SparseBins | ExternalBins | SortedColumns | PerTreeBins,
) -> DenseBins | PerTreeBins:
    """Return the bins, or raise a `ParameterError` if they cannot be on a device."""
    refused = None
    if isinstance(bins, SortedColumns):
        refused = "tree_method='exact' and sketch_scope='local' sort values"
    elif isinstance(bins, ExternalBins):
        refused = "the matrix is in external memory"
    elif isinstance(bins, SparseBins) or (
        isinstance(bins, PerTreeBins) and bins.is_sparse
    ):
        refused = "of a matrix so sparse only the stored entries have bins"
    else:
        return bins
    raise _refused(device, refused)


def _refused(device: str, reason: str) -> ParameterError:
    """Return the error of what cannot be on a device."""
    grows = "it grows trees on"
    if "+" in device:
        grows = "several devices grow trees of one output on"
    return ParameterError(
        f"device={device!r}: {grows} binned rows in memory, and {reason}; leave device "
        "out, the model is the same",
        code=ErrorCode.UNSUPPORTED_COMBINATION,
    )
