"""Histograms, against sums of a reference implementation."""

from __future__ import annotations

from itertools import pairwise

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, needs_compiler

from hornbeam.kernels.bins import Bins
from hornbeam.kernels.histogram import (
    BinColumns,
    HistogramBuffers,
    HistogramSlots,
    QuantisedGradients,
    build_histograms,
)
from hornbeam.kernels.layout import (
    BLOCK_ROWS,
    BYTE_BINS,
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    COLUMN_DTYPE,
    PACK,
)

CODES = [np.uint8, np.uint16]
KINDS = ["packed", "wide"]
#: The value of bins that no task writes.
POISON = 1 << 50
MOST_G = (1 << COARSE_GRADIENT_BITS) - 1
MOST_H = (1 << COARSE_HESSIAN_BITS) - 1


class Data:
    """Random bins and gradients, and the other arguments of the kernel."""

    def __init__(self, rows, cells, code_type, kind, n_threads=1, seed=0):
        rng = np.random.default_rng(seed)
        self.codes = np.array([rng.integers(0, n, rows) for n in cells], code_type)
        self.offsets = np.concatenate([[0], np.cumsum(cells)])
        self.pairs = np.stack(
            [
                rng.integers(-MOST_G, MOST_G + 1, rows),
                rng.integers(0, MOST_H + 1, rows),
            ],
            axis=1,
        )
        if kind == "wide":
            self.pairs *= 1 << 20
        self.kind, self.n_threads = kind, n_threads
        # Shuffled rows on the side that is not read.
        self.rows = np.full((2, rows), rows - 1, np.uint32)
        self.rows[1] = rng.permutation(rows)
        self.every = np.arange(len(cells))
        is_byte = code_type is np.uint8
        self.packed_cells = np.full(len(cells), BYTE_BINS) if is_byte else cells
        self.histograms = np.full((8, 2, self.offsets[-1]), POISON)
        self.table = np.zeros(len(cells), COLUMN_DTYPE)
        self.table["n_bins"], self.table["width"] = cells, 1
        self.table["cell"] = self.offsets[:-1]
        self.spread = np.empty(0, np.uint32)

    def build(self, tasks, joins=(), columns=None, blocks=None):
        """Run the kernel; return the histograms of all slots.

        `blocks` are the first columns of blocks; None: each task has one of its own.
        """
        columns = self.every if columns is None else np.array(columns)
        g, h = self.pairs.T
        packed, wide = (g << 32) + h, np.empty((2, 0), np.int64)
        if self.kind == "wide":
            packed, wide = packed[:0], np.ascontiguousarray(self.pairs.T)
        cells = np.asarray(self.packed_cells)[columns]
        starts = np.cumsum(cells) - cells
        for first in sorted(blocks or {task[4] for task in tasks}):
            starts[first:] -= starts[first]
        turned = columns.size * (self.codes.itemsize == 1)
        buffers = HistogramBuffers.of(self.n_threads, cells.sum(), turned)
        call(
            build_histograms,
            np.array([[*task, 0][:7] for task in tasks], np.int64).reshape(-1, 7),
            np.array(joins, np.int64).reshape(-1, 6),
            BinColumns(
                *Bins.of(np.ascontiguousarray(self.codes.T).reshape(-1)),
                columns.astype(np.uint64),
                starts,
                self.table["cell"][columns],
                self.table,
                self.spread,
                *Bins.of(self.codes),
            ),
            self.rows,
            QuantisedGradients(packed, wide),
            buffers,
            HistogramSlots(*np.split(self.histograms, [5]), 0),
            n_threads=self.n_threads,
        )
        assert not buffers.sums.any()
        return self.histograms

    def exact(self, begin, end, columns=None):
        """Return the histogram of ``rows[1, begin:end]`` from the reference."""
        columns = self.every if columns is None else columns
        rows = self.rows[1, begin:end]
        return naive.histogram(self.codes, self.offsets, columns, rows, self.pairs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize(
    ("begin", "end"),
    [(0, 300), (1, 300), (3, 300), (2, 197), (2, 196), (10, 18), (10, 17), (9, 9)],
    ids=str,
)
def test_sums_are_exact(begin, end, code_type, kind):
    # 31 bins in all, or up to 256 for a byte: with as many entries sums are packed.
    data = Data(300, [5, 16, 1, 9], code_type, kind)
    sums = data.build([[2, 1, begin, end, 0, 4]])
    np.testing.assert_array_equal(sums[2], data.exact(begin, end))
    assert (np.delete(sums, 2, axis=0) == POISON).all()


@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize(("begin", "end"), [(0, 300), (2, 197), (10, 11), (9, 9)])
def test_packed_histograms_take_one_row(begin, end, code_type):
    data = Data(300, [5, 16, 1, 9], code_type, "packed")
    sums = data.build([[2, 1, begin, end, 0, 4, PACK]])
    gradients, hessians = data.exact(begin, end)
    np.testing.assert_array_equal(sums[2, 0], (gradients << 32) + hessians)
    assert (sums[2, 1] == POISON).all()
    assert (np.delete(sums, 2, axis=0) == POISON).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 5, 90, 400])
