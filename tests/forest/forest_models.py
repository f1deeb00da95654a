"""Models for the tests of `hornbeam.forest`: by hand, random, and of XGBoost."""

from __future__ import annotations

import numpy as np
import xgboost

from hornbeam.forest import Model, Tree


def grown_tree(rng, n_features=3, n_splits=4, exact=False, categorical=()):
    """Return a tree with random splits; `exact`: with float64 thresholds.

    The features in `categorical` have 80 categories and categorical splits.
    """
    n_nodes = 2 * n_splits + 1
    number = np.float64 if exact else np.float32
    left = np.full(n_nodes, -1, np.int32)
    parent = np.full(n_nodes, -1, np.int32)
    leaves = [0]
    for child in range(1, n_nodes, 2):
        node = leaves.pop(rng.integers(len(leaves)))
        left[node] = child
        parent[[child, child + 1]] = node
        leaves += [child, child + 1]
    internal = left >= 0
    feature = np.where(internal, rng.integers(n_features, size=n_nodes), 0)
    by_category = internal & np.isin(feature, list(categorical))
    rights = rng.random((n_nodes, 80)) < 0.3
    rights[~by_category] = False
    threshold = np.where(internal, rng.normal(size=n_nodes).astype(number), np.nan)
    value = rng.normal(size=n_nodes).astype(np.float32)
    return Tree(
        left=left,
        right=np.where(internal, left + 1, -1).astype(np.int32),
        parent=parent,
        feature=feature.astype(np.int32),
        threshold=np.where(by_category, np.nan, threshold),
        default_left=(internal & (rng.random(n_nodes) < 0.5)).astype(np.uint8),
        split_type=by_category.astype(np.uint8),
        category_counts=np.count_nonzero(rights, axis=1).astype(np.int64),
        categories=np.nonzero(rights)[1].astype(np.int32),
        value=np.where(internal, np.float32(0), value),
        gain=np.where(internal, rng.random(n_nodes), 0).astype(np.float32),
        cover=rng.random(n_nodes).astype(np.float32),
        weight=value,
    )


def hand_made(n_trees=2, exact=False, seed=0, **fields):
    """Return a model of random trees, one per round."""
    rng = np.random.default_rng(seed)
    return Model(
        trees=[grown_tree(rng, exact=exact) for _ in range(n_trees)],
        tree_output=[0] * n_trees,
        round_starts=list(range(n_trees + 1)),
        num_feature=3,
        exact_features=exact,
        **fields,
    )


def rows_and_labels(seed=0, n_rows=300, n_features=5):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    full = np.nan_to_num(rows)
    return rows, full[:, 0] - full[:, 1] ** 2 + 0.1 * rng.normal(size=n_rows)


def trained(objective, n_rounds=4, names=None, **params):
    """Return a booster of XGBoost and its training rows."""
    rows, labels = rows_and_labels()
    if objective != "reg:squarederror":
        edges = np.quantile(
            labels, [0.33, 0.66][: max(1, params.get("num_class", 2) - 1)]
        )
        labels = np.digitize(labels, edges) + (objective == "reg:gamma")
    data = xgboost.DMatrix(rows, labels, feature_names=names)
    params = {"objective": objective, "max_depth": 4, "nthread": 1, **params}
    return xgboost.train(params, data, n_rounds), rows


def in_xgboost(data):
    """Return XGBoost's booster from the bytes of a model file."""
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(data))
    return booster
