"""Rows whose codes are made anew for each tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, GradientSource, RowSample, SplitParams
from hornbeam.backends.row_state import MarginRows
from hornbeam.binning.layout import DenseBins, PerTreeBins, SparseBins
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.team import Team

__all__ = ["ApproxBackend"]

Codes = DenseBins | SparseBins


class ApproxBackend(MarginRows, Backend):
    """A backend of histograms for each tree, on codes that its hessians decide.

    Trees whose hessians are the same one after the other share one.

    Parameters
    ----------
    codes
        What makes the codes.
    open_histograms
        Takes codes and margins, and returns a backend that changes these margins.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins to begin with; kept and changed.
    team
        The threads that take gradients; given back when the backend is closed.
    multi_output_columns
        See `Backend.multi_output_columns`.
    """

    def __init__(
        self,
        codes: PerTreeBins,
        create_hist_backend: Callable[[Codes, NDArray[np.float64]], Backend],
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        multi_output_columns: int = 0,
    ) -> None:
        self.multi_output_columns = multi_output_columns
        self._mix: NDArray[np.float64] | None = None
        #: Gradients and hessians by which splits are searched beside the outputs'.
        self._columns: tuple[NDArray[Any], NDArray[Any]] | None = None
        self._codes, self._open = codes, create_hist_backend
        super().__init__(targets, weights, margins, team)
        self._inner: Backend | None = None
        self._hessians = np.empty(0)

    @property
    def n_features(self) -> int:
        return self._codes.n_features

    def compute_gradients(self, objective: GradientSource) -> None:
        super().compute_gradients(objective)
        self._has_new_gradients, self._columns = True, None

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        super().set_gradients(gradients, hessians)
        self._has_new_gradients, self._columns = True, None

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        self._mix = mix

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        if self._mix is not None or self.multi_output_columns == 0:
            super().set_split_gradients(gradients, hessians)
        self._columns = gradients, hessians

    def begin_tree(
        self,
        output: int,
        growth: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        # A caller's hessian may be negative, and weighs nothing then. What is not
        # finite is an error when the tree begins.
        own = (
            slice(output, output + 1) if self.multi_output_columns == 0 else slice(None)
        )
        counting = self._state.hessians[own]
        if self._columns is not None:
            counting = self._columns[1]
        hessians = counting.sum(axis=0, dtype=np.float64)
        hessians[~(np.isfinite(hessians) & (hessians > 0.0))] = 0.0
        if self._inner is None or not np.array_equal(hessians, self._hessians):
            self._let_go()
            self._hessians = hessians
            self._inner = self._open(
                self._codes.make_bins(hessians), self._state.margins
            )
            self._has_new_gradients = True
        if self._has_new_gradients:
            self._inner.set_gradients(self._state.gradients, self._state.hessians)
            if self._columns is not None:
                self._inner.set_split_gradients(*self._columns)
            self._has_new_gradients = False
        if self._mix is not None:
            self._inner.sketch_outputs(self._mix)
        self.lookahead = self._inner.lookahead
        self._inner.begin_tree(output, growth, features, sample)
        self.multi_output_columns = self._inner.multi_output_columns

    def find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        assert self._inner is not None
        return self._inner.find_splits(nodes, allowed, limits)

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        assert self._inner is not None
        self._inner.apply_splits(nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        assert self._inner is not None
        return self._inner.sum_leaves(nodes, leaves, n_leaves)

    def leaf_of(self) -> NDArray[np.uint32]:
        assert self._inner is not None
        return self._inner.leaf_of()

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        assert self._inner is not None
        self._inner.add_leaf_values(values)

    def _let_go(self) -> None:
        if self._inner is not None:
            self._inner.close()
            self._inner = None

    def close(self) -> None:
        self._let_go()
        super().close()
