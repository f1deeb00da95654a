"""The matrices of `fit`: training and evaluation data with the same categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hornbeam.data.categories import Categories
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.booster import Booster

__all__ = ["create_matrices", "get_model_categories", "pick_ref_categories"]


def get_model_categories(
    X: Any, model: Any, feature_types: Sequence[str] | None
) -> tuple[Any, Sequence[str] | Categories | None]:
    """Return the model to continue from as a booster, and the types of its new data.

    The types are the categories of the model if `X` is a data frame, else
    `feature_types`.
    """
    if model is None or not _is_frame(X):
        return model, feature_types
    if not isinstance(model, Booster):
        model = Booster(model_file=model)
    categories = model.get_categories()
    return model, feature_types if categories.empty() else categories


def pick_ref_categories(
    X: Any,
    model_cats: Sequence[str] | Categories | None,
    Xy_cats: Categories | None,
) -> Sequence[str] | Categories | None:
    """Return the types of evaluation data.

    Parameters
    ----------
    X
        The features of the evaluation data.
    model_cats
        The types from `get_model_categories`.
    Xy_cats
        The categories of the training data.
    """
    if isinstance(model_cats, Categories) or not _is_frame(X):
        return model_cats
    return model_cats if Xy_cats is None or Xy_cats.empty() else Xy_cats


def create_matrices(
    create: Callable[..., Any],
    X: Any,
    y: Any,
    fields: Mapping[str, Any],
    eval_set: Sequence[tuple[Any, Any]] | None,
    eval_fields: Mapping[str, tuple[str, Sequence[Any] | None]],
    feature_types: Sequence[str] | Categories | None,
    feature_weights: Any,
) -> tuple[Any, list[tuple[Any, str]]]:
    """Return the training matrix, and the evaluation matrices with their names.

    Parameters
    ----------
    create
        Creates a matrix.
    X, y, fields
        The training data; `fields` are weights, base margins and so on.
    eval_set, eval_fields
        Pairs of evaluation data; `eval_fields` has the argument name and the values
        of each field. A pair that is identical to the training data reuses its matrix.
    feature_types
        The types from `get_model_categories`.
    feature_weights
        The relative probability of each column in column sampling.
    """
    dtrain = create(
        ref=None,
        data=X,
        label=y,
        feature_types=feature_types,
        feature_weights=feature_weights,
        **fields,
    )
    if eval_set is None:
        if any(values is not None for _, values in eval_fields.values()):
            raise DataError(
                "`eval_set` is not set but one of the other evaluation meta info is "
                "not None: "
                + ", ".join(
                    name for name, values in eval_fields.values() if values is not None
                ),
                code=ErrorCode.INVALID_EVALS,
            )
        return dtrain, []
    has_categories = hasattr(dtrain, "get_categories")
    train_categories = dtrain.get_categories() if has_categories else None
    columns = {
        field: _one_per_pair(name, values, len(eval_set))
        for field, (name, values) in eval_fields.items()
    }
    evals = []
    for number, (one_X, one_y) in enumerate(eval_set):
        own = {field: values[number] for field, values in columns.items()}
        same = all(own.get(field) is value for field, value in fields.items())
        if one_X is X and one_y is y and same:
            evals.append((dtrain, f"validation_{number}"))
            continue
        feature_types = pick_ref_categories(one_X, feature_types, train_categories)
        matrix = create(
            ref=dtrain, data=one_X, label=one_y, feature_types=feature_types, **own
        )
        evals.append((matrix, f"validation_{number}"))
    return dtrain, evals


def _one_per_pair(name: str, values: Sequence[Any] | None, pairs: int) -> Sequence[Any]:
    if values is None:
        return [None] * pairs
    if len(values) != pairs:
        raise DataError(
            f"{name}'s length does not equal `eval_set`'s length, expecting {pairs}, "
            f"got {len(values)}",
            code=ErrorCode.INVALID_EVALS,
        )
    return values


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") or hasattr(data, "column_names")
