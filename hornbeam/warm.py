"""Compiling ahead of time, so that the first fit need not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hornbeam.cart.bagging import Bags, grow_forest, permutation_increases
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules
from hornbeam.cart.pruning import pruning_path
from hornbeam.cart.targets import Targets
from hornbeam.data.dmatrix import DMatrix
from hornbeam.kernels.jit import prune_cache
from hornbeam.training import train

__all__ = ["warmup"]

# Together these reach every kernel that a fit or a prediction may call.
_FITS: tuple[dict[str, Any], ...] = (
    {"objective": "reg:squarederror", "grow_policy": "lossguide", "max_bin": 300},
    {"objective": "binary:logistic", "eval_metric": ["logloss", "error", "auc"]},
    {
        "objective": "binary:logistic",
        "eval_metric": ["aucpr", "rmse", "mae"],
        "subsample": 0.5,
        "sampling_method": "gradient_based",
    },
    {"objective": "multi:softprob", "num_class": 3, "eval_metric": ["merror", "auc"]},
    {"objective": "binary:focal"},
    {"objective": "reg:squarederror", "tree_method": "approx"},
    {"objective": "reg:squarederror", "tree_method": "exact"},
    {"objective": "binary:hinge", "eval_metric": "ams@0.1"},
    {"objective": "reg:squaredlogerror", "eval_metric": ["rmsle", "mape"]},
    {"objective": "reg:pseudohubererror", "eval_metric": "mphe"},
    {"objective": "reg:absoluteerror"},
    {"objective": "reg:quantileerror", "quantile_alpha": 0.3},
    {"objective": "reg:expectileerror", "expectile_alpha": [0.1, 0.9]},
    {"objective": "count:poisson", "eval_metric": "poisson-nloglik"},
    {"objective": "reg:gamma", "eval_metric": ["gamma-deviance", "gamma-nloglik"]},
    {"objective": "reg:tweedie", "eval_metric": "tweedie-nloglik@1.5"},
    {"objective": "multi:softmax", "num_class": 3, "eval_metric": "mlogloss"},
    {"objective": "dist:normal"},
    {"objective": "dist:lognormal"},
    {"objective": "dist:negbinomial"},
    {"objective": "survival:cox"},
    {
        "objective": "survival:aft",
        "eval_metric": ["aft-nloglik", "interval-regression-accuracy"],
    },
)
_VECTOR: dict[str, Any] = {
    "objective": "multi:softprob",
    "num_class": 3,
    "multi_strategy": "multi_output_tree",
    "sketch_outputs": 2,
}
_HELD_VECTOR: dict[str, Any] = {
    **_VECTOR,
    "sampling_method": "goss",
    "min_samples_leaf": 2,
}
_HELD: dict[str, Any] = {
    "objective": "reg:squarederror",
    "monotone_constraints": (1,),
    "min_samples_leaf": 2,
}
#: Leaves that are searched for, which `refit` does not give.
_SEARCHED: tuple[dict[str, Any], ...] = (
    {"objective": "reg:absoluteerror", "leaf_solver": "line_search"},
    {
        "objective": "reg:quantileerror",
        "quantile_alpha": 0.3,
        "leaf_solver": "line_search",
    },
)
_HELD_EXACT: dict[str, Any] = {**_HELD, "tree_method": "exact"}
_SAMPLED = {"subsample": 0.5, "colsample_bytree": 0.7, "colsample_bynode": 0.7}


def warmup() -> None:
    """Compile the kernels, or load them where they were compiled before.

    In a new installation that takes minutes, as it is all of them, where a fit needs
    a few; later it takes seconds. A program
    that must answer quickly calls it at its start; an image of a container, when it
    is built. The machine code of earlier versions is deleted.
    """
    prune_cache()
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=(600, 4)).astype(dtype)
        X[::7, 1] = np.nan
        for params in (*_FITS, _HELD, _HELD_EXACT):
            _fit(params, X, rng)
        _fit_linear(X, rng)
        _explain(X, rng)
        _grow_forest(X, rng)
    X[:, 3] = rng.integers(9, size=len(X))
    # Codes of two bytes and of one, best leaf first and by level.
    types = ["float", "float", "float", "c"]
    for params in (*_FITS[:2], {**_FITS[1], "grow_policy": "lossguide"}, _HELD):
        _fit(params, X, rng, feature_types=types)
        for matrix in _sparse_matrices(rng):
            _fit(params, matrix, rng)
    groups = DMatrix(X, rng.integers(2, size=len(X)), group=[len(X)])
    for objective in ("rank:ndcg", "rank:xendcg"):
        params = {"objective": objective}
        train(params, groups, 1, evals=[(groups, "data")], verbose_eval=False)
    for dtype in (np.float32, np.float64):
        _fit(_VECTOR, X.astype(dtype), rng)
        _fit(_VECTOR, X.astype(dtype), rng, feature_types=types)
    _fit(_HELD_VECTOR, X, rng)
    _fit(_HELD_VECTOR, X, rng, feature_types=types)
    for params in _SEARCHED:
        _fit(params, X, rng)


def _grow_forest(X: Any, rng: np.random.Generator) -> None:
    """Grow a tree of numbers and one of classes, and look at them from all sides."""
    codes = Codes.of(DMatrix(X))
    rows = np.arange(len(X), dtype=np.int32)
    bags = Bags(rows, len(X), len(X), 0)
    rules = Rules(2, min_samples_leaf=2)
    for n_classes, criterion in ((0, "squared_error"), (3, "gini")):
        y = rng.integers(3, size=len(X)).astype(np.float64)
        targets = Targets.of(y, None, n_classes, criterion, len(X))
        for bag, grown in grow_forest(
            codes, targets, rules, bags, 1, 1, lambda _, bag, grown: (bag, grown)
        ):
            pruning_path(grown, 1.0, 1.0)
            predicted = targets.means_of(grown.sums)
            permutation_increases(0, 0, grown, codes, targets, y, predicted, bag.others)


def _fit(params: dict[str, Any], X: Any, rng: np.random.Generator, **info: Any) -> None:
    """Train and predict, with weights and without."""
    rows = X.shape[0]
    y = rng.integers(max(2, params.get("num_class", 0)), size=rows)
    if params["objective"].startswith(("survival:", "reg:gamma", "dist:lognormal")):
        y = y + 1
    if params["objective"] == "survival:aft":
        info |= {"label_lower_bound": y, "label_upper_bound": y + 1}
    sampled = _SAMPLED if "sampling_method" not in params else {}
    for weight in (None, rng.uniform(size=rows)):
        matrix = DMatrix(X, y, weight=weight, **info)
        booster = train(
            {**params, **({} if weight is None else sampled)},
            matrix,
            2,
            evals=[(matrix, "data")],
            verbose_eval=False,
        )
        booster.predict(matrix)
        booster.predict(matrix, pred_leaf=True)
        booster.inplace_predict(X)
        if params not in (_HELD, _HELD_EXACT, _VECTOR, _HELD_VECTOR, *_SEARCHED):
            booster.refit(matrix)


def _fit_linear(X: Any, rng: np.random.Generator) -> None:
    params = {"booster": "gblinear", "feature_selector": "thrifty"}
    matrix = DMatrix(X, rng.normal(size=len(X)))
    train(params, matrix, 1, verbose_eval=False).predict(matrix)


def _explain(X: Any, rng: np.random.Generator) -> None:
    matrix = DMatrix(X, rng.normal(size=len(X)))
    booster = train({"max_depth": 2}, matrix, 1, verbose_eval=False)
    booster.predict(matrix, pred_contribs=True)
    booster.predict(matrix, pred_contribs=True, approx_contribs=True)


def _sparse_matrices(rng: np.random.Generator) -> Iterator[Any]:
    """Yield matrices that are bundled, and that are learned from by filled cells.

    Without SciPy none can come.
    """
    try:
        import scipy.sparse
    except ImportError:
        return
    one_hot = np.zeros((600, 20), np.float32)
    one_hot[np.arange(600), rng.integers(20, size=600)] = 1.0
    yield scipy.sparse.csr_matrix(one_hot)
    for dtype in (np.float32, np.float64):
        cells = rng.normal(size=(600, 400)).astype(dtype)
        # Two columns split the rows down to few: cells of those are gathered.
        cells[:, 2:][rng.random((600, 398)) > 0.02] = 0.0
        yield scipy.sparse.csr_matrix(cells)
