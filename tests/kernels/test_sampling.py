"""Random draws that depend only on their counters."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, needs_compiler

from hornbeam.kernels.layout import SIZE_CLASSES, TASK_ROWS
from hornbeam.kernels.sampling import (
    ColumnDraws,
    DrawKey,
    GradientSampling,
    draw_bag,
    draw_bits,
    draw_by_size,
    draw_columns,
    draw_keyed_by_size,
    draw_keyed_rows,
    draw_rows,
    draw_share,
    weigh_rows,
)

SEEDS = [0, 7, 2**32 + 1, 2**64 - 1]


def key(stream, seed):
    """Return the key of draws for sampling rows."""
    return DrawKey(np.uint64(stream), np.uint64(0), np.uint64(seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stream", [0, 3, 2**32 - 1])
def test_bits_equal_the_reference(stream, seed):
    bits = np.empty(11, np.uint32)
    draw_bits(np.uint64(stream), np.uint64(5 << 28), np.uint64(seed), bits)
    exact = [naive.draw(i, stream, 5 << 28, seed) for i in range(11)]
    assert bits.tolist() == [word % 2**32 for word in exact]


def share_of(columns, share, purpose, seed, weights):
    """Return the share of the columns that is drawn for tree 3."""

    def wait(column):
        bits = naive.draw(column, 3, purpose, seed) % 2**32
        if len(weights) == 0:
            return bits, column
        weight = weights[column]
        exponential = -np.log1p(-(bits + 0.5) / 2**32)
        return weight == 0, exponential / (weight or 1.0), column

    count = max(1, int(share * len(columns)))
    return sorted(sorted(columns, key=wait)[:count])


@pytest.mark.parametrize("weights", [[], [1.0] * 40, [0.0, 1.0, 5.0, 1e-9] * 10])
@pytest.mark.parametrize("seed", SEEDS)
def test_columns_equal_the_reference(seed, weights):
    of_tree = np.array([*range(20), 25, 30, 39], np.uint64)
    for by_level, by_node in ((0.5, 0.4), (1.0, 0.1), (0.04, 1.0), (0.9, 0.9)):
        draws = ColumnDraws(
            np.uint64(3), np.uint64(seed), np.array(weights), by_level, by_node
        )
        for depth, node in ((0, 0), (4, 17)):
            allowed = np.full(40, 9, np.uint8)
            scratch = np.full((3, 40), 9, np.uint64)
            draw_columns(of_tree, draws, depth, node, scratch, allowed)
            level = share_of(
                of_tree.tolist(), by_level, (2 << 28) + depth, seed, weights
            )
            expected = share_of(level, by_node, (3 << 28) + node, seed, weights)
            assert np.flatnonzero(allowed).tolist() == expected
            assert allowed.max() == 1


def test_of_columns_with_the_same_wait_the_lowest_are_drawn():
    """The waits of weights below the least float64 are infinite."""
    weights = np.full(9, 5e-324)
    draws = ColumnDraws(np.uint64(0), np.uint64(0), weights, 1.0, 1.0)
    columns, scratch = np.arange(9, dtype=np.uint64), np.empty((2, 9), np.uint64)
    assert draw_share(columns, 0.5, 1 << 28, draws, *scratch) == 4
    assert columns[:4].tolist() == [0, 1, 2, 3]


def sample(rows, rate, tree=0, seed=0, n_threads=1, number=0):
    """Return whether each row is taken."""
    taken = np.full(rows, 9, np.uint8)
    call(
        draw_rows,
        number,
        int(rate * 2.0**32),
        key(tree, seed),
        taken,
        n_threads=n_threads,
    )
    return taken


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rows", [1, 4, 50])
def test_rows_are_taken_where_their_bits_are_low(rows, seed):
    exact = [naive.draw(i, 3, 0, seed) < 0.4 * 2**32 for i in range(rows)]
    assert sample(rows, 0.4, 3, seed).tolist() == exact


@pytest.mark.parametrize("number", [1, 2, 3, 4, 2**33 + 6])
def test_rows_are_drawn_by_their_global_index(number):
    exact = [naive.draw(number + i, 3, 0, 7) < 0.4 * 2**32 for i in range(50)]
    assert sample(50, 0.4, 3, 7, number=number).tolist() == exact


def test_rate_of_one_takes_all_rows():
    assert sample(300, 1.0).all()


def test_samples_differ_by_tree_and_seed_and_grow_with_the_rate():
    first = sample(300, 0.5)
    assert (first != sample(300, 0.5, tree=1)).any()
    assert (first != sample(300, 0.5, seed=1)).any()
    assert (first <= sample(300, 0.6)).all()


@needs_compiler
def test_a_sample_does_not_depend_on_the_threads_and_has_the_rate():
    rows = 5 * TASK_ROWS + 3
    alone = sample(rows, 0.3)
    for n_threads in N_THREADS[1:]:
        np.testing.assert_array_equal(sample(rows, 0.3, n_threads=n_threads), alone)
        part = sample(rows - 5, 0.3, n_threads=n_threads, number=5)
        np.testing.assert_array_equal(part, alone[5:])
    assert abs(alone.mean() - 0.3) < 4 * (0.21 / rows) ** 0.5


def lowest_of_classes(g, h, weight):
    """Return the class of each magnitude, and its lower bound."""
    squares = g.astype(float) ** 2 + weight * h.astype(float) ** 2
    sizes = np.sqrt(squares.sum(axis=0))
    bits = sizes.astype(np.float32).view(np.int32)
    return bits >> 15, (bits >> 15 << 15).view(np.float32).astype(float)


def gradients(rows, kind, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    shape = (outputs, rows)
    g = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape)
    h = rng.uniform(size=shape)
    g[:, ::7], h[:, ::14] = 0.0, 0.0
    return g.astype(kind), h.astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("n_threads", N_THREADS)
def test_rows_are_counted_by_magnitude_class(n_threads, outputs, kind):
    g, h = gradients(90, kind, outputs)
    counts = np.zeros((n_threads, SIZE_CLASSES), np.int64)
    call(weigh_rows, g, h, 0.7, counts, n_threads=n_threads)
    classes, lowest = lowest_of_classes(g, h, 0.7)
    exact = np.bincount(classes, minlength=SIZE_CLASSES)
    assert counts.sum(axis=0).tolist() == exact.tolist()
    squares = g.astype(float) ** 2 + 0.7 * h.astype(float) ** 2
    sizes = np.sqrt(squares.sum(axis=0))
    assert (lowest <= sizes * (1 + 1e-7)).all() and (sizes <= lowest * 1.0079).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("number", [0, 3, 2**33 + 6])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("threshold", [1e-30, 0.5, 40.0])
def test_larger_gradients_are_drawn_more_often_and_scaled_less(
    threshold, outputs, number, kind
):
    g, h = gradients(60, kind, outputs)
    taken = np.full(60, 9, np.uint8)
    scaled = np.full((2, outputs, 60), np.nan)
    call(
        draw_by_size,
        number,
        g,
        h,
        GradientSampling(0.7, float(threshold), 0.0),
        key(3, 7),
        taken,
        *scaled,
    )
    _, lowest = lowest_of_classes(g, h, 0.7)
    for row in range(60):
        share = lowest[row] / threshold
        bits = naive.draw(number + row, 3, 0, 7)
        exact = share >= 1 or bits < share * 2.0**32
        assert taken[row] == exact
        factor = max(1.0, 1.0 / share) if exact else 0.0
        assert scaled[0, :, row].tolist() == (g[:, row].astype(float) * factor).tolist()
        assert scaled[1, :, row].tolist() == (h[:, row].astype(float) * factor).tolist()
    assert 0 < taken.sum() < 60


@needs_compiler
def test_a_sample_by_magnitude_does_not_depend_on_threads_or_parts():
    rows = 3 * TASK_ROWS + 5
    g, h = gradients(rows, np.float32)

    def draw(begin, n_threads):
        taken, scaled = np.empty(rows - begin, np.uint8), np.empty((2, 1, rows - begin))
        call(
            draw_by_size,
            begin,
            g[:, begin:],
            h[:, begin:],
            GradientSampling(1.0, 0.8, 0.0),
            key(3, 7),
            taken,
            *scaled,
            n_threads=n_threads,
        )
        return np.array([taken, *scaled[:, 0]])

    alone = draw(0, 1)
    for n_threads in N_THREADS[1:]:
        np.testing.assert_array_equal(draw(0, n_threads), alone)
        np.testing.assert_array_equal(draw(7, n_threads), alone[:, 7:])


def test_sums_of_a_sample_by_magnitude_are_unbiased():
    rng = np.random.default_rng(0)
    g, h = rng.normal(1.0, 1.0, (1, 60)), rng.uniform(size=(1, 60))
    sums = np.zeros((200, 2))
    for seed in range(200):
        taken, scaled = np.empty(60, np.uint8), np.empty((2, 1, 60))
        call(
            draw_by_size,
            0,
            g,
            h,
            GradientSampling(1.0, 5.0, 0.0),
            key(3, seed),
            taken,
            *scaled,
        )
        sums[seed] = scaled.sum(axis=2)[:, 0]
    error = np.abs(sums.mean(axis=0) - [g.sum(), h.sum()])
    assert (error < 4 * sums.std(axis=0) / 200**0.5).all()


@pytest.mark.parametrize("n_threads", N_THREADS)
def test_rows_are_drawn_by_their_numbers_in_any_order(n_threads):
    rows = 2 * TASK_ROWS + 5 if n_threads > 1 else 90
    order = np.random.default_rng(n_threads).permutation(rows)
    first, g, h = 2**33 + 6, *gradients(rows, np.float32, 2)
    numbers = (first + order).astype(np.uint64)
    taken = np.full(rows, 9, np.uint8)
    limit = int(0.4 * 2.0**32)
    call(draw_keyed_rows, numbers, limit, key(3, 7), taken, n_threads=n_threads)
    exact = sample(rows, 0.4, 3, 7, number=first)
    np.testing.assert_array_equal(taken, exact[order])

    found = []
    for kernel, own, these in (
        (draw_by_size, first, slice(None)),
        (draw_keyed_by_size, numbers, order),
    ):
        drawn, scaled = np.full(rows, 9, np.uint8), np.full((2, 2, rows), np.nan)
        given = np.ascontiguousarray(g[:, these]), np.ascontiguousarray(h[:, these])
        by = GradientSampling(0.7, 0.5, 0.0), key(3, 7)
        call(kernel, own, *given, *by, drawn, *scaled, n_threads=n_threads)
        found.append(np.concatenate([drawn[None], *scaled]))
    np.testing.assert_array_equal(found[1], found[0][:, order])


#: The purpose of bootstrap draws.
BAG = 0x50000000


@pytest.mark.parametrize("draws", [1, 7, 40])
def test_bootstrap_samples_equal_the_reference(draws):
    times = np.zeros(10, np.int32)
    draw_bag(np.uint64(3), np.uint64(1 << 40 | 5), draws, times)
    drawn = [naive.draw(i, 3, BAG, 1 << 40 | 5) * 10 >> 32 for i in range(draws)]
    np.testing.assert_array_equal(times, np.bincount(drawn, minlength=10))


def test_rows_are_drawn_evenly():
    times = np.zeros(64, np.int32)
    for tree in range(8):
        draw_bag(np.uint64(tree), np.uint64(0), 200, times)
    assert times.sum() == 1600
    assert ((times - 25) ** 2 / 25).sum() < 103.4  # 0.1 % by chance, with 63 degrees
