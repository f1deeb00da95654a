"""Compilation of the kernels ahead of time, before the first fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import count, product
from typing import Any

import numpy as np

from hornbeam.binning.value_counts import COUNTED_ROWS, cut_column
from hornbeam.cart.bagging import BootstrapSampler, grow_forest, permutation_importance
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.pruning import pruning_path
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams
from hornbeam.cpu_count import available_threads
from hornbeam.data.dmatrix import DMatrix
from hornbeam.features.matrix import derive
from hornbeam.kernels.ahead import compile_first_fit, compile_in_processes, work_on
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.sources import prune_cache
from hornbeam.objectives.base import Objective
from hornbeam.objectives.registry import find, registered
from hornbeam.training import train

__all__ = ["warmup"]

# Together with the cases of the objectives these reach every kernel that a fit or a
# prediction may call.
_FITS: tuple[dict[str, Any], ...] = (
    {"objective": "reg:squarederror", "grow_policy": "lossguide", "max_bin": 300},
    {"objective": "binary:logistic", "eval_metric": ["logloss", "error", "auc"]},
    {
        "objective": "binary:logistic",
        "eval_metric": ["aucpr", "rmse", "mae"],
        "subsample": 0.5,
        "sampling_method": "gradient_based",
    },
    {"objective": "reg:squarederror", "tree_method": "approx"},
    {"objective": "reg:squarederror", "tree_method": "exact"},
    {"objective": "reg:squarederror", "grow_policy": "symmetric", "max_bin": 300},
    {"objective": "binary:logistic", "grow_policy": "symmetric"},
    # With few histograms the levels are searched one by one.
    {
        "objective": "binary:logistic",
        "grow_policy": "symmetric",
        "max_cached_hist_node": 6,
    },
)
_MULTI_OUTPUT: dict[str, Any] = {
    "objective": "multi:softprob",
    "num_class": 3,
    "multi_strategy": "multi_output_tree",
    "sketch_outputs": 2,
}
_CONSTRAINED_MULTI_OUTPUT: dict[str, Any] = {
    **_MULTI_OUTPUT,
    "sampling_method": "goss",
    "min_samples_leaf": 2,
}
_CONSTRAINED: dict[str, Any] = {
    "objective": "reg:squarederror",
    "monotone_constraints": (1,),
    "min_samples_leaf": 2,
}
#: With bins of one byte, and of two.
_CONSTRAINTS: tuple[dict[str, Any], ...] = (
    _CONSTRAINED,
    {**_CONSTRAINED, "max_bin": 300},
)
_CONSTRAINED_EXACT: dict[str, Any] = {**_CONSTRAINED, "tree_method": "exact"}
_SAMPLED = {"subsample": 0.5, "colsample_bytree": 0.7, "colsample_bynode": 0.7}


Job = Callable[[], None]

#: With fewer kernels than these on disk, processes compile faster than one process.
#: Python calls 134 of them, and a first fit about 30.
_MOST = 100
_WORKER = "from hornbeam.warm_up import work; work()"


def warmup(
    progress: Callable[[int, int], None] | None = None, *, load: bool = True
) -> None:
    """Compile all kernels, or load them if they are compiled already.

    Where a wheel has the machine code there is nothing to do. Elsewhere it takes
    minutes in a new installation, since a fit needs a few kernels only; it then runs a
    process on each core. Later it takes seconds. Call it at the start of a program with
    tight response times, or while building a container image. The machine code of
    earlier versions is deleted.

    Parameters
    ----------
    progress
        A function that is called with the number of jobs that are done, and of all.
    load
        Whether to load the machine code into this process, which takes seconds. A
        process that only compiles, for those that follow, need not.

    Examples
    --------
    >>> import hornbeam
    >>> hornbeam.warmup()  # doctest: +SKIP
    """
    if not COMPILED or NATIVE is not None:
        return
    prune_cache()
    compile_first_fit()
    jobs = list(_jobs())
    compiles = not _is_compiled() and (available_threads() > 1 or not load)
    total = len(jobs) * (compiles + load)
    done = count(1)
    if compiles:
        for _ in compile_in_processes(_WORKER, jobs):
            if progress is not None:
                progress(next(done), total)
    # To load in this process what others have compiled.
    for job in jobs if load else []:
        job()
        if progress is not None:
            progress(next(done), total)


def _is_compiled() -> bool:
    """Return whether the machine code of most kernels is on disk."""
    compiler = import_module("hornbeam.kernels.compiler")
    files = [kernel.cache_file for kernel in compiler.KERNELS.values()]
    return sum(file is not None and file.exists() for file in files) >= _MOST


def work() -> None:
    """Run the jobs whose numbers are read from standard input."""
    work_on(list(_jobs()))


def _jobs() -> Iterator[Job]:
    """Yield the jobs that together reach all kernels.

    Jobs with distinct kernels come first, so that processes that start together do not
    compile the same kernels.
    """
    tables = [_numbers().astype(dtype) for dtype in (np.float32, np.float64)]
    narrow, wide = tables
    yield partial(_fit, _FITS[0], narrow)
    yield partial(_grow_forest, narrow)
    yield partial(_fit, _MULTI_OUTPUT, narrow)
    yield partial(_grow_forest, wide)
    for X in tables:
        yield partial(_fit_linear, X)
        yield partial(_fit_linear_leaves, X)
        yield partial(_explain, X)
        for params in (*_FITS, *_CONSTRAINTS, _CONSTRAINED_EXACT):
            yield partial(_fit, params, X)
    yield partial(_derive)
    yield partial(_count_values)
    yield partial(_fit_sparse_vectors)
    yield partial(_fit, _MULTI_OUTPUT, wide)
    yield partial(_fit, _CONSTRAINED_MULTI_OUTPUT, wide)
    # Bins of two bytes and of one, lossguide and depthwise.
    types = ["float", "float", "float", "c"]
    for X in tables:
        coded = X.copy()
        coded[:, 3] = _rng().integers(9, size=len(X))
        yield partial(_fit, _MULTI_OUTPUT, coded, feature_types=types)
    yield partial(_fit, _CONSTRAINED_MULTI_OUTPUT, coded, feature_types=types)
    plain = *_FITS[:2], {**_FITS[1], "grow_policy": "lossguide"}
    for params in (*plain, *_CONSTRAINTS):
        yield partial(_fit, params, coded, feature_types=types)
        yield partial(_fit_sparse, params)
    keys = np.arange(len(narrow))
    for method in ("uniform", "gradient_based"):
        params = {**_FITS[1], "subsample": 0.5, "sampling_method": method}
        yield partial(_fit, params, narrow, row_key=keys)
    # Objectives that a program registered are not in the processes that
    # `_compile_in_processes` starts: they come last, so that other jobs keep their
    # numbers.
    groups: tuple[list[type[Objective]], ...] = ([], [])
    for objective in registered():
        groups[not objective.__module__.startswith("hornbeam.")].append(objective)
    for group, X in product(groups, (wide, narrow)):
        for objective in group:
            for case in objective.warm_up_cases:
                params = {"objective": objective.name, **case}
                if objective.task == "ranking":
                    if X is wide:
                        yield partial(_rank, params, X)
                elif X is wide or not _searches_leaves(params):
                    yield partial(_fit, params, X)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _numbers() -> Any:
    X = _rng().normal(size=(600, 4))
    X[::7, 1] = np.nan
    return X


def _fields(params: dict[str, Any], rows: int) -> dict[str, Any]:
    """Return labels, and other fields, from which the objective can learn."""
    objective = find(params["objective"])
    assert objective is not None
    classes = _rng().integers(max(2, params.get("num_class", 0)), size=rows)
    return objective.warm_up_fields(classes)


def _searches_leaves(params: dict[str, Any]) -> bool:
    return params.get("leaf_solver") == "line_search"


def _rank(params: dict[str, Any], X: Any) -> None:
    groups = DMatrix(X, **_fields(params, len(X)))
    train(params, groups, 1, evals=[(groups, "data")], verbose_eval=False)


def _fit_sparse(params: dict[str, Any]) -> None:
    for matrix in _sparse_matrices():
        _fit(params, matrix)


def _grow_forest(X: Any) -> None:
    """Grow a regression and a classification tree, and call all their kernels."""
    features = BinnedFeatures.of(DMatrix(X))
    rows = np.arange(len(X), dtype=np.int32)
    sampler = BootstrapSampler(rows, len(X), len(X), 0)
    params = GrowthParams(2, min_samples_leaf=2)
    for n_classes, criterion in ((0, "squared_error"), (3, "gini")):
        y = _rng().integers(3, size=len(X)).astype(np.float64)
        targets = Targets.of(y, None, n_classes, criterion, len(X))
        for sample, tree in grow_forest(
            features,
            targets,
            params,
            sampler,
            1,
            1,
            lambda _, sample, tree: (sample, tree),
        ):
            pruning_path(tree, 1.0, 1.0)
            predicted = targets.node_means(tree.sums)
            permutation_importance(
                0, 0, tree, features, targets, y, predicted, sample.held_out
            )


def _fit(params: dict[str, Any], X: Any, **info: Any) -> None:
    """Train and predict with and without weights."""
    rows = X.shape[0]
    info |= _fields(params, rows)
    sampled = _SAMPLED if "sampling_method" not in params else {}
    for weight in (None, _rng().uniform(size=rows)):
        matrix = DMatrix(X, weight=weight, **info)
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
        booster.inplace_predict(X[:1])
        without_refit = params in (
            *_CONSTRAINTS,
            _CONSTRAINED_EXACT,
            _MULTI_OUTPUT,
            _CONSTRAINED_MULTI_OUTPUT,
        )
        if not without_refit and not _searches_leaves(params):
            booster.refit(matrix)


def _fit_linear(X: Any) -> None:
    params = {"booster": "gblinear", "feature_selector": "thrifty"}
    matrix = DMatrix(X, _rng().normal(size=len(X)))
    train(params, matrix, 1, verbose_eval=False).predict(matrix)


def _fit_linear_leaves(X: Any) -> None:
    y = _rng().normal(size=len(X))
    matrix, many = DMatrix(X, y), DMatrix(np.tile(X, (2, 1)), np.tile(y, 2))
    params = {"leaf_model": "linear", "max_depth": 2}
    booster = train(params, matrix, 64, verbose_eval=False)
    for rows in (matrix, many):
        booster.predict(rows)
        booster.eval(rows)
    booster.inplace_predict(X[:1])
    booster.predict(matrix, pred_contribs=True)
    booster.predict(matrix, pred_contribs=True, approx_contribs=True)
    booster.shap_values(matrix, matrix)


def _fit_sparse_vectors() -> None:
    for matrix in _sparse_matrices():
        data = DMatrix(matrix, **_fields(_MULTI_OUTPUT, matrix.shape[0]))
        train(_MULTI_OUTPUT, data, 1, verbose_eval=False)


def _derive() -> None:
    codes = np.arange(20.0)[:, np.newaxis] % 3
    data = DMatrix(codes, codes[:, 0], feature_types=["c"])
    derive(data, ["mean(label | f0)"])


def _count_values() -> None:
    """Find quantiles as those of a long column are found."""
    cut_column(np.arange(float(COUNTED_ROWS)), 16, None)


def _explain(X: Any) -> None:
    """Explain trees of few features and of many, and predict many rows by bins."""
    y = _rng().normal(size=len(X))
    matrix, many = DMatrix(X, y), DMatrix(np.tile(X, (2, 1)), np.tile(y, 2))
    booster = train({"max_depth": 2}, matrix, 64, verbose_eval=False)
    for rows in (many, *_as_sparse(many)):
        booster.predict(rows)
        booster.eval(rows)
    booster.predict(matrix, pred_contribs=True)
    booster.predict(matrix, pred_contribs=True, approx_contribs=True)
    for background in (matrix, DMatrix(X[:1])):
        booster.shap_values(matrix, background)
    one_hot = DMatrix(np.tile(np.eye(30, dtype=X.dtype), (2, 1)), np.arange(60) % 30)
    params = {"max_depth": 0, "min_child_weight": 0, "reg_lambda": 0}
    train(params, one_hot, 1, verbose_eval=False).shap_values(one_hot, one_hot)


def _as_sparse(matrix: DMatrix) -> Iterator[DMatrix]:
    """Yield the matrix with stored entries, unless SciPy is missing."""
    try:
        import scipy.sparse
    except ImportError:
        return
    rows = scipy.sparse.csr_matrix(matrix.rows(0, matrix.n_rows))
    yield DMatrix(rows, matrix.get_label())


def _sparse_matrices() -> Iterator[Any]:
    """Yield matrices with bundled features, and with sparse bins.

    There are none without SciPy.
    """
    try:
        import scipy.sparse
    except ImportError:
        return
    rng = _rng()
    one_hot = np.zeros((600, 20), np.float32)
    one_hot[np.arange(600), rng.integers(20, size=600)] = 1.0
    yield scipy.sparse.csr_matrix(one_hot)
    for dtype in (np.float32, np.float64):
        cells = rng.normal(size=(600, 400)).astype(dtype)
        # Two dense columns lead to small nodes, whose entries are gathered.
        cells[:, 2:][rng.random((600, 398)) > 0.02] = 0.0
        yield scipy.sparse.csr_matrix(cells)
