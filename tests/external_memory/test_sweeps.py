"""What sweeps take and leave: memory, threads, blocks that stay."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_samples import codes_of, make, read

from hornbeam.external_memory.cache import open_store


def reader_threads():
    return [t for t in threading.enumerate() if t.name == "hornbeam-pages"]


@pytest.fixture
def pages(tmp_path):
    """Return pages of 10 blocks in two folders."""
    codes = codes_of(5, 1000)
    with make([tmp_path / "a", tmp_path / "b"], codes, block_rows=100) as made:
        made.codes = codes
        yield made


@settings(max_examples=40)
@given(
    budgets=st.lists(st.integers(0, 6000), min_size=1, max_size=5),
    columns=st.sampled_from([[], [1], [0, 3], None]),
    codec=st.sampled_from(["raw", "auto"]),
)
def test_kept_blocks_are_the_same(tmp_path_factory, budgets, columns, codec):
    codes = codes_of(5, 1050)
    folder = tmp_path_factory.mktemp("cache")
    with make(folder, codes, block_rows=100, codec=codec) as pages:
        for budget in budgets:
            kept = pages.keep_in_memory(budget)
            assert kept <= budget and (kept == 5 * 1050 or budget - kept < 500)
            for by_row in (True, False, True):
                if columns == [] and not by_row:
                    continue
                some = [] if columns == [] else columns
                with pages.read_blocks(some, by_row) as blocks:
                    for block in blocks:
                        own = codes[:, block.begin : block.end]
                        if by_row:
                            flat = own.T.reshape(-1)
                            np.testing.assert_array_equal(block.by_row, flat)
                        for f in range(5) if some is None else some:
                            np.testing.assert_array_equal(block.by_feature[f], own[f])


def test_kept_blocks_need_no_file(pages):
    assert pages.keep_in_memory(10**6) == 5000
    read(pages, [0])
    for number in range(pages.n_blocks):
        os.unlink(pages.path_of(number))
    with pages.read_blocks([], True) as blocks:
        rows = np.concatenate([block.by_row for block in blocks])
    np.testing.assert_array_equal(rows, pages.codes.T.reshape(-1))
    pages.keep_in_memory(0)
    with pytest.raises(ValueError, match=r"block 0 .*it is not there"):
        read(pages)


def test_a_sweep_that_is_left_ends_its_threads(pages):
    for _ in range(20):
        with pytest.raises(KeyboardInterrupt), pages.read_blocks(None, True) as blocks:
            next(blocks)
            raise KeyboardInterrupt
        assert not reader_threads()
    with pages.read_blocks(None, True):
        pass
    assert not reader_threads()
    np.testing.assert_array_equal(read(pages)[0], pages.codes)


def test_sweeps_may_run_beside_each_other(pages):
    with pages.read_blocks(None, True) as one, pages.read_blocks([2], False) as two:
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a.by_feature[2], b.by_feature[2])
            own = pages.codes[:, a.begin : a.end]
            np.testing.assert_array_equal(a.by_feature, own)


def test_the_ring_holds_two_blocks_or_says_what_it_needs(pages):
    packed = pages.ring_bytes(0, columns=True, by_row=True)
    needed = pages.ring_bytes(2, columns=True, by_row=True)
    assert needed == packed + 2 * 2 * 5 * 100
    np.testing.assert_array_equal(read(pages, ring_bytes=needed)[0], pages.codes)
    with pytest.raises(ValueError, match=r"two blocks of 100 rows .*memory_limit"):
        read(pages, ring_bytes=needed - 1)


def test_closed_pages_are_not_read(pages):
    pages.close()
    pages.close()
    with pytest.raises(ValueError, match="closed"):
        read(pages)


def test_pages_that_are_let_go_let_the_folder_go(tmp_path):
    pages = make(tmp_path, codes_of(2, 10))
    del pages
    with make(tmp_path, codes_of(2, 20), "other") as others:
        assert others.n_rows == 20
    assert open_store(tmp_path, "one") is None


def test_what_is_kept_may_change_in_a_sweep(pages):
    pages.keep_in_memory(5000)
    read(pages, [])
    with pages.read_blocks([], True) as blocks:
        rows = []
        for block in blocks:
            rows.append(block.by_row.copy())
            pages.keep_in_memory(500 * (block.number % 3))
    flat = pages.codes.T.reshape(-1)
    np.testing.assert_array_equal(np.concatenate(rows), flat)
    np.testing.assert_array_equal(read(pages, [])[1], flat)
