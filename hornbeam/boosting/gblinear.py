"""Boosting of a linear model: a round moves each weight once, or as the selector says.

XGBoost's booster gblinear. Its shotgun lets threads move weights at once, each on
gradients that others are changing; here they share the rows of one weight after the
other, so that the model is that of one thread, which is the same for both updaters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import WeightRows
from hornbeam.binning.layout import SparseColumns
from hornbeam.data.dmatrix import DMatrix, categorical
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.data.row_blocks import column_entries
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.model import Linear
from hornbeam.kernels.sampling import draw_bits
from hornbeam.params import Parameters

__all__ = [
    "begin_linear",
    "check_features",
    "check_linear",
    "descend_round",
    "fill_columns",
]

# The purposes of draws, beside those of rows, columns and trees.
_OF_ORDER = 11 << 28
_OF_FEATURES = 12 << 28


#: What gblinear alone has, and what it has no use for.
_OWN = ("feature_selector", "top_k", "tolerance")
_UPDATERS = ("shotgun", "coord_descent")
_OF_TREES = """
    multi_strategy num_parallel_tree sketch_outputs sketch_scope sketch_eps pruning
    leaf_solver default_direction opt_dense_col
    grow_policy max_depth max_leaves gamma min_child_weight min_samples_leaf path_smooth
    subsample sampling_method colsample_bytree colsample_bylevel colsample_bynode
    monotone_constraints interaction_constraints feature_costs
""".split()


def check_linear(parameters: Parameters) -> None:
    """Raise an error if weights get what is for trees, or trees what is not."""
    p = parameters
    linear = p.booster == "gblinear"
    changed = p.changed()
    useless = [*_OF_TREES] if linear else [*_OWN]
    if linear and p.tree_method not in ("auto", "hist"):
        useless.append("tree_method")
    for name in useless:
        if name in changed:
            raise ParameterError(
                f"{name}={getattr(p, name)!r} is of no use with booster={p.booster!r}; "
                "leave it out",
                code=ErrorCode.INEFFECTIVE_PARAMETER,
            )
    if p.updater != "auto" and linear != (p.updater in _UPDATERS):
        raise ParameterError(
            f"updater={p.updater!r} does not go with booster={p.booster!r}; "
            "leave it out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def check_features(data: DMatrix) -> None:
    """Raise a `DataError` unless the features are numbers, and are still there."""
    if isinstance(data, QuantileDMatrix):
        raise DataError(
            "booster='gblinear' multiplies the features, and a "
            f"{type(data).__name__} has only the bins they are in; make a DMatrix",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    for feature in categorical(data.feature_types):
        raise DataError(
            f"{data.table.label(feature)} is categorical, and booster='gblinear' takes "
            "numbers; give each category a column of zeros and ones",
            code=ErrorCode.CATEGORICAL_UNSUPPORTED,
        )


def fill_columns(table: Table) -> SparseColumns:
    """Return the features of a table as a linear model learns from them."""
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


def begin_linear(bases: NDArray[np.float64], n_features: int) -> Linear:
    """Return the model before its first round, for these margins to start from.

    XGBoost has the base score of the first output count for all of them, so that what
    others are above or below it is in their biases.
    """
    weights = np.zeros((n_features + 1, bases.size), np.float32)
    weights[-1] = bases - bases[0]
    return Linear(weights)


def descend_round(
    rows: WeightRows, parameters: Parameters, linear: Linear, total_weight: float
) -> Linear:
    """Return the model after one more round on the gradients of `rows`.

    The penalties count once for each unit of the rows' `total_weight`, as in XGBoost.
    """
    p = parameters
    if p.tolerance > 0.0 and linear.last_change <= p.tolerance:
        return Linear(linear.weights, linear.rounds + 1, linear.last_change)
    rules = [p.learning_rate, p.reg_lambda * total_weight, p.reg_alpha * total_weight]
    weights = linear.weights.T.copy()  # (outputs, features + 1)
    bias = np.array([rows.n_features])
    for output, own in enumerate(weights):
        rows.begin(output, np.array(rules))
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
    return Linear(np.ascontiguousarray(weights.T), linear.rounds + 1, change)


def _orders(
    rows: WeightRows,
    p: Parameters,
    output: int,
    number: int,
    weights: NDArray[np.float32],
) -> Iterator[NDArray[np.int64]]:
    """Yield which features move, some at a time; `weights` move in between."""
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
