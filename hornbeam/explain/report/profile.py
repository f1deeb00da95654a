"""Summary of a data set: rows, columns, missing values and labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hornbeam.explain.report.groups import feature_name, short
from hornbeam.explain.report.rows import Floats, Rows
from hornbeam.explain.report.task import Task

__all__ = ["Column", "LabelProfile", "Profile", "profile_of"]

_KINDS = {
    None: "number",
    "float": "number",
    "q": "number",
    "int": "whole number",
    "i": "true or false",
    "c": "category",
}


@dataclass(frozen=True)
class Column:
    """Summary of a feature: type, share of missing values, and range of values."""

    name: str
    kind: str
    missing: float
    distinct: int
    values: str


@dataclass(frozen=True)
class LabelProfile:
    """Summary of the labels: a line of text, and class shares for classification."""

    text: str
    shares: list[tuple[str, int, float]]


@dataclass(frozen=True)
class Profile:
    """Summary of a data set."""

    name: str
    n_rows: int
    n_given: int
    n_groups: int | None
    weighted: bool
    missing: float
    columns: list[Column]
    labels: LabelProfile


def profile_of(rows: Rows, task: Task) -> Profile:
    """Return the summary of a data set."""
    columns = [_column(rows, feature) for feature in range(rows.matrix.n_features)]
    return Profile(
        name=rows.name,
        n_rows=rows.n_rows,
        n_given=rows.n_given,
        n_groups=None if rows.matrix.info.group_ptr is None else rows.n_groups,
        weighted=rows.matrix.row_weights is not None,
        missing=float(np.mean([column.missing for column in columns])),
        columns=columns,
        labels=_labels(rows, task),
    )


def _column(rows: Rows, feature: int) -> Column:
    column = rows.column(rows.times.get(feature, feature))
    known = column[~np.isnan(column)]
    types = rows.matrix.feature_types
    kind = _KINDS[types[feature] if types else None]
    values, counts = np.unique(known, return_counts=True)
    if feature in rows.times:
        kind = "time"
    if not known.size:
        said = "none"
    elif kind == "time":
        said = "by its parts"
    elif kind == "category":
        levels = rows.matrix.schema.categories.of(feature)
        place = int(counts.argmax())
        code = int(values[place])
        name = str(code if levels is None else levels[code])
        said = f"most often {name}: {counts[place] / known.size:.0%}"
    else:
        low, middle, high = np.quantile(known, (0.0, 0.5, 1.0))
        said = f"{short(low)} to {short(high)}, median {short(middle)}"
    return Column(
        name=feature_name(rows, feature),
        kind=kind,
        missing=1.0 - known.size / rows.n_rows,
        distinct=len(values),
        values=said,
    )


def _labels(rows: Rows, task: Task) -> LabelProfile:
    if task.kind == "survival":
        return LabelProfile(_times(rows), [])
    labels = rows.labels
    if labels is None:
        return LabelProfile("none", [])
    if labels.ndim == 2 and labels.shape[1] > 1:
        means = ", ".join(short(mean) for mean in labels.mean(axis=0))
        return LabelProfile(f"{labels.shape[1]} targets with means {means}", [])
    labels = labels.ravel()
    values, counts = np.unique(labels, return_counts=True)
    named = task.kind in ("binary", "classes")
    if named or (task.kind == "ranking" and len(values) <= 32):
        shares = [
            (
                task.outputs[int(value)] if named else f"grade {short(value)}",
                int(count),
                float(count / labels.size),
            )
            for value, count in zip(values, counts, strict=True)
        ]
        return LabelProfile(f"{len(values)} different labels", shares)
    return LabelProfile(_spread(labels), [])


def _spread(labels: Floats) -> str:
    low, quarter, middle, most, high = np.quantile(labels, (0, 0.25, 0.5, 0.75, 1))
    return (
        f"{short(low)} to {short(high)}, mean {short(labels.mean())}, median "
        f"{short(middle)}, half of them from {short(quarter)} to {short(most)}"
    )


def _times(rows: Rows) -> str:
    fields = rows.matrix.info.fields()
    if "label_lower_bound" in fields:
        lower, upper = fields["label_lower_bound"], fields["label_upper_bound"]
        seen = float(np.mean(lower == upper))
        return f"times of which {seen:.0%} were seen; lower bounds {_spread(lower)}"
    labels = fields["label"]
    seen = float(np.mean(labels > 0))
    return f"times of which {seen:.0%} were seen; {_spread(np.abs(labels))}"
