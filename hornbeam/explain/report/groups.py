"""Feature values in a few groups: ranges or categories, and missing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hornbeam.explain.report.rows import Floats, Integers, Rows

__all__ = ["Groups", "feature_name", "groups_of", "short"]


@dataclass(frozen=True)
class Groups:
    """Groups of the values of a feature.

    Parameters
    ----------
    feature
        Index of the feature.
    edges
        Lower bounds of all ranges but the first; None for a categorical feature.
    codes
        Category codes with a group of their own, ascending. All other categories share
        the next group.
    labels
        Names of the groups; the last one is of missing values.
    """

    feature: int
    edges: Floats | None
    codes: Floats | None
    labels: list[str]

    @property
    def size(self) -> int:
        return len(self.labels)

    def of(self, column: Floats) -> Integers:
        """Return the group of each value, (rows,)."""
        missing = np.isnan(column)
        if self.edges is not None:
            found = np.searchsorted(self.edges, column, side="right")
        else:
            assert self.codes is not None
            found = np.searchsorted(self.codes, column)
            near = self.codes[np.minimum(found, len(self.codes) - 1)]
            found = np.where(near == column, found, len(self.codes))
        return np.where(missing, self.size - 1, found)


def groups_of(rows: Rows, feature: int, most: int) -> Groups:
    """Return groups of a feature's values of about equal size, up to a maximum number.

    A sufficiently frequent value has a group of its own.
    """
    column = rows.column(feature)
    known = column[~np.isnan(column)]
    name = feature_name(rows, feature)
    kinds = rows.matrix.feature_types
    if kinds is not None and kinds[feature] == "c":
        return _of_categories(rows, feature, known, most)
    edges = np.empty(0)
    if known.size:
        shares = np.arange(1, most) / most
        quantiles = np.quantile(known, shares, method="lower")
        edges, counts = np.unique(quantiles, return_counts=True)
        # A value of several quantiles ends its group, so that it is alone in it.
        values = np.unique(known)
        ends = np.searchsorted(values, edges[counts > 1], side="right")
        edges = np.union1d(edges, values[ends[ends < len(values)]])
        edges = edges[edges > known.min()]
    bounds = [short(edge) for edge in edges]
    if not bounds:
        labels = [f"{name} is known"]
    else:
        labels = [
            f"{name} < {bounds[0]}",
            *(f"{low} ≤ {name} < {high}" for low, high in pairwise(bounds)),
            f"{name} ≥ {bounds[-1]}",
        ]
    return Groups(feature, edges, None, [*labels, f"{name} is missing"])


def _of_categories(rows: Rows, feature: int, known: Floats, most: int) -> Groups:
    name = feature_name(rows, feature)
    codes, counts = np.unique(known, return_counts=True)
    kept = np.sort(codes[np.argsort(-counts, kind="stable")[: most - 1]])
    levels = rows.matrix.schema.categories.of(feature)
    called = [str(int(code) if levels is None else levels[int(code)]) for code in kept]
    labels = [f"{name} is {level}" for level in called]
    return Groups(
        feature, None, kept, [*labels, f"{name} is another", f"{name} is missing"]
    )


def feature_name(rows: Rows, feature: int) -> str:
    """Return the name of a feature in the report."""
    names = rows.matrix.feature_names
    return names[feature] if names else f"f{feature}"


def short(value: float) -> str:
    """Return a number as text: integers exactly, others with few digits."""
    value = float(value) + 0.0
    if value == round(value) and abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}"
