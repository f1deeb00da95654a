"""Data in batches has the same rows as in one table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hornbeam import DataError, DataIter
from hornbeam.data.sources.dispatch import open_source

N = 100
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
X[::7, 1] = np.nan
Y = RNG.normal(size=N)
W = RNG.random(N)
FRAME = pd.DataFrame(X, columns=list("abc")).assign(y=Y)


def cut(table, size=30):
    return [table[i : i + size] for i in range(0, N, size)]


class Batches(DataIter):
    """A `DataIter` over a list of batches."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.batches):
            return False
        input_data(**self.batches[self.at])
        self.at += 1
        return True

    def reset(self):
        self.at = 0


class Twice:
    """An iterable that can be iterated several times."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


SOURCES = {
    "arrays": cut(X),
    "tuple of arrays": tuple(cut(X)),
    "(X, y)": list(zip(cut(X), cut(Y), strict=True)),
    "(X, y, weight)": list(zip(cut(X), cut(Y), cut(W), strict=True)),
    "function": lambda: iter(cut(X)),
    "function of one table": lambda: X,
    "lists of two": lambda: [list(pair) for pair in zip(cut(X), cut(Y), strict=True)],
    "iterable": Twice(list(zip(cut(X), cut(Y), strict=True))),
    "pandas": cut(FRAME),
    "polars": cut(pl.from_pandas(FRAME, nan_to_null=False)),
    "lazy frame": pl.from_pandas(FRAME, nan_to_null=False).lazy(),
    "arrow": pa.Table.from_pandas(FRAME).to_batches(max_chunksize=30),
    "dataset": ds.dataset(pa.Table.from_pandas(FRAME)),
    "sparse": cut(sp.csr_array(np.nan_to_num(X))),
    "DataIter": Batches(
        [
            {"data": x, "label": y, "weight": w, "feature_names": list("abc")}
            for x, y, w in zip(cut(X), cut(Y), cut(W), strict=True)
        ]
    ),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_rows_equal_those_of_one_table(source):
    framed = isinstance(source, (pl.LazyFrame, ds.Dataset)) or (
        isinstance(source, list) and hasattr(source[0], "columns")
    )
    table = open_source(source, field_columns={"label": "y"} if framed else None)
    # A single batch is kept in memory.
    assert table.is_stream != isinstance(source, (pl.LazyFrame, ds.Dataset))
    assert (table.n_rows, table.n_features) == (N, 3)
    expected = X
    if isinstance(source, list) and sp.issparse(source[0]):
        expected = np.where(np.isnan(X), np.nan, X)
    np.testing.assert_array_equal(table.rows(0, N), expected)
    np.testing.assert_array_equal(table.rows(25, 65), expected[25:65])
    order = np.array([2, 0])
    np.testing.assert_array_equal(table.rows(65, 99, order), expected[65:99, order])
    np.testing.assert_array_equal(np.stack(table.columns(1, 3), 1), expected[:, 1:])
    np.testing.assert_array_equal(table.column(2), expected[:, 2])
    rows = np.array([99, 0, 31, 31, 30])
    np.testing.assert_array_equal(table.take(rows).rows(0, 5), expected[rows])
    parts = [batch.rows(0, batch.n_rows) for batch in table.batches([1])]
    np.testing.assert_array_equal(np.concatenate(parts), expected[:, [1]])
    if "label" in table.info:
        np.testing.assert_array_equal(table.info["label"], Y)
    if "weight" in table.info:
        np.testing.assert_array_equal(table.info["weight"], W)


@given(st.data())
def test_random_access_gives_the_same_rows(data):
    sizes = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=8))
    edges = np.concatenate([[0], np.cumsum(sizes)])
    total = int(edges[-1])
    table = open_source([X[:total][i:j] for i, j in pairwise(edges)])
    for _ in range(4):
        start = data.draw(st.integers(0, total))
        stop = data.draw(st.integers(start, total))
        np.testing.assert_array_equal(table.rows(start, stop), X[start:stop])
    part = table.select([2, 1]).select([1])
    np.testing.assert_array_equal(part.column(0), X[:total, 1])
    assert part.is_stream


@pytest.mark.parametrize("data", [[[1.0, 2.0]], [(1, 2)], X, FRAME, [X[0]], []])
def test_other_objects_are_not_sources(data):
    assert open_source(data) is None


def test_integers_in_one_batch_and_floats_in_another_are_floats():
    frames = [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [0.5, np.nan]})]
    table = open_source(frames)
    assert table.types == ["float"]
    np.testing.assert_array_equal(table.column(0), [1, 2, 0.5, np.nan])


TEXT = pd.DataFrame({"a": ["y", "x"]})
NO_VALUES = {
    "null": pd.DataFrame({"a": [None, None]}, dtype=object),
    "nan": pd.DataFrame({"a": [np.nan, np.nan]}),
}


@pytest.mark.parametrize("blank", NO_VALUES.values(), ids=NO_VALUES)
@pytest.mark.parametrize("first", [True, False])
def test_a_batch_of_missing_values_matches_any_type(blank, first):
    table = open_source([blank, TEXT] if first else [TEXT, blank])
    assert table.types == ["c"]
    assert table.categories.of(0).tolist() == ["x", "y"]
    expected = [np.nan, np.nan, 1, 0] if first else [1, 0, np.nan, np.nan]
    np.testing.assert_array_equal(table.column(0), expected)


def test_categories_are_those_of_all_batches():
    frames = [pd.DataFrame({"k": list(part)}) for part in ("bd", "da", "cb")]
    table = open_source(frames)
    assert table.categories.of(0).tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(table.column(0), [1, 3, 3, 0, 2, 1])
    declared = [
        pd.DataFrame({"k": pd.Categorical(list(part), list("zdcba"))})
        for part in ("bd", "da")
    ]
    table = open_source(declared)
    assert table.categories.of(0).tolist() == list("zdcba")
    np.testing.assert_array_equal(table.rows(0, 4)[:, 0], [3, 1, 1, 4])


def test_raw_codes_are_checked_in_every_batch():
    codes = [np.array([[0.0], [2.0]]), np.array([[1.0], [0.5]])]
    with pytest.raises(DataError, match=r"batch 1 .* row 1 of column 0 holds 0\.5"):
        open_source(codes, types=["c"])
    table = open_source(codes)
    table.retype(["c"])
    with pytest.raises(DataError, match=r"batch 1 .* row 1 of column 0 holds 0\.5"):
        table.column(0)


def test_named_columns_can_be_in_another_order():
    table = open_source([FRAME[list("abc")], FRAME[list("cab")]])
    np.testing.assert_array_equal(table.rows(N, 2 * N), X)


def test_batches_without_rows_are_skipped():
    table = open_source([FRAME[:0], FRAME[:50], FRAME[:0], FRAME[50:]])
    np.testing.assert_array_equal(table.rows(40, 60), FRAME.to_numpy()[40:60])


def test_passes_do_not_interfere():
    table = open_source(SOURCES["DataIter"])
    np.testing.assert_array_equal(table.rows(0, 40), X[:40])
    first = next(iter(table.batches()))
    np.testing.assert_array_equal(first.rows(0, 30), X[:30])
    np.testing.assert_array_equal(table.rows(40, 90), X[40:90])


def test_names_and_types_of_columns_can_be_set():
    for source in (cut(X), pa.table(dict(zip("abc", X.T, strict=True))).to_batches(30)):
        table = open_source(source, names=["u", "v", "w"], types=["q", "float", "int"])
        assert (table.names, table.types) == (["u", "v", "w"], ["q", "float", "int"])
        table.rename(["x", "y", "z"])
        for batch in table.batches([2, 0]):
            assert (batch.names, batch.types) == (["z", "x"], ["int", "q"])


def test_batches_can_have_groups_and_bounds():
    table = open_source(
        Batches(
            [
                {"data": X[:40], "group": [10, 30], "feature_weights": [1, 2, 3]},
                {"data": X[40:], "group": [60], "feature_weights": [1, 2, 3]},
            ]
        )
    )
    np.testing.assert_array_equal(table.info["group"], [10, 30, 60])
    np.testing.assert_array_equal(table.info["feature_weights"], [1, 2, 3])


def one_shot():
    yield X


def raises_in_the_middle():
    yield X
    raise KeyError("mine")


def test_exceptions_of_the_source_are_not_changed():
    with pytest.raises(KeyError, match="mine"):
        open_source(raises_in_the_middle)


def test_an_aborted_pass_closes_the_source():
    closed = []

    def batches():
        try:
            yield X
            yield X[:, :2]
        finally:
            closed.append(True)

    with pytest.raises(DataError):
        open_source(batches)
    assert closed


class Changing:
    """Other batches in each pass."""

    def __init__(self, *readings):
        self.readings = list(readings)

    def __call__(self):
        return self.readings.pop(0)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ([X[:50]], ["100 rows in the first pass", "50 now"]),
        ([X, X[:1]], ["batch 1", "100 rows in the first pass", "more now"]),
        ([X[::-1]], ["batch 0", "row 0 differs from that of the first pass"]),
    ],
)
def test_other_rows_in_a_later_pass(second, words):
    table = open_source(Changing([X[:50], X[50:]], second))
    with pytest.raises(DataError) as error:
        table.columns(0, 1)
    for word in words:
        assert word in str(error.value)


def test_other_labels_in_a_later_pass():
    other = Y.copy()
    other[60] = 7
    table = open_source(Changing([(X, Y)], [(X[:50], Y[:50]), (X[50:], other[50:])]))
    with pytest.raises(DataError, match=r"batch 1 of .* row 60 differs"):
        list(table.batches([0]))


BAD = {
    "iterator": (iter([X]), ["only once", "a function that returns", "DataIter"]),
    "generator": (one_shot(), ["generator", "only once"]),
    "reader": (pa.Table.from_pandas(FRAME).to_reader(), ["only once"]),
    "no batches": (list, ["has no batches"]),
    "no batches by DataIter": (Batches([]), ["the Batches has no batches"]),
    "table and labels": ((X, Y), ["item 1 of the tuple", "label="]),
    "not batches": (lambda: 3, ["returned int"]),
    "tuple of four": (lambda: [(X, Y, W, W)], ["batch 0", "a tuple of 4"]),
    "other columns": (
        [FRAME, FRAME.rename(columns={"b": "d"})],
        ["batch 1 of the list (from row 100 on)", "missing: 'b'", "new: 'd'"],
    ),
    "fewer columns": ([X, X[:, :2]], ["batch 1", "it has 2 columns", "has 3"]),
    "no names": ([FRAME, FRAME.to_numpy()], ["batch 1", "only one has names"]),
    "other types": (
        [pd.DataFrame({"a": [True]}), pd.DataFrame({"a": [1.5]})],
        ["batch 1", "column 'a' holds numbers, and true or false in the first"],
    ),
    "labels in some": ([(X, Y), X], ["batch 1", "no 'label', and the first batch has"]),
    "labels in others": ([X, (X, Y)], ["batch 1", "it has 'label', and the first"]),
    "labels too short": ([(X, Y[:5])], ["batch 0", "label has 5 values for 100 rows"]),
    "group sizes": (
        Batches([{"data": X, "group": [30, 30]}]),
        ["batch 0", "add up to 60", "100 rows", "qid"],
    ),
    "other feature weights": (
        Batches([{"data": X, "feature_weights": f} for f in ([1, 2, 3], [3, 2, 1])]),
        ["batch 1", "feature_weights differ"],
    ),
    "infinite": ([X, np.where(X > 2, np.inf, X)], None),
}


@pytest.mark.parametrize(("data", "words"), BAD.values(), ids=BAD)
def test_bad_batches(data, words):
    with pytest.raises(DataError) as error:
        table = open_source(data)
        table.columns(0, 3)
    for word in words or ["batch 1 of the list", "inf in row"]:
        assert word in str(error.value), error.value


class Mistaken(Batches):
    """A `DataIter` whose `next` is invalid in a given way."""

    def next(self, input_data):
        match self.batches:
            case "twice":
                input_data(data=X)
                input_data(data=X)
                return 1
            case "nothing":
                return 1
            case _:
                input_data(data=X)
                return 0


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("twice", "batch 0 of the Mistaken: input_data was called twice"),
        ("nothing", "returned 1 without giving batch 0"),
        ("ended", "gave batch 0 to input_data, but returned 0"),
    ],
)
def test_an_invalid_data_iter_raises(mistake, words):
    with pytest.raises(DataError, match=words):
        open_source(Mistaken(mistake))
