"""Training from the command line: from files and names of columns to a model file."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import ProgressBar
from hornbeam.cli.classes import encode_label, set_classes, with_labels
from hornbeam.cli.rows import (
    MetaColumns,
    Task,
    check_labels,
    matrix_of,
    open_source,
    select,
    without,
)
from hornbeam.cli.target import Target, find_target
from hornbeam.data.quantile_dmatrix import ExtMemQuantileDMatrix, QuantileDMatrix
from hornbeam.explain.report.lints import lints_of_columns
from hornbeam.params import ATTRIBUTE, Parameters
from hornbeam.quality import CHOSEN, DEFAULT_ROUNDS, Choice, choose, described
from hornbeam.training import train

if TYPE_CHECKING:
    from hornbeam.data.dmatrix import DMatrix
    from hornbeam.data.sources.batches import Source

__all__ = ["Job", "run"]

#: Parameters that must not change the bytes of a model file.
_NOT_SAVED = {"nthread", "device", "verbosity"}


class Job(NamedTuple):
    """What ``hornbeam train`` was asked for; its options by name."""

    data: str
    params: dict[str, Any]
    columns: MetaColumns
    model: Path
    valid: str | None
    database: Path | None
    task: Task | None
    quality: str | None
    rounds: int | None
    early_stopping: int | None
    drop: Sequence[str]
    cache: Sequence[Path]
    memory_limit: str | None


def run(job: Job) -> None:
    """Train a model, and save it; say on stderr what was found and done."""
    start = perf_counter()
    source = open_source(job.data, job.database)
    rows = without(source, job.columns, job.drop)
    target = _target(job, rows)
    parameters = Parameters.resolve({**target.params, **job.params})
    rows, columns = with_labels(rows, job.columns, target.labels)
    dtrain = _matrix(job, rows, columns, parameters, "train")
    evals = _evals(job, dtrain, parameters, target)
    if target.reason:
        _say(target.reason)
    # Ids are told by their values, which external memory does not keep.
    _warn_of_columns(matrix_of(rows, columns) if job.cache else dtrain, parameters)
    choice = _choose(job, parameters, dtrain, bool(evals))
    if choice.chosen:
        _say(f"chosen: {described(choice.chosen)}")
    booster = choice.booster
    if booster is None:
        booster = train(
            {**parameters.changed(), **choice.params},
            choice.training_data(dtrain),
            choice.rounds,
            evals=evals,
            early_stopping_rounds=choice.patience,
            verbose_eval=False,
            callbacks=[ProgressBar(choice.rounds)],
        )
    _save(booster, job.model, parameters, choice, target.classes)
    best = booster.attr("best_score")
    _say(
        f"{booster.num_boosted_rounds()} rounds on {dtrain.n_rows:,} rows and "
        f"{dtrain.raw_schema.n_features:,} columns in {perf_counter() - start:.1f} s"
        + (f", best score {float(best):.5f}" if best is not None else "")
        + f"; model {booster.digest()[:12]} saved to {job.model}"
    )


def _target(job: Job, rows: Source) -> Target:
    """Return what the target column tells, beside the parameters of the user."""
    objective = Parameters.resolve(job.params).changed().get("objective")
    if "label" in job.columns and rows.named and "qid" not in job.columns:
        return find_target(rows, job.columns["label"], job.task, objective)
    if objective is None and "qid" in job.columns:
        return Target({"objective": "rank:ndcg"})
    if objective is None and "label_lower_bound" in job.columns:
        return Target({"objective": "survival:aft"})
    return Target({})


def _matrix(
    job: Job,
    rows: Source,
    columns: MetaColumns,
    parameters: Parameters,
    name: str,
    ref: DMatrix | None = None,
) -> DMatrix:
    """Return rows as a matrix, with bins in external memory if there is a cache."""
    if not job.cache:
        return matrix_of(rows, columns)
    options: dict[str, Any] = {}
    if ref is not None:
        options = {"ref": ref, "unseen": parameters.unseen}
    matrix = ExtMemQuantileDMatrix(
        rows,
        cache=[folder / name for folder in job.cache],
        memory_limit=job.memory_limit,
        max_bin=parameters.max_bin,
        nthread=parameters.nthread,
        dates="expand",
        **columns,
        **options,
    )
    return check_labels(matrix, rows)


def _evals(
    job: Job, dtrain: DMatrix, parameters: Parameters, target: Target
) -> list[tuple[DMatrix, str]]:
    """Return the data to evaluate on, if there are any."""
    if job.valid is None:
        return []
    source = open_source(job.valid, job.database)
    rows = select(source, dtrain.raw_schema.names, job.columns)
    rows, columns = encode_label(rows, job.columns, target.classes)
    dvalid = _matrix(job, rows, columns, parameters, "valid", dtrain)
    if dvalid.table.is_stream:
        # It is evaluated in every round, so its bins are kept in memory.
        dvalid = QuantileDMatrix(
            rows,
            ref=dtrain,
            max_bin=parameters.max_bin,
            unseen=parameters.unseen,
            dates="expand",
            **columns,
        )
    return [(dvalid, "valid")]


def _choose(
    job: Job, parameters: Parameters, dtrain: DMatrix, has_evals: bool
) -> Choice:
    """Return parameters and rounds: the user's, or those that `quality` finds."""
    is_given = job.rounds is not None or "learning_rate" in parameters.changed()
    if job.quality is None or is_given or job.cache:
        rounds = DEFAULT_ROUNDS if job.rounds is None else job.rounds
        return Choice({}, rounds, patience=job.early_stopping)
    return choose(
        job.quality,
        parameters.changed(),
        dtrain,
        has_evals=has_evals,
        patience=job.early_stopping,
    )


def _save(
    booster: Booster,
    path: Path,
    parameters: Parameters,
    choice: Choice,
    classes: list[Any] | None,
) -> None:
    """Save a model with its parameters, what was chosen, and its classes."""
    trained_with = {**parameters.changed(), **choice.params}
    saved = {k: v for k, v in trained_with.items() if k not in _NOT_SAVED}
    booster.set_attr(**{ATTRIBUTE: json.dumps(saved)})
    if choice.chosen:
        booster.set_attr(**{CHOSEN: json.dumps(choice.chosen)})
    if classes is not None:
        set_classes(booster, classes)
    booster.save_model(path)


def _warn_of_columns(data: DMatrix, parameters: Parameters) -> None:
    """Tell of leaks, ids and constants among the columns."""
    for lint in lints_of_columns(data, parameters):
        is_column = lint.where in (data.feature_names or ())
        option = f" (--drop {shlex.quote(lint.where)})" if is_column else ""
        _say(f"warning: {lint.text} {lint.mend}{option}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
