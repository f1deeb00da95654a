"""Exchange of models with categorical features with XGBoost."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas
import pyarrow
import pytest
import xgboost
from forest_models import grown_tree, in_xgboost
from hypothesis import given
from hypothesis import strategies as st
from naive import leaf_of

from hornbeam.data.categories import Categories
from hornbeam.errors import ModelFileError
from hornbeam.forest import Model, decode, digest, encode
from hornbeam.forest.model_file import encode_for_xgboost

FORMATS = ["json", "ubj"]
COLOURS = ["red", "green", "", "ultramarine", "blue", "grey"]
YEARS = np.array([1999, -4, 2024, 2023, 7])
KINDS = [3, 1, 2]


def frame(seed=0, n_rows=400):
    """Return a categorical column with missing values and two numeric columns."""
    rng = np.random.default_rng(seed)

    def column(categories):
        codes = rng.integers(-1, len(categories), n_rows)
        return pandas.Categorical.from_codes(codes, categories)

    return pandas.DataFrame(
        {
            "colour": column(COLOURS),
            "size": rng.normal(size=n_rows),
            "year": column(YEARS),
            "kind": column(KINDS),
            "level": rng.integers(0, 5, n_rows).astype(float),
        }
    )


def codes_of(data):
    """Return the rows of a data frame with category codes, as trees use them."""
    columns = [
        values.cat.codes.astype(np.float32).where(values.notna())
        if isinstance(values.dtype, pandas.CategoricalDtype)
        else values
        for _, values in data.items()
    ]
    return np.column_stack(columns).astype(np.float32)


def labels_of(data):
    rows = np.nan_to_num(codes_of(data), nan=9.0)
    return np.sin(2 * rows[:, 0]) + rows[:, 1] * (rows[:, 2] % 2) + rows[:, 3] ** 2 / 9


def trained_on_names(**params):
    data = frame()
    labels = labels_of(data)
    if params.get("objective", "").startswith("multi"):
        labels = np.digitize(labels, [0.0, 1.0])
    matrix = xgboost.DMatrix(data, labels, enable_categorical=True)
    params = {"nthread": 1, "max_depth": 4, "min_child_weight": 0, **params}
    return xgboost.train(params, matrix, 5), matrix, codes_of(data)


def trained_on_codes(**params):
    rows = codes_of(frame())
    types = ["c", "float", "c", "c", "q"]
    matrix = xgboost.DMatrix(
        rows, labels_of(frame()), feature_types=types, enable_categorical=True
    )
    return xgboost.train({"nthread": 1, **params}, matrix, 5), matrix, rows


MADE = {
    "groups": lambda: trained_on_names(max_cat_to_onehot=1),
    "one-hot": lambda: trained_on_names(max_cat_to_onehot=100),
    "few cuts": lambda: trained_on_names(max_cat_threshold=2),
    "deep": lambda: trained_on_names(max_depth=9, grow_policy="lossguide"),
    "classes": lambda: trained_on_names(objective="multi:softprob", num_class=3),
    "approx": lambda: trained_on_names(tree_method="approx", gamma=0.5),
    "codes": trained_on_codes,
}


@pytest.fixture(scope="module", params=MADE)
def made(request):
    return MADE[request.param]()


@pytest.mark.parametrize("format", FORMATS)
def test_xgboosts_models_round_trip(made, format):
    booster, matrix, rows = made
    model = decode(booster.save_raw(format))
    assert sum(tree.split_type.sum() for tree in model.trees) > 5
    leaves = booster.predict(matrix, pred_leaf=True).reshape(len(rows), -1)
    for tree, theirs in zip(model.trees, leaves.T, strict=True):
        assert [leaf_of(tree, row) for row in rows[:100]] == theirs[:100].tolist()
    for written in FORMATS:
        again = in_xgboost(encode(model, written))
        for kind in ({}, {"output_margin": True}, {"pred_leaf": True}):
            np.testing.assert_array_equal(
                again.predict(matrix, **kind), booster.predict(matrix, **kind)
            )
        for kind in ("gain", "weight", "cover"):
            assert again.get_score(importance_type=kind) == booster.get_score(
                importance_type=kind
            )


def test_written_documents_equal_xgboosts(made):
    booster, _, _ = made
    theirs = json.loads(booster.save_raw("json"))
    model = decode(booster.save_raw("json"))
    ours = json.loads(encode_for_xgboost(model, "json"))
    theirs, ours = (
        document["learner"]["gradient_booster"]["model"] for document in (theirs, ours)
    )
    assert ours == theirs
    as_ubj = decode(booster.save_raw("ubj"))
    assert digest(as_ubj) == digest(model)


def test_category_names_keep_their_order():
    booster, _, _ = trained_on_names()
    model = decode(booster.save_raw("ubj"))
    assert model.feature_types == ["c", "float", "c", "c", "float"]
    names = [own if own is None else own.tolist() for own in model.categories.names]
    assert names == [COLOURS, None, YEARS.tolist(), KINDS, None]
    assert model.categories.feature_names == tuple(frame().columns)
    theirs = in_xgboost(encode(model, "json")).get_categories(export_to_arrow=True)
    expected = booster.get_categories(export_to_arrow=True)
    for (name, ours), (other, values) in zip(
        theirs.to_arrow(), expected.to_arrow(), strict=True
    ):
        assert name == other
        assert (ours is None) == (values is None)
        assert ours is None or ours.to_pylist() == values.to_pylist()


def test_xgboost_matches_categories_by_hornbeams_names():
    booster, matrix, _ = trained_on_names()
    again = in_xgboost(encode(decode(booster.save_raw("json")), "ubj"))
    recoded = frame()
    for name in ("colour", "year", "kind"):
        categories = recoded[name].cat.categories.tolist()[::-1]
        recoded[name] = recoded[name].cat.set_categories(categories)
    other = xgboost.DMatrix(recoded, enable_categorical=True)
    np.testing.assert_array_equal(again.predict(other), booster.predict(matrix))


def test_non_ascii_names_round_trip():
    names = ["zürich", "århus", "東京", "z", "", "é"]
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, 300)
    table = pyarrow.table(
        {"city": pyarrow.DictionaryArray.from_arrays(codes.astype(np.int32), names)}
    )
    matrix = xgboost.DMatrix(table, np.sin(codes * 7.0), enable_categorical=True)
    booster = xgboost.train({"nthread": 1}, matrix, 2)
    model = decode(booster.save_raw("json"))
    assert model.categories.of(0).tolist() == names
    theirs = json.loads(booster.save_raw("json"))
    ours = json.loads(encode(model, "json"))
    path = ("learner", "gradient_booster", "model", "cats")
    for key in path:
        theirs, ours = theirs[key], ours[key]
    assert ours == theirs
    again = in_xgboost(encode(model, "ubj"))
    np.testing.assert_array_equal(again.predict(matrix), booster.predict(matrix))


def test_names_truncated_by_xgboost_are_rejected():
    city = pandas.Categorical(["bü", "c", "d"] * 50)
    data = pandas.DataFrame({"city": city})
    matrix = xgboost.DMatrix(data, np.arange(150) % 3, enable_categorical=True)
    booster = xgboost.train({"nthread": 1}, matrix, 1)
    with pytest.raises(ModelFileError, match=r"not UTF-8.*Arrow") as caught:
        decode(booster.save_raw("json"))
    assert "damaged" not in str(caught.value)


def hand_made(seed=0, n_trees=2, names=None, exact=False):
    """Return a model of random trees whose first feature has 80 categories."""
    rng = np.random.default_rng(seed)
    names = [f"level {i}" for i in range(80)] if names is None else names
    return Model(
        trees=[
            grown_tree(rng, n_splits=6, categorical=[0], exact=exact)
            for _ in range(n_trees)
        ],
        tree_output=[0] * n_trees,
        round_starts=list(range(n_trees + 1)),
        num_feature=3,
        feature_types=["c", "q", "q"],
        categories=Categories([np.array(names, object), None, None]),
        exact_features=exact,
    )


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("exact", [False, True])
def test_round_trips_keep_the_digest(format, exact):
    model = hand_made(exact=exact)
    assert model.trees[0].category_counts.any()
    again = decode(encode(model, format))
    assert digest(again) == digest(model)
    assert again.categories == model.categories
    for tree, other in zip(model.trees, again.trees, strict=True):
        for name in ("split_type", "category_counts", "categories", "threshold"):
            np.testing.assert_array_equal(getattr(tree, name), getattr(other, name))
    assert digest(model.copy()) == digest(model)
    assert digest(model.slice(0, 2)) == digest(model)
    part = model.slice(1, 2)
    assert part.categories == model.categories
    assert digest(decode(encode(part, format))) == digest(part) != digest(model)


def test_the_digest_depends_on_the_categories():
    model = hand_made()
    other = hand_made()
    other.trees[0].categories[0] += 1 - 2 * (other.trees[0].categories[0] == 79)
    renamed = hand_made(names=[f"other {i}" for i in range(80)])
    unnamed = hand_made()
    unnamed.categories = Categories()
    assert len({digest(m) for m in (model, other, renamed, unnamed)}) == 4


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.one_of(
    st.none(),
    st.lists(WORDS, unique=True, max_size=9),
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=9),
    st.lists(st.integers(2**63, 2**64 - 1), unique=True, min_size=1, max_size=9),
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False),
        unique=True,
        min_size=1,
        max_size=9,
    ),
)


@given(names=st.lists(NAMES, max_size=4), format=st.sampled_from(FORMATS))
def test_any_names_round_trip(names, format):
    given = [
        np.array(own, object) if own is not None and not own else own for own in names
    ]
    model = Model(
        num_feature=len(names),
        feature_types=["q" if own is None else "c" for own in names],
        categories=Categories(given),
    )
    data = encode(model, format)
    again = decode(data)
    assert again.categories == model.categories
    assert digest(again) == digest(model)
    # XGBoost has no fractional categories, and its UBJSON has no uint64.
    numbers = [own[0] for own in names if own and not isinstance(own[0], str)]
    if names and all(isinstance(n, int) and n < 2**63 for n in numbers):
        assert in_xgboost(data).num_features() == len(names)


def sound():
    return json.loads(encode_for_xgboost(hand_made(), "json"))


SOUND = sound()
OFFSETS = SOUND["learner"]["gradient_booster"]["model"]["cats"]["enc"][0]["offsets"]


def put(where, key, value):
    """Return an edit of the second tree, the container or its first feature."""

    def edit(forest, tree, learner):
        cats = forest["cats"]
        places = {
            "tree": tree,
            "cats": cats,
            "names": cats["enc"][0],
            "learner": learner,
        }
        (places[where] if where in places else tree[where])[key] = value

    return edit


def change(key, function):
    def edit(forest, tree, learner):
        tree[key] = function(tree[key])

    return edit


def numeric(kind, values):
    def edit(forest, tree, learner):
        forest["cats"]["enc"][0] = {"type": kind, "values": values}

    return edit


EDITS = {
    "no container": (
        lambda forest, tree, learner: forest.update(cats={"enc": [{}]}),
        "1 entries for 3 features",
    ),
    "a number as names": (put("cats", "enc", [1, 2, 3]), "is not an object"),
    "no offsets": (
        lambda forest, tree, learner: forest["cats"]["enc"][0].pop("offsets"),
        "no key 'offsets'",
    ),
    "another key": (put("names", "colour", 1), "unknown key 'colour'"),
    "large bytes": (put("names", "values", [200] * 80), "array of int8"),
    "short names": (put("names", "values", [97] * 80), "does not ascend from 0"),
    "falling offsets": (put("names", "offsets", [0, 9, 5, 640]), "does not ascend"),
    "no bytes": (put("names", "values", []), "does not ascend from 0 to the 0 bytes"),
    "fewer names": (
        put("names", "offsets", [0, 640]),
        "does not ascend",
    ),
    "more names": (put("names", "offsets", [0, 1, *OFFSETS[1:]]), "segments does not"),
    "another type": (numeric(6, [1]), "type is 6"),
    "the type is text": (numeric("8", [1.0]), "type is '8'"),
    "a type of its own": (numeric(8, [1]), "is not an array of float64"),
    "large numbers": (numeric(9, [1000]), "is not an array of int8"),
    "no number": (numeric(8, [1.0, 1e999]), "Infinity is not a valid number"),
    "segments": (put("cats", "feature_segments", [0, 1, 2, 3]), "feature_segments"),
    "no order": (put("cats", "sorted_idx", []), "is not a permutation"),
    "a doubtful order": (put("cats", "sorted_idx", [0] * 80), "is not a permutation"),
    "types without categories": (
        put("learner", "feature_types", ["q", "q", "q"]),
        "has categories and the type 'q'",
    ),
    "split_type of numbers": (
        lambda forest, tree, learner: tree.update(
            split_type=[0] * len(tree["split_type"]),
            categories=[],
            categories_nodes=[],
            categories_segments=[],
            categories_sizes=[],
        ),
        "feature 0, which is categorical, by a threshold",
    ),
    "numbers by category": (
        put("learner", "feature_types", ["c", "c", "q"]),
        "feature 1, which is categorical, by a threshold",
    ),
    "a leaf's nodes": (
        change("categories_nodes", lambda n: n[1:]),
        "not list the nodes",
    ),
    "beyond the names": (put("categories", -1, 80), "not a category of the feature"),
    "below zero": (put("categories", 0, -1), "not a category of the feature"),
    "not ascending": (put("categories", 1, 0), "do not ascend"),
    "fractions": (put("categories", 0, 0.5), "categories is not an array of integers"),
    "sizes": (put("categories_sizes", 0, 10**9), "does not add up"),
    "sizes below zero": (put("categories_sizes", 0, -1), "does not add up"),
    "segments of nodes": (put("categories_segments", 0, 1), "categories_segments"),
    "no split_type": (
        lambda forest, tree, learner: tree.pop("split_type"),
        "does not list the nodes",
    ),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_file_is_rejected(edit, message):
    document = copy.deepcopy(SOUND)
    learner = document["learner"]
    forest = learner["gradient_booster"]["model"]
    (tree,) = (t for t in forest["trees"] if t["id"] == 1)
    assert len(tree["categories_nodes"]) > 1
    edit(forest, tree, learner)
    with pytest.raises(ModelFileError, match=message):
        decode(json.dumps(document).encode())


def test_codes_without_names_are_limited():
    model = hand_made()
    model.categories = Categories()
    assert digest(decode(encode(model, "json"))) == digest(model)
    tree = model.trees[0]
    tree.categories[tree.category_counts.cumsum()[tree.category_counts > 0][0] - 1] = (
        65_535
    )
    with pytest.raises(ModelFileError, match="not a category of the feature"):
        encode(model, "json")


def test_a_repeated_category_is_rejected():
    document = copy.deepcopy(SOUND)
    cats = document["learner"]["gradient_booster"]["model"]["cats"]
    cats["enc"][0] = {"type": 15, "values": [1] * 80}
    with pytest.raises(ModelFileError, match="more than once"):
        decode(json.dumps(document).encode())
