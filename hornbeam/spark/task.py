"""What each task of a training stage does: reads its rows, finds the others, trains.

A lost process fails the task, and Spark tries the stage again. All other errors are
results, which the driver raises: they would come again in every attempt.

The driver keeps the states of the first task. Where tasks cannot reach the driver, each
of them keeps its own on the disk of its executor: the next attempt takes the latest
that any of its tasks finds.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import BarrierTaskContext

from hornbeam.data.meta_info import MetaInfo
from hornbeam.distributed.attempts import Outcome
from hornbeam.distributed.connection import Address, connect
from hornbeam.distributed.group import Group, is_group_failure, member
from hornbeam.distributed.run_state import KeepState, RunState, StatesOnDisk, latest
from hornbeam.distributed.tracker import Tracker
from hornbeam.errors import ClusterError, DataError, ErrorCode
from hornbeam.params import Parameters
from hornbeam.spark.rows import Features, Rows, read_rows

if TYPE_CHECKING:
    from hornbeam.callbacks import EvalsLog
    from hornbeam.data.dmatrix import DMatrix

__all__ = ["RESULT_SCHEMA", "Task", "run_task"]

#: The columns of a result, for Spark.
RESULT_SCHEMA = "worker string, data binary"
#: In errors of a group that has lost a process.
_LOSSES = "was lost|sent nothing|tracker ended"
#: The most classes: there are as many trees in a round.
_MOST_CLASSES = 10_000
#: The parameters of row samples.
_SAMPLING = ("subsample", "sampling_method", "top_rate", "other_rate")
#: The size of a cell, of which a result may need several.
_CELL_BYTES = 1 << 26
#: Seconds for a task to reach the driver.
_DRIVER_TIMEOUT = 60.0
#: The folders of an executor, which Spark removes when it ends.
_LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"


@dataclass(frozen=True)
class Task:
    """What a task needs to know.

    Attributes
    ----------
    library
        The module that trains: ``"hornbeam"`` or ``"hornbeam.xgboost"``.
    coordinator
        Of the driver; None: the first task has the tracker.
    run
        A random name of the training.
    features, fields
        The columns of the batches, those of fields with their names in the data frame.
    params, options
        The arguments of `train`.
    matrix_options
        Those of `DMatrix` that are not columns.
    is_classifier
        Whether labels are the classes 0, 1, 2, ...
    evaluates_training
        Whether the metrics of the training rows are computed, too.
    checkpoint_interval
        Rounds between two checkpoints; 0: none.
    coll
        The settings of connections, as of `hornbeam.spark.stage.connections`.
    num_workers
        The number of tasks.
    """

    library: str
    coordinator: Address | None
    run: str
    features: Features
    fields: Mapping[str, str]
    params: Mapping[str, Any]
    options: Mapping[str, Any]
    matrix_options: Mapping[str, Any]
    is_classifier: bool
    evaluates_training: bool
    checkpoint_interval: int
    coll: Mapping[str, Any]
    num_workers: int


def run_task(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Train with the other tasks; yield the pickled outcome, in cells.

    It is that of the first task, with the model and the metrics, or of one that failed.

    Parameters
    ----------
    task
        The same in all tasks.
    batches
        Of the rows of this one.
    """
    context = BarrierTaskContext.get()
    number, infos = context.partitionId(), context.getTaskInfos()
    if len(infos) < task.num_workers:
        # A task was lost after others had ended, and Spark repeats those that are
        # missing, which would wait for the others. An error repeats all.
        raise ClusterError(
            f"Spark runs {len(infos)} of {task.num_workers} tasks; training needs all",
            code=ErrorCode.WORKERS_LOST,
        )
    host = infos[number].address.rpartition(":")[0]
    worker = f"task {number} ({host}, process {os.getpid()})"
    name = f"{number:06d}"
    with ThreadPoolExecutor(1) as thread:
        # An exchange takes a second: meanwhile rows are read. Errors are raised later,
        # in the group, in all tasks.
        read = thread.submit(read_rows, batches, task.features, task.fields)
        with _meet(task, context, name, host) as place:
            outcome = Outcome.of(
                worker, lambda: _train(task, place, name, read, context.cpus())
            )
            if outcome.error is not None:
                if _is_loss(outcome.error):
                    raise outcome.error
                context.barrier()  # all tasks end with results, or none does
            if outcome.result is not None or outcome.error is not None:
                yield from _cells(outcome)


