"""Lints: suspicious properties of a model and its data, with advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import listed
from hornbeam.explain.report.curves import Curves
from hornbeam.explain.report.drift import Drift, Duplicates
from hornbeam.explain.report.groups import feature_name, short
from hornbeam.explain.report.importances import Importances
from hornbeam.explain.report.leakage import FeatureLeakage, leakage_of
from hornbeam.explain.report.rows import Floats, Rows, read_rows
from hornbeam.explain.report.task import Task
from hornbeam.params import Parameters

__all__ = ["Lint", "lints_of", "lints_of_columns"]

#: Rows that columns are judged by before training.
_SAMPLED = 20_000

#: Score from which a single feature nearly determines the label.
_TELLING = {"AUC": 0.98, "R² of ranks": 0.98, "share of the entropy": 0.95}
#: Common threshold of the population stability index for a large shift.
_LARGE_SHIFT = 0.25
_OF_CHANCE = 3.0
#: Thresholds of the drift classifier, as AUC and in standard errors.
_TOLD_APART = 0.6
_ERRORS = 4.0
#: Relevant difference between shares of missing values.
_MISSING = 0.05
#: Relevant share of rows that occur in both data sets, and its excess over duplicates
#: within the training data.
_DUPLICATES = 0.005
_BEYOND = 2.0
#: Share of distinct values of an id column, and the minimum number of rows.
_DIFFERENT = 0.995
_LEAST_ROWS = 100
_MANY_LEVELS = 0.5
#: Integers from this size on are not counts.
_LARGE = 2.0**31
_SMALL_CLASS = 0.05
#: Relevant share of rows with unseen categories.
_UNSEEN = 0.001
#: Relative excess of a loss over the minimum of its curve that counts as worse.
_WORSE = 0.02


@dataclass(frozen=True)
class Lint:
    """One finding.

    Parameters
    ----------
    level
        ``"warning"``, or ``"note"`` for what may be intended.
    title
        Short description.
    where
        Features or data set concerned.
    text
        Observation.
    mend
        Advice.
    """

    level: str
    title: str
    where: str
    text: str
    mend: str


def lints_of(
    before: Rows | None,
    now: Rows,
    task: Task,
    *,
    leakage: list[FeatureLeakage],
    drift: Drift | None,
    duplicates: Duplicates | None,
    importances: Importances,
    curves: Curves | None,
    stopped: bool,
) -> list[Lint]:
    """Return all findings, warnings first.

    Parameters
    ----------
    before
        The training rows, if given.
    now
        The evaluated rows.
    task
        Task of the model.
    leakage, drift, duplicates, importances, curves
        Results of these analyses; None where they could not be computed.
    stopped
        Whether the model was cut after its best iteration.
    """
    first = now if before is None else before
    found = [
        *_leaks(first, leakage),
        *_ids(first),
        *_constants(first),
        *(_duplicates(duplicates, now) if duplicates is not None else ()),
        *(_drift(drift, before, now) if before and drift else ()),
        *(_missing(drift, before, now) if before and drift else ()),
        *_unseen(now),
        *_labels(before, now, task),
        *(_overtrained(curves, now, task) if curves and not stopped else ()),
        *_unused(importances, {feature_name(first, time) for time in first.times}),
    ]
    return sorted(found, key=lambda lint: lint.level != "warning")


def lints_of_columns(data: DMatrix, params: Parameters, seed: int = 0) -> list[Lint]:
    """Return the findings about columns that need no model: leaks, ids, constants.

    They are those of a sample of the rows.
    """
    booster = Booster(params.changed(), [data])
    rows = read_rows("training", booster, data, _SAMPLED, seed)
    task = Task(booster.objective.task, booster.objective, [], None, [])
    return [*_leaks(rows, leakage_of(rows, task, seed)), *_ids(rows), *_constants(rows)]


def _leaks(rows: Rows, leakage: list[FeatureLeakage]) -> Iterator[Lint]:
    for telling in sorted(leakage, key=lambda t: -t.score):
        if telling.score >= _TELLING[telling.measure]:
            name = feature_name(rows, telling.feature)
            yield Lint(
                "warning",
                "A feature alone nearly tells the label",
                name,
                f"By {name!r} alone the label of other rows is told with "
                f"{telling.measure} {telling.score:.4f}.",
                "Ask whether it is known when the prediction is due. If it is made "
                "from the label, or after it, leave it out and train again.",
            )


def _ids(rows: Rows) -> Iterator[Lint]:
    if rows.n_rows < _LEAST_ROWS:
        return
    types = rows.matrix.feature_types
    for feature in range(rows.matrix.n_features):
        column = rows.column(feature)
        known = column[~np.isnan(column)]
        if known.size < _LEAST_ROWS:
            continue
        distinct = len(np.unique(known))
        name = feature_name(rows, feature)
        if types is not None and types[feature] == "c":
            is_id = distinct > _MANY_LEVELS * known.size
            said = f"{distinct:,} categories in {known.size:,} rows"
        else:
            is_id = distinct >= _DIFFERENT * known.size and _counts_up(known)
            said = f"{distinct:,} different whole numbers in {known.size:,} rows"
        if is_id:
            yield Lint(
                "warning",
                "A column looks like an id",
                name,
                f"{name!r} has {said}.",
                "An id says nothing of rows to come, but trees remember by it: leave "
                "it out, unless its order is a time that matters.",
            )


def _counts_up(known: Floats) -> bool:
    """Whether integers look like a counter, a key, or are sorted by row."""
    if not (known == np.floor(known)).all():
        return False
    span = known.max() - known.min()
    steps = np.diff(known)
    return bool(
        span < 3 * known.size
        or np.abs(known).max() >= _LARGE
        or (steps > 0).all()
        or (steps < 0).all()
    )


def _constants(rows: Rows) -> Iterator[Lint]:
    names = []
    for feature in range(rows.matrix.n_features):
        if feature in rows.times:
            continue
        column = rows.column(feature)
        missing = np.isnan(column)
        if missing.all() or (not missing.any() and column.min() == column.max()):
            names.append(feature_name(rows, feature))
    if names:
        yield Lint(
            "warning",
            "Columns that never change" if len(names) > 1 else "A constant column",
            ", ".join(names),
            f"In the {rows.name} data {listed(names)} "
            f"{'have' if len(names) > 1 else 'has'} one value, or none.",
            "No split can use that. Look whether a join or an export went wrong, or "
            "leave out what is constant.",
        )


def _duplicates(duplicates: Duplicates, now: Rows) -> Iterator[Lint]:
    if duplicates.share < _DUPLICATES and duplicates.count < 5:
        return
    text = (
        f"{duplicates.count:,} rows of the {now.name} data ({duplicates.share:.1%}) "
        "are rows of "
        "the training data, too, labels included; within the training data "
        f"{duplicates.within:.1%} of the rows occur more than once."
    )
    if (
        duplicates.share >= _DUPLICATES
        and duplicates.share > _BEYOND * duplicates.within
    ):
        yield Lint(
            "warning",
            "Rows of training among those that judge",
            f"{now.name} data",
            text,
            "The model is judged by what it has learned by heart: drop the duplicates, "
            "and split after that.",
        )
    elif duplicates.share >= _DUPLICATES:
        yield Lint(
            "note",
            "Equal rows in both data",
            f"{now.name} data",
            text,
            "With few different values rows are equal by chance. If not, drop the "
            "duplicates before the split.",
        )


def _drift(drift: Drift, before: Rows, now: Rows) -> Iterator[Lint]:
    moved = [
        column
        for column in drift.columns
        if column.index >= max(_LARGE_SHIFT, _OF_CHANCE * column.by_chance)
        and min(before.n_rows, now.n_rows) >= _LEAST_ROWS
    ]
    apart = drift.area is not None and (
        drift.area >= _TOLD_APART and drift.area - _ERRORS * drift.error > 0.5
    )
    if not moved and not apart:
        return
    names = [column.name for column in moved]
    said = []
    if moved:
        most = ", ".join(f"{c.name} {c.index:.2f}" for c in moved[:5])
        said.append(
            f"The population stability index of {len(moved)} of "
            f"{len(drift.columns)} features is {_LARGE_SHIFT} or more ({most})."
        )
    if apart:
        said.append(
            f"A small model tells rows of training and of the {now.name} data apart "
            f"with AUC {drift.area:.3f} (0.5 is by chance), most of all by "
            f"{listed(drift.tells)}."
        )
        names = names or drift.tells
    yield Lint(
        "warning",
        "The data has drifted since training",
        ", ".join(names[:5]) + (" and more" if len(names) > 5 else ""),
        " ".join(said),
        "Scores may be worse than in training for that reason. If the two should be "
        "alike, look at how they were split; if time has passed, train again on newer "
        "rows, or leave out what only tells the time.",
    )


def _missing(drift: Drift, before: Rows, now: Rows) -> Iterator[Lint]:
    rows = 1 / before.n_rows + 1 / now.n_rows
    changed = []
    for c in drift.columns:
        share = (c.missing_before + c.missing_now) / 2
        by_chance = float(np.sqrt(share * (1 - share) * rows))
        gap = abs(c.missing_before - c.missing_now)
        if gap >= max(_MISSING, _ERRORS * by_chance):
            changed.append(c)
    changed.sort(key=lambda c: -abs(c.missing_before - c.missing_now))
    if changed:
        shares = ", ".join(
            f"{c.name} {c.missing_before:.0%} → {c.missing_now:.0%}"
            for c in changed[:5]
        )
        yield Lint(
            "warning",
            "Values are missing more or less often than in training",
            ", ".join(c.name for c in changed[:5]),
            f"The share of missing values differs: {shares}.",
            "Look whether missing values are written the same way in both data, and "
            "whether a source has stopped to deliver.",
        )


def _unseen(now: Rows) -> Iterator[Lint]:
    for unseen in now.unseen:
        name = feature_name(now, unseen.feature)
        yield Lint(
            "warning" if unseen.share >= _UNSEEN else "note",
            "Categories that training has not seen",
            name,
            f"{round(unseen.share * now.n_rows):,} of {now.n_rows:,} rows of the "
            f"{now.name} data have a category of "
            f"{name!r} that the model does not know: {listed(unseen.categories)}. Here "
            "they are read as missing.",
            "Predictions of such rows are an error unless unseen='missing' is set. "
            "Train on rows that have them, or put rare categories together.",
        )


def _labels(before: Rows | None, now: Rows, task: Task) -> Iterator[Lint]:
    if task.kind not in ("binary", "classes"):
        return
    parts = [now] if before is None else [before, now]
    for part in parts:
        assert part.labels is not None
        values, counts = np.unique(part.labels, return_counts=True)
        if len(values) < len(task.outputs):
            present = {task.outputs[int(v)] for v in values if v == int(v)}
            lacking = [name for name in task.outputs if name not in present]
            if lacking:
                yield Lint(
                    "warning",
                    "A class has no rows",
                    f"{part.name} data",
                    f"No row of the {part.name} data has the label {listed(lacking)}.",
                    "What is measured there says nothing of that class: add rows of "
                    "it, or drop it.",
                )
        share = counts.min() / counts.sum()
        if part is parts[0] and 0 < share < _SMALL_CLASS and len(values) > 1:
            name = task.outputs[int(values[counts.argmin()])]
            yield Lint(
                "note",
                "The classes are of very different size",
                f"label {name}",
                f"Only {share:.2%} of the rows have the label {name!r}.",
                "The share of errors flatters here; look at aucpr and the loss. Weigh "
                "the rows (scale_pos_weight, weight=) only if the small class shall "
                "cost more.",
            )


def _overtrained(curves: Curves, now: Rows, task: Task) -> Iterator[Lint]:
    rounds, found = curves
    metric = task.metrics[0]
    values = np.array(found.get(now.name, {}).get(metric.name, []))
    if len(found) < 2 or len(values) < 3 or not np.isfinite(values).all():
        return
    losses = -values if metric.maximize else values
    best = int(losses.argmin())
    span = abs(losses[best])
    if losses[-1] - losses[best] > _WORSE * span and best < 0.9 * len(values):
        yield Lint(
            "warning",
            "Later rounds make the model worse",
            f"{now.name} data",
            f"{metric.name} is best after about {rounds[best]} rounds "
            f"({short(values[best])}), and {short(values[-1])} after all "
            f"{rounds[-1]}.",
            "Stop earlier: early_stopping_rounds with evals, or --early-stopping; or "
            "lower learning_rate or max_depth.",
        )


def _unused(importances: Importances, times: set[str]) -> Iterator[Lint]:
    """Yield the features in no split; of times only the parts can be in one."""
    unused = [
        entry.name
        for entry in importances.features
        if entry.gain == 0 and entry.name not in times
    ]
    if unused:
        yield Lint(
            "note",
            "Features that the model does not use",
            ", ".join(unused[:5]) + (" and more" if len(unused) > 5 else ""),
            f"{len(unused)} of {len(importances.features)} features are in no split: "
            f"{listed(unused)}.",
            "They can be left out at no loss, which makes data and service simpler.",
        )