@pytest.mark.parametrize("columns", [None, [0, 1], [1, 2], [1]])
def test_packed_features(columns, rows, kind):
    """Columns that pack 3 x 2 and 2 x 2 x 5 bins, and one of 9 bins."""
    apart = Data(400, [3, 2, 9, 2, 2, 5], np.uint8, kind)
    a, b, c, d, e, f = apart.codes
    data = Data(400, [6, 9, 20], np.uint8, kind)
    data.codes = np.array([a + 3 * b, c, d + 2 * e + 4 * f])
    data.pairs, data.rows = apart.pairs, apart.rows
    data.histograms = apart.histograms
    low = apart.offsets
    cells = [[low[0] + i % 3, low[1] + i // 3] for i in range(6)]
    cells += [[low[3] + i % 2, low[4] + i // 2 % 2, low[5] + i // 4] for i in range(20)]
    data.spread = np.concatenate(cells).astype(np.uint32)
    data.table["width"] = [2, 1, 3]
    data.table["cell"] = [0, low[2], 0]
    data.table["spread"] = [0, 0, 12]
    chosen = [0, 1, 2] if columns is None else columns
    sums = data.build([[2, 1, 0, rows, 0, len(chosen)]], columns=chosen)
    features = [[0, 1], [2], [3, 4, 5]]
    counted = [feature for column in chosen for feature in features[column]]
    expected = apart.exact(0, rows, counted)
    here = np.concatenate([np.arange(low[i], low[i + 1]) for i in counted])
    np.testing.assert_array_equal(sums[2][:, here], expected[:, here])
    assert (np.delete(sums[2], here, axis=1) == POISON).all()
    assert (np.delete(sums, 2, axis=0) == POISON).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [10, 400])
def test_more_than_256_bins(rows, kind):
    data = Data(rows, [300, 257, 2], np.uint16, kind)
    sums = data.build([[0, 1, 0, rows, 0, 3]])
    np.testing.assert_array_equal(sums[0], data.exact(0, rows))


def test_256_bins_of_a_byte():
    data = Data(300, [256, 3], np.uint8, "packed")
    data.codes[0] = np.arange(300) % 256
    sums = data.build([[0, 1, 0, 300, 0, 2]])
    np.testing.assert_array_equal(sums[0], data.exact(0, 300))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [8, 270])
@pytest.mark.parametrize("columns", [[0], [3], [1, 2], [0, 2, 3]])
def test_only_chosen_columns_are_summed(columns, rows, kind):
    data = Data(rows, [5, 16, 4, 9], np.uint8, kind)
    sums = data.build([[0, 1, 0, rows, 0, len(columns)]], columns=columns)[0]
    exact = data.exact(0, rows, columns)
    for f in range(4):
        own = slice(data.offsets[f], data.offsets[f + 1])
        if f in columns:
            np.testing.assert_array_equal(sums[:, own], exact[:, own])
        else:
            assert (sums[:, own] == POISON).all()


@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize("consecutive", [True, False])
@pytest.mark.parametrize("columns", [range(11), range(2, 10), [0, 2, 3, 7, 9, 10]])
def test_runs_of_columns(columns, consecutive, code_type):
    """Four columns at a time, or one where they are not contiguous."""
    data = Data(150, [9, 2, 7, 3, 5, 8, 4, 6, 3, 2, 5], code_type, "packed")
    if consecutive:
        data.rows[1] = np.arange(150)
    columns = list(columns)
    # With 2,816 packed bins of bytes, fewer rows would be added directly.
    tasks = [[0, 1, 3, 150, 0, len(columns)]]
    exact = data.exact(3, 150, columns)
    own = np.concatenate(
        [np.arange(data.offsets[f], data.offsets[f + 1]) for f in columns]
    )
    sums = data.build(tasks, columns=columns)[0]
    np.testing.assert_array_equal(sums[:, own], exact[:, own])
    assert (np.delete(sums, own, axis=1) == POISON).all()


@pytest.mark.parametrize("code_type", CODES)
def test_rows_that_only_begin_and_end_as_consecutive_ones(code_type):
    data = Data(150, [9, 2, 7, 3, 5], code_type, "packed")
    data.rows[1] = np.arange(150)
    data.rows[1, 5:10] = 140 + np.arange(5)
    sums = data.build([[0, 1, 0, 120, 0, 5, PACK], [1, 1, 0, 120, 0, 5]])
    exact = data.exact(0, 120)
    np.testing.assert_array_equal(sums[0, 0], (exact[0] << 32) + exact[1])
    np.testing.assert_array_equal(sums[1], exact)


@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize("end", [130, 163, 320])
@pytest.mark.parametrize("columns", [range(12), range(28, 40), range(2, 19), range(40)])
def test_blocks_of_rows_turned_into_columns(columns, end, code_type):
    """Of 32 rows and 16 columns; the last ones overlap with those before them."""
    cells = [256, 3, 7, 200, *[9, 2, 7, 3, 5, 8] * 6]
    data = Data(320, cells, code_type, "packed")
    columns = list(columns)
    tasks = [[0, 1, 1, end, 0, len(columns), PACK], [1, 1, 1, end, 0, len(columns)]]
    sums = data.build(tasks, columns=columns)
    exact = data.exact(1, end, columns)
    own = np.concatenate(
        [np.arange(data.offsets[f], data.offsets[f + 1]) for f in columns]
    )
    np.testing.assert_array_equal(sums[0, 0, own], ((exact[0] << 32) + exact[1])[own])
    np.testing.assert_array_equal(sums[1][:, own], exact[:, own])
    assert (np.delete(sums[:2], own, axis=2) == POISON).all()


@needs_compiler
@pytest.mark.parametrize("pieces", [[0, 22], [0, 10, 22], [0, 12, 22], [0, 13, 22]])
@pytest.mark.parametrize("rows", [511, 512, 2048, 2049, 4100, BLOCK_ROWS])
def test_many_turned_blocks(rows, pieces):
    """Sixteen columns are turned, also where a task sums twelve of them."""
    data = Data(rows, [200, 3, *[16] * 20], np.uint8, "packed")
    tasks = [[0, 1, 0, rows, *piece, PACK] for piece in pairwise(pieces)]
    sums = data.build(tasks, blocks={0})
    exact = np.zeros((2, data.offsets[-1]), np.int64)
    for codes, offset in zip(data.codes, data.offsets[:-1], strict=True):
        for part in range(2):
            np.add.at(exact[part], codes + offset, data.pairs[:, part])
    np.testing.assert_array_equal(sums[0, 0], (exact[0] << 32) + exact[1])


@pytest.mark.parametrize("code_type", CODES)
def test_tasks_of_some_columns_of_a_block(code_type):
    cells = [256, 3, 7, 200, 5, 8, 4, 100, 3, 2, 5]
    data = Data(1500, cells, code_type, "packed")
    pieces = [[0, 4], [4, 5], [5, 11]]
    tasks = [[slot, 1, 3, 1500, 0, 11] for slot in range(2)]
    tasks = [[*task[:4], *piece] for task in tasks for piece in pieces]
    for task in tasks[:3]:
        task.append(PACK)
    sums = data.build(tasks, blocks={0})
    exact = data.exact(3, 1500)
    np.testing.assert_array_equal(sums[0, 0], (exact[0] << 32) + exact[1])
    np.testing.assert_array_equal(sums[1], exact)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("rows", [12, 270])
def test_blocks_of_columns(rows, n_threads):
    data = Data(rows, [5, 16, 4, 9, 2], np.uint8, "packed", n_threads)
    columns = [0, 1, 3, 4]
    sums = data.build([[0, 1, 0, rows, j, j + 1] for j in range(4)], columns=columns)
    exact = data.exact(0, rows, columns)
    counted = exact[1] > 0
    np.testing.assert_array_equal(sums[0][:, counted], exact[:, counted])


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_packed_slabs_are_added_to_one_row(n_threads):
    data = Data(130, [5, 16, 1, 9], np.uint8, "packed", n_threads)
    cells = data.offsets[-1]
    tasks = [[0, 1, 0, 50, 0, 4, PACK], [5, 1, 50, 130, 0, 4, PACK]]
    sums = data.build(tasks, [[0, 5, 6, c, c + 1, 1] for c in range(cells)])
    gradients, hessians = data.exact(0, 130)
    np.testing.assert_array_equal(sums[0, 0], (gradients << 32) + hessians)
    assert (sums[0, 1] == POISON).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_threads", N_THREADS)
def test_slabs_are_added(n_threads, kind):
    data = Data(130, [5, 16, 1, 9], np.uint16, kind, n_threads)
    cells = data.offsets[-1]
    # Rows 0 to 80 in three parts, 80 to 130 in one.
    tasks = [[0, 1, 0, 30, 0, 4], [5, 1, 30, 60, 0, 4], [6, 1, 60, 80, 0, 4]]
    tasks += [[1, 1, 80, 130, 0, 4]]
    joins = [[0, 5, 7, c, min(c + 10, cells), 2] for c in range(0, cells, 10)]
    sums = data.build(tasks, joins)
    np.testing.assert_array_equal(sums[0], data.exact(0, 80))
    np.testing.assert_array_equal(sums[1], data.exact(80, 130))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [12, 90])
def test_rows_are_added_to_existing_sums(rows, kind):
    data = Data(2 * rows, [5, 16, 1, 9], np.uint8, kind)
    data.histograms[:] = 0
    data.build([[1, 1, 0, rows, 0, 4], [2, 1, 0, rows, 0, 4]])
    # One slot is added to, the other is overwritten, as slabs always are.
    tasks = [[1, 1, rows, 2 * rows, 0, 4, 1], [2, 1, rows, 2 * rows, 0, 4, 0]]
    sums = data.build(tasks, [])
    np.testing.assert_array_equal(sums[1], data.exact(0, 2 * rows))
    np.testing.assert_array_equal(sums[2], data.exact(rows, 2 * rows))


@needs_compiler
@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("kind", KINDS)
def test_many_blocks_of_rows(kind, n_threads):
    rows = 3 * BLOCK_ROWS + 11
    data = Data(rows, [200, 3], np.uint8, kind, n_threads)
    half = BLOCK_ROWS + BLOCK_ROWS // 2
    tasks = [[0, 1, 0, half, 0, 2], [5, 1, half, rows, 0, 2]]
    sums = data.build(tasks, [[0, 5, 6, 0, 203, 2]])
    for f in range(2):
        own = slice(data.offsets[f], data.offsets[f + 1])
        for part in range(2):
            exact = np.zeros(data.offsets[f + 1] - data.offsets[f], np.int64)
            np.add.at(exact, data.codes[f], data.pairs[:, part])
            np.testing.assert_array_equal(sums[0, part, own], exact)


@needs_compiler
@pytest.mark.parametrize("g", [MOST_G, -MOST_G])
def test_the_largest_gradients_do_not_overflow_a_block(g):
    rows = 2 * BLOCK_ROWS + 3
    data = Data(rows, [2, 1], np.uint8, "packed")
    data.codes[:] = 0
    data.pairs[:] = g, MOST_H
    sums = data.build([[0, 1, 0, rows, 0, 2]])
    expected = [[rows * g, 0, rows * g], [rows * MOST_H, 0, rows * MOST_H]]
    np.testing.assert_array_equal(sums[0], expected)


def test_no_tasks():
    data = Data(20, [5, 16], np.uint8, "packed")
    assert (data.build([]) == POISON).all()
