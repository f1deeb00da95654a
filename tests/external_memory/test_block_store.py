"""Passes return the bins that were written, for all codecs and block sizes."""

from __future__ import annotations

import numpy as np
import pytest
from block_samples import bins_of, build_of, make, read
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.external_memory.cache import open_or_build, open_store


@examples(30)
@given(
    columns=st.integers(1, 7),
    rows=st.integers(1, 700),
    block_rows=st.integers(1, 200),
    batch=st.integers(1, 400),
    n_folders=st.integers(1, 3),
    codec=st.sampled_from(["auto", "raw", "nibble", "lz4"]),
    dtype=st.sampled_from([np.uint8, np.uint16]),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_passes_return_the_bins_that_were_written(
    tmp_path_factory,
    columns,
    rows,
    block_rows,
    batch,
    n_folders,
    codec,
    dtype,
    seed,
    data,
):
    rows = min(rows, 60 * block_rows)
    bins = bins_of(columns, rows, seed, dtype)
    place = tmp_path_factory.mktemp("cache")
    folders = [place / str(i) for i in range(n_folders)]
    facts = {"cuts": [0.1, float("inf")], "name": "é"}
    options = {"batch": batch, "codec": codec, "block_rows": block_rows}
    some = sorted(data.draw(st.sets(st.integers(0, columns - 1), min_size=1)))
    with make(folders, bins, facts=facts, **options) as store:
        assert (store.n_rows, store.n_columns) == (rows, columns)
        assert store.n_blocks == -(-rows // block_rows)
        for _ in range(2):
            by_feature, by_row = read(store)
            np.testing.assert_array_equal(by_feature, bins)
            np.testing.assert_array_equal(by_row, bins.T.reshape(-1))
    with open_store(folders, "one") as store:
        assert store.facts == facts
        by_feature, by_row = read(store, some, by_row=False)
        np.testing.assert_array_equal(by_feature, bins[some])
        assert by_row.size == 0
        numbers = [0, store.n_blocks - 1]
        with store.read_blocks([], True, blocks=numbers) as blocks:
            for block in blocks:
                begin, end = store.rows_of(block.number)
                assert (block.begin, block.end) == (begin, end)
                expected = bins[:, begin:end].T.reshape(-1)
                np.testing.assert_array_equal(block.by_row, expected)
    assert open_store(folders, "another") is None


def test_the_second_opening_does_not_build(tmp_path):
    bins = bins_of(3, 100)
    make(tmp_path, bins).close()

    def never(new_writer):
        raise AssertionError

    with open_or_build(tmp_path, "one", never) as store:
        np.testing.assert_array_equal(read(store)[0], bins)


def test_other_data_replace_a_cache_that_is_not_in_use(tmp_path, capsys):
    make(tmp_path, bins_of(3, 100)).close()
    bins = bins_of(2, 90, seed=1)
    with make(tmp_path, bins, "other") as store:
        assert "was built from other data; the cache is made" in capsys.readouterr().err
        np.testing.assert_array_equal(read(store)[0], bins)
    assert open_store(tmp_path, "one") is None


def test_a_cache_in_use_is_not_replaced(tmp_path):
    bins = bins_of(3, 100)
    with make(tmp_path, bins) as store:
        with pytest.raises(ValueError, match="in use for other data"):
            open_or_build(tmp_path, "other", build_of(bins))
        with open_store(tmp_path, "one") as again:
            np.testing.assert_array_equal(read(again)[0], bins)
        np.testing.assert_array_equal(read(store)[0], bins)
