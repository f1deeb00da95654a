"""Bootstrap confidence intervals of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hornbeam.data.meta_info import MetaInfo
from hornbeam.explain.report.rows import Floats, Rows, generator
from hornbeam.explain.report.task import Task, measured
from hornbeam.metrics.base import Metric

__all__ = ["LEVEL", "RESAMPLES", "Score", "resampled", "scores_of"]

RESAMPLES = 200
LEVEL = 0.95
#: Maximum number of rows of a resample.
_MOST_ROWS = 10_000


@dataclass(frozen=True)
class Score:
    """A metric with its confidence interval, and the metric of a constant prediction.

    `constant` is the metric of the best constant prediction; None where there is none.
    """

    metric: str
    maximize: bool
    value: float
    low: float
    high: float
    constant: float | None


def scores_of(
    rows: Rows, task: Task, start: Floats | None, seed: int, resamples: int = RESAMPLES
) -> list[Score]:
    """Return each metric with its percentile interval.

    Rows are drawn with replacement, whole query groups in rankings; a draw is a weight
    of the row. A single group has no interval. For large data a sample is resampled,
    and the width of its intervals is scaled by the square root of the sample's share.

    Parameters
    ----------
    rows
        Evaluated rows with predictions.
    task
        Its metrics are measured.
    start
        Constant prediction to compare with, (outputs,) or a number; None: no
        comparison.
    seed
        Seed of the draws.
    resamples
        Number of resamples.
    """
    few = rows.sample(_MOST_ROWS, seed, "bootstrap")
    if task.kind == "ranking" and few.n_groups == 1:
        resamples = 0  # a single group cannot be resampled
    drawn = [
        [measured(metric, few.predictions, info) for metric in task.metrics]
        for info in resampled(few.matrix.info, seed, resamples)
    ]
    columns = np.array(drawn).reshape(resamples, len(task.metrics)).T
    found = []
    for metric, values in zip(task.metrics, columns, strict=True):
        value = measured(metric, rows.predictions, rows.matrix.info)
        low, high = value, value
        values = values[~np.isnan(values)]
        if values.size:
            low, high = np.quantile(values, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        if values.size and few is not rows:
            middle = measured(metric, few.predictions, few.matrix.info)
            shrunk = np.sqrt(few.n_rows / rows.n_rows)
            low = value + (low - middle) * shrunk
            high = value + (high - middle) * shrunk
        constant = _of_constant(metric, rows, start)
        found.append(
            Score(
                metric.name, metric.maximize, value, float(low), float(high), constant
            )
        )
    return found


def resampled(info: MetaInfo, seed: int, resamples: int) -> Iterator[MetaInfo]:
    """Yield the meta info with bootstrap weights: how often each row was drawn."""
    fields = info.fields()
    pointers = info.group_ptr
    size = info.n_rows if pointers is None else len(pointers) - 1
    weights = fields.pop("weight", np.ones(size))
    if len(weights) != size:  # one for each row of the groups
        assert pointers is not None
        weights = weights[pointers[:-1]]
    for number in range(resamples):
        draws = generator(seed, "bootstrap", number).integers(0, size, size)
        counts = np.bincount(draws, minlength=size)
        again = MetaInfo(info.n_rows, info.n_features)
        again.set({**fields, "weight": weights * counts}, whole=False)
        yield again


def _of_constant(metric: Metric, rows: Rows, start: Floats | None) -> float | None:
    if start is None:
        return None
    guess = np.empty_like(rows.predictions)
    guess[:] = start
    return measured(metric, guess, rows.matrix.info)
