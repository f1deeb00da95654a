"""Rows on workers in the order of their groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from distributed import Client

from hornbeam.dask.partitions import is_dataframe, is_series
from hornbeam.dask.workers import Workers

__all__ = ["in_order_of_groups"]

_BESIDE = ("label", "qid", "weight", "base_margin")
#: The number of each row among all: rows of one group keep their order.
_NUMBER = "__number__"


def in_order_of_groups(client: Client, fields: dict[str, Any]) -> dict[str, Any]:
    """Return what a matrix is made of, its rows in order of their groups.

    Rows of one group keep their order. Those that are in order already stay as they
    are; others are shuffled among the workers.

    Parameters
    ----------
    client
        Of the cluster.
    fields
        The arguments of a matrix: ``data``, a dask.dataframe, and series beside it.
    """
    data = fields["data"]
    if not is_dataframe(data):
        raise TypeError(
            "When `allow_group_split` is set to False, X is required to be a "
            f"dataframe, not {type(data).__name__}"
        )
    beside = {name: fields[name] for name in _BESIDE if fields.get(name) is not None}
    for name, column in beside.items():
        if not is_series(column):
            raise TypeError(
                f"When `allow_group_split` is set to False, {name} is required to be a "
                f"series, not {type(column).__name__}"
            )
    found = _groups_in(client, beside["qid"])
    if _is_in_order(found):
        return fields
    names = {name: f"__{name}__" for name in beside}
    whole = _whole(
        data, {names[name]: column for name, column in beside.items()}, found
    )
    # With bounds that are known: Dask would look for its own while it makes the graph
    # of all this, and the two can wait for one another for ever.
    whole = whole.set_index(
        names["qid"],
        divisions=_bounds(found, data.npartitions),
        shuffle_method="tasks",
    )
    order = [names["qid"], _NUMBER]
    meta = _sorted(whole._meta, order)
    whole = client.persist(whole.map_partitions(_sorted, order, meta=meta))
    return {
        **fields,
        "data": whole[list(data.columns)],
        **{name: whole[column] for name, column in names.items()},
    }


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of a partition, sorted, with their sizes."""

    groups: npt.NDArray[Any]
    sizes: npt.NDArray[np.int64]
    is_in_order: bool


def _groups_in(client: Client, qid: Any) -> list[_Groups]:
    pieces = client.compute(qid.to_delayed())
    tasks = [client.submit(_groups_of, piece) for piece in pieces]
    return Workers(client).results(tasks)


def _groups_of(qid: Any) -> _Groups:
    groups, sizes = np.unique(np.asarray(qid), return_counts=True)
    return _Groups(groups, sizes, bool(qid.is_monotonic_increasing))


def _is_in_order(found: Sequence[_Groups]) -> bool:
    some = [one for one in found if one.groups.size]
    bounds = [bound for one in some for bound in (one.groups[0], one.groups[-1])]
    return all(one.is_in_order for one in some) and bounds == sorted(bounds)


def _bounds(found: Sequence[_Groups], n_partitions: int) -> list[Any]:
    """Return the first group of each of so many partitions at most, and the last."""
    groups, places = np.unique(
        np.concatenate([one.groups for one in found]), return_inverse=True
    )
    sizes = np.bincount(places, np.concatenate([one.sizes for one in found]))
    before = np.cumsum(sizes) - sizes
    shares = np.linspace(0, sizes.sum(), n_partitions, endpoint=False)
    firsts = np.unique(np.searchsorted(before, shares, side="right") - 1)
    return [*groups[firsts].tolist(), groups[-1].item()]


def _whole(data: Any, columns: dict[str, Any], found: Sequence[_Groups]) -> Any:
    """Return the data with other columns, and the number of each row."""
    import dask.dataframe as dd

    rows = np.cumsum([0, *(one.sizes.sum() for one in found)])
    pieces = zip(
        data.to_delayed(), *(c.to_delayed() for c in columns.values()), strict=True
    )
    joined = delayed(_joined)
    meta = _joined(
        data._meta, [column._meta for column in columns.values()], list(columns), 0
    )
    return dd.from_delayed(
        [
            joined(piece, beside, list(columns), int(first))
            for (piece, *beside), first in zip(pieces, rows, strict=False)
        ],
        meta=meta,
        verify_meta=False,
    )


def _joined(frame: Any, beside: list[Any], names: list[str], first: int) -> Any:
    columns = {name: column.array for name, column in zip(names, beside, strict=True)}
    return frame.assign(**columns, **{_NUMBER: np.arange(first, first + len(frame))})


def _sorted(frame: Any, order: list[str]) -> Any:
    return frame.reset_index().sort_values(order)
