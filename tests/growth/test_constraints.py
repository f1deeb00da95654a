"""What splits are held to by the nodes above them, and by the features they are of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import few_values

import hornbeam
from hornbeam import ParameterError
from hornbeam.params import Parameters

NAMES = list("abcdef")
ROWS, LABELS = few_values(900, 6, missing=0.1, seed=2)
POLICIES = ["depthwise", "lossguide"]


def train(params, rounds=5, rows=ROWS, labels=LABELS, **info):
    data = hornbeam.DMatrix(rows, labels, **info)
    return hornbeam.train({"nthread": 1, **params}, data, rounds)


def paths(tree):
    """Return the set of features on the way to each node."""
    found = [set()]
    for node in range(1, tree.n_nodes):
        parent = tree.parent[node]
        found.append(found[parent] | {int(tree.feature[parent])})
    return found


# --- Which features go together -------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_only_the_features_of_a_group_go_together(policy):
    groups = [{0, 1}, {1, 2, 3}]
    params = {"interaction_constraints": groups, "grow_policy": policy, "max_depth": 5}
    together = set()
    for tree in train(params).model.trees:
        for path in paths(tree):
            assert len(path) < 2 or any(path <= group for group in groups)
            together.add(frozenset(path))
    assert {frozenset({0, 1}), frozenset({1, 2, 3})} <= together


def test_names_numbers_and_strings_say_the_same():
    digests = {
        train(
            {"interaction_constraints": groups, "max_depth": 4}, feature_names=NAMES
        ).digest()
        for groups in (
            [[0, 1], [2, 3, 4]],
            (("b", "a"), ["c", 3, "e"]),
            [{"a", "b"}, {"c", "d", "e"}],
            "[[0, 1], [2, 3, 4]]",
            '[["a", "b"], ["c", "d", "e"]]',
            np.array([[0, 1, 1], [2, 3, 4]]).tolist(),
        )
    }
    assert len(digests) == 1
    assert train({"interaction_constraints": ""}).digest() == train({}).digest()


def test_one_group_of_all_features_is_none_at_all():
    assert (
        train({"interaction_constraints": [range(6)], "colsample_bynode": 0.5}).digest()
        == train({"colsample_bynode": 0.5}).digest()
    )


@settings(max_examples=25, deadline=None)
@given(
    groups=st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=4),
    policy=st.sampled_from(POLICIES),
    rates=st.tuples(*[st.sampled_from([1.0, 0.6])] * 3),
)
def test_any_groups_are_kept_to(groups, policy, rates):
    params = {"interaction_constraints": groups, "grow_policy": policy, "max_leaves": 9}
    drawn = ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
    params |= dict(zip(drawn, rates, strict=True))
    for tree in train(params, 2).model.trees:
        for path in paths(tree):
            assert len(path) < 2 or any(path <= group for group in groups)


@pytest.mark.parametrize("given", [5, [1, 2], "[[0, 1]", [[0.5]], [[True]], "a"])
def test_what_is_no_list_of_groups(given):
    with pytest.raises(ParameterError, match="interaction_constraints"):
        Parameters.resolve({"interaction_constraints": given})
