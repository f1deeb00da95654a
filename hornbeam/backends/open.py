"""The way to a backend, for those above who must not know which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import (
    Backend,
    DenseCodes,
    FilledCodes,
    FilledColumns,
    HistogramLayout,
    OrderedCells,
    PagedCodes,
    RecutCodes,
)
from hornbeam.backends.rows import Rows
from hornbeam.errors import DataError, ParameterError
from hornbeam.kernels.team import Team, take_team

if TYPE_CHECKING:
    from hornbeam.backends.leaf_rows import LeafRows
    from hornbeam.backends.linear_rows import LinearRows

__all__ = [
    "bytes_of_order",
    "open_backend",
    "open_histograms",
    "open_leaf_rows",
    "open_linear_rows",
    "open_rows",
]


def bytes_of_order(n_cells: int, n_columns: int, threads: int) -> int:
    """Return the least memory in which trees grow on so many cells in order."""
    from hornbeam.backends.exact import bytes_beside

    longest = -(-n_cells // n_columns)
    return 8 * n_cells + bytes_beside(n_cells, longest, threads)


def open_backend(
    device: str,
    codes: DenseCodes | FilledCodes | PagedCodes | OrderedCells | RecutCodes,
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scores: NDArray[np.float64],
    *,
    threads: int = 0,
    max_histograms: int | None = None,
    held_share: float = 0.0,
    vector_columns: int = 0,
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
    scores
        (outputs, rows) float64: the margins to begin with; kept and changed.
    threads
        Threads that work; 0 or less means all processors.
    max_histograms
        The most histograms kept at once; None: what fits in one GiB.
    held_share
        Of codes on disk: the share of the rows that is held in memory, when it has
        been drawn for a tree; 0: none. DataError if it does not fit in the limit.
    vector_columns
        By how many columns of gradients the splits of trees of all outputs are
        searched; 0: trees have one output each.
    """
    assert device == "cpu", device
    if isinstance(codes, OrderedCells):
        from hornbeam.backends.exact import ExactBackend

        return ExactBackend(codes, targets, weights, scores, take_team(threads))
    if isinstance(codes, RecutCodes):
        from hornbeam.backends.approx import ApproxBackend

        def open_histograms(own: DenseCodes | FilledCodes, scores: Any) -> Backend:
            return open_backend(
                device,
                own,
                targets,
                weights,
                scores,
                threads=threads,
                max_histograms=max_histograms,
                vector_columns=vector_columns,
            )

        team = take_team(threads)
        return ApproxBackend(
            codes, open_histograms, targets, weights, scores, team, vector_columns
        )
    if vector_columns > 0 and isinstance(codes, FilledCodes):
        raise DataError(
            "multi_strategy='multi_output_tree' learns from codes of all cells, and "
            "this matrix is so sparse that it has those of filled cells alone; make a "
            "DMatrix of a dense table, or leave multi_strategy out"
        )
    team = take_team(threads)
    if isinstance(codes, FilledCodes):
        from hornbeam.backends.filled import FilledBackend

        return FilledBackend(codes, targets, weights, scores, team)
    rows, most = open_rows(
        codes,
        targets,
        weights,
        scores,
        team,
        max_histograms,
        held_share=held_share,
        vector_columns=vector_columns,
    )
    return _searched(rows, codes.layout, rows.n_rows, team, most, vector_columns)


def _searched(
    rows: Rows,
    layout: HistogramLayout,
    n_rows: int,
    team: Team,
    most: int | None,
    vector_columns: int,
) -> Backend:
    """Return the backend that searches histograms of rows."""
    if vector_columns > 0:
        from hornbeam.backends.vectors import VectorBackend

        return VectorBackend(rows, layout, n_rows, team, vector_columns, most)
    from hornbeam.backends.histograms import HistogramBackend

    return HistogramBackend(rows, layout, n_rows, team, most)


def open_rows(
    codes: DenseCodes | PagedCodes,
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scores: NDArray[np.float64],
    team: Team,
    most: int | None = None,
    spans: NDArray[np.int64] | None = None,
    held_share: float = 0.0,
    vector_columns: int = 0,
) -> tuple[Rows, int | None]:
    """Return the rows, and the most histograms that memory is for.

    Parameters
    ----------
    codes, targets, weights, scores
        As for `open_backend`.
    team
        The threads that work; whoever took it gives it back.
    most
        The most histograms kept at once; None: what fits in one GiB.
    spans
        Which of all rows they are: see `hornbeam.backends.dense.DenseRows`.
    held_share, vector_columns
        As for `open_backend`.
    """
    given = targets, weights, scores, team
    if isinstance(codes, DenseCodes):
        if vector_columns > 0:
            from hornbeam.backends.vectors import VectorRows

            return VectorRows(codes, *given, vector_columns, spans), most
        from hornbeam.backends.dense import DenseRows

        return DenseRows(codes, *given, spans), most
    from hornbeam.backends.budget import plan_memory
    from hornbeam.backends.memory import gradient_type

    if vector_columns > 0 and held_share > 0.0:
        raise ParameterError(
            "extmem_single_page holds the samples of trees of one output; leave it out "
            "with multi_strategy='multi_output_tree'"
        )
    size = gradient_type(weights).itemsize
    budget = plan_memory(
        codes, len(scores), size, team.size, most, held_share, vector_columns
    )
    rows: Rows
    if vector_columns > 0:
        from hornbeam.backends.paged_vectors import PagedVectorRows

        rows = PagedVectorRows(codes, *given, budget, vector_columns, spans)
    else:
        from hornbeam.backends.paged import PagedRows

        rows = PagedRows(codes, *given, budget, spans)
    return rows, budget.max_histograms


def open_histograms(
    rows: Rows,
    layout: HistogramLayout,
    n_rows: int,
    *,
    threads: int = 0,
    max_histograms: int | None = None,
    vector_columns: int = 0,
    recut: Callable[[int], HistogramLayout | None] | None = None,
) -> Backend:
    """Return the backend that searches histograms of rows, wherever they are.

    Parameters
    ----------
    rows, layout, n_rows
        See `hornbeam.backends.histograms.HistogramBackend`.
    threads
        Threads that search; 0 or less means all processors.
    max_histograms, vector_columns
        As for `open_backend`.
    recut
        See `hornbeam.backends.recut.RecutBackend`; None: codes stay as they are.
    """
    team = take_team(threads)
    if recut is not None:
        from hornbeam.backends.recut import RecutBackend

        return RecutBackend(recut, rows, layout, n_rows, team, max_histograms)
    return _searched(rows, layout, n_rows, team, max_histograms, vector_columns)


def open_linear_rows(
    columns: FilledColumns,
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scores: NDArray[np.float64],
    *,
    threads: int = 0,
) -> LinearRows:
    """Return rows that the weights of a linear model descend on.

    Parameters
    ----------
    columns, targets, weights, scores
        See `hornbeam.backends.linear_rows.LinearRows`.
    threads
        Threads that work; 0 or less means all processors.
    """
    from hornbeam.backends.linear_rows import LinearRows

    return LinearRows(columns, targets, weights, scores, take_team(threads))


def open_leaf_rows(
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    scores: NDArray[np.float64],
    *,
    threads: int = 0,
) -> LeafRows:
    """Return rows that trees are revised by.

    Parameters
    ----------
    targets, weights, scores
        See `hornbeam.backends.leaf_rows.LeafRows`.
    threads
        Threads that work; 0 or less means all processors.
    """
    from hornbeam.backends.leaf_rows import LeafRows

    return LeafRows(targets, weights, scores, take_team(threads))
