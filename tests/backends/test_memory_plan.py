"""The distribution of a memory limit of the whole process."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest
from selection import IS_WHOLE

from hornbeam import DataError, DMatrix, train
from hornbeam.backends.memory_plan import plan_memory
from hornbeam.binning.layout import ExternalBins, HistogramLayout
from hornbeam.kernels.jit import COMPILED
from hornbeam.memory import give_back_freed, resident_bytes

CELLS = 28 * 256
SLOT = 16 * CELLS
N_ROWS = 10_000_000
BUFFER = 2 * 28 << 18


class Pages:
    """The sizes of pages."""

    n_rows, block_rows, dtype = N_ROWS, 1 << 18, np.dtype(np.uint8)

    def ring_bytes(self, n_buffers, *, columns, by_row):
        assert columns and by_row
        return n_buffers * BUFFER


def taken_by_others():
    """Return what the process takes, as a plan sees it: without what was freed."""
    give_back_freed()
    return resident_bytes()


def plan(room, most=None, rows=N_ROWS):
    """Return the budget with so many bytes beside what the process takes."""
    limit = None if room is None else taken_by_others() + room
    bins = np.full(28, 256)
    layout = HistogramLayout.unbundled(bins, np.arange(29) * 256)
    pages = Pages()
    pages.n_rows = rows
    codes = ExternalBins(pages, layout, limit, lambda: None)
    return plan_memory(codes, 1, 4, 1, most)


def test_without_a_limit_everything_but_blocks_is_in_memory():
    budget = plan(None, most=50)
    assert budget.max_histograms == 50 and budget.ring_bytes is None
    assert not budget.on_disk and budget.keeps_packed and budget.kept_bytes == 0


def test_a_higher_limit_puts_more_into_memory():
    least = least_room()
    before = None
    # What the process takes moves by some pages between two looks.
    for room in range(least + 4 * 10**6, 900 * 10**6, 10**7):
        budget = plan(room)
        taken = budget.max_histograms * SLOT + budget.ring_bytes + budget.kept_bytes
        per_row = 8 * ("gradients" not in budget.on_disk)
        per_row += 8 * ("row_lists" not in budget.on_disk) + 8 * budget.keeps_packed
        per_row -= 8 * ("margins" in budget.on_disk)
        assert taken + per_row * N_ROWS < room
        if before is None:
            assert budget.on_disk == {"margins", "gradients", "row_lists"}
        else:
            assert budget.on_disk <= before.on_disk
            assert budget.keeps_packed >= before.keeps_packed
        before = budget
    assert before.on_disk == set() and before.keeps_packed and before.kept_bytes > 0
    assert before.ring_bytes == 3 * BUFFER


def least_room():
    """Return the least room with which rows are opened, from what the error says."""
    limit = taken_by_others()
    with pytest.raises(DataError, match="memory_limit is") as told:
        plan(0)
    return needed_by(told.value) - limit


def test_the_error_message_says_how_much_memory_is_needed():
    room = least_room()
    budget = plan(room + 4 * 10**6)
    assert budget.max_histograms >= 6 and budget.ring_bytes == 2 * BUFFER
    with pytest.raises(DataError, match="or more"):
        plan(room - 5 * 10**6)


def test_max_histograms_is_respected():
    assert plan(10**9, most=20, rows=1000).max_histograms == 20
    assert plan(10**9, most=2, rows=1000).max_histograms == 6


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
@pytest.mark.parametrize(
    ("params", "folders"),
    [
        ({}, 1),
        ({"subsample": 0.5, "grow_policy": "lossguide", "max_leaves": 20}, 3),
        pytest.param(
            {"objective": "multi:softprob", "num_class": 3, "colsample_bynode": 0.7},
            3,
            marks=pytest.mark.slow,
        ),
        (
            {
                "objective": "multi:softprob",
                "num_class": 3,
                "multi_strategy": "multi_output_tree",
                "sampling_method": "goss",
            },
            1,
        ),
    ],
    ids=["depthwise", "lossguide", "classes", "classes together"],
)
def test_the_model_does_not_depend_on_the_limit(tmp_path, params, folders):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300_000, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + rng.normal(size=len(X)), [-0.5, 0.5])
    params = {"max_bin": 64, "max_depth": 4, "nthread": 2, **params}
    data = DMatrix(X, y)
    expected = train(params, data, 2).digest()
    cache = [str(tmp_path / str(i)) for i in range(folders)]
    external = DMatrix(X, y, cache=cache)
    external.binned(64)
    # From next to nothing to all of the state: some of it goes to disk.
    for room in (4, 12, 72) if IS_WHOLE else (12,):
        limit = least_limit(X, y, cache, params) + room * 2**20
        external = DMatrix(X, y, cache=cache, memory_limit=limit)
        assert train(params, external, 2).digest() == expected


def least_limit(X, y, cache, params):
    """Return the least limit for training, from what the error says."""
    # The process may release memory of earlier tests meanwhile: then there is room.
    for spare in (30, 20, 10, 5):
        gc.collect()
        limit = resident_bytes() + spare * 2**20
        external = DMatrix(X, y, cache=cache, memory_limit=limit)
        try:
            train(params, external, 2)
        except DataError as error:
            assert "memory_limit is" in str(error)
            needed = needed_by(error)
            break
    else:
        pytest.fail("training fits in any limit")
    # The error's traceback held the margins of all rows.
    gc.collect()
    return needed


def needed_by(error):
    """Return the limit in bytes that an error asks for."""
    return int(re.findall(r"([\d,]+) MB", str(error))[-1].replace(",", "")) * 10**6
