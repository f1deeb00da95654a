"""Trees that are grown in one call are those of the grower, split by split."""

from __future__ import annotations

import tracemalloc
from functools import cache

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values
from selection import IS_WHOLE

import hornbeam
from hornbeam.backends.hist import HistogramBackend
from hornbeam.backends.tree_grower import TreeGrower
from hornbeam.binning.layout import SparseBins
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.layout import BLOCK_ROWS
from hornbeam.kernels.team import Team

ROWS = 3000


def table(kind):
    """Return rows and labels: numbers, categories, many bins, or bundled columns."""
    rng = np.random.default_rng(2)
    values, labels = few_values(ROWS, 6, missing=0.1, seed=3)
    labels = labels > np.median(labels)
    if kind == "categories":
        many = rng.integers(0, 30, ROWS).astype(str)
        values = pl.DataFrame(values).with_columns(
            few=pl.Series(rng.choice(["a", "b", "c"], ROWS)), many=pl.Series(many)
        )
    elif kind == "many bins":
        values = rng.normal(size=(ROWS, 3))
        labels = values[:, 0] + rng.normal(size=ROWS) > 0
    elif kind == "bundles":
        values = np.where(np.arange(12) == rng.integers(0, 12, (ROWS, 1)), 1.0, np.nan)
        labels = np.nan_to_num(values) @ rng.normal(size=12) > 0
    return values, np.asarray(labels, float)


TABLES = {k: table(k) for k in ("numbers", "categories", "many bins", "bundles")}


@pytest.fixture
def grown_in_one_call(monkeypatch):
    """Return the list of the calls; set `.enabled` to False to go split by split."""

    class Calls(list):
        enabled = True

    calls, grow = Calls(), HistogramBackend.grow

    def recorded(self, *arguments):
        tree = grow(self, *arguments) if calls.enabled else None
        calls.append(tree)
        return tree

    monkeypatch.setattr(HistogramBackend, "grow", recorded)
    return calls


def digests(calls, kind, params, rounds=3):
    """Return the digests of the models that all ways grow.

    Rounds follow each other in Python, where trees are grown in one call or split by
    split, or in one job where that is possible.
    """
    values, labels = TABLES[kind]
    if kind == "categories" and "max_bin" in params and not IS_WHOLE:
        # Kernels of categories in bins of two bytes take seconds to compile.
        params = {**params, "max_bin": min(params["max_bin"], 256)}
    if params.get("multi_strategy") == "multi_output_tree":
        others = np.arange(labels.size) % 3 == 1, np.sin(np.arange(labels.size))
        labels = np.column_stack([labels, *others])
    weights, found = None, []
    if params.get("feature_weights"):
        weights = np.arange(values.shape[1]) % 4 / 4
    params = {key: params[key] for key in params if key != "feature_weights"}
    for calls.enabled in (True, False):
        data = hornbeam.DMatrix(values, labels, feature_weights=weights)
        calls.clear()
        model = hornbeam.Booster(params, [data])
        for number in range(rounds):
            model.update(data, number)
        assert len(calls) >= rounds
        assert all((tree is not None) == calls.enabled for tree in calls)
        found.append(model.digest())
    calls.enabled = True
    return {*found, hornbeam.train(params, data, rounds).digest()}


PARAMETERS = st.fixed_dictionaries(
    {
        "nthread": st.sampled_from([1, 2, 3, 7]),
        "objective": st.sampled_from(
            ["reg:squarederror", "binary:logistic", "reg:absoluteerror"]
        ),
        "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        "max_depth": st.sampled_from([0, 1, 2, 5, 9]),
        "max_leaves": st.sampled_from([0, 2, 3, 17, 100]),
        "max_bin": st.sampled_from([2, 16, 256, 700]),
        "gamma": st.sampled_from([0.0, 0.0, 0.5]),
        "min_child_weight": st.sampled_from([0.0, 1.0, 20.0]),
        "reg_lambda": st.sampled_from([0.0, 1.0, 50.0]),
        "reg_alpha": st.sampled_from([0.0, 0.0, 0.3]),
        "max_delta_step": st.sampled_from([0.0, 0.0, 0.2]),
        "subsample": st.sampled_from([1.0, 0.6]),
        "sampling_method": st.sampled_from(["uniform", "gradient_based"]),
        "colsample_bytree": st.sampled_from([1.0, 0.5]),
        "colsample_bylevel": st.sampled_from([1.0, 0.5]),
        "colsample_bynode": st.sampled_from([1.0, 0.4]),
        "seed": st.sampled_from([0, 5]),
        "scale_pos_weight": st.sampled_from([1.0, 3.0]),
        "max_cached_hist_node": st.sampled_from([6, 13, 65536]),
        "cat_smooth": st.sampled_from([0.0, 0.0, 5.0]),
        "cat_l2": st.sampled_from([0.0, 0.0, 9.0]),
        "min_data_per_group": st.sampled_from([0, 0, 40]),
    }
)


