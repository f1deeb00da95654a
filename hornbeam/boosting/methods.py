"""What trees find splits on, by each tree method."""

from __future__ import annotations

from typing import NamedTuple

from hornbeam.backends.base import (
    DenseCodes,
    FilledCodes,
    OrderedCells,
    PagedCodes,
    RecutCodes,
)
from hornbeam.binning.recut import Recut
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.errors import DataError, ParameterError
from hornbeam.growth.grower import Thresholds
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
    codes: DenseCodes | FilledCodes | PagedCodes | OrderedCells | RecutCodes
    is_float32: bool


def check_method(parameters: Parameters) -> None:
    """Raise a `ParameterError` where a tree method does not go with the rest."""
    many = "multi_output_tree"
    by_cells = parameters.method() == "exact" or parameters.sketch_scope == "local"
    if by_cells and parameters.multi_strategy == many:
        raise ParameterError(
            f"{_in_words(parameters)} grows trees of one output each, and "
            f"multi_strategy is {many!r}; use tree_method='hist', or leave "
            "multi_strategy out"
        )


def prepare(data: DMatrix, parameters: Parameters) -> Prepared:
    """Return what trees are grown on, made when it is first asked for and kept."""
    p, method = parameters, parameters.method()
    if method == "hist":
        binned = data.binned(p.max_bin, p.nthread)
        return Prepared(binned.cuts, binned.as_codes(p.nthread), binned.is_float32)
    is_local = p.sketch_scope == "local"
    if method == "exact" or is_local:
        for feature in categorical(data.feature_types):
            raise DataError(
                f"{data.table.label(feature)} is categorical, and "
                f"{_in_words(p)} cuts between numbers; use tree_method='hist', or "
                "give each category a column of zeros and ones"
            )
    blocks = data.ordered(p.nthread)
    if method == "exact" or is_local:
        ordered = blocks.ordered(p.max_bin if is_local else 0)
        return Prepared(blocks, ordered, blocks.is_float32)
    recut = Recut(blocks, data.table, p.max_bin, p.nthread)
    codes = RecutCodes(recut.cut, data.n_features)
    return Prepared(recut, codes, blocks.is_float32)


def _in_words(parameters: Parameters) -> str:
    scope = ", sketch_scope='local'" * (parameters.sketch_scope == "local")
    return f"tree_method={parameters.method()!r}{scope}"
