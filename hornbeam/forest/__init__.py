"""Trees, models and model files: the result of training, without any training code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.forest.model import Model
    from hornbeam.forest.model_file import decode, digest, encode, load, save
    from hornbeam.forest.tree import Tree

__all__ = [
    "Model",
    "Tree",
    "decode",
    "digest",
    "encode",
    "load",
    "save",
]

_HOMES = {
    "Model": "hornbeam.forest.model",
    "Tree": "hornbeam.forest.tree",
    "decode": "hornbeam.forest.model_file",
    "digest": "hornbeam.forest.model_file",
    "encode": "hornbeam.forest.model_file",
    "load": "hornbeam.forest.model_file",
    "save": "hornbeam.forest.model_file",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
