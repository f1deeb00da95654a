"""Evaluation metrics, with the names and values of XGBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.metrics.base import Metric
    from hornbeam.metrics.registry import create, names

__all__ = [
    "Metric",
    "create",
    "names",
]

_HOMES = {
    "Metric": "hornbeam.metrics.base",
    "create": "hornbeam.metrics.registry",
    "names": "hornbeam.metrics.registry",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
