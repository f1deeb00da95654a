"""Training rows of an actor, whose margins can be rewound to the start of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call
from hornbeam.backends.cluster_rows import LocalRows, PartialSums
from hornbeam.backends.interface import GradientSource
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import DenseBins, HistogramLayout
from hornbeam.boosting.custom import ObjectiveFunction, set_gradients_of
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.data.schema import Schema
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.objectives.base import Objective

__all__ = [
    "CustomObjective",
    "MetaInfoView",
    "ModelState",
    "StaleTermError",
    "TrainingRows",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelState:
    """The trees so far, and the parameters by which workers compute margins of them.

    Attributes
    ----------
    base
        (outputs,): margins before the first tree.
    layout
        The trees; None if there are none.
    n_trees
        Number of trees.
    trees_per_round
        Number of trees that a round adds.
    n_threads
        Threads on each worker; 0 or less: as many as the worker has.
    cached_share
        Share of the rows cached in memory, for `hornbeam.backends.factory.create_rows`.
    objective
        The objective whose gradients workers compute; None: they do not.
    multi_output_columns
        As for `hornbeam.backends.factory.create_rows`.
    step
        Margins and leaf values are rounded to multiples of it; 0: they are not rounded.
    sum_type
        The type in which margins are summed.
    """

    base: Floats
    layout: Layout | None
    n_trees: int
    trees_per_round: int
    n_threads: int
    cached_share: float = 0.0
    objective: Objective | None = None
    multi_output_columns: int = 0
    step: float = 0.0
    sum_type: Any = np.float64


class StaleTermError(Exception):
    """A message from before a recovery arrived after it."""


@dataclass(frozen=True, slots=True)
class CustomObjective:
    """A custom objective, a function of (predictions, data), as source of gradients.

    Attributes
    ----------
    pickled
        The pickled function, loaded by actors, so that an error in loading is theirs.
    loads
        Loads it: the engine's function, by which objects of scripts can be pickled.
    """

    pickled: bytes
    loads: Callable[[bytes], Any]

    def load(self) -> ObjectiveFunction:
        """Return the function; raise a `ParameterError` if it cannot be unpickled."""
        try:
            function: ObjectiveFunction = self.loads(self.pickled)
        except Exception as error:
            raise ParameterError(
                f"the custom objective cannot be loaded on a worker: {error}; "
                "define it in the script itself, or in a module that workers have",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            ) from error
        return function

    def write_gradients(self, *_: Any) -> Floats:
        """Raise an error: the function needs margins and data, not labels only."""
        raise TypeError("a custom objective is called by TrainingRows")


class MetaInfoView(MetaInfoAccessors):
    """The data argument of custom objectives and metrics, without the features.

    Parameters
    ----------
    info
        Labels, weights and so on.
    schema
        The columns.
    """

    def __init__(self, info: MetaInfo, schema: Schema) -> None:
        self.info = info
        self.feature_names, self.feature_types = schema.names, schema.types

    def num_row(self) -> int:
        """Return the number of rows."""
        return self.info.n_rows

    def num_col(self) -> int:
        """Return the number of columns."""
        return self.info.n_features


class TrainingRows(LocalRows):
    """Rows of an actor on which trees are grown.

    Parameters
    ----------
    rows, layout
        As for `LocalRows`.
    spans
        (spans, 2): runs of consecutive rows, as of `Shard`.
    view
        The data argument of a custom objective.
    term
        Messages of earlier terms are rejected.
    state
        The trees in the margins.
    add_trees
        A function that adds trees to margins, (rows, outputs).
    """

    def __init__(
        self,
        rows: Rows,
        layout: HistogramLayout,
        spans: NDArray[np.int64],
        view: MetaInfoView,
        term: int,
        state: ModelState,
        add_trees: Callable[[Layout, Floats], None],
    ) -> None:
        super().__init__(rows, layout)
        self._view, self._term = view, term
        #: Number of trees in the margins.
        self.n_trees = state.n_trees
        #: Whether trees are only added (not DART), so that a round can be rewound.
        self._only_adds, self._sum_type = state.step == 0.0, state.sum_type
        self._saves_margins = self._only_adds and state.trees_per_round > 1
        self._add_trees = add_trees
        #: Number of trees and margins before the round.
        self._saved: tuple[int, Floats] | None = None
        lengths = np.diff(np.append(spans[:, 0], rows.n_rows))
        shifts = np.repeat(spans[:, 1] - spans[:, 0], lengths)
        #: The index of each row among all rows.
        self._indices = np.arange(rows.n_rows) + shifts
        self._methods: dict[str, Callable[..., None]] = {
            "compute_gradients": self._compute_gradients,
            "set_gradients": self._set_gradients,
            "set_margins": self._set_margins,
            "add_leaf_values": self._add_leaf_values,
            "add_trees": self.add_trees,
        }

    def run(self, term: int, calls: Sequence[Call], n_workers: int) -> PartialSums:
        """Execute the calls in order; return their results, as `run_calls` does."""
        if term < self._term:
            raise StaleTermError
        return self.run_calls(calls, n_workers)

    def call(self, operation: str, args: tuple[Any, ...]) -> Any:
        method = self._methods.get(operation)
        return super().call(operation, args) if method is None else method(*args)

    def rewind(self, term: int, n_trees: int) -> bool:
        """Restore the margins of the first `n_trees` trees; return whether it can.

        Messages of earlier terms, which may still arrive, are rejected from now on.
        """
        self._term = term
        if not self._only_adds:
            return False
        if self.n_trees == n_trees:
            return True
        if self._saved is None or self._saved[0] != n_trees:
            return False
        self.set_margins(*self._saved)
        return True

    def set_margins(self, n_trees: int, margins: Floats) -> None:
        """Set the margins, and the number of trees in them."""
        self.n_trees = n_trees
        self.rows.set_margins(margins)

    def add_trees(self, layout: Layout) -> None:
        """Add the trees of a layout, grown elsewhere or reweighted, to the margins."""
        margins = np.ascontiguousarray(self.rows.margins().T, self._sum_type)
        self._add_trees(layout, margins)
        self.rows.set_margins(np.ascontiguousarray(margins.T))

    def set_bins(self, bins: DenseBins, layout: HistogramLayout) -> None:
        """Use other bins of the same values from the next tree on."""
        self.rows.set_bins(bins)
        self._layout = layout

    def _compute_gradients(self, objective: GradientSource) -> None:
        self._save_margins()
        if isinstance(objective, CustomObjective):
            self._set_gradients_of(objective.load())
        else:
            self.rows.compute_gradients(objective)

    def _set_gradients(self, gradients: Floats, hessians: Floats) -> None:
        self._save_margins()
        own = self._indices
        self.rows.set_gradients(gradients[:, own], hessians[:, own])

    def _set_gradients_of(self, objective: ObjectiveFunction) -> None:
        view: Any = self._view
        set_gradients_of(self.rows, objective, view)

    def _set_margins(self, margins: Floats) -> None:
        self.rows.set_margins(margins[:, self._indices])

    def _add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self.rows.add_leaf_values(values)
        self.n_trees += 1

    def _save_margins(self) -> None:
        """Save the margins before a round, so that it can be rewound.

        A round of one tree need not be saved: its leaf values come with the first
        message after it, when the round is complete.
        """
        if self._saves_margins:
            self._saved = self.n_trees, self.rows.margins()
