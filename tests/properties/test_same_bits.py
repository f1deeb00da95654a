"""The promise: the same data, parameters and seed give the same model, byte for byte.

On any number of threads, in one go or in two, from any container, in any order of the
rows, and through pickles and files.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import ranked, softmax_gradients, squared_gradients
from selection import REPEATS, half_slow

import hornbeam
from hornbeam import Booster, DMatrix, QuantileDMatrix

THREADS = (1, 2, 3, 7)


def tall(n_rows=240_000, n_columns=8):
    """Return enough rows for a team of seven to share every loop over them."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    labels = rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + rng.normal(size=n_rows)
    return rows, labels


@pytest.fixture(scope="module")
def large():
    return tall()


@pytest.fixture(scope="module")
def large_missing(large):
    rows = large[0].copy()
    rows[np.random.default_rng(1).random(rows.shape) < 0.2] = np.nan
    return rows, large[1]


def train(params, data, rounds=3, **arguments):
    return hornbeam.train(params, data, rounds, verbose_eval=False, **arguments)


CONFIGURATIONS = {
    "plain": {},
    "sampled rows": {"subsample": 0.5},
    "sampled columns of trees": {"colsample_bytree": 0.5},
    "sampled columns of levels and nodes": {
        "colsample_bylevel": 0.7,
        "colsample_bynode": 0.5,
    },
    "best first": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0},
    "deep": {"max_depth": 10, "min_child_weight": 5},
    "exact": {"tree_method": "exact", "subsample": 0.5, "gamma": 1.0},
    "approximate": {"tree_method": "approx", "objective": "binary:logistic"},
    "approximate at each node": {
        "tree_method": "approx",
        "sketch_scope": "local",
        "max_bin": 20,
        "colsample_bynode": 0.5,
    },
    "binary": {"objective": "binary:logistic", "scale_pos_weight": 2},
    "classes": {"objective": "multi:softprob", "num_class": 3, "max_depth": 4},
    "classes in one tree": {
        "objective": "multi:softprob",
        "num_class": 3,
        "multi_strategy": "multi_output_tree",
        "max_depth": 4,
    },
    "sketched": {
        "objective": "multi:softprob",
        "num_class": 4,
        "multi_strategy": "multi_output_tree",
        "sketch_outputs": 2,
        "subsample": 0.7,
        "grow_policy": "lossguide",
        "max_leaves": 20,
    },
    "parallel": {"num_parallel_tree": 3, "subsample": 0.6, "max_depth": 4},
    "everything": {
        "alpha": 1,
        "gamma": 2,
        "max_delta_step": 0.5,
        "max_bin": 300,
        "base_score": 1.5,
        "seed": 11,
    },
}


def labels_for(params, labels):
    objective = params.get("objective", "")
    if objective in COUNTED:
        return ranked(labels, 5) + (objective == "reg:gamma")
    if objective.startswith("multi"):
        return ranked(labels, params["num_class"])
    return ranked(labels, 2) if objective.startswith("binary") else labels


#: Losses of labels that are never negative.
COUNTED = ("count:poisson", "reg:gamma", "reg:squaredlogerror", "reg:tweedie")


