"""Spilled arrays are loaded as they were saved; files end with the process."""

from __future__ import annotations

import os

import numpy as np
import pytest
from block_samples import bins_of, make
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.external_memory.spill import SpillFiles

ARRAYS = st.tuples(
    st.sampled_from(["scores", "nodes"]),
    st.integers(0, 4),
    st.integers(0, 50),
    st.sampled_from([np.uint8, np.float32, np.int64]),
)


@examples(50)
@given(saves=st.lists(ARRAYS, max_size=30), n_folders=st.integers(1, 3))
def test_the_last_array_saved_is_loaded(tmp_path_factory, saves, n_folders):
    place = tmp_path_factory.mktemp("spill")
    folders = [place / str(i) for i in range(n_folders)]
    for folder in folders:
        folder.mkdir()
    spill, expected = SpillFiles(folders), {}
    rng = np.random.default_rng(0)
    for name, block, size, dtype in saves:
        array = rng.integers(0, 200, (2, size)).astype(dtype)
        spill.save(name, block, array)
        expected[name, block] = array
    for (name, block), array in expected.items():
        out = np.empty_like(array)
        spill.load(name, block, out)
        np.testing.assert_array_equal(out, array)
    assert not any(os.listdir(folder) for folder in folders)
    spill.close()
    spill.close()


def test_loading_another_size_raises(tmp_path):
    spill = SpillFiles([tmp_path])
    spill.save("scores", 0, np.zeros(3))
    with pytest.raises(ValueError, match="24 bytes"):
        spill.load("scores", 0, np.zeros(4))


def test_a_store_opens_spill_files_in_its_folders(tmp_path):
    with make([tmp_path / "a", tmp_path / "b"], bins_of(2, 10)) as store:
        spill = store.open_spill()
        spill.save("scores", 0, np.arange(4.0))
        out = np.empty(4)
        spill.load("scores", 0, out)
        assert out.tolist() == [0, 1, 2, 3]
        spill.close()


def test_a_larger_array_replaces_a_smaller_one(tmp_path):
    with pytest.raises(ValueError, match="could not be written"):
        SpillFiles([tmp_path / "none"])
