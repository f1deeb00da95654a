"""DaskDMatrix and DaskQuantileDMatrix with the arguments of xgboost.dask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask.delayed import Delayed
from distributed import Client, Future

from hornbeam.dask.matrix import DaskDMatrix as _DaskDMatrix
from hornbeam.dask.matrix import DaskQuantileDMatrix as _DaskQuantileDMatrix
from hornbeam.dask.partitions import is_dataframe, is_series
from hornbeam.data.categories import Categories
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.dask.client import check_client
from hornbeam.xgboost.deprecation import deprecate_positional_args

__all__ = ["DaskDMatrix", "DaskQuantileDMatrix", "is_collection"]


class DaskDMatrix(_DaskDMatrix):
    """Features with labels, weights and margins, in partitions on Dask workers.

    The arguments and defaults are those of `hornbeam.dask.DaskDMatrix`, except that
    `enable_categorical` is False by default.
    """

    @deprecate_positional_args
    def __init__(
        self,
        client: Client | None,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
    ) -> None:
        check_client(client)
        _check_collections(
            data, label=label, weight=weight, base_margin=base_margin, qid=qid
        )
        super().__init__(
            client,
            data,
            label,
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=feature_types,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical,
        )


class DaskQuantileDMatrix(DaskDMatrix, _DaskQuantileDMatrix):
    """A `DaskDMatrix` of which training keeps only the bins.

    The arguments are those of `hornbeam.dask.DaskQuantileDMatrix`.
    """

    @deprecate_positional_args
    def __init__(
        self,
        client: Client | None,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        max_bin: int | None = None,
        ref: _DaskDMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
    ) -> None:
        check_client(client)
        _check_collections(
            data, label=label, weight=weight, base_margin=base_margin, qid=qid
        )
        _DaskQuantileDMatrix.__init__(
            self,
            client,
            data,
            label,
            max_bin=max_bin,
            ref=ref,
            max_quantile_batches=max_quantile_batches,
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=feature_types,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical,
        )


def _check_collections(data: Any, **fields: Any) -> None:
    """Raise an error unless features and fields are Dask collections."""
    for name, values in {"data": data, **fields}.items():
        if not (_is_accepted(values) or (name != "data" and values is None)):
            raise TypeError(
                f"{name}: Expecting a dask.array or a dask.dataframe, got: "
                f"{type(values).__name__}"
            )
    if len(getattr(data, "shape", (0, 0))) != 2:
        raise DataError(
            f"Expecting 2 dimensional input, got: {data.shape}",
            code=ErrorCode.WRONG_DIMENSIONS,
        )


def is_collection(data: Any) -> bool:
    """Return whether an object is a dask.array or a dask.dataframe."""
    return isinstance(data, da.Array) or is_dataframe(data)


def _is_accepted(values: Any) -> bool:
    # Lists of delayed objects and names of columns are extensions of Hornbeam.
    known = isinstance(values, list | tuple | str | Delayed | Future)
    return known or is_collection(values) or is_series(values)
