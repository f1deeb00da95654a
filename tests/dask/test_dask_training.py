"""Training on a real cluster: the model equals that of one machine."""

import itertools
import math
from types import SimpleNamespace

import dask.array as da
import distributed
import numpy as np
import pytest
from clusters import start_cluster
from selection import REPEATS

import hornbeam as hb
from hornbeam import DataError, ParameterError
from hornbeam.dask.matrix import DaskDMatrix, DaskQuantileDMatrix
from hornbeam.dask.prediction import predict
from hornbeam.dask.training import train

N_ROWS = 2_000


def draw(objective="reg:squarederror", n_rows=N_ROWS, seed=0):
    """Return features with missing values, labels and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    X[:, 3] = rng.integers(6, size=n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]) + rng.normal(size=n_rows) / 4
    if objective.startswith("multi"):
        y = np.digitize(signal, [-0.5, 0.5]).astype(float)
    elif objective == "reg:squarederror":
        y = signal
    else:
        y = (signal > 0).astype(float)
    return X, y, rng.random(n_rows)


def spread(client, X, y=None, rows=None, **others):
    """Return a matrix of the rows, in partitions of `rows` rows or of these sizes."""
    rows = rows or len(X) // 5
    parts = [X, y, *others.values()]
    arrays = [
        None if a is None else da.from_array(a, chunks=(rows, *a.shape[1:]))
        for a in parts
    ]
    return DaskDMatrix(
        client, arrays[0], arrays[1], **dict(zip(others, arrays[2:], strict=True))
    )


def both(client, params, rounds=4, rows=None, weights=False, **options):
    """Train on one machine and on the cluster; return both models and histories."""
    X, y, w = draw(params.get("objective", "reg:squarederror"))
    others = {"weight": w} if weights else {}
    here, there = {}, {}
    one = hb.train(
        params,
        hb.DMatrix(X, y, **others),
        rounds,
        verbose_eval=False,
        evals_result=here,
        **options,
    )
    matrix = spread(client, X, y, rows, **others)
    result = train(client, params, matrix, rounds, verbose_eval=False, **options)
    there = result["history"]
    return one, result["booster"], here, there


PARAMETERS = [
    {},
    {"objective": "binary:logistic", "scale_pos_weight": 2.0, "subsample": 0.6},
    {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2},
    {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
    {"grow_policy": "symmetric", "max_cached_hist_node": 20},
    {"colsample_bytree": 0.6, "colsample_bynode": 0.7, "max_bin": 31},
    {"subsample": 0.4, "sampling_method": "gradient_based"},
    {"max_cached_hist_node": 8, "max_depth": 7, "min_child_weight": 5},
    {"interaction_constraints": [[0, 1], [2, 3, 4]]},
    {"monotone_constraints": [1, -1], "sampling_method": "goss"},
    {"objective": "binary:logistic", "min_samples_leaf": 20, "path_smooth": 2},
    {"booster": "dart", "rate_drop": 0.4, "one_drop": True, "num_parallel_tree": 2},
    {"tree_method": "approx", "objective": "binary:logistic", "max_bin": 16},
]


@pytest.mark.parametrize("weights", [pytest.param(False, marks=REPEATS), True])
@pytest.mark.parametrize(
    "params",
    # Every second one in the fast tests: groups of processes train as Dask does.
    [
        pytest.param(params, marks=REPEATS if number % 2 else [])
        for number, params in enumerate(PARAMETERS)
    ],
    ids=lambda p: "-".join(p) or "default",
)
def test_the_model_equals_that_of_one_machine(client, params, weights):
    one, other, _, _ = both(client, params, weights=weights)
    assert one.digest() == other.digest()
    assert type(other) is hb.Booster


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror"])
def test_dart_with_base_margins_evals_and_continued(client, objective):
    """Leaf values that exceed the first scale make workers compute margins again."""
    X, y, w = draw()
    y = np.where(w > 0.98, 1e5 * y, y)
    params = {
        "booster": "dart",
        "rate_drop": 0.5,
        "sample_type": "weighted",
        "normalize_type": "forest",
        "objective": objective,
        "max_depth": 3,
    }
    here, margin = {}, w * 7.0
    data, valid = hb.DMatrix(X, y, base_margin=margin), hb.DMatrix(X[:300], y[:300])
    one = hb.train(
        params, data, 8, evals=[(data, "a"), (valid, "b")], evals_result=here,
        verbose_eval=False,
    )  # fmt: skip
    matrix = spread(client, X, y, base_margin=margin)
    evals = [(matrix, "a"), (spread(client, X[:300], y[:300]), "b")]
    result = train(client, params, matrix, 8, evals=evals, verbose_eval=False)
    assert result["booster"].digest() == one.digest()
    assert result["history"] == here
    half = train(client, params, matrix, 4, verbose_eval=False)["booster"]
    whole = train(client, params, matrix, 4, xgb_model=half, verbose_eval=False)
    assert whole["booster"].digest() == one.digest()


@pytest.mark.parametrize("rows", [N_ROWS, (1, 3, 1500, 496), 97])
def test_partitions_do_not_matter(client, rows):
    one, other, _, _ = both(client, {"subsample": 0.5}, rows=rows)
    assert one.digest() == other.digest()


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 3])
def test_the_number_of_workers_does_not_matter(n_workers):
    with start_cluster(n_workers) as cluster, distributed.Client(cluster) as client:
        one, other, _, _ = both(client, {"objective": "binary:logistic"})
    assert one.digest() == other.digest()


def test_labels_that_need_wide_gradient_sums(client):
    X, y, _ = draw()
    y[::500] *= 1e6
    one = hb.train({}, hb.DMatrix(X, y), 4, verbose_eval=False)
    result = train(client, {}, spread(client, X, y), 4, verbose_eval=False)
    assert one.digest() == result["booster"].digest()


def test_labels_that_need_float64_margins(client):
    X, y, _ = draw()
    y = 1e9 + np.rint(10 * y)
    one = hb.train({}, hb.DMatrix(X, y), 3, verbose_eval=False)
    result = train(client, {}, spread(client, X, y), 3, verbose_eval=False)
    assert one.digest() == result["booster"].digest()


@pytest.mark.parametrize("objective", ["survival:cox", "survival:aft"])
def test_censored_times(client, objective):
    X, y, w = draw()
    event, censoring = np.exp(y), np.exp(w)
    info = {
        "label_lower_bound": np.minimum(event, censoring),
        "label_upper_bound": np.where(event < censoring, event, np.inf),
        "weight": w,
    }
    label = None
    if objective == "survival:cox":
        label = np.where(event < censoring, event, -censoring)
    params, here = {"objective": objective}, {}
    data = hb.DMatrix(X, label, **info)
    one = hb.train(
        params, data, 4, evals=[(data, "a")], evals_result=here, verbose_eval=False
    )
    matrix = spread(client, X, label, **info)
    result = train(client, params, matrix, 4, evals=[(matrix, "a")], verbose_eval=False)
    assert one.digest() == result["booster"].digest()
    assert here == result["history"]


@pytest.mark.parametrize("objective", ["dist:normal", "dist:negbinomial"])
def test_distributions(client, objective):
    X, y, w = draw()
    labels = np.floor(np.exp(y)) if objective == "dist:negbinomial" else y
    params, here = {"objective": objective}, {}
    data = hb.DMatrix(X, labels, weight=w)
    one = hb.train(
        params, data, 4, evals=[(data, "a")], evals_result=here, verbose_eval=False
    )
    matrix = spread(client, X, labels, weight=w)
    result = train(client, params, matrix, 4, evals=[(matrix, "a")], verbose_eval=False)
    assert one.digest() == result["booster"].digest()
    assert here == result["history"]


def test_base_margins_and_feature_weights(client):
    X, y, w = draw()
    params = {"colsample_bytree": 0.5}
    weights = np.array([1.0, 5.0, 1.0, 1.0, 2.0])
    one = hb.train(
        params,
        hb.DMatrix(X, y, base_margin=w, feature_weights=weights),
        4,
        verbose_eval=False,
    )
    arrays = [da.from_array(a, chunks=(500, *a.shape[1:])) for a in (X, y, w)]
    matrix = DaskDMatrix(
        client,
        arrays[0],
        arrays[1],
        base_margin=arrays[2],
        feature_weights=weights,
    )
    result = train(client, params, matrix, 4, verbose_eval=False)
    assert one.digest() == result["booster"].digest()


@pytest.mark.parametrize(
    "params",
    [
        {"eval_metric": ["rmse", "mae"]},
        {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"]},
        {"objective": "multi:softprob", "num_class": 3},
    ],
    ids=lambda p: p.get("objective", "default"),
)
def test_histories_equal_those_of_one_machine(client, params):
    X, y, w = draw(params.get("objective", "reg:squarederror"))
    Z, z, v = draw(params.get("objective", "reg:squarederror"), 700, seed=1)
    history = {}
    train_data, valid = hb.DMatrix(X, y, weight=w), hb.DMatrix(Z, z, weight=v)
    evals = [(train_data, "train"), (valid, "valid")]
    one = hb.train(
        params, train_data, 5, evals=evals, verbose_eval=False, evals_result=history
    )
    matrix = spread(client, X, y, weight=w)
    evals = [(matrix, "train"), (spread(client, Z, z, 300, weight=v), "valid")]
    result = train(client, params, matrix, 5, evals=evals, verbose_eval=False)
    assert one.digest() == result["booster"].digest()
    assert history == result["history"]


def test_early_stopping_and_callbacks(client, tmp_path):
    X, y, _ = draw()
    Z, z, _ = draw(n_rows=300, seed=1)
    params = {"learning_rate": 0.9}

    def callbacks():
        return [
            hb.EarlyStopping(rounds=2, save_best=True),
            hb.LearningRateScheduler(lambda number: 0.9 / (1 + number)),
            hb.TrainingCheckPoint(tmp_path, interval=2),
            hb.TrainingCheckPoint(tmp_path, as_pickle=True, interval=2),
        ]

    options = {"num_boost_round": 60, "verbose_eval": False}
    data = hb.DMatrix(X, y)
    one = hb.train(
        params, data, evals=[(hb.DMatrix(Z, z), "v")], callbacks=callbacks(), **options
    )
    checkpoint = hb.Booster(model_file=tmp_path / "model_2.ubj").digest()
    matrix = spread(client, X, y)
    evals = [(spread(client, Z, z), "v")]
    result = train(
        client, params, matrix, evals=evals, callbacks=callbacks(), **options
    )
    assert one.digest() == result["booster"].digest()
    assert one.best_iteration == result["booster"].best_iteration
    assert hb.Booster(model_file=tmp_path / "model_2.ubj").digest() == checkpoint


def test_a_model_is_continued(client):
    X, y, _ = draw()
    data, matrix = hb.DMatrix(X, y), spread(client, X, y)
    whole = hb.train({}, data, 6, verbose_eval=False)
    part = hb.train({}, data, 2, verbose_eval=False)
    digest = part.digest()
    result = train(client, {}, matrix, 4, xgb_model=part, verbose_eval=False)
    assert result["booster"].digest() == whole.digest()
    assert part.digest() == digest


def squared_error(predictions, data):
    return predictions - data.get_label(), np.ones_like(predictions)


def largest_error(predictions, data):
    return "largest", float(np.abs(predictions - data.get_label()).max())


def test_custom_objectives_and_metrics(client):
    X, y, _ = draw()
    data, matrix = hb.DMatrix(X, y), spread(client, X, y)
    history = {}
    options = {"obj": squared_error, "custom_metric": largest_error}
    one = hb.train(
        {},
        data,
        4,
        evals=[(data, "train")],
        verbose_eval=False,
        evals_result=history,
        **options,
    )
    result = train(
        client, {}, matrix, 4, evals=[(matrix, "train")], verbose_eval=False, **options
    )
    assert one.digest() == result["booster"].digest()
    assert history == result["history"]


def test_a_tree_takes_seven_messages(client, monkeypatch):
    from hornbeam.dask.cluster import DaskCluster

    messages = itertools.count()
    original = DaskCluster.sum

    def counted(self, actors, operation, *args):
        if operation == "run":
            next(messages)
        return original(self, actors, operation, *args)

    monkeypatch.setattr(DaskCluster, "sum", counted)
    X, y, _ = draw()
    params = {"learning_rate": 0.001, "colsample_bytree": 0.5}
    train(client, params, spread(client, X, y), 10, verbose_eval=False)
    assert next(messages) <= 7 * 10 + 1


def test_bad_labels_name_their_partition(client):
    X, y, _ = draw("binary:logistic")
    y[1234] = 7.0
    with pytest.raises(DataError, match=r"partition 3.*label 7 in row 34"):
        train(
            client,
            {"objective": "binary:logistic"},
            spread(client, X, y, 400),
            verbose_eval=False,
        )


def test_data_without_labels_is_refused(client):
    X, _, _ = draw()
    with pytest.raises(DataError, match="no labels"):
        train(client, {}, spread(client, X), verbose_eval=False)


def test_matrices_of_one_machine_are_refused(client):
    X, y, _ = draw()
    with pytest.raises(DataError, match="dtrain must be a DaskDMatrix"):
        train(client, {}, hb.DMatrix(X, y))
    with pytest.raises(DataError, match="evals must hold pairs"):
        train(client, {}, spread(client, X, y), evals=[(hb.DMatrix(X, y), "v")])


@pytest.mark.parametrize(
    ("params", "kind", "words"),
    [
        ({"tree_method": "exact"}, DaskDMatrix, "doesn't support distributed training"),
        ({"sketch_scope": "local"}, DaskDMatrix, "'approx' on a cluster"),
        ({}, DaskQuantileDMatrix, "make a DaskDMatrix"),
    ],
)
def test_unsupported_tree_methods_are_refused(client, params, kind, words):
    X, y, _ = draw()
    data = kind(client, da.from_array(X), da.from_array(y))
    with pytest.raises(ValueError, match=words):
        train(client, {"tree_method": "approx", **params}, data)


def test_diverging_training_is_an_error(client):
    X, y, _ = draw()
    with pytest.raises(DataError, match="not a finite float32"):
        train(client, {}, spread(client, X, 1e300 * y), 3, verbose_eval=False)


def test_unknown_parameters_are_an_error(client):
    X, y, _ = draw()
    with pytest.raises(ParameterError, match="max_dept"):
        train(client, {"max_dept": 3}, spread(client, X, y))


def test_an_objective_that_workers_cannot_load_is_an_error(client):
    class Unloadable:
        def __call__(self, predictions, data):
            raise AssertionError

        def __reduce__(self):
            return float, ("nothing",)

    X, y, _ = draw()
    with pytest.raises(ParameterError, match="cannot be loaded on a worker"):
        train(client, {}, spread(client, X, y), obj=Unloadable(), verbose_eval=False)


MULTI_OUTPUT = {"multi_strategy": "multi_output_tree", "max_depth": 4}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sketch_outputs": 2, "subsample": 0.6},
        {"booster": "dart", "rate_drop": 0.5, "num_parallel_tree": 2},
        {"monotone_constraints": [1, -1], "min_samples_leaf": 20},
        {"sampling_method": "goss", "grow_policy": "lossguide", "max_leaves": 12},
        {"objective": "multi:softprob", "num_class": 3, "colsample_bytree": 0.6},
        {"tree_method": "approx", "max_bin": 16},
    ],
    ids=lambda p: "-".join(p) or "default",
)
def test_multi_output_trees(client, params):
    X, y, w = draw(params.get("objective", "reg:squarederror"))
    params, here = {**MULTI_OUTPUT, **params}, {}
    if "num_class" not in params:
        y = np.stack([y, np.where(w > 0.99, 1e5, -y), w], axis=1)
    data = hb.DMatrix(X, y, weight=w)
    one = hb.train(
        params, data, 4, evals=[(data, "a")], evals_result=here, verbose_eval=False
    )
    matrix = spread(client, X, y, weight=w)
    result = train(client, params, matrix, 4, evals=[(matrix, "a")], verbose_eval=False)
    assert one.digest() == result["booster"].digest()
    assert here == result["history"]


def test_multi_output_trees_with_split_gradients(client):
    def squares(margins, data):
        gradients, ones = margins - data.get_label(), np.ones_like(margins)
        return gradients, ones, gradients.mean(axis=1), ones[:, 0]

    X, y, w = draw("reg:squarederror")
    params, labels = {**MULTI_OUTPUT, "num_target": 2}, np.stack([y, w], axis=1)
    one = hb.train(params, hb.DMatrix(X, labels), 2, obj=squares, verbose_eval=False)
    matrix = spread(client, X, labels)
    result = train(client, params, matrix, 2, obj=squares, verbose_eval=False)
    assert one.digest() == result["booster"].digest()


def logistic_of(steepness):
    """Return an object of a class that workers cannot import."""

    def link(x):
        return 1.0 / (1.0 + math.exp(-x))

    class Logistic:
        default_metric = "logloss"

        def __init__(self):
            self.steepness = steepness

        def gradient(self, y, m):
            return self.steepness * (link(self.steepness * m) - y)

        def hessian(self, y, m):
            p = link(self.steepness * m)
            return self.steepness**2 * p * (1.0 - p)

        def transform(self, m):
            return link(self.steepness * m)

        def start(self, mean):
            return math.log(mean / (1.0 - mean)) / self.steepness

    return Logistic()


@pytest.mark.slow
@pytest.mark.jit
def test_an_objective_in_formulas_is_compiled_on_workers(client):
    X, y, w = draw("binary:logistic")
    loss = logistic_of(1.5)
    options = {"obj": loss, "verbose_eval": False}
    dtrain, here = hb.DMatrix(X, y, weight=w), {}
    one = hb.train({}, dtrain, 4, evals=[(dtrain, "a")], evals_result=here, **options)
    matrix = spread(client, X, y, weight=w)
    result = train(client, {}, matrix, 4, evals=[(matrix, "a")], **options)
    assert result["booster"].digest() == one.digest()
    assert result["history"] == here
    found = predict(client, result["booster"], matrix).compute()
    np.testing.assert_array_equal(found, one.predict(dtrain))
    with pytest.raises(ParameterError, match=r"hessian is 1 in row \d+ \(label"):
        train(
            client, {}, matrix, 1,
            obj=SimpleNamespace(gradient=lambda y, m: 2 * m, hessian=lambda y, m: 1.0),
        )  # fmt: skip


def test_row_keys_make_the_order_of_rows_immaterial(client):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 4)).astype(np.float32)
    y = (x[:, 0] + rng.normal(size=400) > 0).astype(float)
    # More than a float64 can tell apart.
    keys = np.arange(400, dtype=np.uint64) + np.uint64(2**63)
    params = {"objective": "binary:logistic", "subsample": 0.5, "max_depth": 3}

    alone = hb.DMatrix(x, y, row_key=keys)
    history = {}
    expected = hb.train(
        params,
        alone,
        4,
        evals=[(alone, "own")],
        evals_result=history,
        verbose_eval=False,
    )
    order = rng.permutation(400)
    data, valid = (
        DaskDMatrix(
            client,
            da.from_array(x[rows], chunks=(100, 4)),
            da.from_array(y[rows], chunks=100),
            row_key=da.from_array(keys[rows], chunks=100),
        )
        for rows in (order, order[::-1])
    )
    found = train(client, params, data, 4, evals=[(valid, "own")], verbose_eval=False)
    assert found["booster"].digest() == expected.digest()
    assert found["history"] == history
    without = DaskDMatrix(
        client,
        da.from_array(x[order], chunks=(100, 4)),
        da.from_array(y[order], chunks=100),
    )
    other = train(client, params, without, 4, verbose_eval=False)["booster"]
    assert other.digest() != expected.digest()
