"""A matrix of configurations: each gives one model on any threads, and in parts.

It has every choice of every parameter, each beside each of the others, and hypothesis
draws more. A parameter or a choice that is new has to find its place in it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples
from selection import IS_WHOLE

import hornbeam
from hornbeam.errors import HornbeamError
from hornbeam.objectives.registry import create, names
from hornbeam.params import Parameters, parameter_table

THREADS = (1, 2, 3, 7)
ROUNDS = 3

# --- The axes -------------------------------------------------------------------------

# Each has options by name; where an option has several settings, they take turns.
OBJECTIVES = {name: [{}] for name in names()} | {
    "binary:logistic": [{"scale_pos_weight": 2.0}, {"base_score": 0.3}],
    "binary:focal": [{"focal_gamma": 1.0}],
    "multi:softmax": [{"num_class": 3}],
    "multi:softprob": [{"num_class": 3}],
    "ordinal:logistic": [{"num_class": 3}],
    "rank:map": [{"lambdarank_pair_method": "mean"}, {"lambdarank_unbiased": True}],
    "rank:ndcg": [
        {"lambdarank_num_pair_per_sample": 5, "lambdarank_normalization": False},
        {"ndcg_exp_gain": False, "lambdarank_score_normalization": False},
    ],
    "rank:pairwise": [{"lambdarank_unbiased": True, "lambdarank_bias_norm": 0.5}],
    "reg:expectileerror": [{"expectile_alpha": [0.2, 0.7]}],
    "reg:pseudohubererror": [{"huber_slope": 2.0}],
    "reg:quantileerror": [{"quantile_alpha": [0.1, 0.5, 0.8]}],
    "reg:tweedie": [{"tweedie_variance_power": 1.2}],
    "survival:aft": [
        {"aft_loss_distribution": kind, "aft_loss_distribution_scale": 1.5}
        for kind in ("normal", "logistic", "extreme")
    ],
}
TREES = {"booster": "gbtree"}
LINEAR = {"booster": "gblinear", "updater": "shotgun"}
VECTORS = {"multi_strategy": "multi_output_tree"}
BOOSTERS = {
    "trees": [TREES],
    "dropout": [
        {"booster": "dart", "rate_drop": 0.5, "sample_type": "weighted"},
        {"booster": "dart", "skip_drop": 0.3, "one_drop": True},
        {"booster": "dart", "rate_drop": 0.7, "normalize_type": "forest"},
    ],
    "forests": [{**TREES, "num_parallel_tree": 2}],
    "vectors": [VECTORS],
    "sketched": [{**VECTORS, "sketch_outputs": 2}],
    "weights": [
        {**LINEAR, "feature_selector": "cyclic", "tolerance": 1e-3},
        {**LINEAR, "feature_selector": "shuffle", "updater": "coord_descent"},
        {**LINEAR, "feature_selector": "random"},
        {**LINEAR, "feature_selector": "greedy", "top_k": 3},
        {**LINEAR, "feature_selector": "thrifty"},
    ],
    "updates": [
        {"process_type": "update", "updater": updater}
        for updater in ("refresh", "prune", "refresh,prune", "prune,refresh")
    ]
    + [{"process_type": "update", "refresh_leaf": False}],
}
ROWS_DRAWN = {
    "all rows": [{}],
    "some rows": [{"subsample": 0.6, "sampling_method": "uniform"}],
    "steep rows": [{"subsample": 0.5, "sampling_method": "gradient_based"}],
    "steepest rows": [{"sampling_method": "goss", "top_rate": 0.3, "other_rate": 0.2}],
}
COLUMNS_DRAWN = {
    "all columns": [{}],
    "some columns": [
        {"colsample_bytree": 0.7},
        {"colsample_bylevel": 0.6},
        {"colsample_bynode": 0.6},
    ],
}
CONSTRAINTS = {
    "free": [{}],
    "directions": [
        {"monotone_constraints": [1, -1], "monotone_constraints_method": method}
        for method in ("basic", "intermediate")
    ],
    "groups": [{"interaction_constraints": [[0, 1, 2], [2, 3, 4, 5]]}],
    "costs": [
        {"feature_costs": [0, 9, 2], "feature_costs_for": what}
        for what in ("model", "rows")
    ],
    "full leaves": [{"min_samples_leaf": 60}],
    "smooth paths": [{"path_smooth": 9.0}],
    "short steps": [{"max_delta_step": 0.7}],
}
GROWTH = {
    "as it comes": [{}],
    "in float32": [{"margin_type": "float32"}],
    "by levels": [
        {"grow_policy": "depthwise", "max_depth": 3, "gain_epsilon": 0.01},
        {"max_bin": 300, "max_cached_hist_node": 4},
        {"tree_method": "hist", "gamma": 0.1, "min_child_weight": 2.0},
    ],
    "best first": [
        {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
        {"grow_policy": "lossguide", "reg_lambda": 0.1, "reg_alpha": 0.5},
    ],
    "approximate": [
        {"tree_method": "approx", "sketch_scope": "global", "max_bin": 20},
        {"tree_method": "approx", "pruning": "after", "gamma": 1.0},
        {"tree_method": "approx", "sketch_eps": 0.03},
    ],
    "at nodes": [
        {"tree_method": "approx", "sketch_scope": "local", "max_bin": 20},
        {"tree_method": "approx", "sketch_scope": "local", "pruning": "before"},
    ],
    "searched leaves": [
        {"leaf_solver": "line_search"},
        {"leaf_solver": "line_search", "grow_policy": "lossguide", "max_leaves": 9},
    ],
    "linear leaves": [
        {"leaf_model": "linear", "linear_lambda": 1.0, "linear_max_features": 3},
        {"leaf_model": "linear", "grow_policy": "lossguide", "max_leaves": 9},
    ],
    "symmetric": [{"grow_policy": "symmetric", "gain_epsilon": 0.01}],
    "exact": [
        {"tree_method": "exact", "gamma": 0.1},
        {"tree_method": "exact", "grow_policy": "lossguide", "max_leaves": 9},
        {"tree_method": "exact", "default_direction": "right"},
        {"tree_method": "exact", "default_direction": "left", "opt_dense_col": 0.5},
    ],
    "by updater": [
        {"updater": updater}
        for updater in (
            *("grow_colmaker", "grow_colmaker,prune", "grow_histmaker"),
            "grow_quantile_histmaker",
        )
    ],
}
CELLS = {
    "filled": [{}],
    "missing": [{}],
    "categories": [
        {"max_cat_to_onehot": 2, "max_cat_threshold": 8},
        {"cat_smooth": 9.0, "cat_l2": 5.0, "min_data_per_group": 900},
    ],
}
WEIGHTS = {"alike": [{}], "weighed": [{"seed": 5, "learning_rate": 0.7}]}
AXES = {
    "objective": OBJECTIVES,
    "booster": BOOSTERS,
    "rows": ROWS_DRAWN,
    "columns": COLUMNS_DRAWN,
    "constraint": CONSTRAINTS,
    "growth": GROWTH,
    "cells": CELLS,
    "weights": WEIGHTS,
}

# What does not go together, which is an error.
OF_TREES = (
    *[*ROWS_DRAWN][1:],
    *[*COLUMNS_DRAWN][1:],
    *[name for name in CONSTRAINTS if name not in ("free", "short steps")],
    *[*GROWTH][2:],
    "categories",
)
# Objectives that are no sum of losses of single rows and margins.
NO_SUMS = [
    name
    for name in OBJECTIVES
    if name.startswith(("rank:", "dist:", "survival:", "ordinal:"))
    or "expectile" in name
]
BY_CELLS = ("at nodes", "exact", "by updater")
REFUSED = {
    *(("weights", name) for name in OF_TREES),
    ("updates", "directions"),
    ("updates", "smooth paths"),
    ("sketched", "directions"),
    *product(("vectors", "sketched"), BY_CELLS),
    *((name, "categories") for name in BY_CELLS),
    ("updates", "by updater"),
    *((name, "searched leaves") for name in NO_SUMS),
    *((name, "searched leaves") for name in ("updates", "vectors", "sketched")),
    *((name, "searched leaves") for name in ("steep rows", "steepest rows")),
    *((name, "searched leaves") for name in ("directions", "smooth paths")),
    *((name, "linear leaves") for name in ("dropout", "vectors", "sketched")),
    *((name, "linear leaves") for name in ("updates", "directions")),
    *((name, "symmetric") for name in ("vectors", "sketched", "directions")),
    *((name, "symmetric") for name in ("costs", "full leaves", "smooth paths")),
    ("symmetric", "categories"),
}

# Parameters that have no part in the model, and those that others here stand for.
ELSEWHERE = {
    "device", "nthread", "verbosity", "validate_parameters", "objective", "num_target",
    "eval_metric", "disable_default_eval_metric", "extmem_single_page", "unseen",
}  # fmt: skip


def goes_together(configuration):
    return REFUSED.isdisjoint(combinations(in_order(configuration).values(), 2))


def settings_of(configuration, turns):
    """Return the parameters of a configuration, where each axis has its turn."""
    params = {"objective": configuration["objective"]}
    if configuration["booster"] != "weights":
        params["max_depth"] = 4
    for axis, name in configuration.items():
        own = AXES[axis][name]
        params |= own[turns[axis] % len(own)]
    return params


def covering(strength):
    """Yield configurations that hold all choices of so many axes beside each other.

    Each begins with the first choices that are still wanted, and takes of the other
    axes what adds most to them, or has been taken least. With each goes the number of
    times that its options have been taken before.
    """
    wanted = {
        tuple(zip(axes, options, strict=True)): None
        for axes in combinations(AXES, strength)
        for options in product(*(AXES[axis] for axis in axes))
        if goes_together(dict(zip(axes, options, strict=True)))
    }
    taken = Counter()
    while wanted:
        chosen = dict(next(iter(wanted)))
        for axis in [axis for axis in AXES if axis not in chosen]:
            able = {}
            for name in AXES[axis]:
                more = in_order(chosen | {axis: name})
                if goes_together(more):
                    held = combinations(more.items(), strength)
                    adds = sum(pairs in wanted for pairs in held)
                    able[name] = adds, -taken[name]
            chosen[axis] = max(able, key=able.__getitem__)
        chosen = in_order(chosen)
        for held in combinations(chosen.items(), strength):
            wanted.pop(held, None)
        yield chosen, {axis: taken[name] for axis, name in chosen.items()}
        taken.update(chosen.values())


def in_order(chosen):
    return {axis: chosen[axis] for axis in AXES if axis in chosen}


# --- The data -------------------------------------------------------------------------

#: So many that three actors share what is done for each row, and for each cell.
N_ROWS, N_COLUMNS = 72_000, 12


#: Objectives whose labels are counts or amounts.
COUNTED = (
    *("count:", "dist:lognormal", "dist:negbinomial"),
    *("reg:gamma", "reg:squaredlogerror", "reg:tweedie"),
)


@cache
def rows_of(cells, n_rows):
    rng = np.random.default_rng(0)
    rows = rng.integers(50, size=(n_rows, N_COLUMNS)).astype(np.float32)
    if cells == "missing":
        rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


@cache
def labels_of(objective, n_rows):
    """Return what a matrix takes beside its rows."""
    rng = np.random.default_rng(1)
    rows = rows_of("filled", n_rows)
    numbers = rows[:, 0] / 10 + np.sin(rows[:, 1]) - rows[:, 5] / 20
    numbers += rng.normal(size=n_rows) - 1.5
    amounts, seen = np.exp(numbers / 4), rng.random(n_rows) < 0.6
    if objective == "survival:aft":
        upper = np.where(seen, 1.5 * amounts, np.inf)
        return {"label_lower_bound": amounts, "label_upper_bound": upper}
    if objective == "survival:cox":
        return {"label": np.where(seen, amounts, -amounts)}
    if objective.startswith("rank:"):
        grades = (
            numbers > 0 if objective == "rank:map" else np.digitize(numbers, [0, 1])
        )
        return {"label": grades, "group": [30] * (n_rows // 30)}
    if objective.startswith(("multi:", "ordinal:")):
        return {"label": np.digitize(numbers, [0, 1])}
    if objective.startswith("binary:") or objective == "reg:logistic":
        return {"label": numbers > 0}
    if objective.startswith(COUNTED):
        return {"label": np.ceil(amounts)}
    return {"label": numbers}


def matrix_of(configuration, params, n_rows=N_ROWS):
    objective = configuration["objective"]
    info = dict(labels_of(objective, n_rows))
    vectors = configuration["booster"] in ("vectors", "sketched")
    if vectors and create(Parameters.resolve(params)).many_targets:
        label = info["label"]
        info["label"] = np.stack([label, label[::-1], label], axis=1)
    if configuration["weights"] == "weighed":
        size = len(info["group"]) if "group" in info else n_rows
        info["weight"] = np.random.default_rng(2).uniform(0.5, 2, size)
    types = ["q"] * N_COLUMNS
    if configuration["cells"] == "categories":
        types[5] = types[6] = "c"
    rows = rows_of(configuration["cells"], n_rows)
    return hornbeam.DMatrix(rows, feature_types=types, **info)


def train(params, data, rounds=ROUNDS, **arguments):
    return hornbeam.train(params, data, rounds, verbose_eval=False, **arguments)


def assert_one_model(configuration, turns, rounds=ROUNDS, counts=THREADS):
    """Train on each number of threads, and in two parts."""
    params = settings_of(configuration, turns)
    data = matrix_of(configuration, params)
    begun = None
    if configuration["booster"] == "updates":
        grown = settings_of(configuration | {"booster": "trees"}, turns)
        begun = train(grown, data, rounds)
    models = [
        train({**params, "nthread": threads}, data, rounds, xgb_model=begun)
        for threads in counts
    ]
    digests = {model.digest() for model in models}
    if begun is None:
        # There is something to be equal.
        trees = models[0].model.trees
        assert not trees or max(tree.n_leaves for tree in trees) > 2
        half = train({**params, "nthread": 2}, data, 1).save_raw()
        digests.add(train(params, data, rounds - 1, xgb_model=half).digest())
    assert len(digests) == 1, (params, digests)


# --- The matrix -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "turns"),
    [
        pytest.param(*each, id=", ".join(each[0].values()))
        for each in covering(strength=1)
    ],
)
def test_each_choice_is_one_model_on_any_threads(configuration, turns, thread_counts):
    # Dropout leaves out one of two trees in the third round.
    is_long = IS_WHOLE or configuration["booster"] == "dropout"
    rounds = ROUNDS if is_long else 2
    assert_one_model(configuration, turns, rounds, counts=thread_counts)


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_pair_of_choices_is_one_model_on_any_threads(objective):
    for number, (configuration, turns) in enumerate(covering(strength=2)):
        if configuration["objective"] == objective:
            # Every choice is in several pairs, so that it meets each number of threads.
            counts = THREADS if IS_WHOLE else (1, THREADS[1 + number % 3])
            assert_one_model(configuration, turns, rounds=2, counts=counts)


@examples(6)
@given(
    st.fixed_dictionaries(
        {axis: st.sampled_from([*own]) for axis, own in AXES.items()}
    ),
    st.fixed_dictionaries({axis: st.integers(0, 4) for axis in AXES}),
)
def test_any_configuration_is_one_model_on_any_threads(configuration, turns):
    assume(goes_together(configuration))
    assert_one_model(configuration, turns)


@pytest.mark.parametrize("pair", sorted(REFUSED), ids=", ".join)
def test_what_does_not_go_together_is_an_error(pair):
    chosen = {axis: name for axis, own in AXES.items() for name in pair if name in own}
    plain = {axis: next(iter(own)) for axis, own in AXES.items()}
    configuration = plain | {"objective": "multi:softprob"} | chosen
    with pytest.raises(HornbeamError):
        assert_one_model(configuration, dict.fromkeys(AXES, 0))


def test_every_parameter_and_every_choice_is_in_the_matrix():
    """Whoever adds one is told here to give it a place above."""
    taken = [
        own for axis in AXES.values() for options in axis.values() for own in options
    ]
    for row in parameter_table():
        if row.name not in ELSEWHERE:
            values = {str(own[row.name]) for own in taken if row.name in own}
            choices = set(re.findall("'([^']+)'", row.range)) | {str(row.default)}
            missing = choices - values - {str(row.default)}
            assert values - {str(row.default)}, f"{row.name} is nowhere in the matrix"
            assert not missing, f"{row.name} is never one of {missing}"
