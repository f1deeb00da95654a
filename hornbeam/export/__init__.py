"""A trained model for where Hornbeam is not: ONNX, C, and plain Python."""

from hornbeam.export.saving import save, to_c, to_onnx, to_python, to_xgboost

__all__ = ["save", "to_c", "to_onnx", "to_python", "to_xgboost"]
