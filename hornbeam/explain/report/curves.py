"""Metrics of a model truncated after different numbers of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.explain.report.rows import Rows, taken
from hornbeam.explain.report.task import Task, measured
from hornbeam.kernels.team import lease

__all__ = ["Curves", "curves_of"]

#: Metrics by the name of the data and of the metric, as in `evals_result`, with the
#: numbers of rounds after which they were measured.
Curves = tuple[list[int], dict[str, dict[str, list[float]]]]

_MOST_ROWS = 10_000
_MOST_POINTS = 60


def curves_of(booster: Booster, parts: list[Rows], task: Task, seed: int) -> Curves:
    """Return metrics after selected numbers of rounds, on a sample of the rows.

    Parameters
    ----------
    booster
        The booster with all its rounds.
    parts
        Data to evaluate on.
    task
        The task, whose metrics are evaluated.
    seed
        Seed of the sample.
    """
    rounds = booster.num_boosted_rounds()
    ends = np.unique(
        np.rint(np.linspace(1, rounds, min(rounds, _MOST_POINTS))).astype(int)
    ).tolist()
    found: dict[str, dict[str, list[float]]] = {}
    for part in parts:
        few = part.sample(_MOST_ROWS, seed, f"curves of {part.name}")
        values: dict[str, list[float]] = {m.name: [] for m in task.metrics}
        for predictions in _staged(booster, few, ends):
            for metric in task.metrics:
                value = measured(metric, predictions, few.matrix.info)
                values[metric.name].append(value)
        found[part.name] = values
    return ends, found


def _staged(booster: Booster, rows: Rows, ends: list[int]) -> Any:
    """Yield the predictions after each of the numbers of rounds.

    The margins of earlier rounds are reused.
    """
    everything = taken(rows.matrix, np.arange(rows.n_rows))
    begin = 0
    for end in ends:
        margins = booster.predict(
            everything,
            output_margin=True,
            strict_shape=True,
            iteration_range=(begin, end),
        )
        everything.set_base_margin(margins)
        with lease(booster.params.nthread) as team:
            found = booster.objective.transform(team, margins.astype(np.float64))
        yield found[:, 0] if found.shape[1] == 1 else found
        begin = end
