"""The values of one feature, with the names of its categories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hornbeam.explain.words import Float64s

__all__ = ["Column"]


@dataclass(frozen=True, slots=True)
class Column:
    """A feature of some rows.

    Parameters
    ----------
    name
        Of the feature.
    values
        (rows,): numbers, or codes of categories; missing as NaN.
    levels
        What the codes 0, 1, 2, ... stand for; None if the feature is not categorical.
    """

    name: str
    values: Float64s
    levels: list[str] | None = None

    @property
    def known(self) -> Float64s:
        """The values that are there, and finite."""
        return self.values[np.isfinite(self.values)]

    def grid(
        self, size: int, percentiles: tuple[float, float] = (0.0, 1.0)
    ) -> Float64s:
        """Return some of the values, rising.

        Of numbers those at quantiles, evenly spread over the percentiles; of categories
        the most frequent, by their codes.
        """
        known = self.known
        if self.levels is None:
            shares = np.linspace(*percentiles, size)
            return np.unique(np.quantile(known, shares, method="nearest"))
        counts = np.bincount(known.astype(np.intp), minlength=len(self.levels))
        frequent = np.argsort(-counts, kind="stable")[:size]
        return np.sort(frequent[counts[frequent] > 0]).astype(np.float64)

    @property
    def deciles(self) -> Float64s:
        """The nine values that part numbers in tenths; none of categories."""
        if self.levels is not None:
            return np.empty(0)
        return np.quantile(self.known, np.linspace(0.1, 0.9, 9))
