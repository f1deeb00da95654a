"""Matrices of Dask collections: their columns, labels, weights and so on."""

from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from dask import delayed
from placed_rows import place

from hornbeam import DataError, DMatrix, ParameterError
from hornbeam.dask import DaskDMatrix, DaskQuantileDMatrix

ROWS = 90


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    frame["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], ROWS))
    frame["label"] = rng.integers(0, 2, ROWS)
    frame["weight"] = rng.random(ROWS) + 0.1
    return frame


def pieces(frame, *ends):
    """Return the frame split before these rows, as delayed objects."""
    cuts = [0, *ends, len(frame)]
    return [
        delayed(frame.iloc[begin:end].reset_index(drop=True))
        for begin, end in pairwise(cuts)
    ]


@pytest.mark.parametrize(
    "chunks", [(ROWS, 3), (40, 3), (40, 2), ((10, 0, 80), (1, 2))], ids=str
)
def test_an_array_in_any_chunks(client, frame, chunks):
    x = frame[["a", "b", "c"]].to_numpy()
    matrix = DaskDMatrix(
        client,
        da.from_array(x, chunks=chunks),
        da.from_array(frame["label"].to_numpy(), chunks=25),
        weight=da.from_array(frame["weight"].to_numpy()[:, None], chunks=(30, 1)),
    )
    assert (matrix.num_row(), matrix.num_col()) == x.shape
    assert matrix.dtype == np.float64 and matrix.n_targets == 1
    np.testing.assert_array_equal(matrix.get_label(), frame["label"])
    np.testing.assert_array_equal(matrix.get_weight(), frame["weight"])
    assert matrix.largest_weight == frame["weight"].max()


@pytest.mark.parametrize("named", [True, False])
def test_a_dataframe_and_its_series(client, frame, named):
    collection = dd.from_pandas(frame, npartitions=4)
    whole = DMatrix(frame, "label", weight="weight")
    if named:
        matrix = DaskDMatrix(client, collection, "label", weight="weight")
    else:
        features = collection.drop(columns=["label", "weight"])
        matrix = DaskDMatrix(
            client, features, collection["label"], weight=collection["weight"]
        )
    assert matrix.schema == whole.schema
    assert matrix.feature_names == ["a", "b", "c", "kind"]
    assert matrix.feature_types == ["float", "float", "float", "c"]
    np.testing.assert_array_equal(matrix.get_label(), whole.get_label())
    np.testing.assert_array_equal(matrix.get_weight(), whole.get_weight())


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        pl.from_pandas,
        lambda f: pa.Table.from_pandas(f, preserve_index=False),
        lambda f: f.to_numpy(),
        lambda f: np.asfortranarray(f.to_numpy(np.float32)),
        lambda f: f.to_numpy().tolist(),
        lambda f: scipy.sparse.csr_matrix(f.to_numpy()),
    ],
    ids=["pandas", "polars", "arrow", "numpy", "fortran", "list", "sparse"],
)
def test_delayed_objects_of_any_container(client, frame, convert):
    x = frame[["a", "b", "c"]]
    parts = [delayed(convert)(x[:50]), delayed(convert)(x[50:])]
    labels = [delayed(frame["label"][:50]), delayed(frame["label"][50:])]
    matrix = DaskDMatrix(client, parts, labels)
    whole = DMatrix(convert(x), frame["label"])
    assert matrix.schema == whole.schema and matrix.dtype == whole.dtype
    cluster, actors = place(matrix)
    got = np.concatenate(cluster.call(actors, "block", 0, 50))
    np.testing.assert_array_equal(got, whole.rows(0, ROWS))
    cluster.close()


def test_futures_and_files(client, frame, tmp_path):
    for number in range(2):
        part = frame.iloc[45 * number : 45 * number + 45]
        part.drop(columns="kind").to_parquet(tmp_path / f"{number}.parquet")
    paths = [str(tmp_path / f"{number}.parquet") for number in range(2)]
    whole = DMatrix(frame.drop(columns="kind"), "label")
    read = client.map(pd.read_parquet, paths)
    for parts in (read, [delayed(path) for path in paths]):
        matrix = DaskDMatrix(client, parts, "label")
        assert matrix.schema == whole.schema
        np.testing.assert_array_equal(matrix.get_label(), whole.get_label())
        cluster, actors = place(matrix)
        got = np.concatenate(cluster.call(actors, "block", 0, 45))
        np.testing.assert_array_equal(got, whole.rows(0, ROWS))
        cluster.close()


