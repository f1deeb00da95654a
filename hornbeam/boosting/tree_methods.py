"""The features that trees are grown on, by tree method: hist, approx or exact."""

from __future__ import annotations

from typing import NamedTuple

from hornbeam.backends.factory import bytes_of_order, uses_opencl
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    PerTreeBins,
    SortedColumns,
    SparseBins,
)
from hornbeam.binning.per_tree_bins import PerTreeCuts
from hornbeam.boosting.parameter_checks import tree_method_text
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.errors import DataError, ErrorCode
from hornbeam.growth.grower import Thresholds
from hornbeam.memory import available_bytes, in_words
from hornbeam.params import Parameters

__all__ = ["PreparedFeatures", "prepare"]


class PreparedFeatures(NamedTuple):
    """The features of a matrix as a backend takes them.

    Attributes
    ----------
    cuts
        The values at the bounds of bins.
    bins
        For `hornbeam.backends.factory.create_backend`.
    is_float32
        Whether every value is exactly a float32.
    """

    cuts: Thresholds
    bins: DenseBins | SparseBins | ExternalBins | SortedColumns | PerTreeBins
    is_float32: bool


def prepare(data: DMatrix, parameters: Parameters) -> PreparedFeatures:
    """Return the features of `data`, which it caches, for these parameters.

    Raises
    ------
    DataError
        If the tree method cannot use the matrix, or needs more memory than is free.
    """
    p, method = parameters, parameters.method()
    on_device = uses_opencl(p.device)
    if method == "hist":
        binned = data.binned(p.bins(), p.nthread)
        if on_device and isinstance(binned, DenseMatrix):
            dense = binned.as_columns()
            return PreparedFeatures(binned.cuts, dense, binned.is_float32)
        bins = binned.as_bins(p.nthread)
        if p.leaf_solver == "line_search" and isinstance(bins, ExternalBins):
            raise DataError(
                "leaf_solver='line_search' needs all rows in memory, and this matrix "
                "is in external memory; make a DMatrix without a cache, or leave "
                "leaf_solver out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if p.leaf_model == "linear" and isinstance(bins, ExternalBins):
            raise DataError(
                "leaf_model='linear' needs the values of all rows in memory, and this "
                "matrix is in external memory; make a DMatrix without a cache, or "
                "leave leaf_model out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        return PreparedFeatures(binned.cuts, bins, binned.is_float32)
    is_local = p.sketch_scope == "local"
    if method == "exact" or is_local:
        for feature in categorical(data.feature_types):
            raise DataError(
                f"{data.table.label(feature)} is categorical, and "
                f"{tree_method_text(p)} splits between numbers; use "
                "tree_method='hist', or give each category a column of zeros and ones",
                code=ErrorCode.CATEGORICAL_UNSUPPORTED,
                learner="Updater `grow_colmaker` or `exact` tree method",
            )
    _check_memory(data, p)
    columns = data.sorted_columns(p.nthread)
    if method == "exact" or is_local:
        ordered = columns.sorted_columns(p.bins() if is_local else 0)
        return PreparedFeatures(columns, ordered, columns.is_float32)
    cuts = data.tree_cuts = PerTreeCuts(
        columns, data.table, p.bins(), p.nthread, by_row=not on_device
    )
    per_tree = PerTreeBins(cuts.make_bins, data.n_features, cuts.is_sparse)
    return PreparedFeatures(cuts, per_tree, columns.is_float32)


def _check_memory(data: DMatrix, p: Parameters) -> None:
    """Raise a `DataError` if sorted columns need more memory than is free."""

    def need(n_values: int) -> int:
        if p.method() == "approx" and p.sketch_scope == "global":
            return (8 + 2) * n_values  # and their bins, by columns and by rows
        return bytes_of_order(n_values, data.n_features, p.nthread)

    free = available_bytes()
    if data.has_sorted_columns or need(data.n_rows * data.n_features) <= free:
        return
    needed = need(data.num_nonmissing())
    if needed > free:
        raise DataError(
            f"{tree_method_text(p)} sorts all values in memory: that takes "
            f"{in_words(needed)} or more for {data.n_rows:,} rows of "
            f"{data.n_features:,} columns, and {in_words(free)} are free; use "
            "tree_method='hist', which takes far less, or fewer rows",
            code=ErrorCode.NOT_ENOUGH_MEMORY,
        )
