"""Digests of models over a matrix of configurations, to prove that a change keeps them.

A refactoring must not change one bit of any model, prediction or model file. This
script trains each configuration through the public API alone, so that it runs on any
version of the package, and compares a digest of the results with the recorded one.

    python tests/digests.py             compare all configurations with digests.json
    python tests/digests.py NAME ...    compare these
    python tests/digests.py --record    write digests.json

The data are integers and quotients of integers from NumPy's PCG64, and models are the
same on every machine, so the record holds everywhere. Custom objectives in NumPy use
sums and products only, which every machine rounds in the same way.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hornbeam

RECORD = Path(__file__).with_name("digests.json")
ROUNDS = 6
ROWS = 1200

CONFIGURATIONS: dict[str, Callable[[], str]] = {}


# --- Data -----------------------------------------------------------------------------


@cache
def features(rows: int = ROWS, missing: float = 0.1) -> np.ndarray:
    """Return features (rows, 6) float32; column 5 holds categories 0 to 11."""
    rng = np.random.default_rng(7)
    table = rng.integers(500, size=(rows, 6)).astype(np.float32) / 16
    table[:, 5] = rng.integers(12, size=rows)
    table[:, :5][rng.random((rows, 5)) < missing] = np.nan
    table.flags.writeable = False
    return table


@cache
def target(rows: int = ROWS) -> np.ndarray:
    """Return numeric labels (rows,) that depend on products of features."""
    rng = np.random.default_rng(8)
    table = np.nan_to_num(features(rows).astype(np.float64), nan=3.0)
    noise = rng.integers(-64, 65, size=rows) / 16
    return table[:, 0] * table[:, 1] / 64 + table[:, 2] + 2 * (table[:, 5] > 6) + noise


def grades(n: int, rows: int = ROWS) -> np.ndarray:
    """Return the labels as classes 0, ..., n - 1 of about equal size."""
    order = np.argsort(target(rows), kind="stable")
    classes = np.empty(rows)
    classes[order] = np.arange(rows) * n // rows
    return classes


def matrix(labels: Any = None, **kwargs: Any) -> hornbeam.DMatrix:
    """Return a matrix of the numeric features."""
    labels = target() if labels is None else labels
    return hornbeam.DMatrix(features()[:, :5], labels, **kwargs)


def categorical_matrix(labels: Any = None, **kwargs: Any) -> hornbeam.DMatrix:
    """Return a matrix of all features, the last one categorical."""
    labels = target() if labels is None else labels
    types = ["q"] * 5 + ["c"]
    return hornbeam.DMatrix(features(), labels, feature_types=types, **kwargs)


# --- Digests --------------------------------------------------------------------------


def digest_of(*parts: Any) -> str:
    """Return the SHA-256 of arrays, strings, bytes and numbers."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            data = (
                f"{part.dtype}{part.shape}".encode()
                + np.ascontiguousarray(part).tobytes()
            )
        elif isinstance(part, bytes | bytearray):
            data = bytes(part)
        else:
            data = repr(part).encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def digest_of_model(booster: Any, data: Any, *more: Any, dump: bool = True) -> str:
    """Return the digest of a model: its bytes, predictions and dump."""
    parts = [booster.digest(), booster.save_raw("ubj"), booster.save_raw("json")]
    parts += [booster.predict(data), booster.predict(data, output_margin=True)]
    if dump:
        parts += booster.get_dump(with_stats=True)
    return digest_of(*parts, *more)


def train(
    params: dict[str, Any], data: Any, rounds: int = ROUNDS, **kwargs: Any
) -> Any:
    """Return a model trained on two threads without output."""
    kwargs.setdefault("verbose_eval", False)
    common = {"nthread": 2}
    if params.get("booster") != "gblinear":
        common["max_depth"] = 4
    return hornbeam.train({**common, **params}, data, rounds, **kwargs)


def configuration(function: Callable[[], str]) -> Callable[[], str]:
    """Add a function that returns a digest to the configurations."""
    CONFIGURATIONS[function.__name__] = function
    return function


