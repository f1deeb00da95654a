"""Matrices whose rows lie on the workers of a cluster, with XGBoost's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import Client

from hornbeam.dask.matrix import DaskDMatrix as _DaskDMatrix
from hornbeam.dask.matrix import DaskQuantileDMatrix as _DaskQuantileDMatrix
from hornbeam.data.categories import Categories
from hornbeam.xgboost.dask.kinds import check_client, check_rows
from hornbeam.xgboost.deprecation import deprecate_positional_args

__all__ = ["DaskDMatrix", "DaskQuantileDMatrix"]


class DaskDMatrix(_DaskDMatrix):
    """Features with their labels, weights and margins, in partitions on workers.

    The arguments are those of `hornbeam.dask.DaskDMatrix`; but for
    `enable_categorical`, which has to be asked for, they have its defaults, too.
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
        check_rows(data, label=label, weight=weight, base_margin=base_margin, qid=qid)
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
    """A `DaskDMatrix` of which training holds only the codes of its bins.

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
        check_rows(data, label=label, weight=weight, base_margin=base_margin, qid=qid)
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
