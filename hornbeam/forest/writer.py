"""Writes a model as the JSON document of XGBoost's model files (3.2).

The document has an extension that XGBoost does not read: the object ``hornbeam`` next
to ``learner``, and the key ``hornbeam_thresholds`` in trees with thresholds that
float32 cannot represent. `model_file` moves it to another place in files.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.data.floats import nearest
from hornbeam.forest.cat_container import write_categories
from hornbeam.forest.model import Model
from hornbeam.forest.tree import concatenate_trees, deleted_nodes
from hornbeam.forest.validation import category_limits, check_model, normalize_nodes

__all__ = [
    "FORMAT",
    "ROOT_PARENT",
    "write_document",
]

FORMAT = 1
_XGBOOST_VERSION = [3, 2, 0]
# XGBoost writes these as the parent of a root and the feature of a deleted node. The
# root of a multi-output tree has the parent -1.
ROOT_PARENT = 2**31 - 1
_DELETED_FEATURE = 2**31 - 1

# The threshold of a categorical split and the value of a vector leaf: the smallest
# positive float32.
_NO_THRESHOLD = np.finfo(np.float32).smallest_subnormal


def write_document(model: Model) -> dict[str, Any]:
    """Return `model` as a document.

    Raises
    ------
    ModelFileError
        If the model is not valid.
    """
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
    # XGBoost cannot read them as a typed array.
    return {"gbtree": booster, "name": "dart", "weight_drop": list(model.tree_weights)}


def _write_trees(model: Model) -> list[dict[str, Any]]:
    nodes, starts = concatenate_trees(model.trees)
    nodes = normalize_nodes(nodes, starts, model.num_feature, category_limits(model))
    internal = nodes.left >= 0
    categorical = nodes.split_type == 1
    numerical = internal & ~categorical
    rounded = nearest(nodes.threshold, np.float32)
    deleted = deleted_nodes(nodes, starts[:-1])
    # XGBoost reads the parent of every node but the root, even of deleted ones.
    parent = np.where(deleted, np.int32(0), nodes.parent)
    size = nodes.leaf_size
    is_vector = size > 1
    parent[starts[:-1]] = -1 if is_vector else ROOT_PARENT
    columns = {
        "base_weights": nodes.weight,
        "default_left": np.where(deleted, np.uint8(1), nodes.default_left),
        "left_children": nodes.left,
        "loss_changes": nodes.gain,
        "parents": parent,
        "right_children": nodes.right,
        "split_conditions": np.select(
            [numerical, categorical],
            [rounded, _NO_THRESHOLD],
            _NO_THRESHOLD if is_vector else nodes.value,
        ).astype(np.float32),
        "split_indices": np.where(deleted, np.int32(_DELETED_FEATURE), nodes.feature),
        "split_type": nodes.split_type,
        "sum_hessian": nodes.cover,
    }
    inexact = numerical & (nodes.threshold != rounded)
    category_starts = nodes.category_starts
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
        split_nodes = np.flatnonzero(categorical[start:stop])
        begin = category_starts[start]
        document |= {
            "categories": nodes.categories[begin : category_starts[stop]],
            "categories_nodes": split_nodes.astype(np.int32),
            "categories_segments": category_starts[start + split_nodes] - begin,
            "categories_sizes": nodes.category_counts[start + split_nodes],
        }
        document["id"] = number
        document["tree_param"] = {
            "num_deleted": str(np.count_nonzero(deleted[start:stop])),
            "num_feature": str(model.num_feature),
            "num_nodes": str(stop - start),
            "size_leaf_vector": str(size),
        }
        if inexact[start:stop].any():
            thresholds = nodes.threshold[start:stop]
            document["hornbeam_thresholds"] = thresholds[numerical[start:stop]]
        documents.append(document)
    return documents
