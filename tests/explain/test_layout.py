"""Drawn trees: no node over another, parents above the middle of their children."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hornbeam.explain.layout import places


@st.composite
def trees(draw):
    """Draw the children and the width of each node."""
    parents = [draw(st.integers(0, node - 1)) for node in range(1, draw(sizes))]
    children = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents, 1):
        children[parent].append(node)
    widths = [draw(st.floats(1.0, 50.0)) for _ in children]
    return children, widths


sizes = st.integers(1, 40)


def levels(children):
    """Return the nodes of each level, from left to right."""
    rows = [[0]]
    while rows[-1]:
        rows.append([child for node in rows[-1] for child in children[node]])
    return rows[:-1]


@given(trees())
def test_nodes_of_a_level_keep_their_distance(tree):
    children, widths = tree
    middles = places(children, widths, gap=3.0)
    for row in levels(children):
        for one, other in pairwise(row):
            apart = middles[other] - middles[one]
            assert apart >= (widths[one] + widths[other]) / 2 + 3.0 - 1e-6


@given(trees())
def test_parents_stand_in_the_middle(tree):
    children, widths = tree
    middles = places(children, widths, gap=3.0)
    assert middles[0] == 0.0
    for node, below in enumerate(children):
        if below:
            ends = middles[below[0]] + middles[below[-1]]
            assert abs(middles[node] - ends / 2) < 1e-6


def test_subtrees_are_pushed_into_one_another():
    #      0                The wide node 5 goes below the narrow 2: it need not
    #    1   2              stand apart from all of the tree of 1.
    #  3   4   5
    children = [[1, 2], [3, 4], [5], [], [], []]
    middles = places(children, [10, 10, 10, 10, 10, 30], gap=2)
    assert middles[5] - middles[4] == 22
    assert middles[2] == middles[5]


def test_a_long_chain_is_a_line():
    n_nodes = 1000
    children = [[node + 1] for node in range(n_nodes - 1)] + [[]]
    assert places(children, [1.0] * n_nodes, gap=1.0) == [0.0] * n_nodes
