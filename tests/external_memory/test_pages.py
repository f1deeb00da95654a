"""Sweeps give the codes that were written, whatever they went through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_samples import build_of, codes_of, make, read

from hornbeam.external_memory.cache import open_or_build, open_store


@settings(max_examples=30)
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
def test_sweeps_give_what_was_written(
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
    codes = codes_of(columns, rows, seed, dtype)
    place = tmp_path_factory.mktemp("cache")
    folders = [place / str(i) for i in range(n_folders)]
    facts = {"cuts": [0.1, float("inf")], "name": "é"}
    options = {"batch": batch, "codec": codec, "block_rows": block_rows}
    some = sorted(data.draw(st.sets(st.integers(0, columns - 1), min_size=1)))
    with make(folders, codes, facts=facts, **options) as pages:
        assert (pages.n_rows, pages.n_columns) == (rows, columns)
        assert pages.n_blocks == -(-rows // block_rows)
        for _ in range(2):
            by_feature, by_row = read(pages)
            np.testing.assert_array_equal(by_feature, codes)
            np.testing.assert_array_equal(by_row, codes.T.reshape(-1))
    with open_store(folders, "one") as pages:
        assert pages.facts == facts
        by_feature, by_row = read(pages, some, by_row=False)
        np.testing.assert_array_equal(by_feature, codes[some])
        assert by_row.size == 0
        numbers = [0, pages.n_blocks - 1]
        with pages.read_blocks([], True, blocks=numbers) as blocks:
            for block in blocks:
                begin, end = pages.rows_of(block.number)
                assert (block.begin, block.end) == (begin, end)
                expected = codes[:, begin:end].T.reshape(-1)
                np.testing.assert_array_equal(block.by_row, expected)
    assert open_store(folders, "another") is None


def test_the_second_opening_does_not_build(tmp_path):
    codes = codes_of(3, 100)
    make(tmp_path, codes).close()

    def never(new_writer):
        raise AssertionError

    with open_or_build(tmp_path, "one", never) as pages:
        np.testing.assert_array_equal(read(pages)[0], codes)


def test_other_data_take_the_place_of_a_cache_that_nobody_uses(tmp_path, capsys):
    make(tmp_path, codes_of(3, 100)).close()
    codes = codes_of(2, 90, seed=1)
    with make(tmp_path, codes, "other") as pages:
        assert "was made of other data; the cache is made" in capsys.readouterr().err
        np.testing.assert_array_equal(read(pages)[0], codes)
    assert open_store(tmp_path, "one") is None


def test_a_cache_in_use_is_not_replaced(tmp_path):
    codes = codes_of(3, 100)
    with make(tmp_path, codes) as pages:
        with pytest.raises(ValueError, match="in use, for other data"):
            open_or_build(tmp_path, "other", build_of(codes))
        with open_store(tmp_path, "one") as again:
            np.testing.assert_array_equal(read(again)[0], codes)
        np.testing.assert_array_equal(read(pages)[0], codes)
