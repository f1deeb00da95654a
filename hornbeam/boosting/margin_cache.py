"""Margins of matrices that are kept from round to round (XGBoost's prediction cache).

Without them, each round would have to predict its training and evaluation data again.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import is_
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.factory import (
    create_backend,
    create_margin_sums,
    device_of_sums,
)
from hornbeam.backends.interface import Backend
from hornbeam.binning.layout import DenseBins
from hornbeam.boosting.dart import MarginScale
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.linear_leaves import FeatureValues
from hornbeam.boosting.margins import (
    Rows,
    add_layout,
    adds_on_device,
    blocks,
    check_linear_features,
)
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.tree_methods import PreparedFeatures, prepare
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.data.meta_info import MetaInfo
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree import Tree
from hornbeam.growth.grower import Thresholds
from hornbeam.kernels.jit import NATIVE
from hornbeam.kernels.team import Team, lease
from hornbeam.params import Parameters

__all__ = ["MarginCache", "TrainingData"]

Margins = NDArray[np.float64]
Weights = NDArray[np.float32]


class TrainingData(Protocol):
    """The rows that trees are grown on, with their margins.

    Attributes
    ----------
    weights
        (trees,): the tree weights that the margins contain.
    """

    weights: Weights

    @property
    def scale(self) -> MarginScale | None:
        """The rounding of leaf values with DART; None: they are not rounded."""

    @property
    def backend(self) -> Backend:
        """The rows as growers use them."""

    @property
    def cuts(self) -> Thresholds:
        """The values at the bounds of bins."""

    @property
    def info(self) -> MetaInfo:
        """The meta info of all rows."""

    @property
    def feature_weights(self) -> NDArray[np.float64] | None:
        """(features,): the weights of features in column sampling."""

    def update_to(self, weights: Weights) -> None:
        """Make the margins those of all trees under these weights."""

    def extend_scale(self, trees: Sequence[Tree]) -> None:
        """Round by a scale that these trees fit, too."""


class CachedMargins(ABC):
    """The margins of one matrix under the trees of a model.

    Parameters
    ----------
    learner, predictor
        Of the model.
    data
        The matrix, aligned with the model.
    weights, scale
        The tree weights that the margins contain, and the rounding of leaf values.
    """

    def __init__(
        self,
        learner: Learner,
        predictor: Predictor,
        data: DMatrix,
        weights: Weights,
        scale: MarginScale | None,
    ) -> None:
        self._learner, self._predictor = learner, predictor
        self.weights, self.scale = weights, scale
        self._base_margin = data.base_margin
        self._columns: tuple[Any, ...] = ()
        self.bind(data, data)

    def bind(self, data: DMatrix, aligned: DMatrix | None = None) -> None:
        """Use `data`, which `aligned` has with the features of the model, from now on.

        None: it is aligned again if its columns or those of the model have changed.
        Cached margins live as long as `data`, so they refer to it weakly.
        """
        columns = self._learner.columns_of(data)
        if aligned is None:
            if all(map(is_, columns, self._columns)):
                return
            aligned = self._learner.align(data)
        self._columns, own = columns, aligned
        self._data: Callable[[], DMatrix | None] = (
            weakref.ref(data) if own is data else lambda: own
        )

    @property
    def data(self) -> DMatrix:
        """The matrix, aligned with the model."""
        data = self._data()
        assert data is not None
        return data

    def starts_from(self, base_margin: NDArray[np.float64] | None) -> bool:
        """Whether the margins started from this very array."""
        return self._base_margin is base_margin

    def update_to(self, weights: Weights) -> None:
        """Make the margins those of all trees under these weights."""
        self.extend_scale(self._learner.model.trees[self.weights.size :])
        step = 0.0 if self.scale is None else self.scale.step
        data = self.data
        layout = self._predictor.layout_between(self.weights, weights, data.dtype, step)
        if layout is not None:
            with lease(self._learner.params.nthread) as team:
                self._add(team, data, layout)
        self.weights = weights

    def extend_scale(self, trees: Sequence[Tree]) -> None:
        """Round by a scale that these trees fit, too."""
        if self.scale is None:
            return
        step = self.scale.step
        self.scale = self.scale.with_trees(trees)
        if self.scale.step != step:
            margins, self.weights, self.scale = self._predictor.margins_of(self.data)
            self._replace(margins)

    @abstractmethod
    def margins(self) -> Margins:
        """Return a copy of the margins, (rows, outputs)."""

    @abstractmethod
    def _replace(self, margins: Margins) -> None:
        """Replace the margins, (rows, outputs)."""

    @abstractmethod
    def _add(self, team: Team, data: Rows, layout: Layout) -> None:
        """Add the predictions of these trees."""

    def close(self) -> None:
        """Release threads and memory."""
        return


class EvaluationMargins(CachedMargins):
    """Margins of data that metrics are computed on."""

    def __init__(self, learner: Learner, predictor: Predictor, data: DMatrix) -> None:
        self._margins, weights, scale = predictor.margins_of(data)
        super().__init__(learner, predictor, data, weights, scale)

    def margins(self) -> Margins:
        return self._margins.astype(np.float64)

    def _replace(self, margins: Margins) -> None:
        self._margins = margins

    def _add(self, team: Team, data: Rows, layout: Layout) -> None:
        add_layout(team, data, layout, self._margins)


class DeviceMargins(CachedMargins):
    """Margins of data that metrics are computed on, on an OpenCL device.

    The values of the features stay there if they fit; otherwise they are copied for
    each addition.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, data: DMatrix, device: str
    ) -> None:
        margins, weights, scale = predictor.margins_of(data)
        super().__init__(learner, predictor, data, weights, scale)
        self.device = device
        self._sums = create_margin_sums(device, margins)
        #: The name of the type of the values that stay on the device; none do: empty.
        self._kept = ""

    def margins(self) -> Margins:
        return self._sums.margins().astype(np.float64, copy=False)

    def _replace(self, margins: Margins) -> None:
        self._sums.set_margins(margins)

    def _add(self, team: Team, data: Rows, layout: Layout) -> None:
        if not adds_on_device(data, layout):
            margins = self._sums.margins()
            add_layout(team, data, layout, margins)
            self._replace(margins)
            return
        kind = layout.thresholds.dtype
        every = blocks(team, data, kind, None, layout.steps)
        sent = ((first, block) for first, block, _ in every)
        keeps = self._sums.may_keep(data.n_rows * data.n_features * kind.itemsize)
        if keeps and self._kept != kind.name:
            self._sums.keep(sent)
            self._kept = kind.name
        trees = layout.arrays_of_all_features
        self._sums.add(trees, None if keeps else sent, data.n_features)


