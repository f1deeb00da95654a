"""Creates the backend for a kind of bins, which callers do not have to know.

The modules of other rows than dense ones in memory are imported on first use.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends import opencl
from hornbeam.backends.dense import DenseRows
from hornbeam.backends.hist import HistogramBackend
from hornbeam.backends.interface import Backend
from hornbeam.backends.margin_rows import LeafRows, LinearRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import gradient_type
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    PerTreeBins,
    SortedColumns,
    SparseBins,
    SparseColumns,
)
from hornbeam.errors import (
    DeviceError,
    ErrorCode,
    MissingExtraError,
    ParameterError,
)
from hornbeam.kernels.team import Team, take_team

if TYPE_CHECKING:
    from hornbeam.backends.opencl.margin_sums import MarginSums

__all__ = [
    "bytes_of_order",
    "create_backend",
    "create_hist_backend",
    "create_leaf_rows",
    "create_linear_rows",
    "create_margin_sums",
    "create_rows",
    "device_of_sums",
    "uses_opencl",
]

Floats = NDArray[np.float64]


def bytes_of_order(n_entries: int, n_columns: int, threads: int) -> int:
    """Return the least memory of training on `n_entries` sorted entries."""
    from hornbeam.backends.exact_tree_grower import working_bytes

    longest = -(-n_entries // n_columns)
    return 8 * n_entries + working_bytes(n_entries, longest, threads)


def uses_opencl(device: str) -> bool:
    """Return whether the parameter `device` names devices of OpenCL."""
    return device != "cpu"


def create_backend(
    device: str,
    bins: DenseBins | SparseBins | ExternalBins | SortedColumns | PerTreeBins,
    targets: Floats,
    weights: Floats | None,
    margins: Floats,
    *,
    threads: int = 0,
    max_histograms: int | None = None,
    cached_share: float = 0.0,
    multi_output_columns: int = 0,
    row_keys: NDArray[np.uint64] | None = None,
) -> Backend:
    """Return the backend for `device` and for bins of this kind.

    Parameters
    ----------
    device
        ``"cpu"``, or what `hornbeam.backends.opencl.devices.find_device` takes; several
        of these with ``+`` between them share the rows.
    bins
        Of the rows.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; kept and updated in place. Of
        float32, sums of margins are rounded to float32.
    threads
        Number of threads; 0 or less means all processors.
    max_histograms
        Maximum number of histograms at a time; None: what fits in one GiB.
    cached_share
        Of external memory: the share of the rows in a tree's sample, which is then
        cached in memory; 0: no cache. DataError if it does not fit in the limit.
    multi_output_columns
        Number of gradient columns that the splits of multi-output trees are searched
        by; 0: trees have one output.
    row_keys
        (rows,): what random draws of rows depend on; None: the place of the row.
    """
    numbers = RowNumbers(margins.shape[1], keys=row_keys)
    if uses_opencl(device):
        team = take_team(threads)
        on_device, most = opencl.create_device_rows(
            device,
            bins,
            targets,
            weights,
            margins,
            team,
            numbers,
            max_histograms,
            cached_share,
            multi_output_columns,
        )
        return HistogramBackend(on_device, team, most)
    if isinstance(bins, SortedColumns):
        from hornbeam.backends.exact import ExactBackend

        team = take_team(threads)
        return ExactBackend(bins, targets, weights, margins, team, numbers)
    if isinstance(bins, SparseBins) or (
        isinstance(bins, PerTreeBins) and bins.is_sparse
    ):
        from hornbeam.backends.sparse import SparseBackend

        team = take_team(threads)
        given = targets, weights, margins, team, numbers
        return SparseBackend(bins, *given, multi_output_columns, max_histograms)
    team = take_team(threads)
    rows, max_histograms = create_rows(
        bins,
        targets,
        weights,
        margins,
        team,
        max_histograms,
        cached_share=cached_share,
        multi_output_columns=multi_output_columns,
        row_keys=row_keys,
    )
    return HistogramBackend(rows, team, max_histograms)


def create_rows(
    bins: DenseBins | ExternalBins | PerTreeBins,
    targets: Floats,
    weights: Floats | None,
    margins: Floats,
    team: Team,
    max_histograms: int | None = None,
    spans: NDArray[np.int64] | None = None,
    cached_share: float = 0.0,
    multi_output_columns: int = 0,
    row_keys: NDArray[np.uint64] | None = None,
) -> tuple[Rows, int | None]:
    """Return the rows, and the maximum number of histograms that fits in memory.

    Parameters
    ----------
    bins, targets, weights, margins
        As for `create_backend`.
    team
        The threads that work; its owner gives it back.
    max_histograms
        Maximum number of histograms at a time; None: what fits in one GiB.
    spans
        Which of all rows they are: see `hornbeam.backends.row_numbers.RowNumbers`.
    cached_share, multi_output_columns, row_keys
        As for `create_backend`.
    """
    given = targets, weights, margins, team
    numbers = RowNumbers(margins.shape[1], spans, row_keys)
    if not isinstance(bins, ExternalBins):
        return DenseRows(bins, *given, numbers, multi_output_columns), max_histograms
    from hornbeam.backends.external import ExternalRows
    from hornbeam.backends.memory_plan import plan_memory

    if multi_output_columns > 0 and cached_share > 0.0:
        raise ParameterError(
            "extmem_single_page caches the samples of trees of one output; leave it "
            "out with multi_strategy='multi_output_tree'",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    budget = plan_memory(
        bins,
        len(margins),
        gradient_type(weights).itemsize,
        team.size,
        max_histograms,
        cached_share,
        multi_output_columns,
    )
    rows = ExternalRows(bins, *given, budget, numbers, multi_output_columns)
    return rows, budget.max_histograms


def create_hist_backend(
    rows: Rows, *, threads: int = 0, max_histograms: int | None = None
) -> Backend:
    """Return the backend that searches histograms of these rows.

    Parameters
    ----------
    rows
        In memory, on disk or on workers.
    threads
        Number of threads of the split search; 0 or less means all processors.
    max_histograms
        As for `create_backend`.
    """
    return HistogramBackend(rows, take_team(threads), max_histograms)


def create_linear_rows(
    columns: SparseColumns,
    targets: Floats,
    weights: Floats | None,
    margins: Floats,
    *,
    threads: int = 0,
) -> LinearRows:
    """Return rows for coordinate descent on the weights of a linear model.

    Parameters
    ----------
    columns, targets, weights, margins
        See `hornbeam.backends.margin_rows.LinearRows`.
    threads
        Number of threads; 0 or less means all processors.
    """

    return LinearRows(columns, targets, weights, margins, take_team(threads))


def create_leaf_rows(
    targets: Floats,
    weights: Floats | None,
    margins: Floats,
    *,
    threads: int = 0,
) -> LeafRows:
    """Return rows whose leaves are known, for refresh and line search.

    Parameters
    ----------
    targets, weights, margins
        See `hornbeam.backends.margin_rows.LeafRows`.
    threads
        Number of threads; 0 or less means all processors.
    """

    return LeafRows(targets, weights, margins, take_team(threads))


def create_margin_sums(device: str, margins: NDArray[Any]) -> MarginSums:
    """Return margins of rows, (rows, outputs), on a device, to add trees to.

    Parameters
    ----------
    device, margins
        See `hornbeam.backends.opencl.margin_sums.MarginSums`.
    """
    return opencl.MarginSums(device, margins)


def device_of_sums(device: str) -> str:
    """Return the device that trees are added to margins on.

    Where the device is not there this is ``"cpu"``, with a warning: the sums are the
    same, and a model that was trained on a device is used on other machines. It is
    also ``"cpu"`` if the device takes the smallest float32 numbers as 0.
    """
    if device == "cpu":
        return device
    try:
        found = opencl.find_device(device.partition("+")[0])
    except (DeviceError, MissingExtraError) as error:
        warnings.warn(f"predictions are made on the CPU: {error}", stacklevel=4)
        return "cpu"
    return found.name if found.keeps_denormals else "cpu"
