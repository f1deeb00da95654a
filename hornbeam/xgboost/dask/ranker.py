"""DaskXGBRanker, and the sort of rows by query group that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from distributed import Client

from hornbeam.dask.client import client_method
from hornbeam.dask.partitions import is_dataframe, is_series
from hornbeam.dask.workers import Workers
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.core import Metric
from hornbeam.xgboost.dask.estimators import DaskScikitLearnBase
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.sklearn.custom_functions import ltr_metric_decorator
from hornbeam.xgboost.sklearn.model import EvalFields, XGBModel
from hornbeam.xgboost.sklearn.ranker import XGBRankerMixIn

__all__ = ["DaskXGBRanker"]

#: Fields that are sorted with the rows.
_FIELDS = ("label", "qid", "weight", "base_margin")
#: Temporary column with the global index of each row, by which the sort is stable.
_NUMBER = "__number__"


class DaskXGBRanker(XGBRankerMixIn, DaskScikitLearnBase):
    """`XGBRanker` for Dask collections; the parameters are the same, and:

    Parameters
    ----------
    allow_group_split
        Whether the rows are already sorted by query group. If not, they must be a
        dask.dataframe, and are sorted if they are not in order.
    """

    @deprecate_positional_args
    def __init__(
        self,
        *,
        objective: str = "rank:ndcg",
        allow_group_split: bool = False,
        coll_cfg: Any = None,
        **kwargs: Any,
    ) -> None:
        if callable(objective):
            raise ParameterError(
                "Custom objective function not supported by XGBRanker; use "
                "hornbeam.dask.DaskHornbeamRanker, which takes one",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        self.allow_group_split = allow_group_split
        super().__init__(objective=objective, coll_cfg=coll_cfg, **kwargs)

    def _wrapper_params(self) -> set[str]:
        return super()._wrapper_params() | {"allow_group_split"}

    def _adapt_metric(self, function: Any) -> Metric:
        return ltr_metric_decorator(function, self.n_jobs)

    @deprecate_positional_args
    @client_method
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_qid: Sequence[Any] | None = None,
        verbose: int | bool | None = False,
        xgb_model: XGBModel | str | Booster | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        qid
            The query group of each row, with the same partitions as `X`.
        eval_qid
            The same for `eval_set`, one collection for each pair.
        group, eval_group
            Not supported, as in XGBoost: pass qid.
        X, y, sample_weight, base_margin, eval_set, verbose, xgb_model, \
sample_weight_eval_set, base_margin_eval_set, feature_weights
            As for `XGBRanker`.
        """
        if group is not None or eval_group is not None:
            raise DataError(
                "Use the `qid` instead of the `group` with the dask interface.",
                code=ErrorCode.CONFLICTING_PARAMETERS,
            )
        if qid is None:
            raise DataError(
                "`qid` is required for ranking.", code=ErrorCode.GROUPS_MISSING
            )
        eval_fields: EvalFields = {
            "weight": ("sample_weight_eval_set", sample_weight_eval_set),
            "base_margin": ("base_margin_eval_set", base_margin_eval_set),
            "qid": ("eval_qid", eval_qid),
        }
        fields = {"weight": sample_weight, "base_margin": base_margin, "qid": qid}
        return self._fit(
            X, y, fields, eval_set, eval_fields, verbose, xgb_model, feature_weights
        )

    def _create_dmatrix(self, ref: Any, **fields: Any) -> Any:
        if not self.allow_group_split:
            fields = _sort_by_group(self.client, fields)
        return super()._create_dmatrix(ref, **fields)


