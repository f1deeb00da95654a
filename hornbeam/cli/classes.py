"""Labels of classes: read from a column, encoded as indices, stored in a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import hornbeam
from hornbeam.cli.rows import MetaColumns
from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode
from hornbeam.params import ESTIMATOR

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.sources.batches import Source

Floats: TypeAlias = npt.NDArray[np.float64]

__all__ = [
    "class_labels",
    "classes_of",
    "encode",
    "encode_label",
    "is_text",
    "read_target",
    "set_classes",
    "sorted_values",
    "with_labels",
]


def read_target(source: Source, name: str) -> pa.ChunkedArray:
    """Return one column of all rows."""
    tables = [pa.table(batch.data) for batch in source.batches([name])]
    column = pa.concat_tables(tables).column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise DataError(
            f"{source.name}: the target {name!r} is missing in row {row} (so in "
            f"{column.null_count:,} of {len(column):,} rows); drop these rows",
            code=ErrorCode.LABEL_NOT_FINITE,
        )
    return column


def class_labels(column: pa.ChunkedArray, name: str) -> list[Any]:
    """Return the labels of classes in their order."""
    classes = sorted_values(pc.unique(column))
    if len(classes) < 2:
        raise DataError(
            f"the target {name!r} has one value in all rows, {listed(classes)}; name "
            "another column with --target, or take rows of two classes at least",
            code=ErrorCode.LABEL_NOT_A_CLASS,
        )
    if 2 * len(classes) > max(len(column), 8):
        raise DataError(
            f"the target {name!r} has {len(classes):,} different values in "
            f"{len(column):,} rows, too many for classes; name another column with "
            "--target, or pass --task regression for numbers",
            code=ErrorCode.LABEL_NOT_A_CLASS,
        )
    return classes


def encode_label(
    source: Source, columns: MetaColumns, classes: list[Any] | None
) -> tuple[Source, MetaColumns]:
    """Return the source without its label, and the label as the indices of classes.

    Returns the arguments if labels are not classes.
    """
    name = columns.get("label")
    if classes is None or name is None or not source.named:
        return source, columns
    labels = encode(read_target(source, name), classes, source.name, name)
    return with_labels(source, columns, labels)


def with_labels(
    source: Source, columns: MetaColumns, labels: Floats | None
) -> tuple[Source, MetaColumns]:
    """Return the source without its label, whose values are given; None: unchanged."""
    if labels is None:
        return source, columns
    name = columns["label"]
    features = [other for other in source.column_names or () if other != name]
    return hornbeam.read(source, columns=features), {**columns, "label": labels}


def encode(
    column: pa.ChunkedArray, classes: list[Any], source: str, name: str
) -> Floats:
    """Return labels as the indices of classes; `source` and `name` are for errors."""
    if any(isinstance(value, str) for value in classes):
        known, values = pa.array(classes, pa.string()), pc.cast(column, pa.string())
    else:
        known = pa.array([float(value) for value in classes])
        values = column if is_text(column) else pc.cast(column, pa.float64())
    indices = pc.index_in(values, known) if values.type == known.type else None
    if indices is None or indices.null_count:
        row = 0 if indices is None else pc.index(pc.is_null(indices), True).as_py()
        raise DataError(
            f"{source}: the target {name!r} is {column[row].as_py()!r} in row "
            f"{row}; the classes of the model are {listed(classes)}",
            code=ErrorCode.LABEL_NOT_IN_TRAINING,
        )
    return np.asarray(indices.to_numpy(), np.float64)


def set_classes(booster: Booster, classes: list[Any]) -> None:
    """Store the labels of the classes in a model, as `HornbeamClassifier` does."""
    metadata = {"_estimator_type": "classifier", "classes": classes}
    booster.set_attr(**{ESTIMATOR: json.dumps(metadata)})


def classes_of(booster: Booster) -> list[Any] | None:
    """Return the labels of the classes that a model file holds; None if it has none."""
    metadata = json.loads(booster.attr(ESTIMATOR) or "{}")
    return metadata.get("classes") if isinstance(metadata, dict) else None


def is_text(column: pa.ChunkedArray) -> bool:
    return bool(
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    )


def sorted_values(values: pa.Array) -> list[Any]:
    """Return sorted values; whole numbers as integers."""
    return sorted(
        int(value) if isinstance(value, float) and value.is_integer() else value
        for value in values.to_pylist()
    )
