"""Histograms of rows that are coded anew for a tree, wherever they live."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.hist import HistogramBackend
from hornbeam.backends.interface import RowSample, SplitParams
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.team import Team

__all__ = ["PerTreeBinsBackend"]


class PerTreeBinsBackend(HistogramBackend):
    """A backend of histograms, before each tree of which the rows may be coded anew.

    Parameters
    ----------
    make_tree_bins
        Takes the tree's output and has the rows coded; returns what is in a histogram
        then, None if nothing has changed.
    rows, layout, n_rows, team, max_histograms
        As for `HistogramBackend`.
    """

    def __init__(
        self,
        make_tree_bins: Callable[[int], HistogramLayout | None],
        rows: Rows,
        layout: HistogramLayout,
        n_rows: int,
        team: Team,
        max_histograms: int | None = None,
    ) -> None:
        super().__init__(rows, layout, n_rows, team, max_histograms)
        self._recut = make_tree_bins

    def begin_tree(
        self,
        output: int,
        growth: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        layout = self._recut(output)
        if layout is not None:
            self._take_layout(layout)
        super().begin_tree(output, growth, features, sample)
