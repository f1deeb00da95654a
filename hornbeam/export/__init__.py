"""Export of trained models to ONNX, C, Python and XGBoost's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.export.exporters import save, to_c, to_onnx, to_python, to_xgboost

__all__ = [
    "save",
    "to_c",
    "to_onnx",
    "to_python",
    "to_xgboost",
]

_HOMES = {
    "save": "hornbeam.export.exporters",
    "to_c": "hornbeam.export.exporters",
    "to_onnx": "hornbeam.export.exporters",
    "to_python": "hornbeam.export.exporters",
    "to_xgboost": "hornbeam.export.exporters",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
