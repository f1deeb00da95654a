"""Lazy prediction of Dask collections with the arguments of xgboost.dask."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from distributed import Client, Future

from hornbeam import dask as hornbeam_dask
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.partitions import is_series
from hornbeam.dask.prediction import ModelSource
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.dask.client import with_client
from hornbeam.xgboost.dask.matrices import is_collection
from hornbeam.xgboost.deprecation import deprecate_positional_args

__all__ = ["inplace_predict", "predict"]


@deprecate_positional_args
@with_client
def predict(
    client: Client | None,
    model: ModelSource,
    data: Any,
    *,
    output_margin: bool = False,
    missing: float = math.nan,
    pred_leaf: bool = False,
    pred_contribs: bool = False,
    approx_contribs: bool = False,
    pred_interactions: bool = False,
    validate_features: bool = True,
    iteration_range: tuple[int, int] = (0, 0),
    strict_shape: bool = False,
) -> Any:
    """Return a lazy collection of predictions, those of `Booster.predict`.

    The arguments are those of `hornbeam.dask.predict`.
    """
    _check(model, data, isinstance(data, DaskDMatrix))
    found = hornbeam_dask.predict(
        client,
        model,
        data,
        output_margin=output_margin,
        missing=missing,
        pred_leaf=pred_leaf,
        pred_contribs=pred_contribs,
        approx_contribs=approx_contribs,
        pred_interactions=pred_interactions,
        validate_features=validate_features,
        iteration_range=iteration_range,
        strict_shape=strict_shape,
    )
    return _rename_series(found)


@deprecate_positional_args
@with_client
def inplace_predict(
    client: Client | None,
    model: ModelSource,
    data: Any,
    *,
    iteration_range: tuple[int, int] = (0, 0),
    predict_type: str = "value",
    missing: float = math.nan,
    validate_features: bool = True,
    base_margin: Any = None,
    strict_shape: bool = False,
) -> Any:
    """Return a lazy collection of predictions, those of `Booster.inplace_predict`.

    The arguments are those of `hornbeam.dask.inplace_predict`.
    """
    _check(model, data)
    found = hornbeam_dask.inplace_predict(
        client,
        model,
        data,
        iteration_range=iteration_range,
        predict_type=predict_type,
        missing=missing,
        validate_features=validate_features,
        base_margin=base_margin,
        strict_shape=strict_shape,
    )
    return _rename_series(found)


def _rename_series(found: Any) -> Any:
    """Return a series with the name that XGBoost gives it; others unchanged."""
    return found.rename(0) if is_series(found) else found


def _check(model: Any, data: Any, is_matrix: bool = False) -> None:
    """Raise a `TypeError` unless these are a model and a collection."""
    if not isinstance(model, Booster | Mapping | Future):
        raise TypeError(
            "Expecting a Booster, what train returns, or a future of a Booster, got: "
            f"{type(model).__name__}"
        )
    if not is_matrix and not is_collection(data):
        raise TypeError(
            "Expecting a DaskDMatrix, a dask.array or a dask.dataframe, got: "
            f"{type(data).__name__}"
        )