@examples(12)
@given(
    st.sampled_from([*COUNTED, "binary:hinge", "reg:pseudohubererror"]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_any_number_of_threads_for_every_loss(objective, weighted, seed):
    rng = np.random.default_rng(seed)
    weights = rng.random(150_000) if weighted else None
    # Enough rows for a team to share what is done for each.
    rows = rng.integers(40, size=(150_000, 2)).astype(np.float32)
    labels = rows[:, 0] * rows[:, 1] + rng.normal(size=len(rows))
    params = {"objective": objective, "max_depth": 3}
    digests = set()
    for threads in THREADS:
        data = DMatrix(rows, labels_for(params, labels), weight=weights)
        digests.add(train({**params, "nthread": threads}, data, 2).digest())
    assert len(digests) == 1


# --- Threads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "missing"),
    [
        # In turn, so that each case and missing cells are in the fast tests.
        pytest.param(case, missing, marks=REPEATS if (i + missing) % 2 else [])
        for i, case in enumerate(CONFIGURATIONS)
        for missing in (False, True)
    ],
)
def test_any_number_of_threads(case, missing, large, large_missing, thread_counts):
    # As many as the threads of the largest team share.
    n_rows = len(large[0]) * max(thread_counts) // 7
    rows, labels = (each[:n_rows] for each in (large_missing if missing else large))
    params = CONFIGURATIONS[case]
    labels = labels_for(params, labels)
    digests = set()
    for threads in thread_counts:
        data = DMatrix(rows, labels, nthread=threads)
        digests.add(train({**params, "nthread": threads}, data, 2).digest())
    assert len(digests) == 1


def test_any_number_of_threads_for_weights_and_margins(large_missing, thread_counts):
    rows, labels = large_missing
    weights = np.random.default_rng(2).random(len(rows))
    digests, scores = set(), set()
    for threads in thread_counts:
        data = DMatrix(rows, labels, weight=weights, base_margin=labels / 3)
        result = {}
        params = {"nthread": threads, "eval_metric": ["rmse", "mae"]}
        booster = train(params, data, evals=[(data, "a")], evals_result=result)
        digests.add(booster.digest())
        scores.add(str(result))
    assert len(digests) == len(scores) == 1


def test_any_number_of_threads_for_gradients_of_ones_own(large, thread_counts):
    digests = set()
    for threads in thread_counts:
        params = {"nthread": threads, "max_depth": 4}
        digests.add(train(params, DMatrix(*large), obj=squared_gradients).digest())
    assert len(digests) == 1


def test_any_number_of_threads_for_many_columns(thread_counts):
    """Here the team shares the columns out, in histograms and in the search."""
    rows, labels = tall(5000, 400)
    digests = set()
    for threads in thread_counts:
        data = QuantileDMatrix(rows, labels, nthread=threads)
        digests.add(train({"nthread": threads, "max_depth": 7}, data).digest())
    assert len(digests) == 1


def test_any_number_of_threads_for_predictions(large_missing, thread_counts):
    rows, labels = large_missing
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 5}
    booster = train(params, DMatrix(rows, ranked(labels, 3)))
    found = []
    for threads in thread_counts:
        booster.set_param("nthread", threads)
        found.append(booster.inplace_predict(rows))
        np.testing.assert_array_equal(found[0], found[-1])


def test_heavy_tails_on_any_number_of_threads(large, thread_counts):
    """A few huge labels call for finer steps of the gradients."""
    rows, labels = large
    labels = labels * 0.01
    labels[::9999] += 1e6
    digests = {
        train({"nthread": threads, "max_depth": 5}, DMatrix(rows, labels)).digest()
        for threads in thread_counts
    }
    assert len(digests) == 1


# --- In one go or in two --------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "matrix"),
    [
        # In turn, as above; a tree method needs the values.
        pytest.param(case, matrix, marks=REPEATS if slow else [])
        for i, (case, params) in enumerate(CONFIGURATIONS.items())
        for matrix, slow in (
            [(DMatrix, False)]
            if "tree_method" in params
            else [(DMatrix, i % 2 == 0), (QuantileDMatrix, i % 2 == 1)]
        )
    ],
)
def test_twenty_rounds_are_ten_and_ten(case, matrix):
    params = {"max_depth": 3, **CONFIGURATIONS[case]}
    rows, labels = tall(2000, 6)
    rows[::3, 1] = np.nan
    labels = labels_for(params, labels)
    info = {"weight": np.random.default_rng(3).random(2000)}
    if not params.get("objective", "").startswith("multi"):
        info["base_margin"] = labels / 5
    if "max_bin" in params and matrix is QuantileDMatrix:
        info["max_bin"] = params["max_bin"]
    data = matrix(rows, labels, **info)
    whole = train(params, data, 20, evals=[(data, "a")])
    ten = train(params, matrix(rows, labels, **info), 10)
    for first in (ten, ten.save_raw("json"), pickle.loads(pickle.dumps(ten))):
        both = train(params, data, 10, xgb_model=first)
        assert both.digest() == whole.digest()
    assert both[:10].digest() == ten.digest()
    np.testing.assert_array_equal(
        both.inplace_predict(rows), whole.inplace_predict(rows)
    )


