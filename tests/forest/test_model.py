"""Models: copies and slices."""

from __future__ import annotations

import numpy as np
import pytest
from forest_models import hand_made, in_xgboost, trained

from hornbeam.forest import decode, digest, encode


def test_a_copy_is_independent():
    model = hand_made(attributes={"note": "kept"})
    before = digest(model)
    other = model.copy()
    assert digest(other) == before
    other.trees.pop()
    other.tree_output.pop()
    other.round_starts.pop()
    other.base_score[0] = 2.0
    other.attributes["note"] = "changed"
    other.objective_config["reg_loss_param"]["scale_pos_weight"] = "3"
    assert digest(other) != before
    assert digest(model) == before


def test_slices_equal_xgboosts():
    booster, _ = trained("multi:softprob", num_class=3, num_parallel_tree=2)
    booster.set_attr(best_iteration="1", best_score="0.5", note="kept")
    model = decode(booster.save_raw("ubj"))
    part, theirs = model.slice(1, 3), booster[1:3]
    assert digest(part) == digest(decode(theirs.save_raw("ubj")))
    assert part.n_rounds == 2
    assert part.attributes == {"note": "kept"}
    data = encode(model.slice(0, 4, 2), "ubj")
    assert in_xgboost(data).num_boosted_rounds() == 2


@pytest.mark.parametrize("bounds", [(0, 5), (-1, 2), (2, 2), (3, 1)])
def test_a_slice_out_of_range_raises_an_error(bounds):
    with pytest.raises(IndexError, match="of 4 rounds"):
        hand_made(n_trees=4).slice(*bounds)


def test_a_slice_needs_a_positive_step():
    with pytest.raises(ValueError, match="the step is 0"):
        hand_made(n_trees=4).slice(0, 2, 0)


def test_the_number_of_outputs():
    assert hand_made().n_outputs == 1
    assert hand_made(num_class=3, base_score=np.zeros(3)).n_outputs == 3
    assert hand_made(num_target=2, base_score=np.zeros(2)).n_outputs == 2