def _cells(outcome: Outcome) -> Iterator[pa.RecordBatch]:
    pickled = pickle.dumps(outcome)
    for start in range(0, len(pickled), _CELL_BYTES):
        part = pickled[start : start + _CELL_BYTES]
        cells = [_cell(outcome.worker.encode(), pa.string()), _cell(part, pa.binary())]
        yield pa.RecordBatch.from_arrays(cells, names=["worker", "data"])


def _cell(value: bytes, kind: pa.DataType) -> pa.Array:
    """Return an Arrow array of one value; `pa.array` would import pandas."""
    offsets = np.array([0, len(value)], np.int32)
    return pa.Array.from_buffers(
        kind, 1, [None, pa.py_buffer(offsets), pa.py_buffer(value)]
    )


def _is_loss(error: Exception) -> bool:
    """Return whether another process was lost, so that Spark has to try again.

    If some tasks of a barrier stage succeed, Spark repeats the others alone before it
    repeats all: so this one must not succeed either.
    """
    return is_group_failure(error) and re.search(_LOSSES, str(error)) is not None


# Meeting


#: What a task knows once all of an attempt have met: the address of the tracker, the
#: last state of the attempts before that this task finds, a function that keeps one for
#: the next attempt (None: another task does), and one that tells that this training is
#: done, so that the next one may remove what was kept (None: this task keeps nothing).
_Place = tuple[
    Address,
    RunState | None,
    Callable[[RunState], None] | None,
    Callable[[], None] | None,
]


@contextmanager
def _meet(
    task: Task, context: BarrierTaskContext, name: str, host: str
) -> Iterator[_Place]:
    """Exchange the address of the tracker, which the driver or the first task has."""
    is_first = context.partitionId() == 0
    address, start, end = None, None, None
    keep: Callable[[RunState], None] | None = None
    with ExitStack() as opened:
        if task.coordinator is None:
            folders = os.environ.get(_LOCAL_FOLDERS, "").split(",")
            states = StatesOnDisk(folders[0], task.run, name)
            start, keep, end = states.latest(), states.keep, states.end
            if is_first:
                limit = task.coll["timeout"] or 0
                tracker = Tracker(task.num_workers, host, by_task=True, timeout=limit)
                address = opened.enter_context(tracker).address
        elif is_first:
            link = connect(*task.coordinator, _DRIVER_TIMEOUT)
            opened.callback(link.close)
            address, start = link.receive()
            keep = link.send
        found = context.allGather(json.dumps(address))
        yield Address(*json.loads(found[0])), start, keep, end


# Training


def _train(
    task: Task, place: _Place, name: str, read: Future[Rows], n_threads: int
) -> tuple[bytes, EvalsLog] | None:
    """Return the model and the metrics in the first task."""
    tracker, kept, keep, end = place
    library = import_module(task.library)
    history: EvalsLog = {}
    own = {"retries": task.coll["retry"], "timeout": task.coll["timeout"] or None}
    with member(*tracker, task=name, **own) as group:
        rows, params = _shared(task, group, read)
        dtrain, dvalid = _matrices(task, library, rows, params)
        evals = [(dvalid, "validation")] if dvalid is not None else []
        if task.evaluates_training:
            evals.insert(0, (dtrain, "training"))
        callbacks = list(task.options["callbacks"] or ())
        if task.checkpoint_interval > 0:
            start = group.combine("checkpoint", lambda: kept, latest)
            keeper = KeepState(start, task.checkpoint_interval, keep)
            callbacks.append(keeper)
        booster = library.train(
            {**params, "nthread": n_threads},
            dtrain,
            evals=evals,
            evals_result=history,
            **{**task.options, "callbacks": callbacks},
        )
        group.gather("end", lambda: None)  # an error before this is one of all tasks
    if end is not None:
        end()
    return (bytes(booster.save_raw("ubj")), history) if group.rank == 0 else None


