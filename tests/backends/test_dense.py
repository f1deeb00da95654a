"""Rows in memory: sums of parts are the sums of all rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from parts import KINDS, N_ROWS, PartedRows, grow, grow_in_memory

from hornbeam.backends.dense import DenseRows
from hornbeam.binning.bin_table import bin_table
from hornbeam.data.containers.dispatch import as_table
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.team import take_team

EVERY_ROW = np.arange(N_ROWS)
PARTS = {
    "halves": np.split(EVERY_ROW, [N_ROWS // 2 + 1]),
    "thirds": np.split(EVERY_ROW, [7, N_ROWS // 3]),
    "runs": [EVERY_ROW[part == EVERY_ROW // 5 % 3] for part in range(3)],
    "one is empty": [EVERY_ROW, EVERY_ROW[:0]],
}


def in_parts(parts, sized=True):
    return partial(PartedRows, PARTS[parts], sized=sized)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", PARTS)
def test_sums_of_parts_give_the_same_trees(parts, kind):
    expected = grow_in_memory(kind)
    for sized in (True, False):
        assert grow(in_parts(parts, sized), **KINDS[kind]) == expected


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
def test_trees_do_not_depend_on_threads(thread_counts):
    for options in KINDS.values():
        expected = grow(**options)
        for threads in thread_counts:
            assert grow(in_parts("runs"), threads=threads, **options) == expected


def test_margins_are_copies():
    codes = bin_table(as_table(np.arange(6.0)[:, None]), 4).as_bins()
    rows = DenseRows(codes, np.zeros((1, 6)), None, np.zeros((1, 6)), take_team(1))
    rows.margins()[:] = 5
    assert not rows.margins().any()
    rows.set_margins(np.ones((1, 6)))
    assert rows.margins().all()
