"""The part of a dataset that a worker of Ray Train gets, and a matrix of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import ray.train
from ray.data import Dataset

from hornbeam.data.dmatrix import DMatrix
from hornbeam.ray.blocks import Blocks, check_dataset, in_order, matrix_of, table_of

__all__ = ["RowRanges", "to_dmatrix"]


class RowRanges(ray.train.DataConfig):
    """Give each worker a range of rows, in their order, and all rows to some worker.

    Ray's own `DataConfig` drops the rows by which workers would have more than others,
    in an order that changes, and so does the model.

    Parameters
    ----------
    qid
        The column of query groups, which stay on one worker each.
    datasets_to_split
        The names of the datasets that are split; workers get all rows of the others.
    """

    def __init__(
        self, *, qid: str | None = None, datasets_to_split: str | list[str] = "all"
    ) -> None:
        super().__init__(datasets_to_split=datasets_to_split)
        self._qid = qid
        self._parts: dict[str, list[Any]] = {}

    def prepare(self, datasets: Mapping[str, Dataset], n_workers: int) -> None:
        """Compute and split datasets, before the workers take the CPUs."""
        for name, dataset in datasets.items():
            split = self._datasets_to_split
            if split != "all" and name not in split:
                continue
            given = dataset() if callable(dataset) else dataset
            check_dataset(given, name)
            with in_order(given):
                whole = given.materialize()
            bounds = Blocks.of(whole, name).bounds(n_workers, self._qid)
            self._parts[name] = whole.split_at_indices(bounds[1:-1])

    def configure(
        self,
        datasets: dict[str, Dataset],
        world_size: int,
        worker_handles: Any,
        worker_node_ids: Any,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Return the shards of each worker, by the name of the dataset.

        `options` are those that later versions of Ray pass.
        """
        if any(len(parts) != world_size for parts in self._parts.values()):
            self._parts = {}  # the number of workers has changed
        missing = {n: data for n, data in datasets.items() if n not in self._parts}
        self.prepare(missing, world_size)
        return [
            {
                name: self._parts[name][rank].iterator()
                if name in self._parts
                else dataset.iterator()
                for name, dataset in datasets.items()
            }
            for rank in range(world_size)
        ]


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
    name = "shard"
    if not tables:
        schema = shard.schema()
        tables = [pa.schema(zip(schema.names, schema.types, strict=True)).empty_table()]
    return matrix_of(table_of(tables, name), columns, name, dates)
