"""A trained model for where Hornbeam is not: ONNX, C, and plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.export.saving import save, to_c, to_onnx, to_python, to_xgboost

__all__ = [
    "save",
    "to_c",
    "to_onnx",
    "to_python",
    "to_xgboost",
]

_HOMES = {
    "save": "hornbeam.export.saving",
    "to_c": "hornbeam.export.saving",
    "to_onnx": "hornbeam.export.saving",
    "to_python": "hornbeam.export.saving",
    "to_xgboost": "hornbeam.export.saving",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