def test_actors_have_labels_weights_and_margins_of_their_rows(client, frame):
    margin = np.arange(2.0 * ROWS).reshape(ROWS, 2)
    matrix = DaskDMatrix(
        client,
        da.from_array(frame[["a", "b"]].to_numpy(), chunks=(20, 2)),
        da.from_array(frame["label"].to_numpy()),
        weight=da.from_array(frame["weight"].to_numpy()),
        base_margin=da.from_array(margin),
    )
    whole = {"label": frame["label"], "weight": frame["weight"], "base_margin": margin}
    cluster, actors = place(matrix)
    seen = []
    for spans, fields in cluster.call(actors, "fields"):
        ends = [*spans[1:, 0], len(fields["label"])]
        for (begin, first), end in zip(spans.tolist(), ends, strict=True):
            rows = np.arange(first, first + end - begin)
            seen.append(rows)
            for name, values in whole.items():
                np.testing.assert_array_equal(
                    fields[name][begin:end], np.asarray(values)[rows]
                )
    assert sorted(np.concatenate(seen)) == list(range(ROWS))
    cluster.close()


def test_columns_in_any_order_with_other_categories(client):
    parts = [
        pd.DataFrame({"kind": pd.Categorical(["b", "d"]), "a": [1.0, 2.0]}),
        pd.DataFrame({"a": [3.0, 4.0], "kind": ["c", "a"]}),
        pd.DataFrame({"a": [5], "kind": pd.Categorical([None], ["e"])}),
    ]
    matrix = DaskDMatrix(client, [delayed(part) for part in parts])
    assert matrix.feature_names == ["kind", "a"]
    assert matrix.get_categories().of(0).tolist() == list("abcde")
    assert matrix.feature_types == ["c", "float"]
    cluster, actors = place(matrix, 3)
    rows = np.concatenate(
        [cluster.call(actors[i : i + 1], "block", 0, n)[0] for i, n in [(0, 2), (1, 2)]]
    )
    np.testing.assert_array_equal(rows, [[1, 1], [3, 2], [2, 3], [0, 4]])
    cluster.close()


def test_a_column_without_values_in_one_partition(client):
    parts = [
        pd.DataFrame({"a": [np.nan, np.nan], "b": [1.0, 2.0]}),
        pd.DataFrame({"a": ["u", "v"], "b": [np.nan, np.nan]}),
    ]
    matrix = DaskDMatrix(client, [delayed(part) for part in parts])
    assert matrix.feature_types == ["c", "float"]
    cluster, actors = place(matrix)
    (first,), (second,) = (cluster.call([m], "block", 0, 2) for m in actors)
    np.testing.assert_array_equal(first, [[np.nan, 1], [np.nan, 2]])
    np.testing.assert_array_equal(second, [[0, np.nan], [1, np.nan]])
    cluster.close()


def test_dtype_is_the_widest_of_all_partitions(client):
    parts = [delayed(np.ones((3, 2), np.float32)), delayed(np.full((3, 2), 0.1))]
    assert DaskDMatrix(client, parts).dtype == np.float64
    assert DaskDMatrix(client, parts[:1]).dtype == np.float32


def test_empty_partitions_are_ignored(client, frame):
    empty = frame.iloc[:0]
    parts = [delayed(empty), *pieces(frame, 30, 30), delayed(pd.DataFrame())]
    matrix = DaskDMatrix(client, parts, "label")
    assert matrix.together == [[1], [3]]
    np.testing.assert_array_equal(matrix.first_rows, [0, 0, 30, 30, 90, 90])
    np.testing.assert_array_equal(matrix.get_label(), frame["label"])
    cluster, actors = place(matrix)
    assert [len(codes[0]) for codes in cluster.call(actors, "fields")] == [1, 1]
    cluster.close()
    with pytest.raises(DataError, match="none of the 2 partitions has rows"):
        DaskDMatrix(client, [delayed(empty)] * 2, "label")


