"""Rows on workers in the order of their groups."""

from __future__ import annotations

from typing import Any

from distributed import Client

from hornbeam.dask.partitions import is_frame
from hornbeam.dask.workers import Workers
from hornbeam.xgboost.dask.kinds import is_series

__all__ = ["in_order_of_groups"]

_BESIDE = ("label", "qid", "weight", "base_margin")


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
    if not is_frame(data):
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
    if _is_in_order(client, beside["qid"]):
        return fields
    names = {name: f"__{name}__" for name in beside}
    whole = data.assign(**{names[name]: column for name, column in beside.items()})
    whole = whole.sort_values(names["qid"], sort_function=_sorted)
    whole = client.persist(whole)
    return {
        **fields,
        "data": whole[list(data.columns)],
        **{name: whole[column] for name, column in names.items()},
    }


def _sorted(frame: Any, *args: Any, **options: Any) -> Any:
    return frame.sort_values(*args, **{**options, "kind": "stable"})


def _is_in_order(client: Client, qid: Any) -> bool:
    pieces = [client.submit(_ends, piece) for piece in client.compute(qid.to_delayed())]
    ends = [end for end in Workers(client).results(pieces) if end is not None]
    if not all(ends):
        return False
    bounds = [bound for pair in ends for bound in pair]
    return bounds == sorted(bounds)


def _ends(qid: Any) -> tuple[Any, Any] | tuple[()] | None:
    """Return the first and the last group; nothing if they fall, None without rows."""
    if len(qid) == 0:
        return None
    return (qid.iloc[0], qid.iloc[-1]) if qid.is_monotonic_increasing else ()
