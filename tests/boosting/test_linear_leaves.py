"""Linear leaves: ridge regressions on the features of a leaf's path."""

from __future__ import annotations

import itertools
import math
import pickle
import subprocess

import lightgbm
import numpy as np
import pytest
import scipy.sparse
import xgboost
from selection import half_slow

import hornbeam
from hornbeam import DMatrix, ErrorCode
from hornbeam import export as exporting

LINEAR, CONSTANT = {"leaf_model": "linear"}, {"leaf_model": "constant"}


def table(n_rows=600, n_columns=5, missing=0.1, seed=0, dtype=np.float32):
    """Return features, and labels that are smooth in them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns)).astype(dtype)
    signal = 2 * rows[:, 0] + np.sin(2 * rows[:, 1]) + rows[:, 2] * rows[:, 3]
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, signal + 0.1 * rng.normal(size=n_rows)


def graded(labels, n):
    return np.searchsorted(np.quantile(labels, np.arange(1, n) / n), labels)


def train(params, data, rounds=4, **kwargs):
    return hornbeam.train({"max_depth": 3, **LINEAR, **params}, data, rounds, **kwargs)


# --- Reference implementation ---------------------------------------------------------


def leaves_of(tree, row):
    """Return the leaf that a row of numbers comes to."""
    node = 0
    while tree.left[node] >= 0:
        value = row[tree.feature[node]]
        left = value < tree.threshold[node]
        if np.isnan(value):
            left = tree.default_left[node] == 1
        node = tree.left[node] + (not left)
    return node


def path_of(tree, leaf):
    """Return the features on the path from a leaf up, each once."""
    found, node = [], tree.parent[leaf]
    while node >= 0:
        found += [tree.feature[node]] * (tree.feature[node] not in found)
        node = tree.parent[node]
    return found


def terms_of(tree, leaf):
    starts = tree.terms.starts
    return tree.terms.terms[starts[leaf] : starts[leaf + 1]].tolist()


def value_of(tree, row):
    """Return what a tree predicts of a row, as float32."""
    leaf = leaves_of(tree, row)
    total = float(tree.value[leaf])
    for feature, slope, centre, low, high in terms_of(tree, leaf):
        if not np.isnan(row[feature]):
            total += slope * (min(max(float(row[feature]), low), high) - centre)
    return np.float32(total)


def slopes_of(rows, gradients, hessians, linear_lambda, learning_rate):
    """Return the slopes of one leaf on its features, their means and their ranges."""
    known = ~np.isnan(rows)
    weights = np.where(known, hessians[:, None], 0.0).sum(axis=0)
    means = np.where(known, rows * hessians[:, None], 0.0).sum(axis=0) / weights
    centred = np.where(known, rows - means, 0.0)
    matrix = centred.T @ (centred * hessians[:, None])
    matrix[np.diag_indices(len(weights))] *= 1.0 + linear_lambda / weights
    slopes = -np.linalg.solve(matrix, centred.T @ gradients) * learning_rate
    return slopes, means, np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_leaves_are_those_of_the_reference_implementation(objective, weighted):
    rows, labels = table()
    rate, penalty = 0.3, 2.0
    if objective == "binary:logistic":
        labels = (labels > 0).astype(float)
    weights = 1.0 + np.arange(len(rows)) % 3 if weighted else np.ones(len(rows))
    data = DMatrix(rows, labels, weight=weights if weighted else None)
    params = {"objective": objective, "linear_lambda": penalty, "base_score": 0.5}
    booster = train(params, data, 3)
    margins = np.zeros(len(rows)) + (0.5 if objective == "reg:squarederror" else 0.0)
    for tree in booster.model.trees:
        if objective == "reg:squarederror":
            gradients, hessians = (margins - labels) * weights, weights
        else:
            p = 1.0 / (1.0 + np.exp(-margins))
            gradients, hessians = (p - labels) * weights, p * (1.0 - p) * weights
        at = np.array([leaves_of(tree, row) for row in rows])
        for leaf in np.flatnonzero(tree.left < 0):
            own, path = at == leaf, path_of(tree, leaf)
            g, h = gradients[own], hessians[own]
            expected = -rate * g.sum() / (h.sum() + 1.0)
            assert tree.value[leaf] == pytest.approx(expected, rel=1e-4, abs=1e-6)
            found = np.array(terms_of(tree, leaf))
            features = found[:, 0].astype(int).tolist()
            assert features == [f for f in path if f in features]
            wide = rows[own][:, features].astype(np.float64)
            expected = slopes_of(wide, g, h, penalty, rate)
            for column, values in zip(found[:, 1:].T, expected, strict=True):
                np.testing.assert_allclose(column, values, rtol=1e-3, atol=1e-5)
            np.testing.assert_array_equal(found[:, 3:].T, expected[2:])
        margins += [value_of(tree, row) for row in rows]
    predicted = booster.predict(data, output_margin=True)
    np.testing.assert_allclose(predicted, margins, rtol=1e-5, atol=1e-5)


def test_constants_and_splits_of_the_first_tree_are_those_of_constant_leaves():
    rows, labels = table()
    data = DMatrix(rows, labels)
    linear = train({}, data, 1).model.trees[0]
    constant = train({"leaf_model": "constant"}, data, 1).model.trees[0]
    assert constant.terms is None
    for name in ("left", "feature", "threshold", "value", "gain", "cover", "weight"):
        np.testing.assert_array_equal(getattr(linear, name), getattr(constant, name))


@pytest.mark.parametrize("most", [1, 2])
def test_the_nearest_features_are_used(most):
    rows, labels = table(missing=0.0)
    tree = train({"linear_max_features": most}, DMatrix(rows, labels), 1).model.trees[0]
    for leaf in np.flatnonzero(tree.left < 0):
        features = [term[0] for term in terms_of(tree, leaf)]
        assert features == path_of(tree, leaf)[:most]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 5, 5000])
def test_predictions_are_sums_over_trees(dtype, n_rows):
    rows, labels = table(dtype=dtype)
    booster = train({"base_score": 0.0}, DMatrix(rows, labels), 12)
    some, _ = table(n_rows, seed=5, dtype=dtype)
    predicted = booster.predict(DMatrix(some))
    np.testing.assert_array_equal(predicted, booster.inplace_predict(some))
    expected = np.zeros(min(n_rows, 40), np.float32)
    for tree in booster.model.trees:
        expected += np.array([value_of(tree, row) for row in some[:40]])
    np.testing.assert_array_equal(predicted[:40], expected)


# --- What they are for ----------------------------------------------------------------


def test_losses_are_those_of_lightgbm_with_linear_trees():
    rows, labels = table(4000, missing=0.0)
    test, truth = table(2000, missing=0.0, seed=1)
    common = {"learning_rate": 0.1, "max_leaves": 16, "min_child_weight": 20}
    common |= {"grow_policy": "lossguide", "max_depth": 0}
    data = DMatrix(rows, labels)

    def rmse(predicted):
        return float(np.sqrt(np.mean((predicted - truth) ** 2)))

    ours = [
        rmse(train(params, data, 60).predict(DMatrix(test)))
        for params in ({**common, **CONSTANT}, {**common, "linear_lambda": 1.0})
    ]
    told = {"linear_tree": True, "learning_rate": 0.1, "num_leaves": 16}
    told |= {"linear_lambda": 1.0, "verbose": -1, "num_threads": 1}
    theirs = lightgbm.train(told, lightgbm.Dataset(rows, labels), 60)
    assert ours[1] < 0.8 * ours[0]
    assert ours[1] < 1.1 * rmse(theirs.predict(test))


def test_predictions_do_not_extrapolate():
    x = np.linspace(0.0, 1.0, 200, dtype=np.float32)[:, None]
    booster = train({"learning_rate": 1.0}, DMatrix(x, 10 * x[:, 0]), 3)
    beyond = np.array([[-1e30], [-5.0], [0.0], [1.0], [7.0], [np.inf]], np.float32)
    low, lower, first, last, higher, high = booster.inplace_predict(beyond).tolist()
    assert low == lower == first == pytest.approx(0.0, abs=0.1)
    assert high == higher == last == pytest.approx(10.0, abs=0.1)


def test_a_missing_value_counts_as_the_mean_of_the_leaf():
    rows, labels = table(missing=0.3)
    tree = train({"base_score": 0.0}, DMatrix(rows, labels), 1)
    nothing = tree.predict(DMatrix(np.full((1, 5), np.nan, np.float32)))
    only = tree.model.trees[0]
    assert nothing == only.value[leaves_of(only, np.full(5, np.nan))]


def test_categories_split_and_have_no_terms():
    rows, labels = table(missing=0.0)
    rows[:, 4] = np.arange(len(rows)) % 4
    labels = labels + 5 * (rows[:, 4] > 1)
    types = ["q"] * 4 + ["c"]
    data = DMatrix(rows, labels, feature_types=types)
    trees = train({}, data).model.trees
    assert any((tree.split_type == 1).any() for tree in trees)
    assert all((tree.terms.terms["feature"] < 4).all() for tree in trees)


def test_steps_are_limited_by_max_delta_step():
    rows, labels = table()
    limit = 0.5
    booster = train(
        {"max_delta_step": limit, "learning_rate": 1.0, "base_score": 0.0},
        DMatrix(rows, 100 * labels),
        1,
    )
    assert np.abs(booster.predict(DMatrix(rows))).max() <= limit * (1 + 1e-6)


@pytest.mark.parametrize("linear_lambda", [0.0, 1.0])
def test_columns_that_are_equal_constant_or_missing_are_no_problem(linear_lambda):
    rows, labels = table(missing=0.0)
    rows[:, 1] = rows[:, 0]
    rows[:, 2] = 2 * rows[:, 0]
    rows[:, 3] = rows[:, 3] > 0
    rows[:, 4] = np.where(rows[:, 4] > 0, 1.0, np.nan)
    booster = train(
        {"linear_lambda": linear_lambda, "colsample_bynode": 0.5, "max_depth": 5},
        DMatrix(rows, labels),
        10,
    )
    predicted = booster.predict(DMatrix(rows))
    assert np.isfinite(predicted).all()
    assert np.mean((predicted - labels) ** 2) < np.var(labels)


# --- The same bits --------------------------------------------------------------------

CONFIGURATIONS = {
    "depthwise": {},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "approx": {"tree_method": "approx"},
    "sample": {"subsample": 0.6, "colsample_bytree": 0.7, "colsample_bynode": 0.7},
    "goss": {"sampling_method": "goss"},
    "gradient_based": {"sampling_method": "gradient_based", "subsample": 0.4},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "forest": {"num_parallel_tree": 3, "subsample": 0.8},
    "pruned": {"pruning": "after", "gamma": 2.0},
    "smooth": {"path_smooth": 5.0, "min_samples_leaf": 8},
    "interactions": {"interaction_constraints": "[[0, 1], [2, 3, 4]]"},
}


@pytest.mark.parametrize(
    "params", half_slow(CONFIGURATIONS.values()), ids=list(CONFIGURATIONS)
)
def test_models_are_equal_on_any_number_of_threads(params, thread_counts):
    rows, labels = table(40_000, dtype=np.float64)
    labels = graded(labels, 3) if "num_class" in params else labels
    weights = 1.0 + np.arange(len(rows)) % 3
    found = set()
    for threads in thread_counts:
        data = DMatrix(rows, labels, weight=weights)
        booster = train({"nthread": threads, **params}, data)
        assert booster.model.has_linear_leaves
        found.add((booster.digest(), booster.predict(data).tobytes()))
    assert len(found) == 1


@pytest.mark.parametrize("missing", [0.2, 0.95])
def test_sparse_rows_give_the_model_of_dense_ones(missing):
    rows, labels = table(3000, 40, missing)
    rows[rows == 0.0] = 1.0
    filled = scipy.sparse.csr_matrix(np.nan_to_num(rows))
    dense, sparse = DMatrix(rows, labels), DMatrix(filled, labels)
    boosters = [train({}, data) for data in (dense, sparse)]
    assert boosters[0].digest() == boosters[1].digest()
    for data in (dense, sparse):
        np.testing.assert_array_equal(*(b.predict(data) for b in boosters))


def test_a_model_that_is_continued_is_the_one_trained_at_once():
    rows, labels = table()
    data = DMatrix(rows, labels)
    at_once = train({}, data, 6)
    before = train({}, data, 3)
    fresh = DMatrix(rows, labels)
    assert train({}, fresh, 3, xgb_model=before).digest() == at_once.digest()
    mixed = train({"leaf_model": "constant"}, data, 3, xgb_model=before)
    assert [tree.terms is None for tree in mixed.model.trees] == 3 * [False] + 3 * [
        True
    ]


def test_evaluation_and_early_stopping_see_the_predictions():
    rows, labels = table()
    test, truth = table(seed=3)
    evals, history = DMatrix(test, truth), {}
    booster = train(
        {"learning_rate": 1.0, "max_depth": 6},
        DMatrix(rows, labels),
        60,
        evals=[(evals, "test")],
        evals_result=history,
        early_stopping_rounds=3,
        verbose_eval=False,
    )
    best = booster.predict(evals, iteration_range=(0, booster.best_iteration + 1))
    rmse = np.sqrt(np.mean((best - truth) ** 2))
    assert booster.num_boosted_rounds() < 60
    assert rmse == pytest.approx(history["test"]["rmse"][booster.best_iteration])


# --- Explanations ---------------------------------------------------------------------


def shapley(value, n):
    """Return the Shapley values of n players of the game `value`."""
    found = np.zeros(n)
    for player in range(n):
        others = [k for k in range(n) if k != player]
        for size in range(n):
            weight = 1.0 / (n * math.comb(n - 1, size))
            for own in itertools.combinations(others, size):
                found[player] += weight * (value({*own, player}) - value({*own}))
    return found


def known_value(model, row, known):
    """Return the mean margin by cover where only some features are known."""

    def below(tree, node):
        if tree.left[node] < 0:
            value = float(tree.value[node])
            for feature, slope, centre, low, high in terms_of(tree, node):
                if feature in known and not np.isnan(row[feature]):
                    inside = min(max(float(row[feature]), low), high)
                    value += slope * (inside - centre)
            return value
        pair = tree.left[node], tree.left[node] + 1
        if tree.feature[node] in known:
            value = row[tree.feature[node]]
            left = value < tree.threshold[node]
            if np.isnan(value):
                left = tree.default_left[node] == 1
            return below(tree, pair[0 if left else 1])
        covers = tree.cover[list(pair)].astype(np.float64)
        parts = [below(tree, child) for child in pair]
        return float(covers @ parts / covers.sum())

    return sum(below(tree, 0) for tree in model.trees)


def test_shap_values_are_those_of_the_game_with_expected_terms():
    rows, labels = table()
    booster = train({}, DMatrix(rows, labels), 3)
    found = booster.predict(DMatrix(rows[:4]), pred_contribs=True)
    pairs = booster.predict(DMatrix(rows[:4]), pred_interactions=True)
    for row, values, interactions in zip(rows, found, pairs, strict=False):

        def value(known, row=row):
            return known_value(booster.model, row, known)

        np.testing.assert_allclose(values[:-1], shapley(value, 5), atol=2e-6)
        one, other = 0, 1
        rest = [k for k in range(5) if k not in (one, other)]
        expected = 0.0
        for size in range(4):
            for own in itertools.combinations(rest, size):
                s = {*own}
                both = value(s | {one, other}) - value(s | {one})
                both -= value(s | {other}) - value(s)
                expected += both / (2 * 4 * math.comb(3, size))
        assert interactions[one, other] == pytest.approx(expected, abs=2e-6)


def test_interventional_shap_values_are_those_of_predictions():
    rows, labels = table()
    booster = train({}, DMatrix(rows, labels), 3)
    background = rows[100:120]
    found = booster.shap_values(DMatrix(rows[:3]), DMatrix(background))
    for row, values in zip(rows, found, strict=False):

        def value(known, row=row):
            mixed = background.copy()
            mixed[:, list(known)] = row[list(known)]
            predicted = booster.predict(DMatrix(mixed), output_margin=True)
            return float(predicted.astype(np.float64).mean())

        np.testing.assert_allclose(values[:-1], shapley(value, 5), atol=2e-6)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_explanations_add_up_to_the_margin(n_classes):
    rows, labels = table(300, 80)
    params = {}
    if n_classes:
        labels = graded(labels, n_classes)
        params = {"objective": "multi:softprob", "num_class": n_classes}
    booster = train(params, DMatrix(rows, labels), 5)
    data = DMatrix(3 * table(50, 80, seed=9)[0])
    margins = booster.predict(data, output_margin=True)
    explained = [
        booster.predict(data, pred_contribs=True),
        booster.predict(data, pred_contribs=True, approx_contribs=True),
        booster.predict(data, pred_interactions=True).sum(axis=-1),
        booster.shap_values(data, DMatrix(rows[:30])),
    ]
    for found in explained:
        np.testing.assert_allclose(found.sum(axis=-1), margins, atol=1e-5)
    assert not np.allclose(explained[0], explained[1], atol=1e-4)


# --- Files and exports ----------------------------------------------------------------


@pytest.fixture(scope="module")
def booster():
    rows, labels = table()
    return train({}, DMatrix(rows, labels))


@pytest.mark.parametrize("raw_format", ["json", "ubj"])
def test_files_contain_the_terms(booster, raw_format, tmp_path):
    path = tmp_path / f"model.{raw_format}"
    booster.save_model(path)
    loaded = hornbeam.Booster(model_file=path)
    rows = DMatrix(table(seed=4)[0])
    np.testing.assert_array_equal(loaded.predict(rows), booster.predict(rows))
    assert loaded.digest() == booster.digest()
    assert pickle.loads(pickle.dumps(booster)).digest() == booster.digest()
    assert loaded.copy().digest() == booster.digest()


@pytest.mark.parametrize("raw_format", ["json", "ubj"])
def test_xgboost_refuses_the_file_instead_of_predicting_by_constants(
    booster, raw_format
):
    with pytest.raises(xgboost.core.XGBoostError, match="gbtree_linear_leaves"):
        xgboost.Booster().load_model(booster.save_raw(raw_format))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"name":"gbtree_linear_leaves"', b'"name":"gbtree"', "linear leaves"),
        (b'"counts":[0,', b'"counts":[1,', "number of terms"),
        (b'"low":[', b'"low":[1.0,', "finite numbers"),
        (b'"linear_leaves"', b'"linear_leafs"', "linear_leafs"),
    ],
)
def test_broken_files_are_refused(booster, old, new, said):
    raw = bytes(booster.save_raw("json"))
    assert old in raw
    with pytest.raises(hornbeam.ModelFileError, match=said):
        hornbeam.Booster().load_model(bytearray(raw.replace(old, new, 1)))


def test_slices_merge_and_average(booster):
    rows = DMatrix(table(seed=4)[0])
    parts = [booster[:2], booster[2:]]
    assert hornbeam.merge(parts).digest() == booster.digest()
    middle = hornbeam.average([parts[0], booster[:2]]).predict(rows)
    np.testing.assert_allclose(middle, parts[0].predict(rows), rtol=1e-5, atol=1e-6)
    margins = [part.predict(rows).astype(np.float64) for part in parts]
    base = float(booster.model.base_score[0])
    np.testing.assert_allclose(sum(margins) - base, booster.predict(rows), atol=1e-5)


def test_exported_python_gives_the_same_margins(booster):
    module: dict = {}
    exec(exporting.to_python(booster), module)
    rows = 3 * table(50, seed=4)[0]
    margins = [module["margins"](row.tolist()) for row in rows]
    np.testing.assert_array_equal(
        np.array(margins, np.float32), booster.predict(DMatrix(rows))
    )


def test_exported_c_gives_the_same_margins(booster, tmp_path):
    rows = 3 * table(50, seed=4)[0]
    source = exporting.to_c(booster) + (
        "#include <stdio.h>\nint main(void) {\n"
        "    double row[5];\n    float margin;\n"
        '    while (scanf("%lf %lf %lf %lf %lf", row, row + 1, row + 2, row + 3,'
        " row + 4) == 5) {\n"
        '        model_margins(row, &margin);\n        printf("%.9g\\n", margin);\n'
        "    }\n    return 0;\n}\n"
    )
    (tmp_path / "model.c").write_text(source)
    program = tmp_path / "model"
    flags = ["-std=c99", "-Wall", "-Werror", "-O2"]
    command = ["cc", *flags, "-o", program, tmp_path / "model.c", "-lm"]
    subprocess.run(command, check=True)
    text = "\n".join(" ".join(map(repr, map(float, row))) for row in rows)
    printed = subprocess.run(
        program, input=text, capture_output=True, text=True, check=True
    ).stdout
    margins = np.array(printed.split(), np.float32)
    np.testing.assert_array_equal(margins, booster.predict(DMatrix(rows)))


@pytest.mark.parametrize("export", [exporting.to_onnx, exporting.to_xgboost])
def test_exports_without_linear_leaves_say_so(booster, export):
    with pytest.raises(hornbeam.ParameterError, match="linear") as caught:
        export(booster)
    assert caught.value.code is ErrorCode.NOT_EXPORTABLE


def test_dumps_list_the_terms(booster):
    text = booster.get_dump()[0]
    assert "*(clip(f" in text
    tree = booster.get_dump(dump_format="json")[0]
    assert '"terms": ["' in tree
    assert "clip(f" in booster.get_dump(dump_format="dot")[0]
    frame = booster.trees_to_dataframe()
    leaves = frame["Feature"] == "Leaf"
    assert frame["Terms"][leaves].map(len).sum() == sum(
        tree.terms.terms.size for tree in booster.model.trees
    )
    assert frame["Terms"][~leaves].isna().all()


# --- Bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"booster": "dart"},
        {"booster": "gblinear"},
        {"leaf_solver": "line_search"},
        {"monotone_constraints": "(1,0,0,0,0)"},
        {"multi_strategy": "multi_output_tree"},
        {"tree_method": "exact"},
        {"grow_policy": "symmetric"},
        {"tree_method": "approx", "sketch_scope": "local"},
        {"leaf_model": "constant", "linear_lambda": 2.0},
        {"leaf_model": "constant", "linear_max_features": 2},
        {"linear_lambda": -1.0},
        {"linear_max_features": -1},
        {"leaf_model": "quadratic"},
    ],
    ids=str,
)
def test_parameters_that_exclude_each_other_are_named(params):
    given = {**LINEAR, **params}
    named = [name for name in given if name.startswith(("leaf_model", "linear_"))]
    with pytest.raises(hornbeam.ParameterError) as caught:
        hornbeam.Booster(given)
    assert any(name in str(caught.value) for name in named)


def test_bins_without_values_are_refused(tmp_path):
    rows, labels = table()
    binned = hornbeam.QuantileDMatrix(rows, labels)
    with pytest.raises(hornbeam.DataError, match="stores only their bins"):
        train({}, binned)
    booster = train({}, DMatrix(rows, labels))
    for predicts in (
        lambda: booster.predict(binned),
        lambda: booster.predict(binned, pred_contribs=True),
        lambda: booster.shap_values(binned, DMatrix(rows)),
        lambda: booster.eval(binned),
    ):
        with pytest.raises(hornbeam.DataError, match="stores only their bins"):
            predicts()


def test_updates_and_refits_are_refused(booster):
    rows, labels = table()
    data = DMatrix(rows, labels)
    with pytest.raises(hornbeam.ParameterError, match="linear"):
        booster.refit(data)
    update = {"process_type": "update", "updater": "refresh"}
    with pytest.raises(hornbeam.ParameterError, match="linear"):
        hornbeam.train(update, data, 1, xgb_model=booster)
    with pytest.raises(hornbeam.ParameterError, match="dart"):
        hornbeam.train({"booster": "dart"}, data, 1, xgb_model=booster)


def test_labels_beyond_float32_are_an_error():
    rows, labels = table()
    with pytest.raises(hornbeam.DataError, match="scale"):
        train({}, DMatrix(rows, 1e38 * labels), 3)
