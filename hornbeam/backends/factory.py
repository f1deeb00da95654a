"""The way to a backend, for those above who must not know which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    HistogramLayout,
    PerTreeBins,
    SortedColumns,
    SparseBins,
    SparseColumns,
)
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.kernels.team import Team, take_team

if TYPE_CHECKING:
    from hornbeam.backends.leaf_rows import LeafRows
    from hornbeam.backends.linear_rows import LinearRows

__all__ = [
    "bytes_of_order",
    "create_backend",
    "create_hist_backend",
    "create_leaf_rows",
    "create_linear_rows",
    "create_rows",
]


def bytes_of_order(n_cells: int, n_columns: int, threads: int) -> int:
    """Return the least memory in which trees grow on so many cells in order."""
    from hornbeam.backends.exact import bytes_beside

    longest = -(-n_cells // n_columns)
    return 8 * n_cells + bytes_beside(n_cells, longest, threads)


def create_backend(
    device: str,
    codes: DenseBins | SparseBins | ExternalBins | SortedColumns | PerTreeBins,
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    margins: NDArray[np.float64],
    *,
    threads: int = 0,
    max_histograms: int | None = None,
    cached_share: float = 0.0,
    multi_output_columns: int = 0,
) -> Backend:
    """Return the backend for `device` and for codes of this kind.

    Parameters
    ----------
    device
        ``"cpu"``.
    codes
        Of the rows.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins to begin with; kept and changed.
    threads
        Threads that work; 0 or less means all processors.
    max_histograms
        The most histograms kept at once; None: what fits in one GiB.
    cached_share
        Of codes on disk: the share of the rows that is held in memory, when it has
        been drawn for a tree; 0: none. DataError if it does not fit in the limit.
    multi_output_columns
        By how many columns of gradients the splits of trees of all outputs are
        searched; 0: trees have one output each.
    """
    assert device == "cpu", device
    if isinstance(codes, SortedColumns):
        from hornbeam.backends.exact import ExactBackend

        return ExactBackend(codes, targets, weights, margins, take_team(threads))
    if isinstance(codes, PerTreeBins):
        from hornbeam.backends.approx import ApproxBackend

        def create_hist_backend(own: DenseBins | SparseBins, margins: Any) -> Backend:
            return create_backend(
                device,
                own,
                targets,
                weights,
                margins,
                threads=threads,
                max_histograms=max_histograms,
                multi_output_columns=multi_output_columns,
            )

        team = take_team(threads)
        return ApproxBackend(
            codes,
            create_hist_backend,
            targets,
            weights,
            margins,
            team,
            multi_output_columns,
        )
    if multi_output_columns > 0 and isinstance(codes, SparseBins):
        raise DataError(
            "multi_strategy='multi_output_tree' learns from codes of all cells, and "
            "this matrix is so sparse that it has those of filled cells alone; make a "
            "DMatrix of a dense table, or leave multi_strategy out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    team = take_team(threads)
    if isinstance(codes, SparseBins):
        from hornbeam.backends.sparse import SparseBackend

        return SparseBackend(codes, targets, weights, margins, team)
    rows, most = create_rows(
        codes,
        targets,
        weights,
        margins,
        team,
        max_histograms,
        cached_share=cached_share,
        multi_output_columns=multi_output_columns,
    )
    return _searched(rows, codes.layout, rows.n_rows, team, most, multi_output_columns)


def _searched(
    rows: Rows,
    layout: HistogramLayout,
    n_rows: int,
    team: Team,
    most: int | None,
    multi_output_columns: int,
) -> Backend:
    """Return the backend that searches histograms of rows."""
    if multi_output_columns > 0:
        from hornbeam.backends.multi_output import MultiOutputBackend

        return MultiOutputBackend(
            rows, layout, n_rows, team, multi_output_columns, most
        )
    from hornbeam.backends.hist import HistogramBackend

    return HistogramBackend(rows, layout, n_rows, team, most)


def create_rows(
    codes: DenseBins | ExternalBins,
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    margins: NDArray[np.float64],
    team: Team,
    most: int | None = None,
    spans: NDArray[np.int64] | None = None,
    cached_share: float = 0.0,
    multi_output_columns: int = 0,
) -> tuple[Rows, int | None]:
    """Return the rows, and the most histograms that memory is for.

    Parameters
    ----------
    codes, targets, weights, margins
        As for `create_backend`.
    team
        The threads that work; whoever took it gives it back.
    most
        The most histograms kept at once; None: what fits in one GiB.
    spans
        Which of all rows they are: see `hornbeam.backends.dense.DenseRows`.
    cached_share, multi_output_columns
        As for `create_backend`.
    """
    given = targets, weights, margins, team
    if isinstance(codes, DenseBins):
        if multi_output_columns > 0:
            from hornbeam.backends.multi_output import MultiOutputRows

            return MultiOutputRows(codes, *given, multi_output_columns, spans), most
        from hornbeam.backends.dense import DenseRows

        return DenseRows(codes, *given, spans), most
    from hornbeam.backends.memory_plan import plan_memory
    from hornbeam.backends.row_state import gradient_type

    if multi_output_columns > 0 and cached_share > 0.0:
        raise ParameterError(
            "extmem_single_page holds the samples of trees of one output; leave it out "
            "with multi_strategy='multi_output_tree'",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    size = gradient_type(weights).itemsize
    budget = plan_memory(
        codes, len(margins), size, team.size, most, cached_share, multi_output_columns
    )
    rows: Rows
    if multi_output_columns > 0:
        from hornbeam.backends.external_multi_output import ExternalMultiOutputRows

        rows = ExternalMultiOutputRows(
            codes, *given, budget, multi_output_columns, spans
        )
    else:
        from hornbeam.backends.external import ExternalRows

        rows = ExternalRows(codes, *given, budget, spans)
    return rows, budget.max_histograms


def create_hist_backend(
    rows: Rows,
    layout: HistogramLayout,
    n_rows: int,
    *,
    threads: int = 0,
    max_histograms: int | None = None,
    multi_output_columns: int = 0,
    make_tree_bins: Callable[[int], HistogramLayout | None] | None = None,
) -> Backend:
    """Return the backend that searches histograms of rows, wherever they are.

    Parameters
    ----------
    rows, layout, n_rows
        See `hornbeam.backends.hist.HistogramBackend`.
    threads
        Threads that search; 0 or less means all processors.
    max_histograms, multi_output_columns
        As for `create_backend`.
    make_tree_bins
        See `hornbeam.backends.per_tree_bins.PerTreeBinsBackend`; None: codes stay as
        they are.
    """
    team = take_team(threads)
    if make_tree_bins is not None:
        from hornbeam.backends.per_tree_bins import PerTreeBinsBackend

        return PerTreeBinsBackend(
            make_tree_bins, rows, layout, n_rows, team, max_histograms
        )
    return _searched(rows, layout, n_rows, team, max_histograms, multi_output_columns)


def create_linear_rows(
    columns: SparseColumns,
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    margins: NDArray[np.float64],
    *,
    threads: int = 0,
) -> LinearRows:
    """Return rows that the weights of a linear model descend on.

    Parameters
    ----------
    columns, targets, weights, margins
        See `hornbeam.backends.linear_rows.LinearRows`.
    threads
        Threads that work; 0 or less means all processors.
    """
    from hornbeam.backends.linear_rows import LinearRows

    return LinearRows(columns, targets, weights, margins, take_team(threads))


def create_leaf_rows(
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    margins: NDArray[np.float64],
    *,
    threads: int = 0,
) -> LeafRows:
    """Return rows that trees are revised by.

    Parameters
    ----------
    targets, weights, margins
        See `hornbeam.backends.leaf_rows.LeafRows`.
    threads
        Threads that work; 0 or less means all processors.
    """
    from hornbeam.backends.leaf_rows import LeafRows

    return LeafRows(targets, weights, margins, take_team(threads))