@given(kind=st.sampled_from(sorted(TABLES)), params=PARAMETERS)
@examples(12)
def test_every_configuration_gives_the_same_trees(kind, params):
    with pytest.MonkeyPatch.context() as patch:
        calls = grown_in_one_call.__wrapped__(patch)
        found = digests(calls, kind, params)
    assert len(found) == 1


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_many_rows_whose_cuts_are_screened(threads, grown_in_one_call, monkeypatch):
    rows = 2 * BLOCK_ROWS + 5
    values, labels = few_values(rows, 4, missing=0.1, seed=4)
    values[:, 0] = np.random.default_rng(0).normal(size=rows)
    many = values, (labels > np.median(labels)).astype(float)
    monkeypatch.setitem(TABLES, "many rows", many)
    params = {"objective": "binary:logistic", "nthread": threads, "max_depth": 4}
    found = digests(grown_in_one_call, "many rows", params)
    assert len(found) == 1


#: Of multi-output trees, beside those of all trees.
OUTPUTS = st.fixed_dictionaries(
    {
        "multi_strategy": st.just("multi_output_tree"),
        "objective": st.sampled_from(["reg:squarederror", "reg:pseudohubererror"]),
        "sketch_outputs": st.sampled_from([0, 0, 2]),
    }
)


@given(kind=st.sampled_from(sorted(TABLES)), params=PARAMETERS, outputs=OUTPUTS)
@examples(12)
def test_every_multi_output_tree_is_the_same(kind, params, outputs):
    with pytest.MonkeyPatch.context() as patch:
        calls = grown_in_one_call.__wrapped__(patch)
        found = digests(calls, kind, {**params, **outputs})
    assert len(found) == 1


def test_columns_for_the_split_search_alone(grown_in_one_call):
    """The gradients of an objective that searches splits by others than leaves have."""
    values, labels = TABLES["numbers"]
    data, found = hornbeam.DMatrix(values, np.column_stack([labels, 1 - labels])), []

    def objective(margins, data):
        gradients = margins - data.get_label()
        hessians = np.ones_like(gradients)
        return gradients, hessians, gradients.sum(axis=1), hessians[:, 0]

    params = {"multi_strategy": "multi_output_tree", "num_target": 2, "base_score": 0.5}
    for grown_in_one_call.enabled in (True, False):
        model = hornbeam.train(params, data, 2, obj=objective, verbose_eval=False)
        found.append(model.digest())
    assert len(set(found)) == 1 and len(grown_in_one_call) == 4


#: Directions fit all tables.
CONSTRAINTS = st.fixed_dictionaries(
    {
        "monotone_constraints": st.sampled_from([(0,), (1, -1), (-1, 0, 1)]),
        "monotone_constraints_method": st.sampled_from(["basic", "intermediate"]),
        "min_samples_leaf": st.sampled_from([0, 0, 30]),
        "path_smooth": st.sampled_from([0.0, 0.0, 4.0]),
        "interaction_constraints": st.sampled_from(["", "[[0], [1, 2]]", "[[0, 2]]"]),
        "feature_costs": st.sampled_from([(), (0.0, 9.0), {2: 1.0}]),
        "feature_costs_for": st.sampled_from(["model", "rows"]),
        "feature_weights": st.booleans(),
    }
)


