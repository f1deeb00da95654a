"""Positions of points in a beeswarm plot."""

from __future__ import annotations

import numpy as np

from hornbeam.explain.node_text import Float64s

__all__ = ["swarm"]


def swarm(values: Float64s, low: float, high: float, bins: int = 100) -> Float64s:
    """Return the displacement of each point, from -1 to 1.

    Within a bin points alternate between both sides of the centre line; the
    fullest bin uses the whole width.

    Parameters
    ----------
    values
        (points,): positions along the line.
    low, high
        Ends of the line.
    bins
        Number of bins.
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