def test_stopping_early_does_not_change_the_trees():
    rows, labels = tall(1500, 5)
    held_out = DMatrix(rows[1000:], labels[1000:])
    data = DMatrix(rows[:1000], labels[:1000])
    params = {"eta": 1.0, "max_depth": 5}
    stopped = train(params, data, 100, evals=[(held_out, "a")], early_stopping_rounds=3)
    rounds = stopped.num_boosted_rounds()
    assert rounds < 100
    stopped.set_attr(best_iteration=None, best_score=None)
    assert stopped.digest() == train(params, data, rounds).digest()


# --- Whole configurations, drawn ------------------------------------------------------

RATES = st.sampled_from([1.0, 1.0, 0.8, 0.4])
OBJECTIVES = [
    "reg:squarederror",
    "reg:logistic",
    "binary:logistic",
    "binary:logitraw",
    "multi:softprob",
    "multi:softmax",
]
PARAMS = st.fixed_dictionaries(
    {
        "objective": st.sampled_from(OBJECTIVES),
        "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        "max_depth": st.integers(0, 5),
        "max_leaves": st.integers(0, 9),
        "max_bin": st.sampled_from([2, 5, 16, 256, 1000]),
        "eta": st.sampled_from([0.05, 0.3, 1.0]),
        "lambda": st.sampled_from([0.0, 1.0, 20.0]),
        "alpha": st.sampled_from([0.0, 0.5]),
        "gamma": st.sampled_from([0.0, 0.5]),
        "min_child_weight": st.sampled_from([0.0, 1.0, 5.0]),
        "max_delta_step": st.sampled_from([0.0, 0.3]),
        "subsample": RATES,
        "colsample_bytree": RATES,
        "colsample_bylevel": RATES,
        "colsample_bynode": RATES,
        "num_parallel_tree": st.integers(1, 2),
        "multi_strategy": st.sampled_from(["one_output_per_tree", "multi_output_tree"]),
        "sketch_outputs": st.sampled_from([0, 0, 1, 2]),
        "scale_pos_weight": st.sampled_from([1.0, 3.0]),
        "seed": st.integers(-(2**63), 2**63 - 1),
    }
)


