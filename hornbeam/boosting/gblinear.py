"""Booster gblinear: coordinate descent on the weights of a linear model.

XGBoost's updater shotgun lets threads move weights concurrently, each on gradients that
others are changing. Here the threads share the rows of one weight after the other, so
the model does not depend on their number and is the same for both updaters.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.factory import create_linear_rows
from hornbeam.backends.interface import WeightRows
from hornbeam.binning.layout import SparseColumns
from hornbeam.boosting.gradient_booster import GradientBooster, Round
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.margins import check_linear_features
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.row_blocks import column_entries
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.forest.model import LinearModel
from hornbeam.kernels.linear import LinearRules
from hornbeam.kernels.sampling import draw_bits
from hornbeam.objectives.totals import totals_of
from hornbeam.params import Parameters

__all__ = ["GBLinear", "descend_round", "initial_weights", "stored_columns"]

# The purposes of draws, other than those of rows, columns and trees.
_OF_ORDER = 11 << 28
_OF_FEATURES = 12 << 28


class GBLinear(GradientBooster):
    """A linear model that coordinate descent fits to the gradients."""

    def __init__(
        self, learner: Learner, predictor: Predictor, cache: MarginCache
    ) -> None:
        super().__init__(learner, predictor, cache)
        self._columns: weakref.WeakKeyDictionary[DMatrix, SparseColumns] = (
            weakref.WeakKeyDictionary()
        )

    def clear(self) -> None:
        self._columns.clear()

    def new_round(self, data: Any, use_objective: bool) -> LinearRound:
        check_linear_features(data)
        learner, predictor = self._learner, self._predictor
        aligned = learner.align(data)
        columns = self._columns.get(data)
        if columns is None:
            columns = self._columns[data] = stored_columns(aligned.table)
        targets = learner.targets_of(data) if use_objective else None
        model = learner.model
        if model.n_rounds == 0:
            learner.initialise_model(data, targets)
            model.exact_features = data.dtype == np.float64
            model.linear = initial_weights(predictor.base_margins(), model.num_feature)
            model.base_score = np.full_like(model.base_score, model.base_score[0])
        rows = create_linear_rows(
            columns,
            np.empty((1, 0)) if targets is None else targets,
            data.row_weights,
            np.ascontiguousarray(predictor.margins_of(aligned)[0].T),
            threads=learner.params.nthread,
        )
        return LinearRound(learner, data, rows)


class LinearRound(Round):
    """A round that moves each weight once, or as the feature selector says."""

    def __init__(self, learner: Learner, data: DMatrix, rows: WeightRows) -> None:
        self._learner, self._data, self._rows = learner, data, rows

    @property
    def rows(self) -> WeightRows:
        return self._rows

    @property
    def info(self) -> MetaInfo:
        return self._data.info

    def grow(self) -> None:
        data, linear = self._data, self._learner.model.linear
        total = float(data.n_rows)
        if data.row_weights is not None:
            total = float(totals_of([data.row_weights], data.n_rows)[0])
        assert linear is not None
        self._moved = descend_round(self._rows, self._learner.params, linear, total)

    def update_model(self) -> None:
        self._learner.model.linear = self._moved

    def close(self) -> None:
        self._rows.close()


def stored_columns(table: Table) -> SparseColumns:
    """Return the nonzero values of each feature, and last a column of ones (bias)."""
    rows, values = [], []
    for own, cells in column_entries(table):
        here = cells != 0
        rows.append(own[here])
        values.append(cells[here])
    every = np.arange(table.n_rows, dtype=np.uint32)
    of_column = [*rows, every]
    starts = np.cumsum([0, *map(len, of_column)])
    ones = np.ones(table.n_rows, table.dtype)
    return SparseColumns(
        starts.astype(np.int64),
        np.concatenate(of_column),
        np.concatenate([*values, ones]).astype(table.dtype),
    )


def initial_weights(bases: NDArray[np.float64], n_features: int) -> LinearModel:
    """Return the weights before the first round for these margins, (outputs,).

    XGBoost uses the base score of the first output for all outputs; the biases of the
    others contain the difference.
    """
    weights = np.zeros((n_features + 1, bases.size), np.float32)
    weights[-1] = bases - bases[0]
    return LinearModel(weights)


def descend_round(
    rows: WeightRows, parameters: Parameters, linear: LinearModel, total_weight: float
) -> LinearModel:
    """Return the model after one more round on the gradients of `rows`.

    The penalties count once for each unit of the rows' `total_weight`, as in XGBoost.
    """
    p = parameters
    if p.tolerance > 0.0 and linear.last_change <= p.tolerance:
        return LinearModel(linear.weights, linear.rounds + 1, linear.last_change)
    rules = LinearRules(
        float(p.learning_rate),
        float(p.reg_lambda * total_weight),
        float(p.reg_alpha * total_weight),
    )
    weights = linear.weights.T.copy()  # (outputs, features + 1)
    bias = np.array([rows.n_features])
    for output, own in enumerate(weights):
        rows.begin(output, rules)
        rows.descend(bias, own)
        for order in _orders(rows, p, output, linear.rounds, own):
            rows.descend(order, own)
    if not np.isfinite(weights).all():
        raise DataError(
            "a weight of the linear model is beyond the range of float32: scale the "
            "features, or lower learning_rate",
            code=ErrorCode.FLOAT_OVERFLOW,
        )
    change = float(np.abs(weights - linear.weights.T).max())
    return LinearModel(np.ascontiguousarray(weights.T), linear.rounds + 1, change)


def _orders(
    rows: WeightRows,
    p: Parameters,
    output: int,
    number: int,
    weights: NDArray[np.float32],
) -> Iterator[NDArray[np.int64]]:
    """Yield the features to move next, some at a time, while `weights` change."""
    features = rows.n_features
    most = min(p.top_k or features, features)
    if p.feature_selector == "greedy":
        for _ in range(most):
            yield np.array([rows.sizes(weights).argmax()])
    elif p.feature_selector == "thrifty":
        yield np.argsort(-rows.sizes(weights), kind="stable")[:most]
    elif p.feature_selector == "random":
        bits = _bits(p.seed, number, _OF_FEATURES, features * (output + 1))
        yield bits[-features:].astype(np.int64) * features >> 32
    elif p.feature_selector == "shuffle":
        yield np.argsort(_bits(p.seed, number, _OF_ORDER, features), kind="stable")
    else:
        yield np.arange(features)


def _bits(seed: int, number: int, purpose: int, size: int) -> NDArray[np.uint32]:
    bits = np.empty(size, np.uint32)
    draw_bits(np.uint64(number), np.uint64(purpose), np.uint64(seed % 2**64), bits)
    return bits
