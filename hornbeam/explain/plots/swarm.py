"""Points of one row of a picture, moved apart until their crowd can be seen."""

from __future__ import annotations

import numpy as np

from hornbeam.explain.words import Float64s

__all__ = ["swarm"]


def swarm(values: Float64s, low: float, high: float, bins: int = 100) -> Float64s:
    """Return how far to move each point across, from -1 to 1.

    In each bin along the row points stand in turn at either side of the middle; the
    fullest bin reaches to the ends.

    Parameters
    ----------
    values
        (points,): where they are along the row.
    low, high
        Where the row begins and ends.
    bins
        How many.
    """
    offsets = np.zeros(len(values))
    span = high - low
    if not span > 0:
        place = np.zeros(len(values), np.intp)
    else:
        place = np.clip((values - low) / span * bins, 0, bins - 1).astype(np.intp)
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=bins)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    layer = np.arange(len(values)) - starts  # 0, 1, 2, ... in each bin
    offsets[order] = (layer + 1) // 2 * np.where(layer % 2 == 0, 1, -1)
    return offsets / max(1.0, np.abs(offsets).max(initial=0.0))