class TrainingMargins(CachedMargins):
    """Margins of data that trees are grown on, which the backend of its rows stores.

    Parameters
    ----------
    learner, predictor
        Of the model.
    data
        The training data, aligned with the model.
    features
        Its features, by the tree method of the parameters.
    targets
        (targets, rows) of the objective; None if it does not compute each row's
        gradient from the row alone.
    """

    def __init__(
        self,
        learner: Learner,
        predictor: Predictor,
        data: DMatrix,
        features: PreparedFeatures,
        targets: NDArray[np.float64] | None,
    ) -> None:
        margins, weights, scale = predictor.margins_of(data)
        super().__init__(learner, predictor, data, weights, scale)
        parameters = learner.params
        self.cuts, self.targets = features.cuts, targets
        self._fields = data.info, data.info.revision
        self.row_weights = data.row_weights
        self._params, self._made_with = parameters, _backend_parameters(parameters)
        self.backend = self._create_backend(features, np.ascontiguousarray(margins.T))

    @cached_property
    def feature_values(self) -> FeatureValues:
        """The values of the features, for linear leaves."""
        data = self.data
        return FeatureValues(data, self._predictor.feature_type(data.dtype))

    def _create_backend(self, features: PreparedFeatures, margins: Margins) -> Backend:
        """Return the backend of the rows, with these margins, (outputs, rows)."""
        p = self._learner.params
        if not NATIVE and isinstance(features.bins, DenseBins):
            from hornbeam.kernels.ahead import compile_first_fit

            has_categories = bool(categorical(self.data.feature_types))
            compile_first_fit(p.verbosity > 0, has_categories)
        return create_backend(
            p.device,
            features.bins,
            np.empty((1, 0)) if self.targets is None else self.targets,
            self.row_weights,
            margins,
            threads=p.nthread,
            max_histograms=p.max_cached_hist_node,
            cached_share=p.cached_share(),
            multi_output_columns=p.multi_output_columns(len(margins)),
            row_keys=self.data.info.row_key,
        )

    def matches(self, data: DMatrix, by_row: bool) -> bool:
        """Whether data, parameters and number of trees are still those of the backend.

        And whether it has targets if the objective is `by_row` and needs them.
        """
        learner, info = self._learner, data.info
        if (
            self.weights.size != len(learner.model.trees)
            or self._fields != (info, info.revision)
            or (self.targets is None and by_row)
        ):
            return False
        if learner.params is not self._params:
            if self._made_with != _backend_parameters(learner.params):
                return False
            self._params = learner.params
        return True

    @property
    def info(self) -> MetaInfo:
        return self.data.info

    @property
    def feature_weights(self) -> NDArray[np.float64] | None:
        return self.data.feature_weights

    def margins(self) -> Margins:
        return np.ascontiguousarray(self.backend.margins().T)

    def _replace(self, margins: Margins) -> None:
        self.backend.set_margins(margins.T)

    def _add(self, team: Team, data: Rows, layout: Layout) -> None:
        margins = self.margins().astype(self._predictor.sum_type, copy=False)
        add_layout(team, data, layout, margins)
        self._replace(margins)

    def close(self) -> None:
        self.backend.close()


