"""Trees as arrays: sizes, depths, concatenation and splitting."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from forest_models import grown_tree

from hornbeam.forest.tree import Tree, concatenate_trees, roots_and_depths, split_trees


def depth_by_walking(tree, node=0):
    if tree.left[node] < 0:
        return 0
    children = tree.left[node], tree.right[node]
    return 1 + max(depth_by_walking(tree, child) for child in children)


@pytest.mark.parametrize("n_splits", [0, 1, 2, 7, 60])
def test_numbers_of_nodes_leaves_and_levels(n_splits):
    tree = grown_tree(np.random.default_rng(n_splits), n_splits=n_splits)
    assert tree.n_nodes == 2 * n_splits + 1
    assert tree.n_leaves == n_splits + 1
    assert tree.depth() == depth_by_walking(tree)


def test_deleted_nodes_are_not_leaves():
    tree = grown_tree(np.random.default_rng(0), n_splits=1)
    tree.left[:] = tree.right[:] = tree.parent[:] = -1
    assert tree.leaf_mask.tolist() == [True, False, False]
    assert tree.depth() == 0


def test_depths_of_a_chain_take_few_steps():
    top, steps = roots_and_depths(np.arange(-1, 99_999))
    assert not top.any()
    np.testing.assert_array_equal(steps, np.arange(100_000))


def test_concatenated_trees_can_be_split():
    rng = np.random.default_rng(1)
    trees = [grown_tree(rng, n_splits=size) for size in (3, 0, 5)]
    nodes, starts = concatenate_trees(trees)
    assert starts.tolist() == [0, 7, 8, 19]
    for tree, again in zip(trees, split_trees(nodes, starts), strict=True):
        for field in fields(Tree):
            np.testing.assert_array_equal(
                getattr(again, field.name), getattr(tree, field.name)
            )


def test_no_trees_are_concatenated_to_no_nodes():
    nodes, starts = concatenate_trees([])
    assert nodes.n_nodes == 0
    assert split_trees(nodes, starts) == []


def test_concatenation_rejects_other_types():
    tree = grown_tree(np.random.default_rng(0))
    tree.value = tree.value.astype(np.float64)
    with pytest.raises(TypeError):
        concatenate_trees([tree])
