"""Draws that depend on nothing but their numbers."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import MEMBERS, call, needs_compiler

from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.sampling import draw_bits, draw_exponentials, draw_rows

SEEDS = [0, 7, 2**32 + 1, 2**64 - 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stream", [0, 3, 2**32 - 1])
def test_bits_are_those_of_the_plain_twin(stream, seed):
    bits = np.empty(11, np.uint32)
    draw_bits(np.uint64(stream), np.uint64(5 << 28), np.uint64(seed), bits)
    exact = [naive.draw(i, stream, 5 << 28, seed) for i in range(11)]
    assert bits.tolist() == [word % 2**32 for word in exact]


@pytest.mark.parametrize("seed", SEEDS)
def test_waits_are_exponential_draws_of_the_same_bits(seed):
    waits = np.empty(11)
    draw_exponentials(np.uint64(3), np.uint64(5 << 28), np.uint64(seed), waits)
    bits = [naive.draw(i, 3, 5 << 28, seed) % 2**32 for i in range(11)]
    exact = [-np.log1p(-(word + 0.5) / 2**32) for word in bits]
    np.testing.assert_allclose(waits, exact, rtol=1e-9)
    assert np.argsort(waits).tolist() == np.argsort(bits).tolist()


def sample(rows, rate, tree=0, seed=0, members=1, number=0):
    """Return which rows are taken."""
    taken = np.full(rows, 9, np.uint8)
    call(
        draw_rows, number, int(rate * 2.0**32), np.uint64(tree), np.uint64(0),
        np.uint64(seed), taken, members=members,
    )  # fmt: skip
    return taken


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rows", [1, 4, 50])
def test_rows_are_taken_where_their_bits_are_low(rows, seed):
    exact = [naive.draw(i, 3, 0, seed) < 0.4 * 2**32 for i in range(rows)]
    assert sample(rows, 0.4, 3, seed).tolist() == exact


@pytest.mark.parametrize("number", [1, 2, 3, 4, 2**33 + 6])
def test_rows_are_drawn_by_their_number_among_all(number):
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
def test_sample_does_not_depend_on_the_team_and_has_the_rate():
    rows = 5 * TASK_ROWS + 3
    alone = sample(rows, 0.3)
    for members in MEMBERS[1:]:
        np.testing.assert_array_equal(sample(rows, 0.3, members=members), alone)
        part = sample(rows - 5, 0.3, members=members, number=5)
        np.testing.assert_array_equal(part, alone[5:])
    assert abs(alone.mean() - 0.3) < 4 * (0.21 / rows) ** 0.5
