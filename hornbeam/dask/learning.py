"""A member's rows while trees grow on them: they can go back to before a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed.protocol.pickle import dumps, loads
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

__all__ = ["CallersObjective", "LearningRows", "StaleError", "Start", "View"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Start:
    """The trees so far, from which the margins of rows are made anew.

    Attributes
    ----------
    base
        (outputs,): margins before the first tree.
    layout
        The trees; None if there are none.
    n_trees
        How many they are.
    trees_a_round
        That a round adds.
    n_threads
        That work on each worker; 0 or less: as many as the worker has.
    cached_share
        Of rows on disk, for `hornbeam.backends.factory.create_rows`.
    objective
        That gradients are computed by where the rows are; None: by nothing there.
    multi_output_columns
        As for `hornbeam.backends.factory.create_rows`.
    step
        Of which margins are multiples, as the trees' values are; 0: they are not
        rounded.
    """

    base: Floats
    layout: Layout | None
    n_trees: int
    trees_a_round: int
    n_threads: int
    cached_share: float = 0.0
    objective: Objective | None = None
    multi_output_columns: int = 0
    step: float = 0.0


class StaleError(Exception):
    """A message of before others were lost came after all had begun anew."""


@dataclass(frozen=True, slots=True)
class CallersObjective:
    """A caller's function of (predictions, data), as a source of gradients.

    Attributes
    ----------
    pickled
        The function. Only an actor that asks for it can say that it cannot be loaded.
    """

    pickled: bytes

    @classmethod
    def of(cls, function: ObjectiveFunction) -> CallersObjective:
        """Return the source that this function is."""
        return cls(dumps(function))

    def load(self) -> ObjectiveFunction:
        """Return the function."""
        try:
            function: ObjectiveFunction = loads(self.pickled)
        except Exception as error:
            raise ParameterError(
                f"the objective of your own cannot be loaded on a worker: {error}; "
                "define it in the script itself, or in a module that workers have",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            ) from error
        return function

    def write_gradients(self, *_: Any) -> None:
        """Raise an error: it needs more than labels."""
        raise TypeError("a caller's objective is given the rows by LearningRows")


class View(MetaInfoAccessors):
    """What a caller's objective or metric sees of rows: all that goes beside them.

    Parameters
    ----------
    info
        Labels and the like.
    schema
        Of the columns.
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


class LearningRows(LocalRows):
    """Rows of a member that trees are grown on.

    Parameters
    ----------
    rows, layout
        As for `LocalRows`.
    spans
        (spans, 2): which of all rows they are.
    view
        For an objective of the caller's.
    term
        Messages of earlier terms are refused.
    start
        The trees that are in their margins.
    add_trees
        Adds trees that did not grow here to margins, (rows, outputs).
    """

    def __init__(
        self,
        rows: Rows,
        layout: HistogramLayout,
        spans: NDArray[np.int64],
        view: View,
        term: int,
        start: Start,
        add_trees: Callable[[Layout, Floats], None],
    ) -> None:
        super().__init__(rows, layout)
        self._view, self._term = view, term
        #: In the margins.
        self.n_trees = start.n_trees
        #: Whether trees are only ever added, so that a round can be taken back.
        self._only_grows = start.step == 0.0
        self._keeps = self._only_grows and start.trees_a_round > 1
        self._add_to = add_trees
        #: The margins when so many trees were in them.
        self._kept: tuple[int, Floats] | None = None
        lengths = np.diff(np.append(spans[:, 0], rows.n_rows))
        ahead = np.repeat(spans[:, 1] - spans[:, 0], lengths)
        #: The number of each row among all.
        self._numbers = np.arange(rows.n_rows) + ahead
        self._own: dict[str, Callable[..., None]] = {
            "compute_gradients": self._compute_gradients,
            "set_gradients": self._set_gradients,
            "set_margins": self._set_margins,
            "add_leaf_values": self._add_leaf_values,
            "add_trees": self.add_trees,
        }

    def run(self, term: int, calls: Sequence[Call]) -> PartialSums:
        """Do what is asked of the rows in turn; return all answers."""
        if term < self._term:
            raise StaleError
        return self.run_calls(calls)

    def call(self, verb: str, args: tuple[Any, ...]) -> Any:
        own = self._own.get(verb)
        return super().call(verb, args) if own is None else own(*args)

    def rewind(self, term: int, n_trees: int) -> bool:
        """Go back to so many trees; return whether that was possible.

        What is still on the way from before is not listened to any more.
        """
        self._term = term
        if not self._only_grows:
            return False
        if self.n_trees == n_trees:
            return True
        if self._kept is None or self._kept[0] != n_trees:
            return False
        self.set_margins(*self._kept)
        return True

    def set_margins(self, n_trees: int, margins: Floats) -> None:
        """Take other margins, with so many trees in them."""
        self.n_trees = n_trees
        self.rows.set_margins(margins)

    def add_trees(self, layout: Layout) -> None:
        """Add trees that did not grow here, or are taken away."""
        margins = np.ascontiguousarray(self.rows.margins().T)
        self._add_to(layout, margins)
        self.rows.set_margins(np.ascontiguousarray(margins.T))

    def set_bins(self, codes: DenseBins, layout: HistogramLayout) -> None:
        """Have other codes of the same cells from the next tree on."""
        self.rows.set_bins(codes)
        self._layout = layout

    def hessians(self, output: int) -> Floats:
        """Return the hessians that rows are binned by for a tree, (rows,)."""
        return self.rows.bin_weights(output)

    def _compute_gradients(self, objective: GradientSource) -> None:
        self._keep()
        if isinstance(objective, CallersObjective):
            self._set_gradients_of(objective.load())
        else:
            self.rows.compute_gradients(objective)

    def _set_gradients(self, gradients: Floats, hessians: Floats) -> None:
        self._keep()
        own = self._numbers
        self.rows.set_gradients(gradients[:, own], hessians[:, own])

    def _set_gradients_of(self, objective: ObjectiveFunction) -> None:
        own = self.rows.margins()
        margins = np.array(own[0] if len(own) == 1 else own.T, order="C")
        view: Any = self._view
        set_gradients_of(self.rows, objective, margins, view)

    def _set_margins(self, margins: Floats) -> None:
        self.rows.set_margins(margins[:, self._numbers])

    def _add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self.rows.add_leaf_values(values)
        self.n_trees += 1

    def _keep(self) -> None:
        """Keep the margins of before a round, whose trees may have to be taken back.

        Of a round of one tree the values only come with the message after it, when it
        is settled.
        """
        if self._keeps:
            self._kept = self.n_trees, self.rows.margins()
