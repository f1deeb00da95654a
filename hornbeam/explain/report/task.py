"""The learning task of a model, and the metrics to evaluate it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.explain.report.rows import Floats, Rows
from hornbeam.metrics import create
from hornbeam.metrics.base import Metric
from hornbeam.metrics.ranking import RankingMetric
from hornbeam.metrics.survival import PartialLikelihood
from hornbeam.objectives.base import Objective
from hornbeam.objectives.distributions import Distribution
from hornbeam.params import Parameters

__all__ = ["Task", "measured", "task_of"]

#: Metrics evaluated in addition to those of the parameters.
_USUAL = {
    "binary": ("logloss", "auc", "aucpr", "error"),
    "classes": ("mlogloss", "merror", "auc"),
    "regression": ("rmse", "mae"),
    "ranking": ("ndcg", "ndcg@10", "map"),
}


@dataclass(frozen=True)
class Task:
    """The learning task of a model.

    Parameters
    ----------
    kind
        ``"binary"``, ``"classes"``, ``"regression"``, ``"targets"`` (several numbers),
        ``"quantiles"``, ``"distribution"``, ``"ranking"`` or ``"survival"``.
    objective
        The objective.
    metrics
        Metrics of the evaluation; the first is the main one.
    loss
        A metric that is a mean over rows; None where rows have no individual loss.
    outputs
        Names of the outputs, or of the two classes.
    """

    kind: str
    objective: Objective
    metrics: list[Metric]
    loss: Metric | None
    outputs: list[str]

    def losses(self, rows: Rows) -> Floats:
        """Return the loss of each row; for root metrics the square."""
        assert self.loss is not None
        fields = rows.matrix.info.fields()
        needed = [fields[name] for name in self.loss.needs]
        labels = needed[0] if len(needed) == 1 else np.column_stack(needed)
        predictions = np.ascontiguousarray(rows.predictions)
        found = np.array(
            [
                self.loss(predictions[row : row + 1], labels[row : row + 1])
                for row in range(rows.n_rows)
            ]
        )
        return found**2 if self.loss.is_root else found

    def plain_labels(self, rows: Rows) -> Floats | None:
        """Return the labels as one number per row, if possible.

        Censored times and several targets cannot be.
        """
        if self.kind in ("survival", "targets") or rows.labels is None:
            return None
        return rows.labels.reshape(rows.n_rows, -1)[:, 0]

    def compared(self, rows: Rows) -> list[Floats]:
        """Return labels and predictions with comparable means.

        The list is empty where they do not have the same unit.
        """
        predictions, labels = rows.predictions, self.plain_labels(rows)
        if labels is None:
            return []
        if self.kind == "binary" and self.objective.prediction == "margin":
            return [labels, 1.0 / (1.0 + np.exp(-predictions))]
        if self.kind in ("binary", "regression") and predictions.ndim == 1:
            return [labels, predictions]
        if isinstance(self.objective, Distribution) and self.objective.first_is_mean:
            return [labels, predictions[:, 0]]
        return []


def task_of(
    booster: Booster,
    params: Parameters,
    parts: Sequence[Rows],
    names: Sequence[str] | None,
) -> Task:
    """Return the task of a model from its objective and labels.

    Raises a `DataError` if the data lacks labels that the metrics need.

    Parameters
    ----------
    booster
        The model.
    params
        Training parameters, which determine the metrics.
    parts
        Data with labels; the last one is evaluated.
    names
        Names of classes or outputs; None: their indices.
    """
    kind = _kind_of(booster, parts[-1])
    metrics = _metrics_of(booster, params, parts, kind)
    default = create(
        booster.objective.default_metric, booster.objective.n_outputs, booster.params
    )
    by_row = not isinstance(default, RankingMetric | PartialLikelihood)
    return Task(
        kind,
        booster.objective,
        metrics,
        default if by_row and kind != "ranking" else None,
        _outputs(booster, kind, names),
    )


def measured(metric: Metric, predictions: Floats, info: MetaInfo) -> float:
    """Return a metric; NaN without a warning where it is undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.of(predictions, info)


def _kind_of(booster: Booster, rows: Rows) -> str:
    objective = booster.objective
    if objective.task == "regression" and objective.prediction == "probability":
        whole = rows.labels is not None and np.isin(rows.labels, (0.0, 1.0)).all()
        return "binary" if whole else "regression"
    if booster.model.num_target > 1 and objective.task not in (
        "quantiles",
        "distribution",
    ):
        return "targets"
    return objective.task


def _metrics_of(
    booster: Booster, params: Parameters, parts: Sequence[Rows], kind: str
) -> list[Metric]:
    """Return the metrics of the parameters, and the default ones that are defined."""
    objective = booster.objective
    n_outputs = objective.n_outputs
    named = params.eval_metric or (objective.default_metric,)
    metrics = [create(name, n_outputs, booster.params) for name in named]
    for rows in parts:
        for metric in metrics:
            _check_fields(rows, metric)
    for name in _USUAL.get(kind, ()):
        metric = create(name, n_outputs, booster.params)
        if all(metric.name != known.name for known in metrics):
            try:
                for rows in parts:
                    measured(metric, rows.predictions, rows.matrix.info)
            except (DataError, ParameterError):
                continue  # such as map with graded labels, or logloss of margins
            metrics.append(metric)
    return metrics


def _check_fields(rows: Rows, metric: Metric) -> None:
    for field in metric.needs:
        if rows.matrix.info[field] is None:
            raise DataError(
                f"the {rows.name} data of a report has no {field}s to judge the model "
                f"by {metric.name}; pass them: DMatrix(data, {field}=...)",
                code=ErrorCode.META_INFO_MISSING,
            )


def _outputs(booster: Booster, kind: str, names: Sequence[str] | None) -> list[str]:
    n_outputs = booster.objective.n_outputs
    expected = 2 if kind == "binary" else n_outputs
    if names is not None:
        if len(names) != expected:
            raise ParameterError(
                f"class_names has {len(names)} names, and there are {expected} "
                f"{'classes' if kind in ('binary', 'classes') else 'outputs'}; "
                "give one for each",
                code=ErrorCode.CLASS_NAMES_MISMATCH,
            )
        return [str(name) for name in names]
    if kind == "quantiles":
        levels = booster.objective.levels  # type: ignore[attr-defined]
        return [f"{level:g}" for level in levels]
    if kind == "distribution":
        return list(booster.objective.parameter_names)  # type: ignore[attr-defined]
    return [str(number) for number in range(expected)]