def _sort_by_group(client: Client, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a matrix with its rows sorted by query group.

    The sort is stable. Rows that are already in order are returned unchanged; others
    are shuffled among the workers.

    Parameters
    ----------
    client
        Of the cluster.
    fields
        The arguments of a matrix: ``data``, a dask.dataframe, and its labels, qid,
        weights and margins as series.
    """
    data = fields["data"]
    if not is_dataframe(data):
        raise TypeError(
            "When `allow_group_split` is set to False, X is required to be a "
            f"dataframe, not {type(data).__name__}"
        )
    columns = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
    for name, column in columns.items():
        if not is_series(column):
            raise TypeError(
                f"When `allow_group_split` is set to False, {name} is required to be a "
                f"series, not {type(column).__name__}"
            )
    groups = _find_groups(client, columns["qid"])
    if _is_sorted(groups):
        return fields
    names = {name: f"__{name}__" for name in columns}
    whole = _join(
        data, {names[name]: column for name, column in columns.items()}, groups
    )
    # With given divisions: otherwise Dask computes divisions while it creates the
    # graph, which can deadlock.
    whole = whole.set_index(
        names["qid"],
        divisions=_divisions(groups, data.npartitions),
        shuffle_method="tasks",
    )
    order = [names["qid"], _NUMBER]
    meta = _sort_partition(whole._meta, order)
    whole = client.persist(whole.map_partitions(_sort_partition, order, meta=meta))
    return {
        **fields,
        "data": whole[list(data.columns)],
        **{name: whole[column] for name, column in names.items()},
    }


@dataclass(frozen=True, slots=True)
class _Groups:
    """The query groups of a partition, sorted, with their sizes."""

    groups: npt.NDArray[Any]
    sizes: npt.NDArray[np.int64]
    is_sorted: bool


def _find_groups(client: Client, qid: Any) -> list[_Groups]:
    parts = client.compute(qid.to_delayed())
    return Workers(client).results([client.submit(_groups_of, part) for part in parts])


def _groups_of(qid: Any) -> _Groups:
    groups, sizes = np.unique(np.asarray(qid), return_counts=True)
    return _Groups(groups, sizes, bool(qid.is_monotonic_increasing))


def _is_sorted(parts: Sequence[_Groups]) -> bool:
    nonempty = [part for part in parts if part.groups.size]
    ends = [end for part in nonempty for end in (part.groups[0], part.groups[-1])]
    return all(part.is_sorted for part in nonempty) and ends == sorted(ends)


def _divisions(parts: Sequence[_Groups], n_partitions: int) -> list[Any]:
    """Return divisions by query group for at most this number of partitions.

    They are the first group of each partition, and the last group of all.
    """
    groups, places = np.unique(
        np.concatenate([part.groups for part in parts]), return_inverse=True
    )
    sizes = np.bincount(places, np.concatenate([part.sizes for part in parts]))
    before = np.cumsum(sizes) - sizes
    shares = np.linspace(0, sizes.sum(), n_partitions, endpoint=False)
    firsts = np.unique(np.searchsorted(before, shares, side="right") - 1)
    return [*groups[firsts].tolist(), groups[-1].item()]


def _join(data: Any, columns: dict[str, Any], parts: Sequence[_Groups]) -> Any:
    """Return the data with these columns, and the global index of each row."""
    import dask.dataframe as dd

    rows = np.cumsum([0, *(part.sizes.sum() for part in parts)])
    pieces = zip(
        data.to_delayed(), *(c.to_delayed() for c in columns.values()), strict=True
    )
    join = delayed(_join_partition)
    meta = _join_partition(
        data._meta, [column._meta for column in columns.values()], list(columns), 0
    )
    return dd.from_delayed(
        [
            join(piece, values, list(columns), int(first))
            for (piece, *values), first in zip(pieces, rows, strict=False)
        ],
        meta=meta,
        verify_meta=False,
    )


def _join_partition(frame: Any, values: list[Any], names: list[str], first: int) -> Any:
    columns = {name: column.array for name, column in zip(names, values, strict=True)}
    return frame.assign(**columns, **{_NUMBER: np.arange(first, first + len(frame))})


def _sort_partition(frame: Any, order: list[str]) -> Any:
    return frame.reset_index().sort_values(order)
