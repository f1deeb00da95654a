"""Feature importance: gain, SHAP values and permutation importance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.explain.report.groups import feature_name
from hornbeam.explain.report.rows import Floats, Rows, generator
from hornbeam.explain.report.task import Task, measured
from hornbeam.forest.inspection import split_totals

__all__ = ["Importance", "Importances", "importances_of"]

_SHAP_ROWS = 2_000
_PERMUTED_ROWS = 5_000
_REPEATS = 5
#: Maximum number of permuted features, those with the largest gain.
_MOST_PERMUTED = 30
#: Limit of rows x repeats x features x trees, which bounds the time for wide models.
_MOST_WORK = 1 << 29


@dataclass(frozen=True)
class Importance:
    """Importance of a feature: shares of gain and SHAP values, and permutation drop.

    `drop` is the mean deterioration of the metric when the feature is permuted, over
    the repeats in `drops`; both are None where it was not permuted.
    """

    feature: int
    name: str
    gain: float
    splits: int
    shap: float
    drops: list[float] | None

    @property
    def drop(self) -> float | None:
        return None if self.drops is None else float(np.mean(self.drops))

    @property
    def error(self) -> float | None:
        """The standard deviation of the drops."""
        return None if self.drops is None else float(np.std(self.drops))


@dataclass(frozen=True)
class Importances:
    """Importance of all features in descending order, and how it was computed."""

    features: list[Importance]
    metric: str
    rows: int
    repeats: int
    shap_rows: int


def importances_of(
    booster: Booster, rows: Rows, task: Task, seed: int, repeats: int = _REPEATS
) -> Importances:
    """Return feature importance ordered by the mean absolute SHAP value."""
    names = [feature_name(rows, f) for f in range(rows.matrix.n_features)]
    gains, splits = _gains(booster)
    few = rows.sample(_SHAP_ROWS, seed, "shap")
    shap = _mean_sizes(booster, few)
    order = np.lexsort((np.arange(len(names)), -gains, -shap))
    trees = max(1, len(booster.model.trees))
    used = order[:_MOST_PERMUTED]
    used = used[(splits[used] > 0) | (booster.model.linear is not None)]
    most = max(200, _MOST_WORK // (repeats * max(1, used.size) * trees))
    some = rows.sample(min(_PERMUTED_ROWS, most), seed, "permutation")
    drops = _drops(booster, some, task, used.tolist(), seed, repeats)
    return Importances(
        features=[
            Importance(
                feature=f,
                name=names[f],
                gain=_share(gains, f),
                splits=int(splits[f]),
                shap=_share(shap, f),
                drops=drops.get(f),
            )
            for f in order.tolist()
        ],
        metric=task.metrics[0].name,
        rows=some.n_rows,
        repeats=repeats,
        shap_rows=few.n_rows,
    )


def _share(values: Floats, place: int) -> float:
    total = values.sum()
    return float(values[place] / total) if total > 0 else 0.0


def _gains(booster: Booster) -> tuple[Floats, Floats]:
    """Return the total gain and the number of splits of each feature.

    For a linear model: the absolute weights, and no splits.
    """
    gains, splits = split_totals(booster.model, "gain")
    if booster.model.linear is not None:
        weights = booster.model.linear.weights[:-1].astype(np.float64)
        gains = np.abs(weights).sum(axis=1)
    return gains, splits


def _mean_sizes(booster: Booster, rows: Rows) -> Floats:
    """Return the mean absolute SHAP value of each feature over rows and outputs."""
    found = booster.predict(rows.matrix, pred_contribs=True, strict_shape=True)
    sizes = np.abs(found[:, :, :-1]).sum(axis=1, dtype=np.float64)
    return np.average(sizes, axis=0, weights=_positive(rows.weights))


def _positive(weights: Floats) -> Floats:
    return weights if weights.sum() > 0 else np.ones_like(weights)


def _drops(
    booster: Booster,
    rows: Rows,
    task: Task,
    features: list[int],
    seed: int,
    repeats: int,
) -> dict[int, list[float]]:
    """Return the deterioration of the metric for each permuted feature."""
    metric, info = task.metrics[0], rows.matrix.info
    sign = 1.0 if metric.maximize else -1.0
    before = measured(metric, rows.predictions, info)
    table = rows.matrix.table
    values = np.array(table.rows(0, rows.n_rows))
    found: dict[int, list[float]] = {}
    for feature in features:
        own = values[:, feature].copy()
        found[feature] = []
        for repeat in range(repeats):
            order = generator(seed, "permutation", feature, repeat)
            values[:, feature] = own[order.permutation(rows.n_rows)]
            predictions = booster.predictions_to_measure(rows.with_values(values))
            found[feature].append(sign * (before - measured(metric, predictions, info)))
        values[:, feature] = own
    return found