@st.composite
def tables(draw):
    """Draw rows with missing cells and ties, labels, perhaps weights and margins."""
    n_rows, n_columns = draw(st.integers(1, 120)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.normal(size=(n_rows, n_columns))
    if draw(st.booleans()):
        rows = np.round(rows, draw(st.integers(0, 2)))
    rows = rows.astype(draw(st.sampled_from([np.float32, np.float64])))
    rows[rng.random(rows.shape) < draw(st.sampled_from([0.0, 0.2, 0.95]))] = np.nan
    info = {}
    if draw(st.booleans()):
        info["weight"] = rng.random(n_rows) + 0.01
    if draw(st.booleans()):
        info["base_margin"] = rng.normal(size=n_rows)
    return rows, rng.integers(3, size=n_rows).astype(float), info


def prepared(params, labels, info):
    """Return parameters, labels and margins that go together."""
    if params["multi_strategy"] == "one_output_per_tree":
        params = {**params, "sketch_outputs": 0}
    if params["objective"].startswith("multi"):
        params = {**params, "num_class": 3}
        if "base_margin" in info:
            info = {**info, "base_margin": np.stack([info["base_margin"]] * 3, axis=1)}
    elif params["objective"] != "reg:squarederror":
        labels = labels / 2 if params["objective"] == "reg:logistic" else labels % 2
    return params, labels, info


@examples(60)
@given(PARAMS, tables(), st.integers(0, 2**32))
def test_any_configuration(params, table, seed):
    rows, labels, info = table
    params, labels, info = prepared(params, labels, info)
    data = DMatrix(rows, labels, **info)
    booster = train({**params, "nthread": 1}, data, 4)
    digest = booster.digest()
    assert train({**params, "nthread": 1}, data, 4).digest() == digest

    # Threads, and somebody watching.
    watched = train({**params, "nthread": 3}, data, 4, evals=[(data, "a")])
    assert watched.digest() == digest

    # Codes instead of the rows.
    quantile = QuantileDMatrix(rows, labels, max_bin=params["max_bin"], **info)
    assert train(params, quantile, 4).digest() == digest
    margins = {"base_margin": info["base_margin"]} if "base_margin" in info else {}
    expected = booster.predict(DMatrix(rows, **margins))
    np.testing.assert_array_equal(booster.predict(quantile), expected)
    assert np.isfinite(expected).all()

    # Another container and another layout.
    other = np.asfortranarray(rows).astype(rows.dtype.newbyteorder(">"))
    assert train(params, DMatrix(other, labels, **info), 4).digest() == digest

    # Stop and go on, by way of a file.
    half = train(params, data, 2)
    for kind in ("json", "ubj"):
        loaded = Booster(model_file=half.save_raw(kind))
        assert loaded.digest() == half.digest()
        assert train(params, data, 2, xgb_model=loaded).digest() == digest
    pickled = pickle.loads(pickle.dumps(half))
    assert train({}, data, 2, xgb_model=pickled).digest() == digest
    np.testing.assert_array_equal(
        Booster(model_file=booster.save_raw()).predict(data), booster.predict(data)
    )

    # The order of the rows.
    if params["subsample"] == 1.0:
        order = np.random.default_rng(seed).permutation(len(rows))
        shuffled = {name: values[order] for name, values in info.items()}
        data = DMatrix(rows[order], labels[order], **shuffled)
        assert train(params, data, 4).digest() == digest


@examples(40)
@given(PARAMS, tables())
def test_the_loss_never_rises(params, table):
    """Each round makes the loss of training smaller, or leaves it as it is."""
    rows, labels, info = table
    whole = {"subsample": 1.0, "colsample_bytree": 1.0, "scale_pos_weight": 1.0}
    params = {**params, **whole, "objective": "reg:squarederror", "eta": 0.7}
    params, labels, info = prepared(params, labels, info)
    data, result = DMatrix(rows, labels, **info), {}
    train(params, data, 6, evals=[(data, "a")], evals_result=result)
    losses = np.array(result["a"]["rmse"])
    assert (np.diff(losses) <= 1e-6 * (1 + losses[:-1])).all()


# --- Containers -----------------------------------------------------------------------


def test_the_same_numbers_give_the_same_model():
    rng = np.random.default_rng(7)
    rows = rng.integers(1, 100, size=(500, 4)).astype(np.float64)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    labels = np.nan_to_num(rows) @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=500)
    frame = pd.DataFrame(rows, columns=list("abcd"))
    sparse = scipy.sparse.csr_array(np.nan_to_num(rows))
    filled = np.where(np.isnan(rows), -1, rows)
    sources = {
        "doubles": (rows, {}),
        "floats": (rows.astype(np.float32), {}),
        "halves": (rows.astype(np.float16), {}),
        "frame": (frame, {}),
        "integers": (filled.astype(np.int64), {"missing": -1}),
        "bytes": (filled.astype(np.int8), {"missing": -1}),
        "nullable": (frame.astype("Int64"), {}),
        "sparse": (sparse, {}),
        "list": (rows.tolist(), {}),
    }
    digests = {}
    for name, (source, options) in sources.items():
        for matrix in (DMatrix, QuantileDMatrix):
            booster = train({}, matrix(source, labels, **options), 5)
            booster.feature_names = booster.feature_types = None
            digests[name, matrix] = booster.digest()
    assert len(set(digests.values())) == 1, digests


