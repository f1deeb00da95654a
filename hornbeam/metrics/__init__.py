"""Metrics: how good predictions are, in XGBoost's names and numbers."""

from hornbeam.metrics import (
    classification,
    distributions,
    ranking,
    regression,
    survival,
)
from hornbeam.metrics.base import Metric, create, names

__all__ = [
    "Metric",
    "classification",
    "create",
    "distributions",
    "names",
    "ranking",
    "regression",
    "survival",
]