def test_query_groups_stay_on_one_worker(client):
    qid = np.repeat([3, 4, 6, 7], [25, 30, 5, 30])
    matrix = DaskDMatrix(
        client,
        da.ones((ROWS, 2), chunks=(20, 2)),
        qid=da.from_array(qid, chunks=20),
    )
    assert matrix.together == [[0, 1, 2], [3, 4]]
    assert matrix.get_group().tolist() == [25, 30, 5, 30]
    cluster, actors = place(matrix)
    pointers = [f["group_ptr"].tolist() for _, f in cluster.call(actors, "fields")]
    assert pointers == [[0, 25, 55, 60], [0, 30]]
    cluster.close()


def test_group_sizes_in_partitions(client):
    parts = [delayed(np.ones((5, 2))), delayed(np.ones((4, 2)))]
    sizes = [delayed([2, 3]), delayed([4])]
    weights = [delayed([1.0, 2.0]), delayed([3.0])]
    matrix = DaskDMatrix(client, parts, group=sizes, weight=weights)
    assert matrix.get_group().tolist() == [2, 3, 4]
    assert matrix.row_weights.tolist() == [1, 1, 2, 2, 2, 3, 3, 3, 3]


def test_feature_weights(client):
    X = da.ones((6, 3), chunks=(2, 3))
    for given in ([1, 2, 3], da.from_array(np.array([1, 2, 3]))):
        matrix = DaskDMatrix(client, X, feature_weights=given)
        assert matrix.feature_weights.tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="feature_weights has 2 values for 3 columns"):
        DaskDMatrix(client, X, feature_weights=[1, 2])


def test_all_weights_of_one_partition_may_be_zero(client):
    X = da.ones((4, 2), chunks=(2, 2))
    weight = da.from_array(np.array([0.0, 0, 1, 2]), chunks=2)
    assert DaskDMatrix(client, X, weight=weight).largest_weight == 2
    with pytest.raises(DataError, match="every weight is zero"):
        DaskDMatrix(client, X, weight=0 * weight)


def test_a_number_as_missing_value(client):
    matrix = DaskDMatrix(client, da.from_array(np.array([[-1.0, 2]])), missing=-1)
    cluster, actors = place(matrix)
    np.testing.assert_array_equal(cluster.call(actors, "block", 0, 1)[0], [[np.nan, 2]])
    cluster.close()


def test_given_feature_names_and_types(client):
    X = da.from_array(np.array([[0.0, 2], [1, 3]]), chunks=(1, 2))
    matrix = DaskDMatrix(client, X, feature_names=["u", "v"], feature_types=["c", "q"])
    assert (matrix.feature_names, matrix.feature_types) == (["u", "v"], ["c", "q"])


# Errors


def bad(first, second, **fields):
    """Return a matrix of two partitions, with fields as pairs of lists."""
    parts = [delayed(first), delayed(second)]
    return lambda client: DaskDMatrix(
        client, parts, **{k: [delayed(v) for v in pair] for k, pair in fields.items()}
    )


def columns(**values):
    return pd.DataFrame(values)


