"""Explanations of models: the module `xgboost.interpret` of XGBoost 3.4."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.xgboost._typing import IterationRange
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.dmatrix import DMatrix

__all__ = ["shap_values"]

Values = npt.NDArray[np.float32]


def shap_values(
    model: Any,
    X: Any,
    *,
    X_background: Any = None,
    output_margin: bool = False,
    iteration_range: IterationRange | None = None,
    missing: float | None = None,
    validate_features: bool = True,
) -> tuple[Values, Values]:
    """Return the SHAP values of the margins, and their expected margins.

    Parameters
    ----------
    model
        A booster, or an estimator.
    X
        The features: a `DMatrix`, or an array or frame.
    X_background
        Background data, as in `hornbeam.Booster.shap_values`, which XGBoost does not
        support.
    output_margin
        Has no effect, as in XGBoost: the values are those of margins.
    iteration_range
        Rounds (begin, end); None: those that the model predicts with.
    missing
        The value in an array or frame that represents missing values; None: that of
        the model.
    validate_features
        Whether names of features must be those of training.
    """
    booster = model if isinstance(model, Booster) else _booster_of(model)
    begin, end = iteration_range or (0, 0)
    if hasattr(model, "_get_iteration_range"):
        begin, end = model._get_iteration_range(iteration_range)
    data = _matrix(model, X, missing)
    background = None if X_background is None else _matrix(model, X_background, missing)
    found = booster.shap_values(
        data,
        background,
        validate_features=validate_features,
        iteration_range=(int(begin), int(end)),
    ).astype(np.float32, copy=False)
    return found[..., :-1], found[..., -1]


def _booster_of(model: Any) -> Booster:
    if not callable(getattr(model, "get_booster", None)):
        raise TypeError(
            "`model` must be an xgboost.Booster or an object with get_booster(), not "
            f"{type(model).__name__}"
        )
    booster = model.get_booster()
    if not isinstance(booster, Booster):
        raise TypeError("`model.get_booster()` must return an xgboost.Booster.")
    return booster


def _matrix(model: Any, X: Any, missing: float | None) -> DMatrix:
    if not isinstance(X, DMatrix):
        return DMatrix(
            X,
            missing=getattr(model, "missing", None) if missing is None else missing,
            nthread=getattr(model, "n_jobs", None),
            feature_types=getattr(model, "feature_types", None),
            enable_categorical=getattr(model, "enable_categorical", False),
        )
    if missing is not None:
        raise ValueError("`missing` must not be specified when `X` is a DMatrix.")
    return X