@given(kind=st.sampled_from(sorted(TABLES)), params=PARAMETERS, limits=CONSTRAINTS)
@examples(60)
def test_every_constraint_gives_the_same_trees(kind, params, limits):
    with pytest.MonkeyPatch.context() as patch:
        calls = grown_in_one_call.__wrapped__(patch)
        found = digests(calls, kind, {**params, **limits})
    assert len(found) == 1


@given(
    kind=st.sampled_from(sorted(TABLES)),
    params=PARAMETERS,
    limits=CONSTRAINTS,
    outputs=OUTPUTS,
)
@examples(20)
def test_every_constraint_on_multi_output_trees(kind, params, limits, outputs):
    outputs = {**outputs, "sketch_outputs": 0}  # with monotone_constraints an error
    with pytest.MonkeyPatch.context() as patch:
        calls = grown_in_one_call.__wrapped__(patch)
        found = digests(calls, kind, {**params, **limits, **outputs})
    assert len(found) == 1


def thin():
    """Return rows of which few cells are stored, as an array with NaN, and labels."""
    rng = np.random.default_rng(5)
    values = np.round(rng.normal(size=(ROWS, 40)), 2)
    values[rng.random(values.shape) > 0.05] = np.nan
    labels = np.nansum(values[:, :8], axis=1) + 0.3 * rng.normal(size=ROWS)
    return values, (labels > 0.1).astype(float)


def stored(values):
    """Return the cells that are not NaN as a sparse matrix."""
    here = ~np.isnan(values)
    return sp.csr_array((values[here], here.nonzero()), shape=values.shape)


def digests_of_stored_entries(params, labels):
    """Return the digests of sparse rows in one call, and of dense ones step by step."""
    values, _ = thin()
    weights = np.arange(40) % 4 / 4 if params.get("feature_weights") else None
    params = {key: params[key] for key in params if key != "feature_weights"}
    data = hornbeam.DMatrix(stored(values), labels, feature_weights=weights)
    assert isinstance(data.binned(params["max_bin"]).as_bins(), SparseBins)
    one = hornbeam.train(params, data, 3, verbose_eval=False).digest()
    with pytest.MonkeyPatch.context() as patch:
        grown_in_one_call.__wrapped__(patch).enabled = False
        data = hornbeam.DMatrix(values, labels, feature_weights=weights)
        return one, hornbeam.train(params, data, 3, verbose_eval=False).digest()


@given(params=PARAMETERS, limits=st.one_of(st.just({}), CONSTRAINTS))
@examples(40)
def test_every_configuration_of_stored_entries(params, limits):
    """Sparse rows in one call grow the trees of dense ones, split by split."""
    one, other = digests_of_stored_entries({**params, **limits}, thin()[1])
    assert one == other


@given(
    params=PARAMETERS,
    limits=st.one_of(st.just({}), CONSTRAINTS),
    outputs=OUTPUTS,
)
@examples(20)
def test_every_multi_output_tree_of_stored_entries(params, limits, outputs):
    labels = thin()[1]
    others = np.arange(ROWS) % 3 == 1, np.sin(np.arange(ROWS))
    if not limits.get("monotone_constraints"):
        params = {**params, **outputs}
    params = {**params, "multi_strategy": "multi_output_tree"}
    params["objective"] = outputs["objective"]
    one, other = digests_of_stored_entries(
        {**params, **limits}, np.column_stack([labels, *others])
    )
    assert one == other


#: Gradients are multiples of 1/64, so that sums are the same whatever their units.
SIXTY_FOURTHS = {
    "objective": "reg:squarederror",
    "base_score": 0.0,
    "scale_pos_weight": 1.0,
    "sampling_method": "uniform",
    "pruning": "before",
}
#: What trees of values do not have.
OF_BINS = {
    "max_bin",
    "max_cached_hist_node",
    "cat_smooth",
    "cat_l2",
    "min_data_per_group",
}


