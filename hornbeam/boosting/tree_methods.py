"""What trees find splits on, by each tree method."""

from __future__ import annotations

from typing import NamedTuple

from hornbeam.backends.factory import bytes_of_order
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    PerTreeBins,
    SortedColumns,
    SparseBins,
)
from hornbeam.binning.per_tree_bins import PerTreeCuts
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.growth.grower import Thresholds
from hornbeam.memory import available_bytes, in_words
from hornbeam.params import Parameters

__all__ = ["Prepared", "check_method", "prepare"]


class Prepared(NamedTuple):
    """The features of a matrix, as trees are grown on them.

    Attributes
    ----------
    cuts
        What the bins of splits stand for.
    codes
        For a backend.
    is_float32
        Whether every value is exactly a float32.
    """

    cuts: Thresholds
    codes: DenseBins | SparseBins | ExternalBins | SortedColumns | PerTreeBins
    is_float32: bool


def check_method(parameters: Parameters) -> None:
    """Raise a `ParameterError` where a tree method does not go with the rest."""
    parameters.bins()
    many = "multi_output_tree"
    by_cells = parameters.method() == "exact" or parameters.sketch_scope == "local"
    if by_cells and parameters.multi_strategy == many:
        raise ParameterError(
            f"{_in_words(parameters)} grows trees of one output each, and "
            f"multi_strategy is {many!r}; use tree_method='hist', or leave "
            "multi_strategy out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def prepare(data: DMatrix, parameters: Parameters) -> Prepared:
    """Return what trees are grown on, made when it is first asked for and kept."""
    p, method = parameters, parameters.method()
    if method == "hist":
        binned = data.binned(p.bins(), p.nthread)
        codes = binned.as_bins(p.nthread)
        if p.leaf_solver == "line_search" and isinstance(codes, ExternalBins):
            raise DataError(
                "leaf_solver='line_search' looks at all rows in memory, and this "
                "matrix has them on disk; make a DMatrix without a cache, or leave "
                "leaf_solver out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        return Prepared(binned.cuts, codes, binned.is_float32)
    is_local = p.sketch_scope == "local"
    if method == "exact" or is_local:
        for feature in categorical(data.feature_types):
            raise DataError(
                f"{data.table.label(feature)} is categorical, and "
                f"{_in_words(p)} cuts between numbers; use tree_method='hist', or "
                "give each category a column of zeros and ones",
                code=ErrorCode.CATEGORICAL_UNSUPPORTED,
            )
    _check_room(data, p)
    blocks = data.sorted_columns(p.nthread)
    if method == "exact" or is_local:
        ordered = blocks.sorted_columns(p.bins() if is_local else 0)
        return Prepared(blocks, ordered, blocks.is_float32)
    recut = PerTreeCuts(blocks, data.table, p.bins(), p.nthread)
    recut_codes = PerTreeBins(recut.make_bins, data.n_features, recut.is_sparse)
    return Prepared(recut, recut_codes, blocks.is_float32)


def _check_room(data: DMatrix, parameters: Parameters) -> None:
    """Raise a `DataError` if the cells in order are more than memory has room for."""
    p = parameters

    def need(n_cells: int) -> int:
        if p.method() == "approx" and p.sketch_scope == "global":
            return (8 + 2) * n_cells  # and their codes, by columns and by rows
        return bytes_of_order(n_cells, data.n_features, p.nthread)

    room = available_bytes()
    if data.has_sorted_columns or need(data.n_rows * data.n_features) <= room:
        return
    needed = need(data.num_nonmissing())
    if needed > room:
        raise DataError(
            f"{_in_words(p)} holds all values in order in memory: that takes "
            f"{in_words(needed)} or more for {data.n_rows:,} rows of "
            f"{data.n_features:,} columns, and {in_words(room)} are free; use "
            "tree_method='hist', which takes far less, or fewer rows",
            code=ErrorCode.NOT_ENOUGH_MEMORY,
        )


def _in_words(parameters: Parameters) -> str:
    scope = ", sketch_scope='local'" * (parameters.sketch_scope == "local")
    return f"tree_method={parameters.method()!r}{scope}"
