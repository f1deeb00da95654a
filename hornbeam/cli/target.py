"""The task that a target column poses, and its labels as classes.

Text, booleans and few whole numbers are classes; other numbers are values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hornbeam.cli.classes import (
    Floats,
    class_labels,
    encode,
    is_text,
    read_target,
    sorted_values,
)
from hornbeam.cli.rows import Task, check_columns
from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode
from hornbeam.objectives.registry import find

if TYPE_CHECKING:
    from hornbeam.data.sources.batches import Source

__all__ = ["Target", "find_target"]

#: Whole numbers are classes if at most so many are different, and each is in so many
#: rows on average. More are counts or amounts.
_MOST_NUMBERS = 10
_ROWS_EACH = 10


class Target(NamedTuple):
    """What training takes from the target column.

    Attributes
    ----------
    params
        Parameters in addition to the user's.
    classes
        The labels of the classes 0, 1, ...; None if labels are values.
    labels
        The labels of the training data as indices of the classes, (rows,).
    reason
        The task, and why it was chosen; empty if the user named an objective.
    """

    params: dict[str, Any]
    classes: list[Any] | None = None
    labels: Floats | None = None
    reason: str = ""


def find_target(
    source: Source, name: str, task: Task | None, objective: str | None
) -> Target:
    """Return what training takes from a target column.

    Parameters
    ----------
    source
        The training data.
    name
        The name of the target column.
    task
        The task that the user chose; None: the column decides.
    objective
        The objective that the user chose. If it is one for classes, they may be text.
    """
    check_columns(source, [name])
    params: dict[str, Any]
    if objective is not None:
        kind = find(objective)
        column = read_target(source, name)
        if kind is None or kind.task not in ("binary", "classes"):
            _check_numbers(column, name, f"objective={objective}")
            return Target({})
        if not is_text(column):
            return Target({})
        classes = class_labels(column, name)
        params = {"num_class": len(classes)} if kind.task == "classes" else {}
        return Target(params, classes, encode(column, classes, source.name, name))
    column = read_target(source, name)
    found, what = _judge(column)
    chosen = task or found
    reason = f"{chosen}: {name!r} has {what}"
    if task is None:
        reason += "; --task chooses another"
    if chosen is Task.REGRESSION:
        _check_numbers(column, name, "--task regression")
        return Target({"objective": "reg:squarederror"}, reason=reason)
    classes = class_labels(column, name)
    params = {"objective": "binary:logistic"}
    if len(classes) > 2:
        params = {"objective": "multi:softprob", "num_class": len(classes)}
    labels = encode(column, classes, source.name, name)
    return Target(params, classes, labels, reason)


def _check_numbers(column: pa.ChunkedArray, name: str, option: str) -> None:
    """Raise a `DataError` if the target of a regression is text."""
    if is_text(column):
        raise DataError(
            f"{option} needs numbers, and the target {name!r} has the values "
            f"{listed(sorted_values(pc.unique(column)))}; leave it out to train a "
            "classification, or name another column: --target",
            code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
        )


def _judge(column: pa.ChunkedArray) -> tuple[Task, str]:
    """Return the task of a target, and what values it has."""
    distinct = pc.unique(column)
    if pa.types.is_boolean(column.type) or is_text(column):
        return Task.CLASSIFICATION, f"the values {listed(sorted_values(distinct))}"
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return Task.REGRESSION, f"values of type {column.type}"
    numbers = distinct.to_numpy()
    if (numbers != np.floor(numbers)).any():
        return Task.REGRESSION, "numbers that are not whole"
    few = len(numbers) == 2 or (
        len(numbers) <= _MOST_NUMBERS and len(column) >= _ROWS_EACH * len(numbers)
    )
    if few:
        return Task.CLASSIFICATION, f"the values {listed(sorted_values(distinct))}"
    return Task.REGRESSION, f"{len(numbers):,} different whole numbers"
