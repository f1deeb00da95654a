"""Rows on disk: trees and margins equal those of rows in memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from parts import KINDS, N_ROWS, grow, grow_in_memory

from hornbeam.backends.external import ExternalRows
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.row_numbers import _spans_between
from hornbeam.binning.layout import ExternalBins
from hornbeam.external_memory.cache import open_or_build
from hornbeam.kernels.jit import COMPILED

UNLIMITED = MemoryPlan(None, None, 0, frozenset(), keeps_packed=True)
STATE = ["margins", "gradients", "row_lists"]


def external_rows(
    folder,
    budget,
    codes,
    *arguments,
    block_rows=1 + N_ROWS // 4,
    kind=None,
    **layout,
):
    """Return rows whose codes are written to a new folder first.

    `kind` makes them of the blocks and of `arguments`, without the budget.
    """
    columns, n_rows = codes.by_feature.shape

    def build(new_writer):
        by_feature = codes.by_feature
        writer = new_writer(
            n_rows, columns, by_feature.dtype, block_rows=block_rows, **layout
        )
        writer.write(by_feature)
        return writer.finish({})

    folders = [folder / str(i) for i in range(3)]
    pages = open_or_build(folders, "here", build)
    external = ExternalBins(pages, codes.layout, None, pages.open_spill)
    if kind is not None:
        return kind(external, *arguments)
    return ExternalRows(external, *arguments, budget)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_disk", [[], STATE], ids=["state in memory", "on disk"])
def test_trees_and_margins_equal_those_of_rows_in_memory(tmp_path, kind, on_disk):
    budget = MemoryPlan(None, None, 0, frozenset(on_disk), keeps_packed=not on_disk)
    rows = partial(external_rows, tmp_path, budget)
    assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.parametrize("on_disk", STATE)
@pytest.mark.parametrize("kept_bytes", [0, 2 * N_ROWS, 10**9])
def test_any_part_of_the_state_and_of_the_blocks_can_be_in_memory(
    tmp_path, on_disk, kept_bytes
):
    budget = MemoryPlan(
        None, None, kept_bytes, frozenset([on_disk]), keeps_packed=False
    )
    rows = partial(external_rows, tmp_path, budget)
    for kind in ("sampled", "weighted"):
        assert grow(rows, **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.parametrize("codec", ["raw", "nibble", "auto"])
@pytest.mark.parametrize("block_rows", [N_ROWS, N_ROWS // 2, 7 + N_ROWS // 16])
def test_blocks_of_any_size_and_codec(tmp_path, block_rows, codec):
    rows = partial(
        external_rows, tmp_path, UNLIMITED, codec=codec, block_rows=block_rows
    )
    assert grow(rows, most_bins=12) == grow(most_bins=12)


def test_bins_of_two_bytes(tmp_path):
    rows = partial(external_rows, tmp_path, UNLIMITED)
    most_bins = 400 if COMPILED else 16
    assert grow(rows, most_bins=most_bins) == grow(most_bins=most_bins)


@pytest.mark.skipif(not COMPILED, reason="plain Python has no teams")
def test_trees_do_not_depend_on_threads(tmp_path, thread_counts):
    rows = partial(external_rows, tmp_path, UNLIMITED)
    for kind in ("sampled", "best first"):
        options = KINDS[kind]
        expected = grow(**options)
        for threads in thread_counts:
            assert grow(rows, threads=threads, **options) == expected


def test_spans_of_a_block_have_the_numbers_among_all_rows():
    spans = np.array([[0, 40], [10, 90], [25, 0]])
    numbers = np.concatenate([np.arange(40, 50), np.arange(90, 105), np.arange(9)])
    for begin in range(34):
        for end in range(begin + 1, 35):
            found = []
            own = _spans_between(spans, begin, end).tolist()
            for (first, number), (last, _) in zip(
                own, [*own[1:], [end - begin, 0]], strict=True
            ):
                found += range(number, number + last - first)
            assert found == numbers[begin:end].tolist()
