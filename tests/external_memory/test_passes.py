"""Memory, threads and kept blocks of passes."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from block_samples import bins_of, make, read
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.external_memory.cache import open_store


def reader_threads():
    return [t for t in threading.enumerate() if t.name == "hornbeam-pages"]


@pytest.fixture
def store(tmp_path):
    """Return a store of 10 blocks in two folders."""
    bins = bins_of(5, 1000)
    with make([tmp_path / "a", tmp_path / "b"], bins, block_rows=100) as made:
        made.bins = bins
        yield made


@examples(40)
@given(
    budgets=st.lists(st.integers(0, 6000), min_size=1, max_size=5),
    columns=st.sampled_from([[], [1], [0, 3], None]),
    codec=st.sampled_from(["raw", "auto"]),
)
def test_kept_blocks_are_equal_to_the_blocks_on_disk(
    tmp_path_factory, budgets, columns, codec
):
    bins = bins_of(5, 1050)
    folder = tmp_path_factory.mktemp("cache")
    with make(folder, bins, block_rows=100, codec=codec) as store:
        for budget in budgets:
            kept = store.keep_in_memory(budget)
            assert kept <= budget and (kept == 5 * 1050 or budget - kept < 500)
            for by_row in (True, False, True):
                if columns == [] and not by_row:
                    continue
                some = [] if columns == [] else columns
                with store.read_blocks(some, by_row) as blocks:
                    for block in blocks:
                        own = bins[:, block.begin : block.end]
                        if by_row:
                            flat = own.T.reshape(-1)
                            np.testing.assert_array_equal(block.by_row, flat)
                        for f in range(5) if some is None else some:
                            np.testing.assert_array_equal(block.by_feature[f], own[f])


def test_kept_blocks_are_not_read_from_disk(store):
    assert store.keep_in_memory(10**6) == 5000
    read(store, [0])
    for number in range(store.n_blocks):
        os.unlink(store.path_of(number))
    with store.read_blocks([], True) as blocks:
        rows = np.concatenate([block.by_row for block in blocks])
    np.testing.assert_array_equal(rows, store.bins.T.reshape(-1))
    store.keep_in_memory(0)
    with pytest.raises(ValueError, match=r"block 0 .*the file is missing"):
        read(store)


def test_leaving_a_pass_stops_its_threads(store):
    for _ in range(20):
        with pytest.raises(KeyboardInterrupt), store.read_blocks(None, True) as blocks:
            next(blocks)
            raise KeyboardInterrupt
        assert not reader_threads()
    with store.read_blocks(None, True):
        pass
    assert not reader_threads()
    np.testing.assert_array_equal(read(store)[0], store.bins)


def test_two_passes_can_run_at_once(store):
    with store.read_blocks(None, True) as one, store.read_blocks([2], False) as two:
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a.by_feature[2], b.by_feature[2])
            own = store.bins[:, a.begin : a.end]
            np.testing.assert_array_equal(a.by_feature, own)


def test_a_ring_smaller_than_two_blocks_raises_the_needed_size(store):
    packed = store.ring_bytes(0, columns=True, by_row=True)
    needed = store.ring_bytes(2, columns=True, by_row=True)
    assert needed == packed + 2 * 2 * 5 * 100
    np.testing.assert_array_equal(read(store, ring_bytes=needed)[0], store.bins)
    with pytest.raises(ValueError, match=r"two blocks of 100 rows .*memory_limit"):
        read(store, ring_bytes=needed - 1)


def test_a_closed_store_cannot_be_read(store):
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        read(store)


def test_deleting_a_store_releases_the_folder(tmp_path):
    store = make(tmp_path, bins_of(2, 10))
    del store
    with make(tmp_path, bins_of(2, 20), "other") as others:
        assert others.n_rows == 20
    assert open_store(tmp_path, "one") is None


def test_kept_blocks_can_change_during_a_pass(store):
    store.keep_in_memory(5000)
    read(store, [])
    with store.read_blocks([], True) as blocks:
        rows = []
        for block in blocks:
            rows.append(block.by_row.copy())
            store.keep_in_memory(500 * (block.number % 3))
    flat = store.bins.T.reshape(-1)
    np.testing.assert_array_equal(np.concatenate(rows), flat)
    np.testing.assert_array_equal(read(store, [])[1], flat)
