"""The margins of one data set while a model grows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.factory import create_backend
from hornbeam.boosting.dart import Scale
from hornbeam.boosting.prediction import Rows, add_layout
from hornbeam.boosting.tree_methods import Prepared
from hornbeam.data.dmatrix import DMatrix
from hornbeam.forest.layout import Layout
from hornbeam.kernels.team import Team
from hornbeam.params import Parameters

__all__ = ["Session", "TrainingSession", "ValidationSession"]


class Session(ABC):
    """Margins that are kept from round to round.

    Attributes
    ----------
    weights
        (trees,): the weights under which the first trees of the model are in them.
    scale
        By which leaf values are rounded; None: they are not.
    """

    weights: NDArray[np.float32]
    scale: Scale | None
    _base_margin: NDArray[np.float64] | None

    def begins_at(self, base_margin: NDArray[np.float64] | None) -> bool:
        """Whether this is the very array that the margins started from."""
        return self._base_margin is base_margin

    @abstractmethod
    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (rows, outputs)."""

    @abstractmethod
    def set_margins(self, margins: NDArray[np.float64]) -> None:
        """Take these margins, (rows, outputs)."""

    @abstractmethod
    def add(self, team: Team, data: Rows, layout: Layout) -> None:
        """Add trees that were grown elsewhere."""

    def close(self) -> None:
        """Give back what the session holds."""
        return


class ValidationSession(Session):
    """Margins of data that is only looked at."""

    def __init__(
        self,
        margins: NDArray[np.float64],
        weights: NDArray[np.float32],
        scale: Scale | None,
        base_margin: NDArray[np.float64] | None,
    ) -> None:
        self._margins = margins
        self.weights, self.scale = weights, scale
        self._base_margin = base_margin

    def margins(self) -> NDArray[np.float64]:
        return self._margins.copy()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self._margins = margins

    def add(self, team: Team, data: Rows, layout: Layout) -> None:
        add_layout(team, data, layout, self._margins)


class TrainingSession(Session):
    """Margins of data that trees grow on, in the backend that holds its rows.

    Parameters
    ----------
    data
        What trees grow on.
    prepared
        Its features, by the tree method of the parameters.
    targets
        (columns, rows) of the objective; None if gradients come from elsewhere.
    parameters
        Of the training.
    margins
        (rows, outputs) under the trees so far.
    weights, scale
        See `Session`.
    """

    def __init__(
        self,
        data: DMatrix,
        prepared: Prepared,
        targets: NDArray[np.float64] | None,
        parameters: Parameters,
        margins: NDArray[np.float64],
        weights: NDArray[np.float32],
        scale: Scale | None,
    ) -> None:
        self.cuts = prepared.cuts
        self.weights, self.scale = weights, scale
        self._base_margin = data.base_margin
        self._fields, self.row_weights = data.info.fields(), data.row_weights
        self.targets = targets
        self._made_for = _preparation(parameters)
        self.backend = create_backend(
            parameters.device,
            prepared.codes,
            np.empty((1, 0)) if targets is None else targets,
            data.row_weights,
            np.ascontiguousarray(margins.T),
            threads=parameters.nthread,
            max_histograms=parameters.max_cached_hist_node,
            cached_share=parameters.cached_share(),
            multi_output_columns=parameters.multi_output_columns(margins.shape[1]),
        )

    def suits(self, data: DMatrix, parameters: Parameters, by_row: bool) -> bool:
        """Whether neither the data nor what it is prepared by has been changed.

        And whether there are targets, if the objective is `by_row` and needs them.
        """
        fields = data.info.fields()
        return (
            self._fields.keys() == fields.keys()
            and all(self._fields[name] is fields[name] for name in fields)
            and self.row_weights is data.row_weights
            and (self.targets is not None or not by_row)
            and self.begins_at(data.base_margin)
            and self._made_for == _preparation(parameters)
        )

    def margins(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.backend.margins().T)

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self.backend.set_margins(margins.T)

    def add(self, team: Team, data: Rows, layout: Layout) -> None:
        margins = self.margins()
        add_layout(team, data, layout, margins)
        self.set_margins(margins)

    def close(self) -> None:
        self.backend.close()


def _preparation(parameters: Parameters) -> tuple[Any, ...]:
    """Return the parameters that a backend is made with."""
    p = parameters
    kept = p.max_cached_hist_node, p.cached_share()
    shared = p.multi_strategy, p.sketch_outputs
    method = p.method(), p.sketch_scope
    return (p.bins(), p.nthread, p.device, *method, *kept, *shared)
