"""A linear model: what XGBoost calls the booster gblinear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Linear"]


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """One weight for each feature and output. It never changes: rounds make new ones.

    Attributes
    ----------
    weights
        (features + 1, outputs) float32; the last are the biases, on top of the base
        score.
    rounds
        How many rounds have been learned.
    last_change
        The largest change of a weight in the last of them.
    """

    weights: NDArray[np.float32]
    rounds: int = 0
    last_change: float = np.inf

    @classmethod
    def zero(cls, features: int, outputs: int) -> Linear:
        """Return the model of no rounds."""
        return cls(np.zeros((features + 1, outputs), np.float32))
