"""Target leakage: how well each single feature predicts the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hornbeam.explain.report.groups import groups_of
from hornbeam.explain.report.rows import Floats, Integers, Rows, generator
from hornbeam.explain.report.task import Task
from hornbeam.metrics import create

__all__ = ["FeatureLeakage", "leakage_of"]

_MOST_ROWS = 50_000
_MOST_GROUPS = 256
_LEAST_ROWS = 100


@dataclass(frozen=True)
class FeatureLeakage:
    """Out-of-sample score of predicting the label from a single feature.

    `score` is the ROC AUC for two classes, the explained share of the entropy for more
    classes, and of the variance of the label's ranks for regression.
    """

    feature: int
    score: float
    measure: str


def leakage_of(rows: Rows, task: Task, seed: int) -> list[FeatureLeakage]:
    """Return the score of predicting the label from each single feature.

    The mean labels in groups of a feature's values, computed on one half of the
    rows, are the predictions for the other half. The list is empty where labels are not
    single numbers, or where there are too few.
    """
    rows = rows.sample(_MOST_ROWS, seed, "leaks")
    labels = task.plain_labels(rows)
    if labels is None or rows.n_rows < _LEAST_ROWS:
        return []
    order = generator(seed, "halves of leaks").permutation(rows.n_rows)
    halves = order[: rows.n_rows // 2], order[rows.n_rows // 2 :]
    most = int(np.clip(np.sqrt(rows.n_rows / 2), 8, _MOST_GROUPS))
    if task.kind == "binary" and np.isin(labels, (0.0, 1.0)).all():
        targets, measure = labels[:, None], "AUC"
    elif task.kind == "classes":
        targets = np.eye(int(labels.max()) + 1)[labels.astype(np.intp)]
        measure = "share of the entropy"
    else:
        targets, measure = _ranks(labels)[:, None], "R² of ranks"
    found = []
    for feature in range(rows.matrix.n_features):
        groups = groups_of(rows, feature, most)
        of_row = groups.of(rows.column(feature))
        guesses = _means(of_row, targets, halves, groups.size)
        score = _score(measure, targets[halves[1]], guesses)
        found.append(FeatureLeakage(feature, score, measure))
    return found


def _ranks(labels: Floats) -> Floats:
    """Return the mean rank of each label, scaled from 0 to 1."""
    _, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middles = ends - counts / 2.0
    return (middles / labels.size)[places.reshape(-1)]


def _means(
    of_row: Integers, targets: Floats, halves: tuple[Integers, Integers], size: int
) -> Floats:
    """Return the group means of the first half for the rows of the second half.

    One row with the overall mean is added to each group as a prior.
    """
    first, second = halves
    whole = targets[first].mean(axis=0)
    counts = np.bincount(of_row[first], minlength=size)[:, None]
    sums = np.stack(
        [np.bincount(of_row[first], column[first], size) for column in targets.T],
        axis=1,
    )
    return ((sums + whole) / (counts + 1.0))[of_row[second]]


def _score(measure: str, targets: Floats, guesses: Floats) -> float:
    if measure == "AUC":
        labels = targets[:, 0]
        if labels.min() == labels.max():
            return 0.5
        return create("auc")(np.ascontiguousarray(guesses[:, 0]), labels)
    whole = targets.mean(axis=0)
    if measure == "R² of ranks":
        spread = ((targets - whole) ** 2).sum()
        left = ((targets - guesses) ** 2).sum()
        return float(1.0 - left / spread) if spread > 0 else 0.0
    present = whole > 0
    entropy = -(whole[present] * np.log(whole[present])).sum()
    share = (targets * guesses).sum(axis=1) / guesses.sum(axis=1)
    left = -np.log(np.maximum(share, 1e-12)).mean()
    return float(1.0 - left / entropy) if entropy > 0 else 0.0
