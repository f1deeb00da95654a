"""Datasets of Ray: split into ranges of rows, and read as matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, require

__all__ = [
    "Columns",
    "Part",
    "check_dataset",
    "column_not_found",
    "read_part",
    "split_rows",
    "to_dmatrix",
]

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
#: Of a block: rows and columns; of each run of a query id the id and the first row.
_Description = tuple[int, list[str], NDArray[Any], NDArray[np.intp]]
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
    ranges
        The rows of each range; of an empty one no rows of a block with some, so that a
        worker without rows knows the columns.
    """

    dataset: Any
    bounds: list[int]
    ranges: list[list[Piece]]


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
    found = _describe_blocks(blocks, n_ranges, qid)
    ends = np.cumsum([0, *(size for size, _, _, _ in found)])
    n_rows = int(ends[-1])
    if n_rows == 0:
        raise DataError(
            f"the dataset {name!r} has no rows; pass at least one",
            code=ErrorCode.EMPTY_DATA,
        )
    filled = {n: columns for n, (size, columns, _, _) in enumerate(found) if size}
    _check_columns(filled, name, qid)
    bounds = np.linspace(0, n_rows, n_ranges + 1).astype(int)
    if qid is not None:
        ids = np.concatenate([own for size, _, own, _ in found if size])
        runs = [own + end for (*_, own), end in zip(found, ends[:-1], strict=True)]
        is_first = np.append(True, ids[1:] != ids[:-1])
        groups = np.append(np.concatenate(runs)[is_first], n_rows)
        bounds = groups[np.searchsorted(groups, bounds)]
    ranges: list[list[Piece]] = []
    for start, stop in pairwise(bounds.tolist()):
        ranges.append([])
        for ref, (first, end) in zip(blocks, pairwise(ends.tolist()), strict=True):
            low, high = max(start, first), min(stop, end)
            no_rows = start == stop and first < end and not ranges[-1]
            if low < high or no_rows:
                ranges[-1].append((ref, max(low - first, 0), max(high - low, 0)))
    return Split(whole, bounds.tolist(), ranges)


def _describe_blocks(
    blocks: Sequence[Any], n_ranges: int, qid: str | None
) -> list[_Description]:
    """Return descriptions of blocks, by tasks on their machines, so that none moves.

    There are about as many tasks as ranges: for one of each block Ray would start
    processes beside those of the workers.
    """
    # A client of a remote Ray (`ray://`) has no store that knows places.
    is_client = ray.util.client.ray.is_connected()
    places = {} if is_client else ray.experimental.get_object_locations(blocks)
    by_node: dict[str, list[Any]] = defaultdict(list)
    for ref in blocks:
        nodes = places[ref]["node_ids"] if ref in places else []
        by_node[next(iter(nodes), "")].append(ref)
    size = -(-len(blocks) // n_ranges)
    asked = []
    for node, refs in by_node.items():
        place = NodeAffinitySchedulingStrategy(node, soft=True) if node else "DEFAULT"
        task = _describe.options(scheduling_strategy=place)
        parts = [refs[start : start + size] for start in range(0, len(refs), size)]
        asked += [(own, task.remote(own, qid)) for own in parts]
    found: dict[Any, _Description] = {}
    for own, answer in asked:
        found |= zip(own, ray.get(answer), strict=True)
    return [found[ref] for ref in blocks]


@ray.remote(num_cpus=0, name="hornbeam: describe blocks")
def _describe(blocks: Sequence[Any], qid: str | None) -> list[_Description]:
    """Return the descriptions of blocks.

    Ray sends the function by value. It calls none of Hornbeam's, which the machine may
    not have: a worker there is told so.
    """
    found = []
    for ref in blocks:
        block = ray.get(ref)
        ids = np.empty(0)
        if qid in block.column_names:
            ids = block.column(qid).to_numpy()
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
        found.append((block.num_rows, block.column_names, ids[starts], starts))
    return found


def _check_columns(
    blocks: Mapping[int, Sequence[str]], name: str, qid: str | None
) -> None:
    """Raise a `DataError` unless the blocks, by number, have the same columns."""
    first, expected = next(iter(blocks.items()))
    for number, columns in blocks.items():
        absent = sorted(set(expected) - set(columns))
        unknown = sorted(set(columns) - set(expected))
        if absent or unknown:
            raise DataError(
                f"the blocks of the dataset {name!r} have different columns: block "
                f"{number} lacks {absent} and has {unknown} in addition to those of "
                f"block {first}; select the same columns in all",
                code=ErrorCode.PARTITION_COLUMNS_MISMATCH,
            )
    if qid is not None and qid not in expected:
        raise column_not_found(qid, expected, name)


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
    tables = [
        block.slice(start, size)
        for block, (_, start, size) in zip(blocks, pieces, strict=True)
    ]
    return _matrix_of(tables, name, columns, dates)


def _matrix_of(
    tables: Sequence[pa.Table], name: str, columns: Columns, dates: str
) -> DMatrix:
    """Return a matrix of the rows of all tables, in the order of the first's columns.

    Errors call the dataset that they are of `name`.
    """
    present = tables[0].column_names
    try:
        table = pa.concat_tables(
            [one.select(present) for one in tables], promote_options="permissive"
        )
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
