"""Bins in external memory equal those of the same rows in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning import external_build
from hornbeam.binning.bin_table import bin_table, bin_with_cuts
from hornbeam.binning.external_build import build_external, build_external_with_cuts
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.opening import CacheOptions
from hornbeam.data.sources.dispatch import open_source
from hornbeam.errors import DataError, ParameterError
from hornbeam.kernels.jit import COMPILED

ROWS = 2000 if COMPILED else 200


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Reduce the size of blocks, so that few rows make many blocks."""
    monkeypatch.setattr(external_build, "BLOCK_ROWS", 300 if COMPILED else 60)
    monkeypatch.setattr(external_build, "_SLICE_VALUES", 1000)


def many_kinds(rows=ROWS, seed=0):
    """Return columns of various distributions."""
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.normal(size=rows),
            np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            rng.integers(0, 5, rows),
            np.full(rows, np.nan),
            np.where(rng.random(rows) < 0.9, 0.0, rng.normal(size=rows)),
        ]
    )


def in_batches(data, size=70):
    """Return the rows as a stream."""
    return open_source([data[i : i + size] for i in range(0, len(data), size)])


def options(folder, limit=None, codec="auto"):
    """Return the options of a cache in a folder."""
    return CacheOptions(str(folder), limit, codec)


def check_same(external, binned):
    """Assert that bins in external memory and in memory are bitwise equal."""
    for part in ("values", "minimums", "pointers"):
        mine, theirs = (getattr(each.cuts, part) for each in (external, binned))
        assert mine.tobytes() == theirs.tobytes(), part
    np.testing.assert_array_equal(external.has_missing, binned.has_missing)
    np.testing.assert_array_equal(external.is_categorical, binned.is_categorical)
    np.testing.assert_array_equal(external.offsets, binned.offsets)
    assert external.is_float32 == binned.is_float32
    assert external.dtype == binned.dtype
    assert (external.n_rows, external.n_features) == (binned.n_rows, binned.n_features)
    whole = external.take(np.arange(external.n_rows)).by_feature
    assert whole.dtype == binned.by_feature.dtype
    np.testing.assert_array_equal(whole, binned.by_feature)


