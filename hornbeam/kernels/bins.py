"""Bins of one type whatever their bytes, so that kernels are compiled once for both.

A loop over bins has a branch on their bytes, which LLVM takes out of short loops; the
hottest ones are compiled for both, and called by a branch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline

__all__ = ["Bins", "bin_at", "bins_between", "bins_of"]


class Bins(NamedTuple):
    """Bins of one or two bytes; the last axis of one of the arrays is empty.

    Attributes
    ----------
    narrow
        uint8.
    wide
        uint16.
    """

    narrow: NDArray[np.uint8]
    wide: NDArray[np.uint16]

    @classmethod
    def of(cls, bins: NDArray[Any]) -> Bins:
        """Return an array of uint8 or uint16 as bins."""
        none = *bins.shape[:-1], 0
        if bins.dtype == np.uint8:
            return cls(bins, np.empty(none, np.uint16))
        return cls(np.empty(none, np.uint8), bins)


@inline
def bin_at(bins, place):
    """Return one of the bins, which have one dimension.

    `bins` are `Bins`, or a tuple with the same two fields; so below.
    """
    if bins.wide.size > 0:
        return np.uint64(bins.wide[place])
    return np.uint64(bins.narrow[place])


@inline
def bins_of(bins, column):
    """Return the bins of a column, of bins in two dimensions."""
    return Bins(bins.narrow[column], bins.wide[column])


@inline
def bins_between(bins, begin, end):
    """Return a part of bins, which have one dimension."""
    return Bins(bins.narrow[begin:end], bins.wide[begin:end])
