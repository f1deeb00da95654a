"""A model as the document that XGBoost's model files spell.

The document is XGBoost's own (3.2), with two additions that XGBoost does not read:
a block ``hornbeam`` beside ``learner``, and the key ``hornbeam_thresholds`` in trees
whose thresholds float32 cannot hold. In files both are put away (`own_part`).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.data.floats import nearest
from hornbeam.forest.cat_container import write_categories
from hornbeam.forest.model import Model
from hornbeam.forest.tree import cut_off, join
from hornbeam.forest.validation import category_limits, check_model, normal_form

__all__ = [
    "FORMAT",
    "ROOT_PARENT",
    "write_document",
]

FORMAT = 1
_XGBOOST_VERSION = [3, 2, 0]
# XGBoost writes these where a root has no parent and a cut off node no feature. The
# root of a tree of all outputs has the parent -1 there.
ROOT_PARENT = 2**31 - 1
_CUT_OFF_FEATURE = 2**31 - 1

# In place of the threshold of a split by category, and of the value of a leaf that has
# several; the least float above zero.
_NO_THRESHOLD = np.finfo(np.float32).smallest_subnormal


def write_document(model: Model) -> dict[str, Any]:
    """Return the checked `model` as a document."""
    check_model(model)
    features = model.num_feature
    return {
        "hornbeam": {
            "double_scores": model.double_scores,
            "exact_features": model.exact_features,
            "format": FORMAT,
            **(
                {"last_change": repr(model.linear.last_change)}
                if model.linear is not None and math.isfinite(model.linear.last_change)
                else {}
            ),
            **({"unseen_missing": True} if model.unseen_missing else {}),
        },
        "learner": {
            "attributes": model.attributes,
            "feature_names": model.feature_names,
            "feature_types": model.feature_types,
            "gradient_booster": _write_booster(model),
            "learner_model_param": {
                "base_score": f"[{','.join(map(repr, model.base_score.tolist()))}]",
                "boost_from_average": str(int(model.boost_from_average)),
                "num_class": str(model.num_class),
                "num_feature": str(features),
                "num_target": str(model.num_target),
            },
            "objective": {
                "name": model.objective,
                **model.objective_config,
                **model.objective_state,
            },
        },
        "version": _XGBOOST_VERSION,
    }


def _write_booster(model: Model) -> dict[str, Any]:
    if model.linear is not None:
        return {
            "model": {
                "boosted_rounds": model.linear.rounds,
                "weights": model.linear.weights.ravel(),
            },
            "name": "gblinear",
        }
    booster = {
        "model": {
            "cats": write_categories(model.categories),
            "gbtree_model_param": {
                "num_parallel_tree": str(model.num_parallel_tree),
                "num_trees": str(len(model.trees)),
            },
            "iteration_indptr": model.round_starts,
            "tree_info": model.tree_output,
            "trees": _write_trees(model),
        },
        "name": "gbtree",
    }
    if model.tree_weights is None:
        return booster
    # XGBoost does not read them as an array of one type.
    return {"gbtree": booster, "name": "dart", "weight_drop": list(model.tree_weights)}


def _write_trees(model: Model) -> list[dict[str, Any]]:
    nodes, starts = join(model.trees)
    nodes = normal_form(nodes, starts, model.num_feature, category_limits(model))
    internal = nodes.left >= 0
    by_category = nodes.split_type == 1
    ordered = internal & ~by_category
    rounded = nearest(nodes.threshold, np.float32)
    pruned = cut_off(nodes, starts[:-1])
    # XGBoost looks up the parent of every node but the root, cut off or not.
    parent = np.where(pruned, np.int32(0), nodes.parent)
    size = nodes.leaf_size
    is_vector = size > 1
    parent[starts[:-1]] = -1 if is_vector else ROOT_PARENT
    columns = {
        "base_weights": nodes.weight,
        "default_left": np.where(pruned, np.uint8(1), nodes.default_left),
        "left_children": nodes.left,
        "loss_changes": nodes.gain,
        "parents": parent,
        "right_children": nodes.right,
        "split_conditions": np.select(
            [ordered, by_category],
            [rounded, _NO_THRESHOLD],
            _NO_THRESHOLD if is_vector else nodes.value,
        ).astype(np.float32),
        "split_indices": np.where(pruned, np.int32(_CUT_OFF_FEATURE), nodes.feature),
        "split_type": nodes.split_type,
        "sum_hessian": nodes.cover,
    }
    inexact = ordered & (nodes.threshold != rounded)
    places = nodes.category_starts
    documents = []
    for number, (start, stop) in enumerate(pairwise(starts.tolist())):
        document: dict[str, Any] = {
            name: column[start:stop].ravel() for name, column in columns.items()
        }
        if is_vector:
            leaf = ~internal[start:stop]
            rows = np.cumsum(leaf, dtype=np.int32) - 1
            document["leaf_weights"] = nodes.value[start:stop][leaf].ravel()
            document["right_children"] = np.where(leaf, rows, nodes.right[start:stop])
        listed = np.flatnonzero(by_category[start:stop])
        begin = places[start]
        document |= {
            "categories": nodes.categories[begin : places[stop]],
            "categories_nodes": listed.astype(np.int32),
            "categories_segments": places[start + listed] - begin,
            "categories_sizes": nodes.category_counts[start + listed],
        }
        document["id"] = number
        document["tree_param"] = {
            "num_deleted": str(np.count_nonzero(pruned[start:stop])),
            "num_feature": str(model.num_feature),
            "num_nodes": str(stop - start),
            "size_leaf_vector": str(size),
        }
        if inexact[start:stop].any():
            thresholds = nodes.threshold[start:stop]
            document["hornbeam_thresholds"] = thresholds[ordered[start:stop]]
        documents.append(document)
    return documents
