"""The error of XGBoost's name."""

from __future__ import annotations

from hornbeam.errors import HornbeamError

__all__ = ["XGBoostError"]

#: Whatever can go wrong here and can be mended; a ValueError, as there.
XGBoostError = HornbeamError
