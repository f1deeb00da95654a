"""Drift between the training data and the evaluated data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.dmatrix import DMatrix
from hornbeam.explain.report.groups import feature_name, groups_of
from hornbeam.explain.report.rows import Floats, Integers, Rows, generator
from hornbeam.explain.report.task import Task
from hornbeam.metrics import create
from hornbeam.training import train

__all__ = [
    "Drift",
    "DriftOfColumn",
    "Duplicates",
    "drift_of",
    "duplicates_of",
    "stability",
]

_MOST_ROWS = 50_000
_GROUPS = 10
#: Maximum rows of each data set for the drift classifier, and its rounds.
_SIDE = 10_000
_ROUNDS = 30
_LEAST_SIDE = 100
#: Added to shares, so that an empty group has a finite logarithm.
_LEAST_SHARE = 1e-4


@dataclass(frozen=True)
class DriftOfColumn:
    """Drift of a feature: its PSI, the PSI expected by chance, and missing shares."""

    feature: int
    name: str
    index: float
    by_chance: float
    missing_before: float
    missing_now: float


@dataclass(frozen=True)
class Drift:
    """Drift of all features in descending order, and of the data as a whole.

    `area` is the ROC AUC of a classifier that separates the two data sets (0.5: no
    drift), with its standard error; None where there are too few rows. `tells` are its
    most important features.
    """

    columns: list[DriftOfColumn]
    area: float | None
    error: float
    tells: list[str]


@dataclass(frozen=True)
class Duplicates:
    """Rows with equal features and labels in both data sets.

    `within` is the share of training rows that are duplicated within the training data.
    """

    count: int
    share: float
    within: float


def drift_of(before: Rows, now: Rows, seed: int) -> Drift:
    """Return the drift between the training data and the evaluated data."""
    old = before.sample(_MOST_ROWS, seed, "drift of training")
    new = now.sample(_MOST_ROWS, seed, "drift of now")
    columns = []
    for feature in range(old.matrix.n_features):
        groups = groups_of(old, feature, _GROUPS)
        values = old.column(feature), new.column(feature)
        counts = [np.bincount(groups.of(v), minlength=groups.size) for v in values]
        columns.append(
            DriftOfColumn(
                feature,
                feature_name(old, feature),
                stability(*counts),
                (np.count_nonzero(counts[0]) - 1) * (1 / old.n_rows + 1 / new.n_rows),
                float(np.isnan(values[0]).mean()),
                float(np.isnan(values[1]).mean()),
            )
        )
    columns.sort(key=lambda column: (-column.index, column.feature))
    return Drift(columns, *_separability(old, new, seed))


def stability(before: Integers, now: Integers) -> float:
    """Return the population stability index (PSI) of two histograms of the same
    groups."""
    old, new = (
        np.maximum(counts / max(1, counts.sum()), _LEAST_SHARE)
        for counts in (before, now)
    )
    return float(((new - old) * np.log(new / old)).sum())


def _separability(
    old: Rows, new: Rows, seed: int
) -> tuple[float | None, float, list[str]]:
    """Return how well a small classifier separates the two data sets."""
    sides = [rows.sample(_SIDE, seed, f"side of {rows.name}") for rows in (old, new)]
    most = min(side.n_rows for side in sides)
    if most < _LEAST_SIDE:
        return None, 0.0, []
    parts, labels = [], []
    for label, side in enumerate(sides):
        picked = generator(seed, "sides", label).permutation(side.n_rows)[:most]
        parts.append(np.array(side.matrix.table.rows(0, side.n_rows))[picked])
        labels.append(np.full(most, float(label)))
    table = old.matrix.table
    half = most // 2

    def matrix(begin: int, end: int) -> DMatrix:
        values = np.concatenate([part[begin:end] for part in parts])
        kept = ArrayTable(
            values, names=table.names, types=table.types, categories=table.categories
        )
        label = np.concatenate([column[begin:end] for column in labels])
        return DMatrix.of_table(kept, {"label": label})

    params = {
        "objective": "binary:logistic",
        "max_depth": 4,
        "nthread": old.booster.params.nthread,
    }
    judge = train(params, matrix(0, half), _ROUNDS, verbose_eval=False)
    other = matrix(half, most)
    scores = judge.predictions_to_measure(other)
    area = create("auc")(scores, np.asarray(other.labels, np.float64))
    size = most - half
    error = float(np.sqrt((2 * size + 1) / (12.0 * size * size)))
    gains = judge.get_score(importance_type="total_gain")
    tells = sorted(gains, key=lambda name: (-gains[name], name))[:3]
    return area, error, tells


def duplicates_of(before: Rows, now: Rows, task: Task) -> Duplicates:
    """Return how many evaluated rows also occur in the training data."""
    old, new = _marks(before, task), _marks(now, task)
    values, counts = np.unique(old, return_counts=True)
    both = np.isin(new, values)
    again = counts[counts > 1].sum() / old.size
    return Duplicates(int(both.sum()), float(both.mean()), float(again))


def _marks(rows: Rows, task: Task) -> NDArrayOfMarks:
    """Return a hash of each row, (rows,) uint64."""
    columns = [rows.column(feature) for feature in range(rows.matrix.n_features)]
    labels = task.plain_labels(rows)
    if labels is not None:
        columns.append(labels)
    marks = np.zeros(rows.n_rows, np.uint64)
    for column in columns:
        marks = _mixed(marks ^ _bits(column))
    return marks


NDArrayOfMarks = np.ndarray[tuple[int], np.dtype[np.uint64]]


def _bits(column: Floats) -> NDArrayOfMarks:
    """Return the bits of numbers, with NaNs and zeros in one canonical form each."""
    return np.where(np.isnan(column), np.nan, column + 0.0).view(np.uint64)


def _mixed(marks: NDArrayOfMarks) -> NDArrayOfMarks:
    """Return the hash of integers.

    The last steps of SplitMix64 (Steele, Lea and Flood 2014).
    """
    marks = marks + np.uint64(0x9E3779B97F4A7C15)
    marks = (marks ^ (marks >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    marks = (marks ^ (marks >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return marks ^ (marks >> np.uint64(31))
