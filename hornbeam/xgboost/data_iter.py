"""Batches from a class of one's own, as XGBoost asks for them."""

from __future__ import annotations

from hornbeam.data.sources.data_iter import DataIter

__all__ = ["DataIter"]
