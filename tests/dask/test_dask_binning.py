"""Cuts and bins of rows on several workers equal those of one table."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from placed_rows import place
from profiles import examples

from hornbeam import DataError, DMatrix
from hornbeam.binning.bin_table import bin_table, bin_with_cuts
from hornbeam.dask import DaskDMatrix
from hornbeam.distributed import binning
from hornbeam.distributed.binning import BinOptions, bin_calls, bin_partitions


def binned_by(matrix, max_bin, n_actors=2):
    """Return the global bins, and the bin indices of all rows in global order."""
    cluster, actors = place(matrix, n_actors)
    options = BinOptions(matrix.schema, matrix.n_rows, max_bin, n_threads=1)
    found = bin_partitions(cluster, actors, options, matrix.largest_weight)
    bins = gathered(cluster, actors, matrix, found)
    cluster.close()
    return found, bins


def gathered(cluster, actors, matrix, found):
    bins = np.empty((matrix.n_features, matrix.n_rows), found.facts.dtype)
    for spans, binned in cluster.call(actors, "bins"):
        assert binned.by_feature.dtype == found.facts.dtype
        layout = binned.as_bins().layout
        np.testing.assert_array_equal(layout.feature_table, found.layout.feature_table)
        np.testing.assert_array_equal(layout.offsets, found.layout.offsets)
        ends = [*spans[1:, 0], binned.n_rows]
        for (begin, first), end in zip(spans.tolist(), ends, strict=True):
            bins[:, first : first + end - begin] = binned.by_feature[:, begin:end]
    return bins


def assert_same(matrix, whole, max_bin, n_actors=2):
    """Compare with the bins of `whole`, the same rows as one DMatrix."""
    found, bins = binned_by(matrix, max_bin, n_actors)
    assert matrix.schema == whole.schema
    one = bin_table(whole.table, max_bin, weights=whole.row_weights)
    np.testing.assert_array_equal(found.cuts.pointers, one.cuts.pointers)
    np.testing.assert_array_equal(found.cuts.values, one.cuts.values)
    np.testing.assert_array_equal(found.cuts.minimums, one.cuts.minimums)
    np.testing.assert_array_equal(found.facts.has_missing, one.has_missing)
    assert found.facts.is_float32 == one.is_float32
    assert bins.dtype == one.by_feature.dtype
    np.testing.assert_array_equal(bins, one.by_feature)


@examples(
    12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_cuts_do_not_depend_on_partitions(client, data):
    seed = data.draw(st.integers(0, 2**32 - 1), "seed")
    rng = np.random.default_rng(seed)
    n_rows = data.draw(st.integers(1, 400), "rows")
    x = rng.normal(size=(n_rows, 3))
    x[:, 1] = rng.integers(0, 5, n_rows)
    x[rng.random(x.shape) < data.draw(st.sampled_from([0.0, 0.2]), "missing")] = np.nan
    dtype = data.draw(st.sampled_from([np.float32, np.float64]), "type")
    x = x.astype(dtype)
    weight = rng.random(n_rows) if data.draw(st.booleans(), "weighted") else None
    ends = sorted(data.draw(st.lists(st.integers(0, n_rows), max_size=4), "ends"))
    chunks = tuple(np.diff([0, *ends, n_rows]).tolist())
    matrix = DaskDMatrix(
        client,
        da.from_array(x, chunks=(chunks, 3)),
        weight=None if weight is None else da.from_array(weight, chunks=(chunks,)),
    )
    max_bin = data.draw(st.sampled_from([2, 16, 256, 300]), "bins")
    actors = data.draw(st.integers(1, 3), "actors")
    assert_same(matrix, DMatrix(x, weight=weight), max_bin, actors)


@pytest.mark.parametrize("n_actors", [1, 2, 3])
def test_many_rows_with_columns_of_all_kinds(client, monkeypatch, n_actors):
    # A small limit: columns do not fit in one pass, and need several.
    monkeypatch.setattr(binning, "_PASS_BYTES", (64 << 10) * n_actors)
    monkeypatch.setattr(binning, "_COLUMNS_AT_ONCE", 4)
    rng = np.random.default_rng(1)
    n_rows = 30_000
    frame = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["a", "b"])
    frame["many"] = rng.lognormal(size=n_rows) ** 3
    frame["few"] = rng.integers(0, 9, n_rows)
    frame["yes"] = rng.random(n_rows) < 0.5
    frame["nothing"] = np.nan
    frame["kind"] = pd.Categorical(rng.choice([f"k{i:03}" for i in range(300)], n_rows))
    frame.loc[n_rows - 5 :, ["a", "kind"]] = None
    parts = [delayed(frame[:4]), delayed(frame[4:20_000]), delayed(frame[20_000:])]
    matrix = DaskDMatrix(client, parts)
    assert_same(matrix, DMatrix(frame), 256, n_actors)


def test_a_missing_value_in_one_partition_widens_the_bins_of_all(client):
    x = np.arange(512.0)[:, None] % 256
    full = da.from_array(x, chunks=(100, 1))
    assert binned_by(DaskDMatrix(client, full), 256)[1].dtype == np.uint8
    levels = pd.Categorical(np.arange(512) % 256, range(256))
    frame = pd.DataFrame({"kind": levels})
    frame.loc[511] = None
    parts = [delayed(frame[:200]), delayed(frame[200:])]
    matrix = DaskDMatrix(client, parts)
    assert binned_by(matrix, 256)[1].dtype == np.uint16
    assert_same(matrix, DMatrix(frame), 256)


def test_one_float64_partition_among_float32(client):
    rng = np.random.default_rng(2)
    first = rng.normal(size=(300, 2)).astype(np.float32)
    second = rng.normal(size=(200, 2))
    # float64 values just above float32 values: the cut must separate them.
    second[:100] = first[:100] + 1e-12
    matrix = DaskDMatrix(client, [delayed(first), delayed(second)])
    whole = DMatrix(np.concatenate([first.astype(np.float64), second]))
    assert_same(matrix, whole, 64)
    assert_same(matrix, whole, 1024)


def test_category_codes_without_names(client):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 40, (200, 2)).astype(np.float32)
    x[:100, 0] %= 3
    matrix = DaskDMatrix(
        client, da.from_array(x, chunks=(100, 2)), feature_types=["c", "q"]
    )
    assert_same(matrix, DMatrix(x, feature_types=["c", "q"]), 256)


def test_categories_that_only_some_partitions_have(client):
    parts = [
        pd.DataFrame({"kind": pd.Categorical(["b", "d", None]), "x": [1.0, 2, 3]}),
        pd.DataFrame({"kind": ["c", "a", "a"], "x": [4.0, 5, 6]}),
        pd.DataFrame({"kind": [None, None], "x": [7, 8]}),
    ]
    matrix = DaskDMatrix(client, [delayed(part) for part in parts])
    whole = pd.concat(parts, ignore_index=True).astype({"kind": object})
    assert_same(matrix, DMatrix(whole), 256)


def test_new_actors_use_the_global_cuts(client):
    rng = np.random.default_rng(4)
    matrix = DaskDMatrix(client, da.from_array(rng.normal(size=(500, 3)), (100, 3)))
    cluster, actors = place(matrix, 3)
    found = bin_partitions(cluster, actors, BinOptions(matrix.schema, 500, 32, 1), None)
    before = gathered(cluster, actors, matrix, found)
    cluster.close()
    cluster, actors = place(matrix, 1)
    for operation, args in bin_calls(found, 1):
        cluster.call(actors, operation, *args)
    np.testing.assert_array_equal(gathered(cluster, actors, matrix, found), before)
    # Binned rows can be read as the representative values of their bins.
    one = bin_with_cuts(DMatrix(rng.normal(size=(1, 3))).table, found.cuts)
    assert cluster.call(actors, "block", 0, 500)[0].dtype == one.dtype
    cluster.close()


@pytest.mark.parametrize("weighted", [True, False])
def test_errors_in_values_name_partition_and_row(client, weighted):
    x = np.ones((60, 2))
    x[47, 1] = np.inf
    weight = da.ones(60, chunks=20) if weighted else None
    matrix = DaskDMatrix(client, da.from_array(x, chunks=(20, 2)), weight=weight)
    with pytest.raises(DataError, match=r"partition 2: .*row 7"):
        binned_by(matrix, 256)


def test_errors_in_category_codes_name_partition_and_row(client):
    x = np.zeros((40, 1))
    x[33] = 0.5
    matrix = DaskDMatrix(client, da.from_array(x, chunks=(20, 1)), feature_types=["c"])
    with pytest.raises(DataError, match=r"partition 1: row 13 .* holds 0.5"):
        binned_by(matrix, 256)


def test_a_partition_whose_size_changes_is_an_error(client, tmp_path):
    path = tmp_path / "part.csv"

    def read(path):
        return path  # so that each read opens the file again

    path.write_text("a,b\n1,2\n3,4\n")
    matrix = DaskDMatrix(client, [delayed(read)(str(path))])
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="partition 0 had 2 rows before and has 1 now"):
        place(matrix)