ONES = np.ones((3, 2))
FAULTS = {
    "columns missing": (
        bad(columns(a=[1.0], b=[2.0]), columns(a=[1.0], d=[2.0])),
        r"partition 1 has other columns than partition 0; missing: 'b'; new: 'd'",
    ),
    "number of columns": (
        bad(ONES, np.ones((3, 3))),
        "partition 1 has 3 columns, and partition 0 has 2",
    ),
    "no names": (bad(columns(a=[1.0], b=[1.0]), ONES), "only one has names"),
    "other types": (
        bad(columns(a=[1.0]), columns(a=["x"])),
        "partition 1 has categories in column 'a', and partition 0 has numbers",
    ),
    "booleans": (
        bad(columns(a=[True]), columns(a=[2.5])),
        "partition 1 has numbers in column 'a', and partition 0 has true or false",
    ),
    "categories": (
        bad(columns(a=pd.Categorical(["u", "v"])), columns(a=pd.Categorical([4, 5]))),
        "column 'a' has strings as categories in partition 0 and numbers in partition "
        "1",
    ),
    "no numbers": (bad(ONES, [["u", "v"]]), "partition 1: .*the array has dtype"),
    "label length": (
        bad(ONES, ONES, label=([1, 2, 3], [1, 2])),
        "partition 1: label has 2 values for 3 rows",
    ),
    "label missing": (
        bad(ONES, ONES, label=([1, 2, 3], [1, np.nan, 2])),
        r"partition 1: label is nan in row 1 \(so in 1 of 3 rows\)",
    ),
    "labels wide": (
        bad(ONES, ONES, label=([1, 2, 3], np.ones((3, 2)))),
        "partition 1 has label of 2 for each row, and partition 0 has label of 1",
    ),
    "negative weight": (
        bad(ONES, ONES, weight=([1, 2, 3], [1, -2, 2])),
        "partition 1: weight is -2.0 in row 1; weights must not be negative",
    ),
    "qid within": (
        bad(ONES, ONES, qid=([1, 2, 3], [3, 5, 4])),
        "partition 1: qid is not sorted: it falls from 5 to 4 in row 2",
    ),
    "qid between": (
        bad(ONES, ONES, qid=([1, 2, 3], [2, 2, 4])),
        "partition 0 ends with 3, and partition 1 begins with 2",
    ),
    "weights of a group": (
        bad(ONES, ONES, qid=([1, 1, 3], [3, 4, 4]), weight=([1, 2], [1, 2])),
        "the group 3 spans the partitions 0 and 1; give one weight for each row",
    ),
    "number of partitions": (
        bad(ONES, ONES, label=([1, 2, 3],)),
        "label has 1 partitions and the data has 2",
    ),
    "rows of an array": (
        lambda client: DaskDMatrix(client, da.ones((9, 2)), da.ones(8)),
        "label has 8 rows and the data has 9",
    ),
    "one dimension": (
        lambda client: DaskDMatrix(client, da.ones(9)),
        "data has 1 dimensions",
    ),
    "in memory": (
        lambda client: DaskDMatrix(client, ONES),
        "data is numpy ndarray; pass a dask.array",
    ),
    "rows in a list": (
        lambda client: DaskDMatrix(client, [[1, 2]]),
        "item 0 of data is list, neither a delayed object nor a future",
    ),
    "label in memory": (
        lambda client: DaskDMatrix(client, da.ones((3, 2)), np.ones(3)),
        "label is numpy ndarray; pass a dask.array",
    ),
    "nothing": (lambda client: DaskDMatrix(client, []), "data is an empty list"),
    "no such column": (
        lambda client: DaskDMatrix(client, [delayed(columns(a=[1.0], b=[2.0]))], "c"),
        "partition 0: there is no column 'c' for label",
    ),
    "set later": (
        lambda client: DaskDMatrix(client, da.ones((3, 2))).set_label([1, 2, 3]),
        "cannot be changed after it is made",
    ),
    "no categories": (
        lambda client: DaskDMatrix(
            client, [delayed(columns(a=["x"]))], enable_categorical=False
        ),
        "partition 0: there are categories or text in column 'a'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_name_the_partition(client, fault):
    make, message = FAULTS[fault]
    with pytest.raises(DataError, match=message):
        make(client)


def test_an_exception_in_the_callers_task_is_raised(client):
    def fail():
        raise KeyError("no such file")

    with pytest.raises(KeyError, match="no such file"):
        DaskDMatrix(client, [delayed(fail)()])


def test_clients_are_checked():
    with pytest.raises(ParameterError, match="there is no client"):
        DaskDMatrix(None, da.ones((3, 2)))
    with pytest.raises(ParameterError, match="client must be a"):
        DaskDMatrix("tcp://127.0.0.1:1", da.ones((3, 2)))


def test_the_default_client_is_used(client):
    assert DaskDMatrix(None, da.ones((3, 2))).client is client


def test_max_bin_of_quantile_matrices(client):
    X = da.ones((3, 2))
    assert DaskQuantileDMatrix(client, X).max_bin == 256
    matrix = DaskQuantileDMatrix(client, X, max_bin=64)
    assert DaskQuantileDMatrix(client, X, ref=matrix).max_bin == 64
    with pytest.raises(DataError, match="max_bin=32 differs from that of ref, 64"):
        DaskQuantileDMatrix(client, X, ref=matrix, max_bin=32)
    with pytest.raises(DataError, match="ref must be a DaskDMatrix"):
        DaskQuantileDMatrix(client, X, ref=DMatrix(ONES))