def _shared(
    task: Task, group: Group, read: Future[Rows]
) -> tuple[Rows, dict[str, Any]]:
    """Return the rows, and the parameters, which may depend on those of all tasks."""

    def own() -> tuple[Rows, NDArray[Any]]:
        rows = read.result()
        _check_fields(rows, task.fields)
        labels = rows.fields.get("label", np.empty(0))
        classes = np.unique(labels) if task.is_classifier else np.empty(0)
        if classes.size > _MOST_CLASSES:
            raise DataError(
                f"the label column has more than {_MOST_CLASSES} values; a classifier "
                "needs the classes 0, 1, 2, ...: is it a regression?",
                code=ErrorCode.LABEL_NOT_A_CLASS,
            )
        return rows.take(np.zeros(rows.shape[0], bool)), classes

    described = group.gather("describe rows", own)
    kinds = [no_rows for no_rows, _ in described]
    named = zip(group.names, kinds, strict=True)
    widths = {one.shape[1]: name for name, one in named if one.shape[1]}
    if len(widths) > 1:
        (width, worker), (other, another) = list(widths.items())[:2]
        raise task.features.uneven(
            f"the rows of {worker} have {width} numbers, and those of {another} {other}"
        )
    rows = read.result()
    if rows.shape[0] == 0:  # with the columns and the fields of the others
        rows = max(kinds, key=lambda one: len(one.fields))
    params = dict(task.params)
    if task.is_classifier:
        classes = np.unique(np.concatenate([found for _, found in described]))
        params |= _objective(params, set(classes.tolist()))
    return rows, params


def _check_fields(rows: Rows, columns: Mapping[str, str]) -> None:
    """Raise a `DataError` that names the column if values cannot be those of a field.

    Query groups are sorted later.
    """
    for name in rows.fields.keys() - {"qid", "validation", "row_key"}:
        try:
            MetaInfo(*rows.shape).set({name: rows.fields[name]}, whole=False)
        except DataError as error:
            raise DataError(
                f"in the column {columns[name]!r} {error}",
                code=error.code,
                **error.details | {"column": columns[name]},
            ) from error


def _objective(params: Mapping[str, Any], classes: set[float]) -> dict[str, Any]:
    """Return the objective of a classifier and what it needs."""
    expected = set(range(len(classes)))
    if classes != expected and classes != {1.0}:
        odd = sorted(classes - expected)
        raise DataError(
            f"the label column has the {len(classes)} values "
            f"{_listed(sorted(classes))}, so classes must be 0 to {len(classes) - 1}, "
            f"and {odd[0] if odd else 'a value that is missing'} is none; encode them "
            "with pyspark.ml.feature.StringIndexer",
            code=ErrorCode.CLASSES_NOT_CONSECUTIVE,
        )
    n_classes = max(2, len(classes))
    given = params.get("objective")
    if given is None:
        given = "binary:logistic" if n_classes == 2 else "multi:softprob"
    found = {"objective": given}
    if given.startswith("multi:"):
        found["num_class"] = n_classes
    elif n_classes > 2:
        raise DataError(
            f"objective={given!r} is for two classes, and the label column has "
            f"{n_classes}; use multi:softprob, or leave it out",
            code=ErrorCode.OBJECTIVE_ESTIMATOR_MISMATCH,
        )
    return found


def _listed(values: Sequence[float]) -> str:
    text = ", ".join(f"{value:g}" for value in values[:6])
    return f"{text}, ..." if len(values) > 6 else text


# Matrices


def _matrices(
    task: Task, library: Any, rows: Rows, params: Mapping[str, Any]
) -> tuple[DMatrix, DMatrix | None]:
    """Return the matrices of the training and of the validation rows.

    Rows have keys if their draws or their metrics need any.
    """
    sampling = {name: params[name] for name in _SAMPLING if name in params}
    is_drawn = Parameters.resolve(sampling).drawn_share() < 1.0
    mask = rows.fields.pop("validation", None)
    if "validation" not in task.fields:
        return _matrix(task, library, rows, is_drawn), None
    mask = np.zeros(rows.shape[0], bool) if mask is None else mask.astype(bool)
    train, valid = (rows.take(own) for own in (~mask, mask))
    dtrain = _matrix(task, library, train, is_drawn)
    return dtrain, _matrix(task, library, valid, has_keys=True)


def _matrix(task: Task, library: Any, rows: Rows, has_keys: bool) -> DMatrix:
    """Return a matrix; query groups are in the order of ids, their rows of keys."""
    options = dict(task.matrix_options)
    if task.features.names is not None:
        options["feature_names"] = list(task.features.names)
    if task.features.types is not None:
        options.setdefault("feature_types", list(task.features.types))

    def create() -> DMatrix:
        matrix: DMatrix = library.DMatrix(rows.features, **rows.fields, **options)
        return matrix

    keys, qid = rows.fields.pop("row_key", None), rows.fields.pop("qid", None)
    if qid is not None:
        keys = create().hash_rows() if keys is None else keys
        order = np.lexsort((keys, qid))
        rows.fields["qid"] = qid
        rows, keys = rows.take(order), keys[order]
    matrix = create()
    if has_keys:
        matrix.set_info(row_key=matrix.hash_rows() if keys is None else keys)
    return matrix
