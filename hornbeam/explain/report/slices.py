"""Slices of the rows by one or two features with the worst loss.

Slices are searched on one half of the rows and evaluated on the other, to avoid
selection bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hornbeam.explain.report.groups import Groups, groups_of
from hornbeam.explain.report.importances import Importances
from hornbeam.explain.report.rows import Floats, Integers, Rows, generator
from hornbeam.explain.report.task import Task

__all__ = ["Slice", "Slices", "slices_of"]

Mask = NDArray[np.bool_]

_MOST_ROWS = 24_000
_SINGLE_GROUPS = 8
_PAIR_GROUPS = 4
#: Number of the most important features that are combined in pairs.
_PAIRED = 8
_MOST_SINGLE = 60
#: Minimum size of a slice, as a share and as a number of rows.
_LEAST_SHARE = 0.01
_LEAST_ROWS = 50
#: Maximum number of slices that are evaluated, and that are shown.
_CANDIDATES = 20
_SHOWN = 8
_LEVEL = 0.95
#: Overlap, relative to the smaller slice, from which two slices count as one.
_COMMON = 0.7


@dataclass(frozen=True)
class Slice:
    """A slice: rows with common feature values.

    Parameters
    ----------
    words
        Description of the slice.
    rows
        Number of rows in the evaluation half, and their share of it.
    loss
        Mean loss with its confidence interval.
    label, prediction
        Mean label and prediction; None where they cannot be compared.
    """

    words: str
    rows: int
    share: float
    loss: float
    low: float
    high: float
    label: float | None = None
    prediction: float | None = None


@dataclass(frozen=True)
class Slices:
    """The worst slices, the loss of all rows, and the number of slices searched."""

    found: list[Slice]
    loss: float
    rows: int
    tried: int
    judged: int
    metric: str


@dataclass(frozen=True, eq=False)
class _Coded:
    """Groups of a feature with the group of each row."""

    groups: Groups
    of_row: Integers

    @classmethod
    def of(cls, rows: Rows, feature: int, most: int) -> _Coded:
        groups = groups_of(rows, feature, most)
        return cls(groups, groups.of(rows.column(feature)))


@dataclass(frozen=True)
class _Candidate:
    """A candidate slice: one group of each feature, and its strength."""

    members: tuple[tuple[_Coded, int], ...]
    strength: float

    @property
    def words(self) -> str:
        return " and ".join(coded.groups.labels[group] for coded, group in self.members)


def slices_of(
    rows: Rows, task: Task, importances: Importances, seed: int
) -> Slices | None:
    """Return the slices with the largest excess loss; None where rows have no loss.

    Confidence intervals hold simultaneously for all evaluated slices. A slice is shown
    if its interval is above the mean of all rows, and a slice of two features only if
    it is above the loss of either feature alone.
    """
    if task.loss is None:
        return None
    rows = rows.sample(_MOST_ROWS, seed, "slices")
    losses, weights = task.losses(rows), rows.weights
    order = generator(seed, "halves of slices").permutation(rows.n_rows)
    search, judge = order[: rows.n_rows // 2], order[rows.n_rows // 2 :]
    features = [entry.feature for entry in importances.features]
    known = [f for f in features if np.isfinite(rows.column(f)).any()]
    singles = [_Coded.of(rows, f, _SINGLE_GROUPS) for f in known[:_MOST_SINGLE]]
    pairs = [_Coded.of(rows, f, _PAIR_GROUPS) for f in known[:_PAIRED]]
    kinds = [*((coded,) for coded in singles), *combinations(pairs, 2)]
    tried, candidates = _search(losses[search], weights[search], search, kinds)
    candidates.sort(key=lambda c: (-c.strength, c.words))
    judged = candidates[:_CANDIDATES]
    z = NormalDist().inv_cdf(1 - (1 - _LEVEL) / (2 * max(1, len(judged))))
    whole, _ = _mean(losses[judge], weights[judge])
    compared = task.compared(rows)
    shown = []
    for candidate in judged:
        mask = _inside(candidate.members, judge)
        inside = judge[mask]
        if inside.size < _least(judge.size):
            continue
        mean, error = _mean(losses[inside], weights[inside])
        alone = [_alone(m, judge, losses, weights) for m in _parts(candidate)]
        limit = max([whole, *alone])
        if mean - z * error <= limit:
            continue
        found = Slice(
            candidate.words,
            int(inside.size),
            float(weights[inside].sum() / weights[judge].sum()),
            mean,
            mean - z * error,
            mean + z * error,
            *(_mean(column[inside], weights[inside])[0] for column in compared),
        )
        shown.append((found, mask))
    shown.sort(key=lambda pair: (-pair[0].low, pair[0].words))
    return Slices(
        _different(shown)[:_SHOWN],
        whole,
        rows.n_rows,
        tried,
        len(judged),
        f"square of {task.loss.name}" if task.loss.is_root else task.loss.name,
    )


def _different(shown: list[tuple[Slice, Mask]]) -> list[Slice]:
    """Return the slices that do not mostly overlap with an earlier one."""
    kept: list[tuple[Slice, Mask]] = []
    for found, mask in shown:
        if all(
            (mask & other).sum() < _COMMON * min(mask.sum(), other.sum())
            for _, other in kept
        ):
            kept.append((found, mask))
    return [found for found, _ in kept]


def _search(
    losses: Floats,
    weights: Floats,
    rows: Integers,
    kinds: Sequence[tuple[_Coded, ...]],
) -> tuple[int, list[_Candidate]]:
    """Return the number of slices, and those with a loss above the mean.

    The strength of a slice is its excess loss in standard errors.
    """
    whole, _ = _mean(losses, weights)
    tried, found = 0, []
    for kind in kinds:
        sizes = [coded.groups.size for coded in kind]
        n_cells = math.prod(sizes)
        cells = np.ravel_multi_index([coded.of_row[rows] for coded in kind], sizes)
        counts = np.bincount(cells, minlength=n_cells)
        total = np.bincount(cells, weights, n_cells)
        sums = np.bincount(cells, weights * losses, n_cells)
        means = np.divide(sums, total, out=np.zeros(n_cells), where=total > 0)
        spread = np.bincount(cells, (weights * (losses - means[cells])) ** 2, n_cells)
        errors = np.sqrt(spread) / np.where(total > 0, total, 1.0)
        fit = counts >= _least(rows.size)
        tried += int(fit.sum())
        good = fit & (means > whole) & (errors > 0) & (counts < rows.size)
        for cell in np.flatnonzero(good).tolist():
            groups = [int(place) for place in np.unravel_index(cell, sizes)]
            members = tuple(zip(kind, groups, strict=True))
            strength = float((means[cell] - whole) / errors[cell])
            found.append(_Candidate(members, strength))
    return tried, found


def _least(n_rows: int) -> float:
    return max(_LEAST_ROWS, _LEAST_SHARE * n_rows)


def _parts(candidate: _Candidate) -> list[tuple[_Coded, int]]:
    """Return the two single-feature slices of a slice of two features; else nothing."""
    return list(candidate.members) if len(candidate.members) > 1 else []


def _alone(
    member: tuple[_Coded, int], rows: Integers, losses: Floats, weights: Floats
) -> float:
    """Return the mean loss of a single-feature slice."""
    inside = rows[_inside((member,), rows)]
    return _mean(losses[inside], weights[inside])[0]


def _inside(members: tuple[tuple[_Coded, int], ...], rows: Integers) -> Mask:
    inside = np.ones(rows.size, bool)
    for coded, group in members:
        inside &= coded.of_row[rows] == group
    return inside


def _mean(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return the weighted mean and its standard error."""
    total = weights.sum()
    if not total > 0:
        return math.nan, math.inf
    mean = float((weights * values).sum() / total)
    return mean, float(np.sqrt(((weights * (values - mean)) ** 2).sum()) / total)
