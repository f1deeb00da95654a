"""Predictions of a source, batch by batch, and the files that they are written to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import hornbeam
from hornbeam.cli.classes import classes_of
from hornbeam.cli.rows import MetaColumns
from hornbeam.data.sources.batches import Place
from hornbeam.files import replacing

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster
    from hornbeam.data.sources.batches import Source

__all__ = ["best_rounds", "predictions", "write"]


def best_rounds(booster: Booster) -> tuple[int, int]:
    """Return the rounds up to the best iteration of early stopping; else all."""
    best = booster.attr("best_iteration")
    # A linear model cannot be split into rounds.
    if best is None or booster.model.linear is not None:
        return 0, 0
    return 0, int(best) + 1


def predictions(
    booster: Booster, source: Source, columns: MetaColumns, margin: bool
) -> Iterator[pa.Table]:
    """Yield the predictions of each batch, in one pass over the source.

    The message of an error contains the batch and the row.
    """
    rounds = best_rounds(booster)
    classes = None if margin else classes_of(booster)
    row = 0
    for number, batch in enumerate(source.batches()):
        with Place(number, row, source.name, batch.origin).named():
            matrix = hornbeam.DMatrix(batch.data, dates="expand", **columns)
            values = booster.predict(
                matrix, output_margin=margin, iteration_range=rounds
            )
        row += matrix.num_row()
        yield _table(values, booster.objective.prediction, classes)


def _table(
    values: npt.NDArray[np.float32], kind: str, classes: list[Any] | None
) -> pa.Table:
    if classes is not None and kind == "probability":
        return _class_table(values, classes)
    if classes is not None and kind == "class":
        return pa.table({"prediction": pa.array(classes).take(_indices(values))})
    if values.ndim == 1:
        return pa.table({"prediction": _column(values)})
    columns = np.ascontiguousarray(values.T)
    return pa.table({f"prediction_{k}": _column(v) for k, v in enumerate(columns)})


def _class_table(values: npt.NDArray[np.float32], classes: list[Any]) -> pa.Table:
    """Return the most probable class of each row, and the probability of each class."""
    if values.ndim == 1:
        values = np.stack([1 - values, values], axis=1)
    most = _indices(values.argmax(axis=1) if len(values) else np.empty(0))
    columns = np.ascontiguousarray(values.T)
    probabilities = {
        f"probability_{name}": _column(column)
        for name, column in zip(classes, columns, strict=True)
    }
    return pa.table({"prediction": pa.array(classes).take(most), **probabilities})


def _indices(values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.int64(), len(values), [None, pa.py_buffer(values.astype(np.int64))]
    )


def _column(values: npt.NDArray[np.float32]) -> pa.Array:
    # pa.array would import pandas, which takes half a second.
    return pa.Array.from_buffers(
        pa.float32(), len(values), [None, pa.py_buffer(values)]
    )


def write(tables: Iterator[pa.Table], output: Path | None) -> None:
    """Write tables as CSV to standard output, or to a .csv or .parquet file.

    An existing file is replaced only after all predictions are written.
    """
    if output is None:
        _write_csv(tables, sys.stdout.buffer)
        return
    write_to = _write_parquet if output.suffix == ".parquet" else _write_csv
    with replacing(output) as sink:
        write_to(tables, sink)


def _write_csv(tables: Iterator[pa.Table], sink: Any) -> None:
    first = next(tables)
    with pyarrow.csv.CSVWriter(sink, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_parquet(tables: Iterator[pa.Table], sink: Any) -> None:
    first = next(tables)
    with pyarrow.parquet.ParquetWriter(sink, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