@pytest.mark.parametrize("codec", ["auto", "raw", "nibble", "lz4"])
@pytest.mark.parametrize("max_bin", [2, 16, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_streams_in_external_memory(tmp_path, weighted, max_bin, codec):
    data = many_kinds()
    weights = np.random.default_rng(0).random(len(data)) if weighted else None
    external = build_external(
        in_batches(data), max_bin, options(tmp_path, codec=codec), weights=weights
    )
    check_same(external, bin_table(as_table(data), max_bin, weights))


def frames(data):
    """Return containers with columns of different types."""
    frame = pd.DataFrame(data[:, :3].astype(np.float32), columns=list("abc"))
    frame["d"] = data[:, 4]
    frame["e"] = pd.Categorical(np.array(["x", "y", None])[np.arange(len(data)) % 3])
    frame["f"] = np.arange(len(data)) % 300
    yield frame
    yield data
    yield np.asfortranarray(data.astype(np.float32))
    yield sp.csr_matrix(np.nan_to_num(data))


@pytest.mark.parametrize("place", range(4))
def test_tables_in_external_memory(tmp_path, place):
    table = as_table(list(frames(many_kinds()))[place])
    other = as_table(list(frames(many_kinds(seed=1)))[place])
    binned = bin_table(table, 16)
    if place == 3:  # of a sparse matrix only filled cells are in memory
        external = build_external(table, 16, options(tmp_path / "a"))
        np.testing.assert_array_equal(external.cuts.values, binned.cuts.values)
        np.testing.assert_array_equal(external.decode(0, ROWS), binned.decode(0, ROWS))
        return
    check_same(build_external(table, 16, options(tmp_path / "a")), binned)
    check_same(
        build_external_with_cuts(other, binned.cuts, options(tmp_path / "b")),
        bin_with_cuts(other, binned.cuts),
    )


@pytest.mark.parametrize("sketch", ["exact", "approximate"])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_threads_and_sketches(tmp_path, n_threads, sketch):
    data = many_kinds()
    external = build_external(
        in_batches(data),
        16,
        options(tmp_path),
        n_threads=n_threads,
        sketch=sketch,
    )
    check_same(external, bin_table(as_table(data), 16, sketch=sketch))


@examples(
    12 if COMPILED else 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    size=st.integers(1, 500),
    start=st.integers(0, ROWS),
    rows=st.integers(0, ROWS),
    features=st.one_of(st.none(), st.permutations(range(5)).map(lambda p: p[:3])),
)
def test_rows_are_decoded_as_in_memory(tmp_path_factory, size, start, rows, features):
    data = many_kinds()
    binned = bin_table(as_table(data), 16)
    folder = tmp_path_factory.mktemp("pages")
    external = build_external(in_batches(data, size), 16, options(folder))
    stop = min(start + rows, ROWS)
    chosen = None if features is None else np.array(features, np.intp)
    np.testing.assert_array_equal(
        external.decode(start, stop, chosen), binned.decode(start, stop, chosen)
    )
    some = np.random.default_rng(size).integers(0, ROWS, rows)
    np.testing.assert_array_equal(
        external.take(some).by_feature, binned.take(some).by_feature
    )
    for feature in range(5):
        np.testing.assert_array_equal(
            external.decode_column(feature, np.float64),
            binned.decode_column(feature, np.float64),
        )


@pytest.mark.parametrize("missing_at", [0, 259, 2])
def test_a_missing_value_that_needs_uint16(tmp_path, missing_at):
    data = np.arange(256.0).reshape(-1, 1)
    cuts = bin_table(as_table(data), 256).cuts
    data = np.concatenate([data, data[:50]])
    data[missing_at] = np.nan
    external = build_external_with_cuts(in_batches(data, 60), cuts, options(tmp_path))
    check_same(external, bin_with_cuts(as_table(data), cuts))
    blocks = [path for path in tmp_path.iterdir() if path.suffix == ".block"]
    assert len(blocks) == -(-len(data) // external_build.BLOCK_ROWS)


def test_a_missing_category_that_needs_uint16(tmp_path):
    names = [f"c{i:03d}" for i in range(256)]
    column = pd.Categorical([*names, None, *names], names)
    frame = pd.DataFrame({"a": column})
    stream = open_source([frame[:100], frame[100:]])
    external = build_external(stream, 256, options(tmp_path))
    check_same(external, bin_table(as_table(frame), 256))


def test_another_matrix_uses_the_existing_blocks(tmp_path):
    data = many_kinds()
    first = build_external(in_batches(data), 16, options(tmp_path))
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = build_external(in_batches(data, 33), 16, options(tmp_path))
    check_same(again, bin_table(as_table(data), 16))
    first.close()
    again.close()
    build_external(in_batches(data), 16, options(tmp_path)).close()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times


@pytest.mark.parametrize("what", ["max_bin", "cell", "weights", "codec", "sketch"])
def test_other_bins_are_written_again(tmp_path, what):
    data = many_kinds()
    build_external(in_batches(data), 16, options(tmp_path)).close()
    before = sorted(tmp_path.glob("*.block"))
    max_bin, weights, codec, sketch = 16, None, "auto", "exact"
    if what == "max_bin":
        max_bin = 8
    elif what == "cell":
        data[-1, 0] = 1e6  # a row that is not among those remembered
    elif what == "weights":
        weights = np.arange(len(data)) + 1.0
    elif what == "codec":
        codec = "raw"
    else:
        sketch = "approximate"
    external = build_external(
        in_batches(data),
        max_bin,
        options(tmp_path, codec=codec),
        weights=weights,
        sketch=sketch,
    )
    check_same(external, bin_table(as_table(data), max_bin, weights, sketch=sketch))
    assert not set(before) & set(tmp_path.glob("*.block"))


def test_a_cache_in_use_is_not_overwritten(tmp_path):
    data = many_kinds()
    first = build_external(in_batches(data), 16, options(tmp_path))
    with pytest.raises(DataError, match="in use"):
        build_external(in_batches(data), 8, options(tmp_path))
    check_same(first, bin_table(as_table(data), 16))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["cut", "flip", "gone"])
def test_a_damaged_block_is_rebuilt(tmp_path, how, stream):
    data = many_kinds()
    table = in_batches(data) if stream else as_table(data)
    build_external(table, 16, options(tmp_path)).close()
    block = sorted(tmp_path.glob("*.block"))[3 if COMPILED else 1]
    content = bytearray(block.read_bytes())
    if how == "flip":
        content[len(content) // 3] ^= 1
    block.write_bytes(content[:-7] if how == "cut" else content)
    if how == "gone":
        block.unlink()
    external = build_external(table, 16, options(tmp_path))
    with pytest.warns(UserWarning, match=block.name):
        bins = external.take(np.arange(ROWS)).by_feature
    np.testing.assert_array_equal(bins, bin_table(as_table(data), 16).by_feature)
    external.close()
    check_same(
        build_external(table, 16, options(tmp_path)), bin_table(as_table(data), 16)
    )


def test_a_block_is_not_rebuilt_from_a_changed_source(tmp_path):
    data = many_kinds()
    # Only column 2 differs, in rows that are not sampled.
    changed = data.copy()
    changed[20:, 2] = 4 - changed[20:, 2]
    batches = [data]
    table = open_source(lambda: [batches[0][:50], batches[0][50:]])
    build_external(table, 16, options(tmp_path)).close()
    for block in tmp_path.glob("*.block"):
        content = block.read_bytes()
        block.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    external = build_external(table, 16, options(tmp_path))
    batches[0] = changed
    with pytest.raises(DataError, match="the rows of the source have changed"):
        external.take(np.arange(ROWS))


def test_a_source_that_changes_between_passes_leaves_no_files(tmp_path):
    data = many_kinds()
    readings = []

    def batches():
        readings.append(0)
        # The passes are for labels, then cuts, then bins.
        return [data[:50], data[50:] if len(readings) < 3 else data[51:]]

    with pytest.raises(DataError, match=r"same rows"):
        build_external(open_source(batches), 16, options(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_small_memory_limit_raises_with_the_needed_size(tmp_path):
    data = many_kinds()
    with pytest.raises(ParameterError, match=r"too small: .* at least [\d,]+ MB"):
        build_external(in_batches(data), 16, options(tmp_path / "new", limit=10**6))
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_wide_tables_have_blocks_of_fewer_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(external_build, "BLOCK_ROWS", 1 << 10)
    monkeypatch.setattr(external_build, "_BLOCK_BYTES", 100_000)
    monkeypatch.setattr(external_build, "_MIN_BLOCK_ROWS", 1 << 7)
    data = np.random.default_rng(0).normal(size=(300, 1000)).astype(np.float32)
    external = build_external(as_table(data), 4, options(tmp_path))
    assert len(list(tmp_path.glob("*.block"))) == 3
    check_same(external, bin_table(as_table(data), 4))
