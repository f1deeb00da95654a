"""What training leaves behind: trees, models and their files. Nothing here trains."""

from hornbeam.forest.model import Model
from hornbeam.forest.model_file import decode, digest, encode, load, save
from hornbeam.forest.tree import Tree

__all__ = ["Model", "Tree", "decode", "digest", "encode", "load", "save"]