def test_what_differs_has_another_digest():
    rows, labels = tall(500, 4)
    data = DMatrix(rows, labels)
    digests = [
        train(params, data, rounds).digest()
        for params, rounds in (({}, 3), ({}, 4), ({"eta": 0.31}, 3), ({"seed": 1}, 3))
    ]
    assert digests[0] == digests[3]  # a seed is for draws, and there were none
    assert len(set(digests[:3])) == 3
    other = rows.copy()
    other[7, 0] += 5
    assert train({}, DMatrix(other, labels), 3).digest() != digests[0]


def test_classes_of_ones_own_on_any_number_of_threads():
    rows, labels = tall(3000, 5)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3}
    data = DMatrix(rows, ranked(labels, 3))
    digests = {
        train({**params, "nthread": threads}, data, obj=softmax_gradients).digest()
        for threads in THREADS
    }
    assert len(digests) == 1


# --- Ranking --------------------------------------------------------------------------

RANKINGS = {
    "ndcg": {"objective": "rank:ndcg"},
    "map, unbiased": {"objective": "rank:map", "lambdarank_unbiased": True},
    "pairwise, drawn": {
        "objective": "rank:pairwise",
        "lambdarank_pair_method": "mean",
        "lambdarank_num_pair_per_sample": 5,
    },
    "ndcg, drawn and unbiased": {
        "objective": "rank:ndcg",
        "lambdarank_pair_method": "mean",
        "lambdarank_unbiased": True,
    },
    "xendcg": {"objective": "rank:xendcg"},
}


@pytest.mark.parametrize("case", half_slow(RANKINGS))
def test_rankings_on_any_number_of_threads(case, thread_counts):
    rows, labels = tall(60_000, 4)
    groups = np.sort(np.random.default_rng(3).integers(900, size=len(rows)))
    digests, scores = set(), set()
    for threads in thread_counts:
        data = DMatrix(rows, ranked(labels, 2), qid=groups, nthread=threads)
        params = {**RANKINGS[case], "nthread": threads, "max_depth": 3}
        params["eval_metric"] = ["ndcg@9", "map", "pre@3"]
        result = {}
        booster = train(params, data, evals=[(data, "a")], evals_result=result)
        digests.add(booster.digest())
        scores.add(str(result))
    assert len(digests) == len(scores) == 1


@examples(25)
@given(
    st.fixed_dictionaries(
        {
            "objective": st.sampled_from(
                ["rank:ndcg", "rank:map", "rank:pairwise", "rank:xendcg"]
            ),
            "lambdarank_pair_method": st.sampled_from(["topk", "mean"]),
            "lambdarank_num_pair_per_sample": st.sampled_from([None, 1, 3, 50]),
            "lambdarank_normalization": st.booleans(),
            "lambdarank_score_normalization": st.booleans(),
            "lambdarank_unbiased": st.booleans(),
            "lambdarank_bias_norm": st.sampled_from([0.0, 1.0, 2.5]),
            "subsample": st.sampled_from([0.5, 1.0]),
            "seed": st.integers(0, 9),
        }
    ),
    st.lists(st.integers(1, 60), min_size=2, max_size=40),
    st.booleans(),
)
def test_rankings_of_any_configuration(params, sizes, weighted):
    rows, labels = tall(sum(sizes), 3)
    rng = np.random.default_rng(len(sizes))
    labels = rng.integers(2, size=len(labels)) * 1.0
    labels[:2] = 0, 1
    sizes = [2, *sizes[1:], sizes[0] - 2] if sizes[0] > 2 else [sum(sizes)]
    weights = rng.uniform(0.5, 2, len(sizes)) if weighted else None
    digests = set()
    for threads in (*THREADS, 1):
        data = DMatrix(rows, labels, group=sizes, weight=weights)
        own = {**params, "nthread": threads, "max_depth": 3}
        if len(digests) == 1 and threads == 1:
            half = train(own, data, 1)
            booster = train(own, data, 2, xgb_model=half.save_raw("json"))
        else:
            booster = train(own, data, 3)
        digests.add(booster.digest())
    assert len(digests) == 1