@given(params=PARAMETERS, limits=st.one_of(st.just({}), CONSTRAINTS))
@examples(40)
def test_every_configuration_of_sorted_columns(params, limits):
    """Where each value has a bin, trees of values are those of bins, split by split."""
    values = TABLES["numbers"][0]
    labels = np.round(np.nan_to_num(values[:, 0] * values[:, 1]) % 3 * 64) / 64 - 1
    params = {**params, **limits, **SIXTY_FOURTHS}
    params = {name: params[name] for name in params.keys() - OF_BINS}
    weights = np.arange(6) % 4 / 4 if params.pop("feature_weights", False) else None
    data = hornbeam.DMatrix(values, labels, feature_weights=weights)
    models = [
        hornbeam.train({**params, **own}, data, 1, verbose_eval=False)
        for own in ({"max_bin": 700 if IS_WHOLE else 256}, {"tree_method": "exact"})
    ]
    one, other = (model.model.trees[0] for model in models)
    for name in ("left", "feature", "default_left", "gain", "cover", "value", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


def name_of(kernel):
    """Return the name of a kernel, which may be native."""
    native = getattr(kernel, "__self__", None)
    return getattr(native, "fallback", kernel).__name__


def kernels_of_three_trees(data, params, monkeypatch):
    """Return the kernels that three trees call, when the tables have grown to them."""
    names, run = [], Team.run

    def counted(self, kernel, *arguments):
        names.append(name_of(kernel))
        return run(self, kernel, *arguments)

    booster = hornbeam.Booster(params, [data])
    booster.update(data, 0)
    booster.update(data, 1)
    monkeypatch.setattr(Team, "run", counted)
    for number in range(2, 5):
        booster.update(data, number)
    return names


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_a_tree_is_one_dispatch(policy, outputs, monkeypatch):
    """Whatever its size, when the tables have grown to it."""
    values, labels = TABLES["many bins"]
    params = {"max_depth": 0, "max_leaves": 300, "grow_policy": policy}
    if outputs > 1:
        params["multi_strategy"] = "multi_output_tree"
        labels = labels[:, None] + values[:, :1] * np.arange(outputs)
    names = kernels_of_three_trees(
        hornbeam.DMatrix(values, labels), params, monkeypatch
    )
    growing = [name for name in names if "grow_tree" in name]
    assert len(growing) == 3
    banned = ("build_histograms", "find_splits", "partition_rows", "leaves")
    assert not [name for name in names if any(word in name for word in banned)]


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_a_tree_of_stored_entries_is_one_dispatch(policy, outputs, monkeypatch):
    values, labels = thin()
    params = {"max_depth": 0, "max_leaves": 100, "grow_policy": policy}
    if outputs > 1:
        params["multi_strategy"] = "multi_output_tree"
        labels = labels[:, None] + np.nan_to_num(values[:, :outputs])
    names = kernels_of_three_trees(
        hornbeam.DMatrix(stored(values), labels), params, monkeypatch
    )
    assert sum("grow_sparse_tree" in name for name in names) == 3
    banned = ("mark_rows", "find_sparse_splits", "send_rows", "leaves")
    assert not [name for name in names if any(word in name for word in banned)]


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_tree_of_sorted_columns_is_one_dispatch(policy, sampled, monkeypatch):
    """One more sends the rows that are not in the sample to the leaves."""
    params = {"tree_method": "exact", "max_depth": 0, "max_leaves": 100}
    params |= {"grow_policy": policy, "subsample": 0.5 if sampled else 1.0}
    data = hornbeam.DMatrix(*TABLES["numbers"])
    names = kernels_of_three_trees(data, params, monkeypatch)
    growing = ["send_left_out", "look_up_leaves"] if sampled else []
    banned = ("exact", "splits", "partition", "send", "leaves")
    found = [name for name in names if any(word in name for word in banned)]
    assert found == ["grow_exact_tree", *growing] * 3


@pytest.mark.parametrize("outputs", [1, 2])
def test_few_histograms_of_stored_entries_take_less_memory(outputs):
    rng = np.random.default_rng(0)
    rows = sp.random(1000, 4000, 0.01, "csr", rng=rng)
    y = rows[:, :200].toarray().sum(axis=1)[:, None] + rng.normal(size=(1000, outputs))
    params = {"multi_strategy": "multi_output_tree", "max_leaves": 31}
    data, found = hornbeam.DMatrix(rows, y), []
    for most in (1, 4, 65536):
        hornbeam.train({**params, "max_cached_hist_node": most}, data, 1)  # bins
        tracemalloc.start()
        try:
            model = hornbeam.train({**params, "max_cached_hist_node": most}, data, 2)
            found.append((tracemalloc.get_traced_memory()[1], model.digest()))
        finally:
            tracemalloc.stop()
    (one, digest), (few, of_few), (many, of_many) = found
    assert digest == of_few == of_many
    bins = data.num_nonmissing() / 2  # at least: values are distinct
    assert one + 3 * bins * 16 < few and few + 8 * bins * 16 < many, found


@pytest.mark.parametrize("rows", [ROWS, 500])
def test_a_deep_symmetric_tree_is_one_dispatch(rows, monkeypatch):
    """With more nodes than rows, as well: nodes that gain nothing have no histogram."""
    values, labels = (column[:rows] for column in TABLES["many bins"])
    params = {"grow_policy": "symmetric", "max_depth": 12, "min_child_weight": 0}
    data, kernels = hornbeam.DMatrix(values, labels), []
    for most in (1 << 16, 100):
        params["max_cached_hist_node"] = most
        with monkeypatch.context() as patch:
            kernels.append(kernels_of_three_trees(data, params, patch))
    in_one, by_level = kernels
    assert sum("grow_symmetric_tree" in name for name in in_one) == 3
    banned = ("build_histograms", "level", "partition_rows")
    assert not [name for name in in_one if any(word in name for word in banned)]
    assert "grow_symmetric_tree" not in by_level
    models = [
        hornbeam.train({**params, "max_cached_hist_node": most}, data, 2)
        for most in (1 << 16, 100)
    ]
    assert models[0].digest() == models[1].digest()


def test_tables_grow_while_a_tree_is_grown(monkeypatch):
    """A tree of more nodes than there is room for goes on where it stopped."""
    sizes, allocate = [], TreeGrower._allocate

    def counted(self, root, features, search, nodes):
        sizes.append(nodes)
        return allocate(self, root, features, search, nodes)

    monkeypatch.setattr(TreeGrower, "_allocate", counted)
    values, labels = TABLES["many bins"]
    for policy in ("depthwise", "lossguide"):
        sizes.clear()
        params = {"max_depth": 0, "min_child_weight": 0, "grow_policy": policy}
        model = hornbeam.train(
            params, hornbeam.DMatrix(values, labels), 1, verbose_eval=False
        )
        assert len(sizes) > 1
        assert model.trees_to_dataframe().shape[0] > 128


LIMITED = {
    "objective": "reg:pseudohubererror",  # hessians differ: rows are counted
    "monotone_constraints": (1, 0, -1),
    "monotone_constraints_method": "intermediate",
    "min_samples_leaf": 50,
}


MULTI_OUTPUT = {"multi_strategy": "multi_output_tree"}


@cache
def large_matrix(several):
    """Return enough rows for every phase to be shared among threads."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120_000, 24)).astype(np.float32)
    values[rng.random(values.shape) < 0.02] = np.nan
    labels = np.nan_to_num(values[:, 0] * values[:, 1] + values[:, 2])
    if several:
        labels = np.column_stack([labels, np.nan_to_num(values[:, 3])])
    return hornbeam.DMatrix(values, labels)


@pytest.mark.parametrize("limits", [{}, LIMITED, MULTI_OUTPUT, LIMITED | MULTI_OUTPUT])
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_threads_share_the_phases_of_large_nodes(
    policy, limits, grown_in_one_call, thread_counts
):
    data, found = large_matrix(several="multi_strategy" in limits), []
    for threads in thread_counts:
        params = {"nthread": threads, "grow_policy": policy, "max_leaves": 40, **limits}
        model = hornbeam.train(params, data, 2, verbose_eval=False)
        found.append(model.digest())
    grown_in_one_call.enabled = False
    params["nthread"] = 2
    found.append(hornbeam.train(params, data, 2, verbose_eval=False).digest())
    assert len(set(found)) == 1
