"""Reports of a model on data as a self-contained HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hornbeam.lazy import names_from

if TYPE_CHECKING:
    from hornbeam.explain.report.writing import report

__all__ = [
    "report",
]

_HOMES = {
    "report": "hornbeam.explain.report.writing",
}

__getattr__, __dir__ = names_from(__name__, _HOMES)