def _backend_parameters(p: Parameters) -> tuple[Any, ...]:
    """Return the parameters that a backend is made with."""
    histograms = p.max_cached_hist_node, p.cached_share()
    outputs = p.multi_strategy, p.sketch_outputs
    method = p.method(), p.sketch_scope
    sums = p.margin_type, p.booster
    return (p.bins(), p.nthread, p.device, *method, *histograms, *outputs, *sums)


class MarginCache:
    """The margins of all matrices that a booster trains or evaluates on.

    Parameters
    ----------
    learner, predictor
        Of the model.
    """

    def __init__(self, learner: Learner, predictor: Predictor) -> None:
        self._learner, self._predictor = learner, predictor
        self._entries: weakref.WeakKeyDictionary[DMatrix, CachedMargins] = (
            weakref.WeakKeyDictionary()
        )

    def margins(self, data: Any) -> Margins:
        """Return the margins of `data` under all trees, (rows, outputs)."""
        if self._learner.model.linear is not None:
            check_linear_features(data)
            return self._predictor.margins_of(self._learner.align(data))[0]
        return self._up_to_date(data).margins()

    def labelled(self, data: Any) -> Any:
        """Return what metrics and custom functions get: labels and other meta info."""
        return data

    def margins_of_last_round(self, data: DMatrix) -> tuple[Margins, Margins]:
        """Return the margins before the last round and after it, (rows, outputs)."""
        after, aligned = self._up_to_date(data).margins(), self._learner.align(data)
        model = self._learner.model
        without = model.weights.copy()
        without[model.round_starts[-2] :] = 0.0
        layout = self._predictor.layout_between(model.weights, without, data.dtype, 0.0)
        before = after.copy()
        if layout is not None:
            with lease(self._learner.params.nthread) as team:
                add_layout(team, aligned, layout, before)
        return before, after

    def _up_to_date(self, data: Any) -> CachedMargins:
        entry = self._entries.get(data) if isinstance(data, DMatrix) else None
        device = device_of_sums(self._learner.params.device)
        is_elsewhere = isinstance(entry, DeviceMargins) and entry.device != device
        if entry is None or is_elsewhere or not entry.starts_from(data.base_margin):
            aligned = self._learner.align(data)
            parts = self._learner, self._predictor, aligned
            if device != "cpu" and adds_on_device(aligned):
                entry = DeviceMargins(*parts, device)
            else:
                entry = EvaluationMargins(*parts)
            entry.bind(data, aligned)
            self._entries[data] = entry
        else:
            entry.bind(data)
        entry.update_to(self._learner.model.weights)
        return entry

    def training_data(self, data: Any, use_objective: bool) -> TrainingData:
        """Return the rows of `data` ready for another round of trees.

        The first round sets the features and the base score of the model. The labels
        matter only if gradients come from the objective (`use_objective`).
        """
        learner = self._learner
        entry = self._entries.get(data) if isinstance(data, DMatrix) else None
        by_row = use_objective and learner.objective.by_row
        if isinstance(entry, TrainingMargins) and entry.matches(data, by_row):
            entry.bind(data)
            return entry
        aligned = learner.align(data)
        targets = learner.targets_of(data) if use_objective else None
        # Features that cannot be binned raise an error before the model changes.
        features = prepare(aligned, learner.params)
        if not learner.model.trees:
            learner.initialise_model(data, targets)
            learner.model.exact_features = not features.is_float32
        entry = TrainingMargins(
            learner, self._predictor, aligned, features, targets if by_row else None
        )
        entry.bind(data, aligned)
        self._entries[data] = entry
        return entry

    def discard(self, training: Any) -> None:
        """Remove margins that contain a part of a round."""
        for data, known in list(self._entries.items()):
            if known is training:
                del self._entries[data]
                known.close()

    def clear(self) -> None:
        """Drop all margins, and the backends of training data."""
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()
