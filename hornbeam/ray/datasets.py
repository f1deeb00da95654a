"""Datasets of Ray: split into ranges of rows, read as matrices, and predicted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray
from ray import cloudpickle

from hornbeam.boosting.booster import Booster
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.sources.first_pass import places_by_name
from hornbeam.distributed.partitions import PartitionReader
from hornbeam.distributed.prediction import PartitionPrediction, load_model
from hornbeam.errors import DataError, ErrorCode, require

__all__ = ["Columns", "Part", "predict", "read_part", "split_rows", "to_dmatrix"]

#: By the name of a field of `DMatrix`, such as "label": the name of its column, or of
#: several that make an array of two dimensions; None: there is none. Others are
#: features.
Columns = Mapping[str, str | Sequence[str] | None]


def check_dataset(dataset: Any, name: str) -> None:
    """Raise a `DataError` unless it is a dataset of Ray."""
    data = require("ray.data", "ray", "a Dataset of Ray")
    if not isinstance(dataset, data.Dataset):
        raise DataError(
            f"{name} must be a Dataset of Ray, not {type(dataset).__name__}; make one "
            "with ray.data.from_pandas, read_parquet or alike",
            code=ErrorCode.UNSUPPORTED_COLLECTION,
        )


def column_not_found(column: str, present: Sequence[str], what: str) -> DataError:
    """Return the error for a column that a dataset lacks."""
    return DataError(
        f"the dataset {what!r} has no column {column!r}, only {', '.join(present)}",
        code=ErrorCode.COLUMN_NOT_FOUND,
        column=column,
    )


# Ranges of rows


#: Rows of a block: the reference of its pyarrow table, the first row, and their number.
Piece = tuple[Any, int, int]
#: The name of a dataset, and the rows of a worker.
Part = tuple[str, list[Piece]]


class Split(NamedTuple):
    """A dataset in ranges of rows.

    Attributes
    ----------
    dataset
        The dataset, computed.
    bounds
        (ranges + 1,): the first row of each range, and the number of rows.
    parts
        The rows of each range; of an empty one no rows of a block with some, so that a
        worker without rows knows the columns.
    """

    dataset: Any
    bounds: list[int]
    parts: list[Part]


def split_rows(dataset: Any, name: str, n_ranges: int, qid: str | None = None) -> Split:
    """Compute a dataset; split it into ranges of about equally many rows.

    With `qid`, the column of query groups, ranges end where groups end. Raises a
    `DataError`, which calls the dataset `name`, if there are no rows, or if blocks have
    other columns.
    """
    check_dataset(dataset, name)
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        whole = dataset.materialize()
        blocks = whole.to_arrow_refs()
    finally:
        options.preserve_order = before
    # For a task of each block Ray would start processes beside those of the workers.
    size = len(blocks) // n_ranges + 1
    asked = [
        _describe.remote(qid, *blocks[start : start + size])
        for start in range(0, len(blocks), size)
    ]
    found = [one for answer in ray.get(asked) for one in answer]
    ends = np.cumsum([0, *(size for size, *_ in found)])
    n_rows = int(ends[-1])
    if n_rows == 0:
        raise DataError(
            f"the dataset {name!r} has no rows; pass at least one",
            code=ErrorCode.EMPTY_DATA,
        )
    filled = {n: columns for n, (size, columns, *_) in enumerate(found) if size}
    first, present = next(iter(filled.items()))

    def mismatch(number: int, faults: str) -> DataError:
        return DataError(
            f"block {number} of the dataset {name!r} has other columns than {first}: "
            f"{faults}; select the same columns in all",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        )

    for number, columns in filled.items():
        places_by_name(columns, present, partial(mismatch, number))
    if qid is not None and qid not in present:
        raise column_not_found(qid, present, name)
    bounds = np.linspace(0, n_rows, n_ranges + 1).astype(int)
    if qid is not None:
        ids = np.concatenate([own for size, _, own, _ in found if size])
        runs = [own + end for (*_, own), end in zip(found, ends[:-1], strict=True)]
        is_first = np.append(True, ids[1:] != ids[:-1])
        groups = np.append(np.concatenate(runs)[is_first], n_rows)
        bounds = groups[np.searchsorted(groups, bounds)]
    parts: list[Part] = []
    for start, stop in pairwise(bounds.tolist()):
        pieces: list[Piece] = []
        for ref, (first, end) in zip(blocks, pairwise(ends.tolist()), strict=True):
            low, high = max(start, first), min(stop, end)
            no_rows = start == stop and first < end and not pieces
            if low < high or no_rows:
                pieces.append((ref, max(low - first, 0), max(high - low, 0)))
        parts.append((name, pieces))
    return Split(whole, bounds.tolist(), parts)


@ray.remote(num_cpus=0, name="hornbeam: describe blocks")
def _describe(
    qid: str | None, *blocks: pa.Table
) -> list[tuple[int, list[str], NDArray[Any], NDArray[np.intp]]]:
    """Return of each block rows and columns, and of runs of a query id ids and starts.

    Ray sends the function by value, to where the blocks are. It calls none of
    Hornbeam's, which the machine may not have: a worker there is told so.
    """
    found = []
    for block in blocks:
        ids = np.empty(0)
        if qid in block.column_names:
            ids = block.column(qid).to_numpy()
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
        found.append((block.num_rows, block.column_names, ids[starts], starts))
    return found


# Matrices


def to_dmatrix(
    shard: Any,
    *,
    label: str | Sequence[str] | None = None,
    weight: str | None = None,
    base_margin: str | Sequence[str] | None = None,
    qid: str | None = None,
    label_lower_bound: str | None = None,
    label_upper_bound: str | None = None,
    row_key: str | None = None,
    dates: str = "error",
) -> DMatrix:
    """Return a matrix of a shard: of what `ray.train.get_dataset_shard` returns.

    Parameters
    ----------
    shard
        A shard, or a Dataset.
    label, weight, base_margin, qid, label_lower_bound, label_upper_bound, row_key
        The names of columns; the others are features.
    dates
        As for `DMatrix`: with ``"expand"`` trees split on the parts of dates and times,
        those that vary in the rows of all workers.
    """
    columns = {
        "label": label,
        "weight": weight,
        "base_margin": base_margin,
        "qid": qid,
        "label_lower_bound": label_lower_bound,
        "label_upper_bound": label_upper_bound,
        "row_key": row_key,
    }
    batches = shard.iter_batches(batch_size=None, batch_format="pyarrow")
    tables = [batch for batch in batches if batch.num_rows]
    if not tables:
        schema = shard.schema()
        tables = [pa.schema(zip(schema.names, schema.types, strict=True)).empty_table()]
    return _matrix_of(tables, "shard", columns, dates)


def read_part(part: Part, columns: Columns, dates: str) -> DMatrix:
    """Return a matrix of the rows of a worker, with ``dates`` as for `DMatrix`."""
    name, pieces = part
    blocks = ray.get([block for block, _, _ in pieces])
    rows = [one.slice(*own[1:]) for one, own in zip(blocks, pieces, strict=True)]
    return _matrix_of(rows, name, columns, dates)


def _matrix_of(
    tables: Sequence[pa.Table], name: str, columns: Columns, dates: str
) -> DMatrix:
    """Return a matrix of the rows of all tables, in the order of the first's columns.

    Errors call the dataset that they are of `name`.
    """
    present = tables[0].column_names
    tables = [one.select(present) for one in tables]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"the blocks of the dataset {name!r} have columns of different types: "
            f"{error}; cast them to the same",
            code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
        ) from error
    values: dict[str, Any] = {}
    for field, given in columns.items():
        several = [given] if isinstance(given, str) else list(given or ())
        for column in several:
            if column not in present:
                raise column_not_found(column, present, name)
        values[field] = given
        if given is not None and not isinstance(given, str):
            arrays = [table.column(column).to_numpy() for column in several]
            values[field] = np.column_stack(arrays)
            table = table.drop_columns(several)
    return DMatrix(table, dates=dates, **values)


# Prediction


def predict(
    model: Booster | str | os.PathLike[str] | bytes | bytearray,
    dataset: Any,
    *,
    feature_columns: Sequence[str] | None = None,
    keep_columns: Sequence[str] = (),
    output_column: str = "predictions",
    batch_size: int | None = None,
    concurrency: int | None = None,
    **options: Any,
) -> Any:
    """Return a Dataset of predictions, which is computed when it is read.

    Parameters
    ----------
    model
        A booster, or the path or the bytes of a model file.
    dataset
        A Dataset of Ray.
    feature_columns
        The names of its features; by default those of the model.
    keep_columns
        The names of columns that the result has in addition.
    output_column
        The name of the column of predictions. Several values of a row are an array.
    batch_size
        The number of rows of a task's batch; None: whole blocks.
    concurrency
        The maximum number of tasks at a time; None: as Ray decides.
    options
        Of `Booster.predict`, such as ``output_margin``, ``pred_contribs`` or
        ``iteration_range``.
    """
    check_dataset(dataset, "dataset")
    booster = model if isinstance(model, Booster) else Booster(model_file=model)
    names = list(feature_columns or booster.model.raw_schema.names or ())
    task = PartitionPrediction(options, PartitionReader())
    given = cloudpickle.dumps(booster), task, names, list(keep_columns), output_column
    return dataset.map_batches(
        hornbeam_predict,
        batch_size=batch_size,
        batch_format="pyarrow",
        fn_args=given,
        concurrency=concurrency,
        zero_copy_batch=True,
    )


_load = lru_cache(maxsize=2)(load_model)


def hornbeam_predict(
    batch: pa.Table,
    pickled: bytes,
    task: PartitionPrediction,
    names: list[str],
    kept: list[str],
    output: str,
) -> dict[str, Any]:
    for name in (*names, *kept):
        if name not in batch.column_names:
            raise column_not_found(name, batch.column_names, "dataset")
    features = batch.select(names) if names else batch.drop_columns(kept)
    return {
        **{name: batch.column(name).to_numpy() for name in kept},
        output: task(_load(pickled, cloudpickle.loads), features, None),
    }