def simple(name: str, params: dict[str, Any], data: Callable[[], Any] = matrix) -> None:
    """Add a configuration that trains one model."""

    def run() -> str:
        loaded = data()
        linear = params.get("booster") == "gblinear"
        return digest_of_model(train(params, loaded), loaded, dump=not linear)

    CONFIGURATIONS[name] = run


# --- Configurations -------------------------------------------------------------------

VECTORS = {"multi_strategy": "multi_output_tree"}


def weighted() -> hornbeam.DMatrix:
    return matrix(weight=1.0 + np.arange(ROWS) % 5, base_margin=np.arange(ROWS) % 7 / 4)


def binary() -> hornbeam.DMatrix:
    return matrix(grades(2))


def classes() -> hornbeam.DMatrix:
    return matrix(grades(4))


def targets() -> hornbeam.DMatrix:
    return matrix(np.column_stack([target(), target()[::-1], target() % 3]))


def positive() -> hornbeam.DMatrix:
    return matrix(1.0 + np.abs(target()))


def counts() -> hornbeam.DMatrix:
    return matrix(grades(5))


def groups() -> hornbeam.DMatrix:
    return matrix(grades(3), qid=np.arange(ROWS) // 20)


def two_grades() -> hornbeam.DMatrix:
    return matrix(grades(2), qid=np.arange(ROWS) // 20)


def censored() -> hornbeam.DMatrix:
    data, times = matrix(), 1.0 + np.abs(target())
    data.set_info(
        label_lower_bound=times,
        label_upper_bound=np.where(np.arange(ROWS) % 3 == 0, np.inf, times),
    )
    return data


def survival() -> hornbeam.DMatrix:
    times = 1.0 + np.abs(target())
    return matrix(np.where(np.arange(ROWS) % 3 == 0, -times, times))


def sparse() -> hornbeam.DMatrix:
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(9)
    dense = rng.integers(1, 9, size=(ROWS, 40)).astype(np.float32)
    dense[rng.random(dense.shape) < 0.95] = 0
    return hornbeam.DMatrix(
        csr_matrix(dense), dense[:, 0] + 2 * dense[:, 1] + dense[:, 2]
    )


simple("depthwise", {})
simple("lossguide", {"grow_policy": "lossguide", "max_leaves": 14, "max_depth": 0})
simple("symmetric", {"grow_policy": "symmetric", "colsample_bylevel": 0.7})
simple("symmetric_categories", {"grow_policy": "symmetric"}, categorical_matrix)
simple("many_bins", {"max_bin": 480})
simple("few_bins", {"max_bin": 9})
simple("one_hot_categories", {"max_cat_to_onehot": 20}, categorical_matrix)
simple("categories_in_sets", {"max_cat_to_onehot": 3}, categorical_matrix)
simple(
    "smoothed_categories",
    {
        "max_cat_to_onehot": 3,
        "cat_smooth": 9.0,
        "cat_l2": 5.0,
        "min_data_per_group": 70,
    },
    categorical_matrix,
)
simple("sparse", {}, sparse)
simple("weights_and_base_margin", {}, weighted)
simple("uniform_rows", {"subsample": 0.6})
simple("gradient_based_rows", {"subsample": 0.5, "sampling_method": "gradient_based"})
simple("goss", {"sampling_method": "goss", "top_rate": 0.3, "other_rate": 0.2})
simple("columns_by_tree", {"colsample_bytree": 0.6})
simple("columns_by_level_and_node", {"colsample_bylevel": 0.7, "colsample_bynode": 0.7})
simple("monotone", {"monotone_constraints": [1, -1]})
simple(
    "monotone_intermediate",
    {"monotone_constraints": [1, 0, 1], "monotone_constraints_method": "intermediate"},
)
simple("interactions", {"interaction_constraints": [[0, 1, 2], [2, 3, 4]]})
simple("min_samples_and_smoothing", {"min_samples_leaf": 30, "path_smooth": 4.0})
simple("feature_costs", {"feature_costs": [0, 9, 2], "feature_costs_for": "rows"})
simple(
    "penalties",
    {"reg_alpha": 0.5, "reg_lambda": 3.0, "gamma": 0.4, "max_delta_step": 0.7},
)
simple("exact", {"tree_method": "exact"})
simple("approx", {"tree_method": "approx", "max_bin": 24})
simple(
    "approx_of_nodes", {"tree_method": "approx", "sketch_scope": "local", "max_bin": 24}
)
simple(
    "approx_categories", {"tree_method": "approx", "max_bin": 24}, categorical_matrix
)
simple("approx_sparse", {"tree_method": "approx", "max_bin": 5}, sparse)
simple("dart", {"booster": "dart", "rate_drop": 0.4, "one_drop": True})
simple("dart_forest", {"booster": "dart", "rate_drop": 0.5, "normalize_type": "forest"})
simple("gblinear", {"booster": "gblinear", "updater": "coord_descent"})
simple(
    "gblinear_thrifty",
    {"booster": "gblinear", "feature_selector": "thrifty", "top_k": 3},
)
simple(
    "random_forest", {"num_parallel_tree": 4, "subsample": 0.6, "colsample_bynode": 0.6}
)
simple("logistic", {"objective": "binary:logistic", "scale_pos_weight": 2.0}, binary)
simple("hinge", {"objective": "binary:hinge"}, binary)
simple("softprob", {"objective": "multi:softprob", "num_class": 4}, classes)
simple(
    "softmax_vectors",
    {"objective": "multi:softmax", "num_class": 4, **VECTORS},
    classes,
)
simple("targets", {}, targets)
simple("vectors", VECTORS, targets)
simple("sketched_vectors", {**VECTORS, "sketch_outputs": 2}, targets)
simple(
    "sampled_vectors",
    {**VECTORS, "subsample": 0.5, "sampling_method": "gradient_based"},
    targets,
)
simple("monotone_vectors", {**VECTORS, "monotone_constraints": [1, -1]}, targets)
simple("approx_vectors", {**VECTORS, "tree_method": "approx", "max_bin": 24}, targets)
simple(
    "quantiles", {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}
)
simple("expectiles", {"objective": "reg:expectileerror", "expectile_alpha": [0.2, 0.8]})
simple("absolute_error", {"objective": "reg:absoluteerror"})
simple("pseudo_huber", {"objective": "reg:pseudohubererror"})
simple("poisson", {"objective": "count:poisson"}, counts)
simple("gamma", {"objective": "reg:gamma"}, positive)
simple("tweedie", {"objective": "reg:tweedie"}, positive)
simple(
    "logistic_aft",
    {"objective": "survival:aft", "aft_loss_distribution": "logistic"},
    censored,
)
simple("cox", {"objective": "survival:cox"}, survival)
simple("ndcg", {"objective": "rank:ndcg"}, groups)
simple("pairwise", {"objective": "rank:pairwise", "lambdarank_unbiased": True}, groups)
simple("map", {"objective": "rank:map", "lambdarank_pair_method": "mean"}, two_grades)
simple("normal_distribution", {"objective": "dist:normal"})
simple("line_search", {"leaf_solver": "line_search", "objective": "reg:absoluteerror"})
simple(
    "line_search_classes",
    {"leaf_solver": "line_search", "objective": "binary:logistic"},
    binary,
)


@configuration
def threads() -> str:
    data, found = categorical_matrix(grades(2)), set()
    for n in (1, 2, 3, 7):
        params = {"objective": "binary:logistic", "nthread": n, "subsample": 0.7}
        found.add(digest_of_model(train(params, data), data))
    assert len(found) == 1, "the model depends on the number of threads"
    return found.pop()


@configuration
def contributions() -> str:
    data = classes()
    booster = train({"objective": "multi:softprob", "num_class": 4}, data, 3)
    few = data.slice(np.arange(40))
    return digest_of(
        booster.predict(few, pred_contribs=True),
        booster.predict(few, pred_interactions=True),
        booster.predict(few, pred_leaf=True),
        booster.predict(few, pred_contribs=True, approx_contribs=True),
        sorted(booster.get_score(importance_type="total_gain").items()),
    )


@configuration
def external_memory() -> str:
    def batches():
        for begin in range(0, ROWS, 250):
            rows = slice(begin, begin + 250)
            yield features()[rows, :5], target()[rows]

    found = []
    for params in (
        {},
        {"subsample": 0.5},
        {"grow_policy": "lossguide", "max_leaves": 9},
    ):
        with tempfile.TemporaryDirectory() as folder:
            data = hornbeam.ExtMemQuantileDMatrix(batches, cache=folder)
            booster = train(params, data)
            whole = hornbeam.QuantileDMatrix(batches)
            assert booster.digest() == train(params, whole).digest()
            found.append(digest_of_model(booster, matrix()))
    return digest_of(*found)


@configuration
def external_memory_vectors() -> str:
    def batches():
        labels = np.column_stack([target(), target()[::-1]])
        for begin in range(0, ROWS, 400):
            rows = slice(begin, begin + 400)
            yield features()[rows, :5], labels[rows]

    found = []
    for params in (VECTORS, {**VECTORS, "sketch_outputs": 1, "subsample": 0.5}):
        with tempfile.TemporaryDirectory() as folder:
            data = hornbeam.ExtMemQuantileDMatrix(batches, cache=folder)
            found.append(digest_of_model(train(params, data), matrix()))
    return digest_of(*found)


@configuration
def continued() -> str:
    data = matrix()
    first = train({}, data, 3)
    booster = train({}, data, 3, xgb_model=first)
    assert booster.digest() == train({}, data, 6).digest()
    return digest_of_model(booster, data)


@configuration
def updated() -> str:
    data, other = matrix(), hornbeam.DMatrix(features()[::-1, :5], target())
    booster, found = train({}, data), []
    for updater in ("refresh", "prune", "refresh,prune"):
        params = {"process_type": "update", "updater": updater, "gamma": 1.0}
        found.append(digest_of_model(train(params, other, xgb_model=booster), data))
    found.append(digest_of_model(booster.refit(other, decay=0.5), data))
    return digest_of(*found)


@configuration
def sliced_and_merged() -> str:
    data = matrix()
    booster = train({}, data)
    halves = booster[:2] + booster[2:]
    assert halves.digest() == booster.digest()
    return digest_of(*(part.digest() for part in booster), booster[::2].digest())


@configuration
def custom_objective() -> str:
    def squared(margins, data):
        return margins - data.get_label(), np.ones_like(margins)

    data = matrix()
    return digest_of_model(train({"base_score": 0.5}, data, obj=squared), data)


@configuration
def split_gradients() -> str:
    def squared(margins, data):
        gradients = margins - data.get_label().reshape(margins.shape)
        hessians = np.ones_like(margins)
        return gradients, hessians, gradients[:, :1], hessians[:, :1]

    data = targets()
    params = {**VECTORS, "base_score": 0.0, "num_target": 3}
    return digest_of_model(train(params, data, obj=squared), data)


class Asymmetric:
    """Squared error that weighs errors above the label more."""

    def gradient(self, y, m):
        return (m - y) * (3.0 if m > y else 1.0)

    def hessian(self, y, m):
        return 3.0 if m > y else 1.0


@configuration
def compiled_objective() -> str:
    data = matrix()
    return digest_of_model(train({}, data, obj=Asymmetric()), data)


@configuration
def boosted_by_hand() -> str:
    data = matrix()
    booster = hornbeam.Booster({"nthread": 2, "max_depth": 3}, [data])
    for number in range(3):
        booster.update(data, number)
    gradients = booster.predict(data, output_margin=True) - data.get_label()
    booster.boost(data, 3, grad=gradients, hess=np.ones_like(gradients))
    return digest_of_model(booster, data, booster.eval(data))


@configuration
def early_stopping() -> str:
    train_data, valid = binary(), hornbeam.DMatrix(features()[::3, :5], grades(2)[::3])
    log: dict[str, Any] = {}
    booster = train(
        {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]},
        train_data,
        30,
        evals=[(train_data, "train"), (valid, "valid")],
        early_stopping_rounds=3,
        evals_result=log,
    )
    return digest_of_model(booster, train_data, log, booster.best_iteration)


@configuration
def out_of_bag() -> str:
    data, callback = matrix(), hornbeam.OutOfBag()
    booster = train({"subsample": 0.5}, data, callbacks=[callback])
    return digest_of_model(booster, data, list(callback.improvement))


@configuration
def cross_validation() -> str:
    found = hornbeam.cv(
        {"nthread": 2, "max_depth": 3}, matrix(), 4, nfold=3, seed=1, as_pandas=False
    )
    return digest_of(sorted(found.items()))


@configuration
def estimators() -> str:
    table, found = np.nan_to_num(features()[:, :5], nan=-1.0), []
    for model, labels in (
        (hornbeam.HornbeamRegressor(n_estimators=5, n_jobs=2), target()),
        (hornbeam.HornbeamClassifier(n_estimators=5, n_jobs=2), grades(3)),
    ):
        model.fit(table, labels)
        found.append(digest_of_model(model.get_booster(), hornbeam.DMatrix(table)))
        found.append(digest_of(model.predict(table)))
    return digest_of(*found)


@configuration
def single_trees_and_forests() -> str:
    table, found = features()[:, :5], []
    for model, labels in (
        (hornbeam.DecisionTreeRegressor(), target()),
        (hornbeam.DecisionTreeClassifier(max_depth=6), grades(3)),
        (hornbeam.RandomForestRegressor(n_estimators=5, n_jobs=2), target()),
        (hornbeam.RandomForestClassifier(n_estimators=5, n_jobs=2), grades(3)),
    ):
        model.fit(table, labels)
        found += [digest_of(model.predict(table)), model.get_booster().digest()]
    return digest_of(*found)


@configuration
def drop_in() -> str:
    from hornbeam import xgboost as xgb

    data = xgb.DMatrix(features()[:, :5], target())
    booster = xgb.train({"nthread": 2, "max_depth": 4}, data, 5)
    return digest_of(
        booster.save_raw("ubj"),
        booster.predict(data),
        booster.save_config(),
        booster.get_dump(dump_format="json"),
        booster.trees_to_dataframe().to_csv(),
    )


# --- The command ----------------------------------------------------------------------


def find(names: list[str]) -> dict[str, str]:
    """Return the digests of configurations by name; a terminal shows the progress.

    Without Numba those that need it are left out, and named.
    """
    found = {}
    for name in names:
        begin = time.perf_counter()
        try:
            found[name] = CONFIGURATIONS[name]()
        except hornbeam.MissingExtraError:
            sys.stdout.write(f"{name} is left out, since it needs Numba\n")
            continue
        if sys.stderr.isatty():
            took = time.perf_counter() - begin
            sys.stderr.write(f"{took:6.2f} s {found[name][:12]} {name}\n")
    return found


def differing(found: dict[str, str]) -> list[str]:
    """Return the configurations whose digest is not the recorded one."""
    recorded = json.loads(RECORD.read_text())
    return [name for name, digest in found.items() if recorded.get(name) != digest]


def main() -> int:
    """Compare or record; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="configurations; default: all")
    parser.add_argument("--record", action="store_true", help="write the record")
    options = parser.parse_args()
    names = options.names or list(CONFIGURATIONS)
    unknown = sorted(set(names) - set(CONFIGURATIONS))
    if unknown:
        parser.error(f"unknown configurations: {', '.join(unknown)}")
    if options.record:
        RECORD.write_text(json.dumps(find(names), indent=1, sort_keys=True) + "\n")
        return 0
    found = find(names)
    different = differing(found)
    for name in different:
        sys.stdout.write(f"{name} differs from its record\n")
    sys.stdout.write(
        f"{len(found) - len(different)} of {len(found)} digests are equal\n"
    )
    return 1 if different else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main())
