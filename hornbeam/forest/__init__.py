"""Trees, models and model files: the result of training, without any training code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.forest.dump import dump_model, join_dumps
    from hornbeam.forest.feature_map import FeatureMap
    from hornbeam.forest.inspection import (
        feature_importance,
        split_value_histogram,
        trees_to_dataframe,
    )
    from hornbeam.forest.model import Model
    from hornbeam.forest.model_file import decode, digest, encode, load, save
    from hornbeam.forest.tree import Tree

__all__ = [
    "FeatureMap",
    "Model",
    "Tree",
    "decode",
    "digest",
    "dump_model",
    "encode",
    "feature_importance",
    "join_dumps",
    "load",
    "save",
    "split_value_histogram",
    "trees_to_dataframe",
]

_HOMES = {
    "FeatureMap": "hornbeam.forest.feature_map",
    "Model": "hornbeam.forest.model",
    "Tree": "hornbeam.forest.tree",
    "decode": "hornbeam.forest.model_file",
    "digest": "hornbeam.forest.model_file",
    "dump_model": "hornbeam.forest.dump",
    "encode": "hornbeam.forest.model_file",
    "feature_importance": "hornbeam.forest.inspection",
    "join_dumps": "hornbeam.forest.dump",
    "load": "hornbeam.forest.model_file",
    "save": "hornbeam.forest.model_file",
    "split_value_histogram": "hornbeam.forest.inspection",
    "trees_to_dataframe": "hornbeam.forest.inspection",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
